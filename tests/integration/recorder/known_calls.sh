#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A program that calls every member of the malloc family with known arguments
# yields exactly those events; read with a reader that shares no code with us.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/recorder/known_calls"
need_python

dump() { "$python" "$test_lib/rawdump.py" "$@"; }

# same NAME TRACE...: the events between marks are the expected ones. What the
# recorder tells of its own accord is not among them.
same() {
    same_name=$1
    shift
    LC_ALL=C sort -s -t: -k1,1 "$work/want" >"$work/want.sorted"
    dump --marked "$@" 2>"$work/err" | grep -v '^z: [^f]' |
        grep -v '^z: free' | grep -v ': present ' >"$work/got"
    if cmp -s "$work/got" "$work/want.sorted"; then
        pass "$same_name: the very calls, sizes, alignments and blocks"
    else
        fail "$same_name: the very calls, sizes, alignments and blocks"
        diag <"$work/err"
        wc -l "$work/got" "$work/want.sorted" | diag
        diff "$work/got" "$work/want.sorted" | diag 20
    fi
}

# A library with debug checks stops at deletes and frees of a wrong size.
if knows "sized delete with a wrong size"; then
    SIZES_ARE_CHECKED=1
    export SIZES_ARE_CHECKED
fi
calls=30000
[ "${LONG:-0}" = 1 ] && calls=300000

TCMALLOC_TRACE_UNCOMPRESSED=1 record "$work/plain" \
    "$built/recorder/known_calls" "$work/want" $calls 1 2>"$work/err"
is "plain: program succeeds" $? 0
diag <"$work/err"
at_least "plain: expectations were written" "$(wc -l <"$work/want")" $calls
is "plain: begins with the magic" \
    "$(head -c 8 "$work/plain" | od -An -tx1 | tr -d ' \n')" \
    894d545241570d0a
same plain "$work/plain"

dump --counts "$work/plain" >"$work/counts" 2>"$work/err"
is "plain: the stranger's reader finds no fault" $? 0
diag <"$work/err"
[ -e "$work/plain.spool" ]
is "plain: no spool is left" $? 1

# The tools and the reader that knows nothing of them count alike.
if [ -x "$postprocess" ]; then
    keys="events mallocs memaligns reallocs frees failed_allocations
        requested_bytes untraced_frees dropped_events unmatched_frees threads
        live_at_end clean_end"
    check "plain: postprocess succeeds" "$postprocess" --quiet \
        --json "$work/post" "$work/plain" "$work/processed"
    # shellcheck disable=SC2086
    is "plain: postprocess counts the same" "$(json "$work/post" $keys)" \
        "$(json "$work/counts" $keys)"
    # shellcheck disable=SC2086
    if have lz4 && [ "${TCM_HAVE_LZ4:-yes}" != no ]; then
        record "$work/framed" "$built/recorder/known_calls" "$work/want" $calls 2
        is "framed: program succeeds" $? 0
        is "framed: begins with an LZ4 frame" \
            "$(head -c 4 "$work/framed" | od -An -tx1 | tr -d ' \n')" 04224d18
        check "framed: lz4 accepts every frame" lz4 -t "$work/framed"
        same framed "$work/framed"
        dump --counts "$work/framed" >"$work/counts"
        check "framed: postprocess succeeds" "$postprocess" --quiet \
            --json "$work/post" "$work/framed" "$work/processed"
        is "framed: postprocess counts the same" "$(json "$work/post" $keys)" \
            "$(json "$work/counts" $keys)"
    fi
    # Their sizes are all that there are; touching them would take longest.
    check_trace "known calls" "$work/plain" $calls --touch=none
else
    skip "counts of postprocess" "not built"
fi

# Stripped or not, the listing of a raw trace names every event.
if [ -x "$malloc_trace" ] && offers "$malloc_trace" dump; then
    if "$malloc_trace" dump "$work/plain" >"$work/dump" 2>"$work/err"; then
        at_least "malloc-trace dump: a line an event" \
            "$(wc -l <"$work/dump")" "$(wc -l <"$work/want")"
    else
        fail "malloc-trace dump succeeds"
        diag <"$work/err"
    fi
else
    skip "malloc-trace dump" "not offered"
fi
tap_end
