#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# replay --log: the calls of the trace, with addresses at which blocks can lie;
# what annotate and convert make of the file.
. "$top_srcdir/tests/lib/harness.sh"
need "$replay" "$malloc_trace"
[ "${TCM_SANITIZED:-no}" = no ] ||
    skip_all "the sanitizers' runtime replaces malloc"
trace=$top_srcdir/tests/data/processed-v1-index

# Calls without blocks: what a log has of a text.
calls() {
    grep -E '^(slot|free|realloc|delete|cfree)' "$1" | grep -v failed |
        sed -E 's/^slot [0-9]+ = //
            s/ (moved|freed it)$//
            s/^realloc\(NULL, /malloc(/
            s/^realloc\(slot [0-9]+, 0\)$/free/
            s/^realloc\(slot [0-9]+/realloc(/
            s/^[a-z_]*free[^ ]*\(slot.*/free/; s/^delete.*/free/
            s/^(calloc|new|memalign|posix_memalign|aligned_alloc|valloc|pvalloc)[^ ]*\(([0-9]+).*/malloc(\2)/'
}
"$malloc_trace" convert -q --to text "$trace" want.text || exit 99
calls want.text >want
at_least "calls" "$(wc -l <want)" 2500

# logged NAME LIBRARY OPTIONS...
logged() {
    name=$1
    library=$2
    shift 2
    rm -f log j
    check "$name" env LD_PRELOAD="$library" "$replay" --json j --log log "$@" \
        "$trace"
    is "$name: all operations" "$(json j ops end_live_objects)" "2590 153"
    like "$name: lines with tags" log '^malloc\([0-9]+\) = [0-9a-f]+<1>$'
    check "$name: is read" "$malloc_trace" convert -q --to text --strict log \
        got.text
    calls got.text >got
    check "$name: the calls of the trace" cmp want got
    check "$name: layout" "$malloc_trace" annotate layout log
    cp "$err" said
    is "$name: no unknown block" "$(cat said)" ""
    check "$name: summary" "$malloc_trace" annotate layout --summary=table log
    cp "$out" table
    ! grep -q overlaps table
    result "$name: no blocks overlap" $?
}
logged "the C library" "" --threads=none
logged "this library, caches switched" "$minimal" --threads=switch
cp log first
logged "this library, blocks checked" "$minimal" --threads=none --check
# Its addresses depend on nothing but the calls, and on where its heap begins.
offsets() {
    sed -nE 's/^malloc.* = [0-9a-f]*([0-9a-f]{4})<.*/\1/p' "$1"
}
logged "this library again" "$minimal" --threads=switch
offsets first >a
offsets log >b
check "has the same layout each time" cmp a b

fails_with "not with real threads" 2 "$replay" --log log --threads=real "$trace"
"$replay" --log - --threads=none "$trace" 2>said >piped
is "to standard output: all of it" "$?, $(grep -vc '^\(malloc\|realloc\|free\)(' piped)" "0, 0"
like "and the report elsewhere" said "^operations "
fails_with "nor both there" 2 "$replay" --log - --json - "$trace"
fails_with "not of repeated runs" 2 "$replay" --log - --repeat=2 "$trace"
fails_with "not onto the trace" 2 "$replay" --log "$trace" "$trace"
fails_with "no such folder" 1 "$replay" --log none/log "$trace"
[ ! -e /dev/full ] ||
    fails_with "a full disk" 1 "$replay" --log /dev/full "$trace"
check "each run has a file" "$replay" -q --repeat=2 --log l.txt "$trace"
is "of its own" "$(ls l*.txt | wc -l)" 2

# --- The summary of trace_run -------------------------------------------------

check "the lines of trace_run" "$replay" --json j --threads=none \
    --summary=trace_run "$trace"
cp "$out" said
sed -E 's/[0-9,]+/N/g; s/  +/ /g' said >shape
check "have its form" diff - shape <<'END'
N cycles
N usec wall time
N usec across N thread
N Kb Max RSS (N -> N)
N Kb Max Ideal RSS

sizeof ticks_t is N
Avg malloc time: N in N calls
Avg calloc time: N in N calls
Avg realloc time: N in N calls
Avg free time: N in N calls
Total call time: N cycles

END
peak=$(json j peak_live_bytes)
is "the ideal RSS is the peak of live bytes" \
    "$(sed -n 's/ Kb Max Ideal RSS//p' said | tr -d ,)" $((peak / 1024))
# calls_said FILE: how many calls the averages in FILE are over.
calls_said() {
    sed -nE 's/^Avg .* in +([0-9,]+) calls$/\1/p' "$1" | tr -d , |
        awk '{ n += $1 } END { print n }'
}
is "all calls are counted" "$(calls_said said)" "$(json j ops)"
check "real threads by default" "$replay" --json j --summary=trace_run "$trace"
is "these count all calls, too" "$(calls_said "$out"),$(json j threads_mode)" \
    "$(json j ops),real"
like "sums have their widths" said '^Avg free time: [ 0-9,]{8} in [ 0-9,]{10} calls$'
fails_with "no other form" 2 "$replay" --summary=short "$trace"
tap_end
