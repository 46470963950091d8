#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Memory and time of postprocess do not grow with the past: with the length of a
# trace that comes through a pipe, or with the number of idle threads.
. "$top_srcdir/tests/lib/harness.sh"
need "$postprocess" "$built/sorter/order_stream"

# Threads of the tool take address space that they do not use: little of it.
MALLOC_ARENA_MAX=1
export MALLOC_ARENA_MAX
ulimit -s 512

# Memory: a few long-lived blocks among many short-lived ones. A long trace needs
# no more than a short one.
events=20000000
[ "${LONG:-0}" = 1 ] && events=300000000
if [ -n "${TCM_EMULATED:-}" ]; then
    skip "a long trace in little memory" \
        "the whole address space is the emulator's"
else
    limit=16
    while ! (
        ulimit -v $((limit * 1024))
        "$built/sorter/order_stream" short 1000000 |
            "$postprocess" --quiet - /dev/null 2>"$work/err"
    ); do
        limit=$((limit * 2))
        [ $limit -gt 1024 ] && break
    done
    (
        ulimit -v $(((limit + 2) * 1024))
        "$built/sorter/order_stream" short $events |
            "$postprocess" --quiet --json "$work/json" - /dev/null 2>"$work/err"
    )
    is "$events events in the memory of a short trace and 2 MiB" $? 0
    diag <"$work/err"
    at_least "events" "$(json "$work/json" events)" $events
    is "complete" "$(json "$work/json" complete order_conflicts)" "true 0"
    # Live objects: 40 bytes each, beside what a short trace needs.
    for objects in 700000 1000000 1400000; do
        (
            ulimit -v $((limit * 1024 + objects * 40 / 1024))
            "$built/sorter/order_stream" live $objects |
                "$postprocess" --quiet --json "$work/json" - /dev/null \
                    2>"$work/err"
        )
        is "$objects live objects in 40 bytes each" $? 0
        diag <"$work/err"
        is "all of them" "$(json "$work/json" mallocs frees)" \
            "$objects $objects"
    done
fi

# Steps: instructions of ten threads that take turns, beside others that had
# their last event before.
instructions() { # THREADS ROUNDS
    "$built/sorter/order_stream" idle "$1" 10 "$2" >"$work/t" &&
        valgrind --tool=callgrind --callgrind-out-file="$work/out" \
            --log-file="$work/log" "$postprocess" --quiet "$work/t" /dev/null &&
        sed -n 's/^.*Collected : //p' "$work/log"
}
if ! command -v valgrind >/dev/null || [ -n "${TCM_EMULATED:-}" ] ||
    ! instructions 10 1 >"$work/n"; then
    skip "10 active threads of 10,000 cost as much as 10 of 10" "no valgrind"
else
    for threads in 10 10000; do
        few=$(instructions $threads 4)
        many=$(instructions $threads 14)
        eval "cost_$threads=$(((many - few) / 1000))"
    done
    # shellcheck disable=SC2154
    echo "# 10 rounds: $cost_10 thousand instructions; beside 9,990 idle" \
        "threads: $cost_10000"
    at_least "10 active threads of 10,000 cost as much as 10 of 10" \
        $((cost_10 * 105 / 100)) "$cost_10000"
    at_least "and something was counted" "$cost_10" 10000
fi
tap_end
