#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The order that postprocess finds is one that the run can have had: checked
# against the address of every block, in a program whose threads pass blocks to
# each other, with a reader of processed traces that shares no code with us.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need "$tlib" "$post" "$built/order_target"
need_python

steps=12000
rounds=2
if [ "${LONG:-0}" = 1 ]; then
    steps=60000
    rounds=10
fi
round=0
handed=0
while [ $round -lt $rounds ]; do
    round=$((round + 1))
    for shape in "2 $steps 1" "4 $((steps / 2)) 3" "12 $((steps / 8)) 2" \
        "1 $steps 4"; do
        name="$shape, round $round"
        # shellcheck disable=SC2086
        TCMALLOC_TRACE_UNCOMPRESSED=$((round % 2)) record "$work/t" \
            "$built/order_target" "$work/log" $shape
        is "$name: program" $? 0
        "$post" --quiet --json "$work/json" "$work/t" "$work/p" 2>"$work/err"
        is "$name: postprocess" $? 0
        diag <"$work/err"
        is "$name: no conflicts" \
            "$(json "$work/json" complete order_conflicts unmatched_frees)" \
            "true 0 0"
        # shellcheck disable=SC2086
        if got=$("$python" "$here/order_check.py" "$work/log" $shape \
            "$work/p" 2>"$work/err"); then
            ok "$name: the order fits every address"
            at_least "$name: enough was checked" "${got% *}" $((steps / 4))
            handed=$((handed + ${got#* }))
        else
            not_ok "$name: the order fits every address"
            diag <"$work/err"
        fi
    done
done
at_least "memory went from thread to thread" $handed $((rounds * 20))
done_testing
