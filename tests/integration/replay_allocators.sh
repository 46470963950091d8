#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The same traces under every allocator that is here: the account of the replay
# is that of the trace.
# shellcheck source=../lib/preload.sh disable=SC1091,SC2154
. "$top_srcdir/tests/lib/preload.sh"

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
        show_last "LD_PRELOAD=$library replay $* $kind.p"
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
    [ -z "$bad" ] || diag "$bad"
    [ -z "$bad" ]
    result $? "$name: $kind${*:+ $*}"
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
            diag "$name is not here"
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
        is "$(json j thread_cache_switching)" false \
            "$name: none is no switching"
        replay_as "$name" threads "$library" --threads=switch
        is "$(json j thread_cache_switching)" true "$name: switch is"
        is "$(cat "$err")" "" "$name: and never refused"
        like j '"allocator": "libtcmalloc_minimal.* \(malloc-trace [0-9.]+\)"' \
            "$name: has its own version"
        sed '/"allocator_counters"/,/}/!d' j >counters
        is "$(grep -c '"tcmalloc\.[a-z_]*": [0-9]' counters)" 9 \
            "$name: all its counters are told"
        [ "$(sed -n 's/.*spans_made": \([0-9]*\).*/\1/p' counters)" -gt 0 ]
        result $? "$name: and they count"
        like "$out" 'tcmalloc.central_fetches +[0-9,]+ +[0-9,]+$' \
            "$name: beside those recorded"
        replay_as "$name" calls "$library"
        is "$(json j trims)" "$(json j recorded_trims)" \
            "$name: malloc_trim is called"
        ;;
    esac
    like j '"allocator": ".+"' "$name: has a name"
done
for touch in none first page all; do
    replay_as "C library" large "" --touch=$touch
    is "$(json j touch)" "\"$touch\"" "--touch=$touch is told"
done
diag "$found allocators"
tap_end
