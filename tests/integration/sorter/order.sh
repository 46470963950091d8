#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The order that postprocess finds is a possible order of the run: it is checked
# against the address of every block, in a program whose threads pass blocks to
# each other, by a reader of traces that shares no code with the tools.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$postprocess" "$built/sorter/order_target"
need_python

steps=12000
rounds=2
if [ "${LONG:-0}" = 1 ]; then
    steps=60000
    rounds=10
fi
handed=0

# fits NAME THREADS STEPS LIVES [alone [kill]]: records and checks a program of
# that shape.
fits() {
    name=$1
    shift
    status=0
    case $* in *kill) status=137 ;; esac
    record "$work/t" "$built/sorter/order_target" "$work/log" "$@" \
        2>"$work/err"
    is "$name: program" $? $status
    "$postprocess" --quiet --json "$work/json" "$work/t" "$work/p" 2>"$work/err"
    is "$name: postprocess" $? 0
    diag <"$work/err"
    is "$name: no conflicts" \
        "$(json "$work/json" complete order_conflicts unmatched_frees)" \
        "true 0 0"
    if got=$("$python" "$here/sorter/order_check.py" "$work/log" "$1" "$2" \
        "$3" "$work/p" 2>"$work/err"); then
        pass "$name: the order fits every address"
        at_least "$name: enough was checked" "${got% *}" $((steps / 4))
        handed=$((handed + ${got#* }))
    else
        fail "$name: the order fits every address"
        diag <"$work/err"
    fi
}

round=0
while [ $round -lt $rounds ]; do
    round=$((round + 1))
    for shape in "2 $steps 1" "4 $((steps / 2)) 3" "12 $((steps / 8)) 2" \
        "1 $steps 4"; do
        TCMALLOC_TRACE_UNCOMPRESSED=$((round % 2))
        export TCMALLOC_TRACE_UNCOMPRESSED
        # shellcheck disable=SC2086
        fits "$shape, round $round" $shape
    done
done
at_least "memory went from thread to thread" $handed $((rounds * 20))

# A thread that was alone: the second one gets what it freed shortly before.
handed=0
round=0
while [ $round -lt 4 ]; do
    round=$((round + 1))
    fits "alone, $round" 2 $((round * steps / 4)) 1 alone
    fits "alone and killed, $round" 2 $((round * steps / 4)) 1 alone kill
done
at_least "alone: memory went from thread to thread" $handed 100

# A clock that stands still while memory goes from thread to thread.
handed=0
: "${CC:=cc}"
if $CC -shared -fPIC -O1 -o "$work/coarse_clock.so" "$here/sorter/coarse_clock.c" \
    2>"$work/err"; then
    tracing=$work/coarse_clock.so:$tracing
    fits "coarse clock, 2 threads" 2 $steps 1
    fits "coarse clock, 12 threads" 12 $((steps / 8)) 2
    at_least "coarse clock: memory went from thread to thread" $handed 20
else
    skip "coarse clock" "no compiler"
fi
tap_end
