#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Traces larger than memory: postprocess and replay hold the live blocks and two
# barrier windows, whatever the length of the trace.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$postprocess" "$replay" "$built/recorder/control_target"
need_python

mb=80
limit=64
if [ "${LONG:-0}" = 1 ]; then mb=1500; fi
TCMALLOC_TRACE_UNCOMPRESSED=1 record "$work/t" "$built/recorder/control_target" \
    limit $mb 2>"$work/err"
is "record: exit status" $? 51
size=$(($(wc -c <"$work/t") >> 20))
at_least "the trace is larger than the memory allowed (MiB)" $size $limit

# The limit is that of the tool's whole address space.
(
    ulimit -v $((limit * 1024))
    "$postprocess" --quiet --json "$work/json" "$work/t" "$work/p" 2>"$work/err"
)
is "postprocess in $limit MiB of address space" $? 0
diag <"$work/err"
is "complete" "$(json "$work/json" complete unmatched_frees)" "true 0"
events=$(json "$work/json" events)
at_least "events" "$events" $((mb * 400000))
(
    ulimit -v $((limit * 1024))
    cat "$work/t" | "$postprocess" --quiet --json "$work/json2" - - \
        2>"$work/err" |
        cmp - "$work/p"
)
is "the same through pipes" $? 0
is "as many events" "$(json "$work/json2" events)" "$events"
# replay holds the blocks of the trace and the allocator's memory, too.
(
    ulimit -v $((limit * 1024 + 262144))
    "$replay" --json "$work/json3" "$work/p" >"$work/out" 2>"$work/err"
)
is "replay in $((limit + 256)) MiB of address space" $? 0
diag <"$work/err"
is "and does all of it" "$(json "$work/json3" ops)" "$(json "$work/json" ops)"
tap_end
