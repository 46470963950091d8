#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Recorded threads on threads of their own, under each allocator there is: the
# operations are the recorded ones, thread by thread; contention and pauses that
# the program had are there, and only where they were asked for.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$postprocess" "$replay" "$malloc_trace"
need_python
if [ "${TCM_SANITIZED:-no}" != no ]; then
    skip_all "the sanitizers' runtime replaces malloc"
fi
# shellcheck disable=SC2086
if ! $CC -O1 -fno-builtin -o program \
    "$top_srcdir/tests/integration/replay/replay_real.c" -pthread 2>"$err" ||
    ! $CC -O1 -fPIC -shared -fno-builtin -o slow.so \
        "$top_srcdir/tests/integration/replay/replay_real_malloc.c" 2>"$err"; then
    skip_all "no program can be made here"
fi

# traced NAME ARGS...: NAME.p, a processed trace of the program with ARGS.
traced() {
    traced_name=$1
    shift
    record "$traced_name.lz4" ./program "$@"
    check "$traced_name: a trace" \
        "$postprocess" -q --json post "$traced_name.lz4" "$traced_name.p"
    ops=$(json post events)
    threads=$(json post threads)
}
library=
real() {
    LD_PRELOAD=$library "$replay" --json j --threads=real "$@" >"$out" \
        2>"$err"
}
# at_most WHAT GOT LIMIT
at_most() {
    [ -n "$2" ] && [ "$2" -le "$3" ]
    result "$1" $?
}

# --- The operations -----------------------------------------------------------

traced hand hand
is "hand: threads" "$threads" 7
for library in "" libjemalloc.so.2 libmimalloc.so.2 libtcmalloc_minimal.so.4 \
    "$minimal"; do
    name=${library:-C library}
    name=${name##*/}
    # One that cannot be preloaded is told on stderr, and not fatal.
    if [ -n "$(LD_PRELOAD=$library true 2>&1)" ]; then
        note "$name is not here"
        continue
    fi
    for options in "" "--skew=inf" "--max-threads=2" "--max-threads=1"; do
        # shellcheck disable=SC2086
        real $options hand.p
        is "$name $options: status" $? 0
        is "$name $options: operations, threads, mode" \
            "$(json j ops threads threads_mode failed_allocations)" \
            "$(printf '%s\n%s\nreal\n0' "$ops" "$threads" | tr '\n' ' ' |
                sed 's/ $//')"
    done
done
library=
real --max-threads=2 hand.p
at_most "two threads are no more" "$(json j system_threads)" 2
real hand.p
[ "$(json j least_peak_live_bytes)" -le "$(json j run_peak_live_bytes)" ] &&
    [ "$(json j run_peak_live_bytes)" -le "$(json j most_peak_live_bytes)" ]
result "the peak is within its bounds" $?
[ "$(json j least_peak_live_bytes)" -le "$(json j peak_live_bytes)" ] &&
    [ "$(json j peak_live_bytes)" -le "$(json j most_peak_live_bytes)" ]
result "and so is the trace's" $?
is "no warning of one thread" "$(cat "$err")" ""

traced born born 3000
for options in "" "--max-threads=3"; do
    # shellcheck disable=SC2086
    real $options born.p
    is "3,000 threads in turn $options: status, operations" \
        "$?,$(json j ops),$(json j threads)" "0,$ops,3001"
    is "3,000 threads in turn $options: one beside the main thread" \
        "$(json j most_threads_alive)" 2
done
real born.p
is "and one thread of the system" "$(json j system_threads)" 2
traced pairs pairs 300
real pairs.p
is "two at a time: status, operations" "$?,$(json j ops)" "0,$ops"
at_most "two at a time: threads of the trace" "$(json j most_threads_alive)" 3
at_most "two at a time: threads of the system" "$(json j system_threads)" 3
fails_with "a skew below a window" 2 "$replay" --threads=real --skew=0.5ms hand.p
like "names the least" "$err" "skew.*a time from 1ms on"

# --- The default --------------------------------------------------------------

# chosen WHAT MODE ARGS...: the mode without --threads, and that all of OPS ran.
chosen() {
    chosen_what=$1 chosen_mode=$2
    shift 2
    LD_PRELOAD=$library "$replay" -q --json j "$@" >"$out" 2>"$err"
    is "by default, $chosen_what: status, mode, operations" \
        "$?,$(json j threads_mode),$(json j ops)" "0,$chosen_mode,$ops"
}
make=$top_builddir/tests/unit/tools/replay_make
"$postprocess" -q --json post hand.lz4 hand.p
ops=$(json post events)
chosen "several threads" real hand.p
is "several threads: no warning" "$(cat "$err")" ""
chosen "several threads, recorded" real hand.lz4
chosen "several threads, at a pace" real --speed=100 hand.p
chosen "several threads, with a log" none --log log hand.p
mkfifo feed
cat hand.p >feed &
chosen "several threads, through a pipe" real feed
wait
library=$minimal
chosen "caches that can be switched" switch hand.p
NO_THREAD_CACHE_SWITCH=1
export NO_THREAD_CACHE_SWITCH
chosen "caches that must not be" none hand.p
unset NO_THREAD_CACHE_SWITCH
library=
"$make" pairs one.p >truth
ops=$(sed -n 's/^ops=//p' truth)
chosen "one thread" none one.p
cat one.p >feed &
chosen "one thread, through a pipe" none feed
wait
# The end of a file tells its threads; a pipe's head is what is read before.
"$make" late late.p 1200000 >truth
ops=$(sed -n 's/^ops=//p' truth)
chosen "a second thread that comes late" real late.p
cat late.p >feed &
chosen "a second thread that comes late, through a pipe" none feed
wait
like "this is said" "$err" "first 1,[0-9,]* operations were of one thread"
like "and stands in the JSON" j "first 1,[0-9,]* operations were of one thread"

"$malloc_trace" dump hand.p >hand.dump
for mode in none switch real; do
    record again.lz4 "$replay" -q --threads=$mode hand.p 2>"$err"
    check "recorded again ($mode): a trace" \
        "$postprocess" -q again.lz4 again.p
    "$malloc_trace" dump again.p >again.dump
    check "recorded again ($mode): the same operations" \
        "$python" "$here/sorter/same_ops.py" $mode hand.dump again.dump
done

# --- Contention ---------------------------------------------------------------

# slow OPTIONS...: under the allocator that counts.
slow() {
    rm -f counts
    MALLOC_OUT=$work/counts LD_PRELOAD=$work/slow.so "$replay" --json j "$@" \
        >"$out" 2>"$err"
    is "slow: $*" $? 0
}
count() { sed -n "s/^$1=//p" counts; }
traced busy busy
slow --threads=real busy.p
at_least "two threads contend for a lock" "$(count contended)" 10
slow --threads=none busy.p
is "one does not" "$(count contended)" 0

# --- Time ---------------------------------------------------------------------

traced pause pause
for mode in none real; do
    slow --threads=$mode pause.p
    is "$mode: as fast as it goes: no pause" "$(count pauses)" 0
    slow --threads=$mode --speed=1 pause.p
    is "$mode: as fast as recorded: the pause" "$(count pauses)" 1
    # Times are 10 ms apart where a program allocates little.
    at_least "$mode: it takes as long" "$(json j elapsed_ns)" 480000000
    slow --threads=$mode --speed=1 --max-idle=50ms pause.p
    is "$mode: pauses cut short" "$(count pauses)" 0
    at_least "$mode: but not away" "$(json j elapsed_ns)" 50000000
    slow --threads=$mode --speed=0.5 --max-idle=110ms pause.p
    is "$mode: half as fast: the pause is twice as long" "$(count pauses)" 1
done
# A look at memory takes a tenth of a second, and there are 50 batches before the
# pause.
traced steps steps
for mode in none real; do
    MALLOC_LOOK_MS=100
    export MALLOC_LOOK_MS
    slow --threads=$mode --speed=1 --timeline t.csv steps.p
    unset MALLOC_LOOK_MS
    at_least "$mode: looks leave the pause as it was" "$(count pauses)" 1
    at_least "$mode: their time is told" "$(json j look_ns)" 200000000
    at_least "$mode: and is added" "$(json j elapsed_ns)" \
        $((1000000000 + $(json j look_ns) - 100000000))
    at_most "$mode: they take half of the time" \
        "$(($(wc -l <t.csv) - 2))" $(($(json j elapsed_ns) / 190000000 + 2))
    like "$mode: the report has it" "$out" "^pace +kept to within .*still for"
done
real --think=recorded hand.p
is "operations spread over their time" "$?,$(json j think)" 0,recorded
# A time is a window's, of which the first begins at 0.
at_least "they take about as long as recorded" "$(json j elapsed_ns)" \
    $(($(json j recorded_ns) / 2))

tap_end
