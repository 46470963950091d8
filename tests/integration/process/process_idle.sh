#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A recorded process that does nothing: its recording writes nothing, and wakes
# at most once a second.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/process/process_target"
target=$built/process/process_target
[ -r /proc/self/status ] || skip_all "no /proc"
grep -q '^voluntary_ctxt_switches' /proc/self/status ||
    skip_all "the kernel does not count switches"
cd "$work" || exit 99

pids=
cleanup() {
    for pid in $pids; do kill "$pid" 2>/dev/null; done
}
# begin NAME OUTPUT VARIABLE=VALUE...: the process id of it in $begun.
begin() {
    begin_out=$1
    shift
    env LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT="$begin_out" "$@" \
        "$target" sleep 60000 &
    begun=$!
    pids="$pids $begun"
}
begin eager TCMALLOC_TRACE_CONTROL=1
eager=$begun
begin kept TCMALLOC_TRACE_KEEP_MB=4
kept=$begun
begin 'lazy.%p' A=1
lazy=$begun

# switches PID: how often its threads, but the first, gave up the processor.
switches() {
    for status in /proc/"$1"/task/*/status; do
        case $status in */task/"$1"/status) continue ;; esac
        cat "$status" 2>/dev/null
    done | awk '/^voluntary_ctxt_switches/ { n += $2 } END { print n + 0 }'
}
threads() { find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l; }
# Changes of files by a write, spools included; not the times of a shared
# mapping.
state() { stat -c '%n %s %b %y' "$@"; }

n=0
while [ $n -lt 250 ] && { [ ! -e eager ] || [ ! -e kept.k0 ] ||
    [ ! -e "lazy.$lazy.spool" ]; }; do
    sleep 0.02
    n=$((n + 1))
done
# The interval doubles from 10 ms to 1 s.
sleep 1.6
is "threads: the saver, and who answers" "$(threads "$eager")" 3
is "threads of a flight recording" "$(threads "$kept")" 2
is "threads while the first buffers last" "$(threads "$lazy")" 1
for pid in $eager $kept; do switches "$pid" >before.$pid; done
state eager kept.k0 >before
sleep 2
for pid in $eager $kept; do
    # Two, if the sleep was no longer; ten times as many by any mistake.
    at_least "wakes in two seconds" 8 $(($(switches "$pid") - $(cat before.$pid)))
done
state eager kept.k0 >after
check "nothing was written" cmp before after
is "a spool is all that a process with few events has" \
    "$(find . -name 'lazy*' | tr '\n' ' ')" "./lazy.$lazy.spool "
tap_end
