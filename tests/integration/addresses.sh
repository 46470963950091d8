#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A deterministic program gets the same blocks from the untraced library, from
# the tracing library while it records, and while it does not.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need "$lib" "$tlib" "$built/addresses"

fixed=
if have setarch && setarch -R true 2>/dev/null; then fixed="setarch -R"; fi

for threads in 1 6; do
    steps=60000
    [ $threads = 1 ] || steps=15000
    set -- "$built/addresses" $threads $steps
    LD_PRELOAD=$lib $fixed "$@" >"$work/untraced"
    is "$threads threads: untraced run" $? 0
    LD_PRELOAD=$lib $fixed "$@" >"$work/again"
    LD_PRELOAD=$tlib $fixed "$@" >"$work/off"
    is "$threads threads: run with recording off" $? 0
    TCMALLOC_TRACE_OUTPUT=$work/t$threads.$suffix LD_PRELOAD=$tlib \
        $fixed "$@" >"$work/on"
    is "$threads threads: recorded run" $? 0
    TCMALLOC_TRACE_OUTPUT=$work/t$threads.$suffix TCMALLOC_TRACE_START=0 \
        LD_PRELOAD=$tlib $fixed "$@" >"$work/ready"
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
    if [ -x "$post" ] && [ -n "$python" ]; then
        # START=0 replaced the trace by an empty one: record once more.
        TCMALLOC_TRACE_OUTPUT=$work/t$threads.$suffix LD_PRELOAD=$tlib \
            "$@" >/dev/null
        "$post" --quiet --json "$work/json" "$work/t$threads.$suffix" \
            "$work/p" 2>"$work/err"
        at_least "$threads threads: all of it was recorded" \
            "$(json "$work/json" events)" 100000
    fi
done

# With address space layout left to chance, what follows the first block from
# the same region is still the same.
LD_PRELOAD=$lib "$built/addresses" 1 20000 | cut -d' ' -f2 >"$work/a"
LD_PRELOAD=$tlib TCMALLOC_TRACE_OUTPUT=$work/r.$suffix \
    "$built/addresses" 1 20000 | cut -d' ' -f2 >"$work/b"
check "random layout: same relative addresses" cmp "$work/a" "$work/b"
done_testing
