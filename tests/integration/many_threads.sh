#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Many threads alive at once: more than one slab of the recorder's records.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$postprocess" "$replay" "$built/many_threads"
need_python

for count in 341 342 1500; do
    record "$work/t" "$built/many_threads" $count >"$work/got"
    is "$count threads: status" $? 0
    is "$count threads: output" "$(cat "$work/got")" "$count threads"
    check_trace "$count threads" "$work/t" $((count * 100))
    is "$count threads: all in the trace" \
        "$(json "$work/.post.json" threads)" $((count + 1))
done
tap_end
