#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Damaged, cut and wrong input, and output that cannot be written.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$postprocess" "$replay" "$malloc_trace" "$built/recorder/exchange"
need_python

TCMALLOC_TRACE_UNCOMPRESSED=1 record "$work/raw" "$built/recorder/exchange" 3 80 \
    >/dev/null || skip_all "recording does not work"
framed=-
if [ "${TCM_HAVE_LZ4:-yes}" != no ]; then
    record "$work/framed" "$built/recorder/exchange" 2 80 >/dev/null
    framed=$work/framed
fi
# With %p a recording begins with its spool alone; _exit leaves it at that.
spool=-
record "$work/spool.%p" "$built/process/process_target" _exit 0
for f in "$work"/spool.*.spool; do
    [ -e "$f" ] && mv "$f" "$work/a.spool" && spool=$work/a.spool
done
"$python" "$here/formats/bad_input.py" "$tools" "$work" "$work/raw" "$framed" \
    "$spool" "${LONG:-0}" >py.out 2>&1
pass_on py.out
tap_end
