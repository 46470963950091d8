#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs that end with their last thread, not by exit: the recorder's threads
# do not keep them, what they print and their status are those of the untraced
# run, and the trace has its end.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal" "$tracing" "$built/process/last_thread" "$postprocess"
need_python
target=$built/process/last_thread
cd "$work" || exit 99

# Where the recorder cannot take its threads out of the C library's count, it
# ends the program itself: without exit handlers, and with status 0 if the first
# thread has ended without one.
count=none
! libc_has __nptl_nthreads || count=known

# ends NAME VARIABLE=VALUE... MODE: compares with "plain" and its status.
ends() {
    ends_name=$1
    shift
    timeout -s KILL 30 env LD_PRELOAD="$tracing" "$@" >out 2>err
    ends_status=$?
    case $count$ends_name in
    nonefirst-raw*)
        skip "$ends_name: exit status" "the C library tells no count of threads"
        ;;
    *) is "$ends_name: exit status" "$ends_status" "$status" ;;
    esac
    case $count$ends_name in
    known* | noneraw* | nonestopped*)
        check "$ends_name: the same output" diff plain out
        ;;
    *) check "$ends_name: at most the same output" only_lost out ;;
    esac
    is "$ends_name: nothing on stderr" "$(cat err)" ""
}
# True if what FILE lacks of "plain" is all its difference.
only_lost() {
    ! diff plain "$1" | grep -q "^>"
}
whole() { # NAME FILE WANT
    "$postprocess" --quiet --json json "$2" p 2>err
    is "$1: postprocess, complete, clean_end" \
        "$? $(json json complete clean_end)" "$3"
}

for mode in returns silent another joins alone raw first-raw; do
    timeout -s KILL 30 env LD_PRELOAD="$minimal" "$target" $mode >plain 2>err
    status=$?
    ends "$mode, recorded" TCMALLOC_TRACE_OUTPUT=$mode.$suffix "$target" $mode
    whole "$mode, recorded" $mode.$suffix "0 true true"
    ends "$mode, recorded for each process" \
        TCMALLOC_TRACE_OUTPUT="$mode.%p.$suffix" "$target" $mode
    found=$(find . -name "$mode.[0-9]*.$suffix")
    whole "$mode, recorded for each process" "$found" "0 true true"
    mkfifo $mode.fifo
    cat $mode.fifo >$mode.read &
    ends "$mode, into a FIFO" TCMALLOC_TRACE_OUTPUT=$mode.fifo "$target" $mode
    wait $!
    whole "$mode, into a FIFO" $mode.read "0 true true"
    ends "$mode, with a control socket" TCMALLOC_TRACE_CONTROL=1 \
        "$target" $mode
    ends "$mode, with both" TCMALLOC_TRACE_CONTROL=1 \
        TCMALLOC_TRACE_OUTPUT=both.$mode.$suffix "$target" $mode
    whole "$mode, with both" both.$mode.$suffix "0 true true"
done

printf '%s\n' recorded "an exit handler ran" >plain
status=0
for i in 1 2 3 4 5; do
    ends "stopped just before, $i" "$target" calls calls.$i.$suffix
done
whole "stopped just before" calls.5.$suffix "0 true true"

# Main returns while others go on: whatever moment that ends them at.
for output in busy.$suffix "busy.%p.$suffix"; do
    good=0
    for i in 1 2 3 4 5 6 7 8; do
        rm -f busy.*
        timeout -s KILL 30 env LD_PRELOAD="$tracing" \
            TCMALLOC_TRACE_OUTPUT="$output" "$target" busy >out 2>err || {
            echo "run $i: status $?" | diag
            break
        }
        file=$(find . -name "busy.*$suffix" | head -n 1)
        "$postprocess" --quiet --json json "$file" p 2>err || {
            echo "run $i: postprocess, status $?" | diag
            diag <err
            break
        }
        [ "$(json json complete)" = true ] && good=$((good + 1))
    done
    is "busy at the end, to $output: whole" "$good" 8
done
tap_end
