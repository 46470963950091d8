#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Traces under every allocator that is installed: the account of the replay is
# that of the trace. Allocators that -a names.
. "$top_srcdir/tests/lib/harness.sh"

if [ "${TCM_SANITIZED:-no}" != no ]; then
    skip_all "the sanitizers' runtime replaces malloc"
fi
make=$top_builddir/tests/unit/tools/replay_make

# key FILE NAME
key() {
    sed -n "s/^$2=//p" "$1"
}

for kind in python large threads calls refused; do
    "$make" $kind "$kind.p" 60000 >"$kind.truth" || exit 99
done

# replay_as NAME TRACE LIBRARY OPTIONS...: and compare with the truth.
replay_as() {
    name=$1
    kind=$2
    library=$3
    shift 3
    rm -f j
    LD_PRELOAD=$library timeout 120 "$replay" --json j "$@" "$kind.p" \
        >"$out" 2>"$err"
    status=$?
    if [ $status -ne 0 ] || [ ! -s j ]; then
        show_last "$status" "LD_PRELOAD=$library replay $* $kind.p"
        fail "$name: $kind"
        return
    fi
    bad=
    for k in ops threads thread_switches peak_live_bytes recorded_ns \
        recorded_trims; do
        want=$(key "$kind.truth" $k)
        got=$(json j $k)
        [ "$got" = "$want" ] || bad="$bad $k $got, not $want;"
    done
    want=$(key "$kind.truth" end_live_objects)
    refused=0
    if [ "$kind" = refused ]; then
        # 10 each of malloc, new and realloc; 20 operations on them
        want=0
        refused=30
    fi
    got=$(json j end_live_objects)
    [ "$got" = "$want" ] || bad="$bad end_live_objects $got, not $want;"
    got=$(json j failed_allocations)
    [ "$got" = "$refused" ] || bad="$bad failed_allocations $got;"
    [ -z "$bad" ] || note "$bad"
    [ -z "$bad" ]
    result "$name: $kind${*:+ $*}" $?
}

found=0
for library in "" libjemalloc.so.2 libmimalloc.so.2 libtcmalloc_minimal.so.4 \
    libtcmalloc.so.4 "$minimal" "$tracing"; do
    name=${library:-C library}
    name=${name##*/}
    # One that cannot be preloaded is told on stderr, and not fatal.
    if [ -n "$library" ]; then
        LD_PRELOAD=$library "$replay" --version >/dev/null 2>"$err"
        if [ -s "$err" ]; then
            note "$name is not here"
            continue
        fi
    fi
    found=$((found + 1))
    for kind in python large threads calls refused; do
        replay_as "$name" $kind "$library"
    done
    case $library in
    */libtcmalloc_minimal*.so)
        replay_as "$name" threads "$library" --threads=none
        is "$name: none is no switching" "$(json j thread_cache_switching)" \
            false
        replay_as "$name" threads "$library" --threads=switch
        is "$name: switch is" "$(json j thread_cache_switching)" true
        is "$name: and never refused" "$(cat "$err")" ""
        like "$name: has its own version" j \
            '"allocator": "libtcmalloc_minimal.* \(tcmalloc-mt [0-9.]+\)"'
        sed '/"allocator_counters"/,/}/!d' j >counters
        is "$name: all its counters are told" \
            "$(grep -c '"tcmalloc\.[a-z_]*": [0-9]' counters)" 9
        [ "$(sed -n 's/.*spans_made": \([0-9]*\).*/\1/p' counters)" -gt 0 ]
        result "$name: and they count" $?
        like "$name: beside those recorded" "$out" \
            'tcmalloc.central_fetches +[0-9,]+ +[0-9,]+ +[-+][0-9.]+ %$'
        replay_as "$name" calls "$library"
        is "$name: malloc_trim is called" "$(json j trims)" \
            "$(json j recorded_trims)"
        ;;
    esac
    like "$name: has a name" j '"allocator": ".+"'
done
for touch in none first page all; do
    replay_as "C library" large "" --touch=$touch
    is "--touch=$touch is told" "$(json j touch)" "$touch"
done
note "$found allocators"

# --- Allocators by name -------------------------------------------------------

# under WHAT PATTERN OPTION...: a replay of threads.p has that allocator, though
# LD_PRELOAD has $preload.
preload=
under() {
    what=$1
    pattern=$2
    shift 2
    rm -f j
    check "$what" env LD_PRELOAD="$preload" timeout 60 "$replay" --json j "$@" \
        threads.p
    like "$what: its allocator" j "\"allocator\": \"$pattern"
}
own=tcmalloc-mt
if [ -e "$minimal" ]; then
    for options in "" --threads=none --threads=real --clock=recorded --check \
        --latency --timeline=rows.csv; do
        # shellcheck disable=SC2086
        under "-a $own $options" libtcmalloc_minimal -a $own $options
    done
    under "-a $own --repeat=2" libtcmalloc_minimal -a $own --repeat=2
    is "in both runs" "$(grep -c '"allocator": "libtcmalloc_minimal' j)" 2
    preload=$minimal
    under "-a glibc takes LD_PRELOAD's place" "libc\.so" -a glibc
    preload=libc.so.6
    under "and so do others" libtcmalloc_minimal -a $own
    preload=
    check "malloc-trace replay" "$malloc_trace" replay -q -a $own --json j \
        threads.p
    like "has it, too" j '"allocator": "libtcmalloc_minimal'
    rm -f j
    cat threads.p | timeout 60 "$replay" -q -a $own --json j 2>"$err"
    is "a trace from a pipe is all there" "$(json j ops end_live_objects)" \
        "$(key threads.truth ops) $(key threads.truth end_live_objects)"

    mkdir "a b:c" tmp
    cp "$minimal" "a b:c/lib x.so"
    TMPDIR=$work/tmp
    export TMPDIR
    for options in "" --repeat=2 --clock=recorded --threads=real; do
        # shellcheck disable=SC2086
        under "a path with a blank and a colon $options" "lib.x\.so .$own" \
            -a "a b:c/lib x.so" $options
        is "which loads" "$(grep -c preload "$err")" 0
    done
    is "and leaves nothing behind" "$(ls tmp)" ""
    unset TMPDIR
else
    skip "-a" "no shared library in this build"
fi
for name in nobody ./nothing.so "" libnothing.so; do
    fails_with "-a \"$name\"" 2 "$replay" -a "$name" threads.p
    like "names option, value and what is allowed" "$err" \
        "^replay: -a: \"$name\" is not an allocator that is installed \\(glibc"
    one_line "$err"
    result "in a line" $?
done
echo 'int nothing;' >none.c
# shellcheck disable=SC2086
if ${CC:-cc} -shared -fPIC -o none.so none.c 2>"$err"; then
    fails_with "a library without malloc" 1 "$replay" -a ./none.so threads.p
    like "is named, and whose malloc it would be" "$err" \
        "^replay: -a: .*/none.so did not take malloc over: malloc comes from "
    is "and nothing is measured" "$(cat "$out")" ""
else
    skip "a library without malloc" "no compiler here"
fi
tap_end
