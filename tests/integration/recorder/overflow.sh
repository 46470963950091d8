#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# TCMALLOC_TRACE_OVERFLOW=drop: a program does not wait for a reader that takes
# nothing, and every call is in the trace, in a gap, or an untraced free.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/recorder/overflow_target" "$postprocess" "$replay" \
    "$malloc_trace"
need_python
target=$built/recorder/overflow_target
steps=100000
cd "$work" || exit 99

# Counts of the program, from a run that nothing holds up.
record t "$target" $steps
is "lossless run" $? 51
"$postprocess" --quiet --json json t p
is "lossless run: complete" "$(json json complete dropped_events)" "true 0"
calls=$(($(json json events) + $(json json untraced_frees)))
at_least "calls" $calls 800000
rm -f p

dropping() {
    TCMALLOC_TRACE_OVERFLOW=drop TCMALLOC_TRACE_BUFFER_MB=1 \
        record slow "$target" "$@"
}

# all_counted NAME FILE
all_counted() {
    "$postprocess" --quiet --json json "$2" p 2>err
    is "$1: exit status of postprocess" $? 3
    is "$1: not complete, no free without its block" \
        "$(json json complete clean_end unmatched_frees order_conflicts)" \
        "false true 0 0"
    check "$1: postprocess says why" grep -q "were dropped while recording" err
    at_least "$1: dropped" "$(json json dropped_events)" 1000
    is "$1: each call is recorded, dropped, or an untraced free" \
        $(($(json json events) + $(json json dropped_events) +
            $(json json untraced_frees))) $calls
    "$malloc_trace" info -v --json files "$2" >out 2>err
    is "$1: exit status of malloc-trace info" $? 3
    "$python" -c 'import json
json.dump(json.load(open("files"))["files"][0], open("json2", "w"),
    indent=2)'
    is "$1: malloc-trace info counts the same" \
        "$(json json2 complete dropped_events untraced_frees)" \
        "false $(json json dropped_events untraced_frees)"
    check "$1: the setting is known" grep -q ", drop when full" out
    "$malloc_trace" dump "$2" >/dev/null 2>err
    is "$1: exit status of malloc-trace dump" $? 3
    "$replay" --json json2 p >out 2>err
    is "$1: replay" "$? $(json json2 ops end_live_objects failed_allocations)" \
        "3 $(json json ops live_at_end) 0"
}

# The reader begins to read when the work is done.
mkfifo slow
(
    exec <slow
    eventually 60 [ -e worked ]
    [ -e worked ] && : >in_time
    cat >late
) &
dropping $steps worked 2>err
is "late reader: exit status" $? 51
is "late reader: nothing is said" "$(cat err)" ""
wait $!
check "late reader: the program did not wait for it" test -e in_time
all_counted "late reader" late

# One that reads a little, again and again: many gaps.
(
    exec <slow
    for _ in 1 2 3 4 5 6; do
        dd bs=65536 count=4 2>/dev/null
        sleep 0.05
    done
    cat
) >stutter &
TCMALLOC_TRACE_UNCOMPRESSED=1 dropping $steps 2>err
is "stuttering reader: exit status" $? 51
wait $!
all_counted "stuttering reader" stutter
"$python" "$test_lib/rawdump.py" --counts stutter >counts 2>err
diag <err
is "stuttering reader: a stranger reads the same" \
    "$(json counts events unmatched_frees)" "$(json json events) 0"
# A thread that ended in a gap it was born in is in the footer's count alone.
gaps=$(json counts dropped_events)
at_least "stuttering reader: gaps of threads" "$gaps" 1000
at_least "stuttering reader: no more than were dropped" \
    "$(json json dropped_events)" "$gaps"

# One that never reads again: the end of the program waits a few seconds.
sh -c 'exec sleep 60' <slow &
reader=$!
dropping $steps 2>err
is "dead slow reader: exit status" $? 51
check "dead slow reader: one line on stderr" one_line err
check "dead slow reader: that names the output" grep -q "stopped.*$work/slow" err
kill $reader
wait $reader 2>/dev/null

# Another word is none.
TCMALLOC_TRACE_OVERFLOW=dropp TCMALLOC_TRACE_BUFFER_MB=1 record t "$target" \
    2000
is "another word: exit status" $? 51
"$postprocess" --quiet --json json t p
is "another word: nothing is dropped" \
    "$(json json complete dropped_events)" "true 0"
tap_end
