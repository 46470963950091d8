#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs that replace some of the operators new and delete, and realloc: the
# others call these, as without this library.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal" "$tracing" "$built/allocator/cxx_replaced" "$built/allocator/cxx_replaced_arrays"

for program in cxx_replaced cxx_replaced_arrays; do
    "$built/allocator/$program" >"$work/want"
    is "$program: alone" $? 0
    check "$program: counts what it makes" \
        grep -q '^[1-9][0-9]* made, [1-9][0-9]* gone, 0 wrong' "$work/want"
    for library in "$minimal" "$tracing"; do
        name="$program, ${library##*/}"
        LD_PRELOAD=$library "$built/allocator/$program" >"$work/got"
        is "$name: status" $? 0
        check "$name: the same output" cmp "$work/want" "$work/got"
    done
    TCMALLOC_TRACE_OUTPUT=$work/t.$suffix LD_PRELOAD=$tracing \
        "$built/allocator/$program" >"$work/got"
    is "$program, recorded: status" $? 0
    check "$program, recorded: the same output" cmp "$work/want" "$work/got"
done
tap_end
