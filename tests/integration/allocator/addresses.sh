#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A deterministic program gets the same blocks from the untraced library, from
# the tracing library while it records, and while it does not.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal" "$tracing" "$built/allocator/addresses"

fixed=
if have setarch && setarch -R true 2>/dev/null; then fixed="setarch -R"; fi

for threads in 1 6; do
    steps=60000
    [ $threads = 1 ] || steps=15000
    set -- "$built/allocator/addresses" $threads $steps
    LD_PRELOAD=$minimal $fixed "$@" >"$work/untraced"
    is "$threads threads: untraced run" $? 0
    LD_PRELOAD=$minimal $fixed "$@" >"$work/again"
    LD_PRELOAD=$tracing $fixed "$@" >"$work/off"
    is "$threads threads: run with recording off" $? 0
    TCMALLOC_TRACE_OUTPUT=$work/t$threads.$suffix LD_PRELOAD=$tracing \
        $fixed "$@" >"$work/on"
    is "$threads threads: recorded run" $? 0
    TCMALLOC_TRACE_OUTPUT=$work/t$threads.$suffix TCMALLOC_TRACE_START=0 \
        LD_PRELOAD=$tracing $fixed "$@" >"$work/ready"
    at_least "$threads threads: addresses" "$(wc -l <"$work/on")" 60000
    hows="again off on"
    knows TCMALLOC_TRACE_START && hows="$hows ready"
    for how in $hows; do
        cut -d' ' -f2 "$work/untraced" >"$work/a"
        cut -d' ' -f2 "$work/$how" >"$work/b"
        check "$threads threads, $how: same relative addresses" \
            cmp "$work/a" "$work/b"
        if [ -n "$fixed" ]; then
            check "$threads threads, $how: same absolute addresses" \
                cmp "$work/untraced" "$work/$how"
        else
            skip "$threads threads, $how: absolute addresses" "no setarch -R"
        fi
    done
    if [ -x "$postprocess" ] && [ -n "$python" ]; then
        # START=0 replaced the trace by an empty one: record once more.
        TCMALLOC_TRACE_OUTPUT=$work/t$threads.$suffix LD_PRELOAD=$tracing \
            "$@" >/dev/null
        "$postprocess" --quiet --json "$work/json" "$work/t$threads.$suffix" \
            "$work/p" 2>"$work/err"
        at_least "$threads threads: all of it was recorded" \
            "$(json "$work/json" events)" 100000
    fi
done

# Real programs, through a library in between that writes the addresses down.
# logged NAME MODE PROGRAM...: one run; its environment is of the same size in
# every mode but for the variable that tells who is recorded.
logged() {
    logged_name=$1
    logged_mode=$2
    shift 2
    logged_lib=$tracing
    set -- TCMALLOC_TRACE_OUTPUT="$work/$logged_name.$suffix" "$@"
    case $logged_mode in
    untraced) logged_lib=$minimal ;;
    ready) set -- TCMALLOC_TRACE_START=0 "$@" ;;
    esac
    rm -f "$work/$logged_name.$logged_mode"
    env ADDRESS_LOG="$work/$logged_name.$logged_mode" \
        LD_PRELOAD="$work/address_log.so:$logged_lib" "$@" \
        >"$work/$logged_name.out.$logged_mode"
    is "$logged_name $logged_mode: exit status" $? 0
}
real() {
    real_name=$1
    shift
    have "$1" || {
        skip "$real_name" "there is none"
        return
    }
    for real_mode in untraced on ready; do
        logged "$real_name" $real_mode "$@"
    done
    # In the C locale a program may ask for some ten blocks.
    at_least "$real_name: addresses" "$(wc -c <"$work/$real_name.on")" 64
    for real_mode in on ready; do
        check "$real_name $real_mode: same addresses" \
            cmp "$work/$real_name.untraced" "$work/$real_name.$real_mode"
        check "$real_name $real_mode: same output" \
            cmp "$work/$real_name.out.untraced" "$work/$real_name.out.$real_mode"
    done
}
: "${CC:=cc}"
if $CC -shared -fPIC -O1 -o "$work/address_log.so" "$here/allocator/address_log.c" -ldl \
    2>"$work/err"; then
    seq 1 20000 >"$work/lines"
    real sort sort --parallel=1 -r "$work/lines"
    real sed sed -e 's/\([0-9]\)\1/<\1>/g' -e 'N;P;D' "$work/lines"
    cp "$work/lines" "$work/copy"
    real diff diff -y "$work/lines" "$work/copy"
    # gawk makes an array of its environment, that variable included.
    real mawk mawk \
        '{ a[$1 % 97] = a[$1 % 97] "x" $1 } END { print length(a[3]) }' \
        "$work/lines"
else
    skip "real programs" "no compiler"
fi

# With address space layout left to chance, what follows the first block from
# the same region is still the same.
LD_PRELOAD=$minimal "$built/allocator/addresses" 1 20000 | cut -d' ' -f2 >"$work/a"
LD_PRELOAD=$tracing TCMALLOC_TRACE_OUTPUT=$work/r.$suffix \
    "$built/allocator/addresses" 1 20000 | cut -d' ' -f2 >"$work/b"
check "random layout: same relative addresses" cmp "$work/a" "$work/b"
tap_end
