#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Many threads alive at once: more than one slab of the recorder's records.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$minimal" "$postprocess" "$replay" "$built/recorder/many_threads"
need_python

for count in 341 342 1500; do
    record "$work/t" "$built/recorder/many_threads" $count >"$work/got"
    is "$count threads: status" $? 0
    is "$count threads: output" "$(cat "$work/got")" "$count threads"
    check_trace "$count threads" "$work/t" $((count * 100))
    is "$count threads: all in the trace" \
        "$(json "$work/.post.json" threads)" $((count + 1))
done

# --- Replayed on as many -----------------------------------------------------

record "$work/t" "$built/recorder/many_threads" 393 >"$work/got"
check "393 threads: a trace" "$postprocess" -q --json post "$work/t" p
for options in "" "--max-threads=4"; do
    # shellcheck disable=SC2086
    check "393 threads, each on its own $options" timeout 300 \
        "$replay" -q --json j --threads=real $options p
    is "393 threads: operations, threads" "$(json j ops threads)" \
        "$(json post ops threads)"
done
# A limit of address space leaves no room for the stacks of all threads.
(
    ulimit -v 300000
    # The C library reserves address space by thread, and has none left then.
    LD_PRELOAD=$minimal timeout 300 "$replay" -q --json j --threads=real p
) 2>"$err"
is "393 threads, without room: they take turns" \
    "$?,$(json j ops threads_refused failed_allocations)" \
    "0,$(json post ops) true 0"
tap_end
