#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The new-handler under both libraries, recording and not. A recording shows a
# call that was tried again as one event, what became of it in the end.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal"
[ -x "$built/allocator/new_handler" ] || skip_all "no C++ program"

for how in untraced quiet recording; do
    under $how new_handler
done

if [ -e "$tracing" ] && [ -x "$postprocess" ] && [ -n "$python" ]; then
    check_trace "recording" "$work/new_handler.$suffix" 1000
    record "$work/counts.$suffix" "$built/allocator/new_handler" counts 2>"$work/err"
    is "counts: exit status" $? 0
    check_trace "counts" "$work/counts.$suffix" 40
    is "what failed in the end is recorded, not what was tried" \
        "$(json "$work/.post.json" failed_allocations)" 6
else
    skip "recordings" "no tools"
fi
tap_end
