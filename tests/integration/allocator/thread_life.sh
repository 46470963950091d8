#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Threads that come and go, and what runs when they end.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal"
threads=4000
[ "${LONG:-0}" = 1 ] && threads=100000
under untraced thread_life $threads
under untraced tls_destructors
if [ -e "$tracing" ]; then
    under quiet thread_life $((threads / 4))
    for program in thread_life tls_destructors; do
        TCMALLOC_TRACE_BUFFER_MB=1 under recording $program $threads
        [ ! -x "$postprocess" ] || [ -z "$python" ] ||
            check_trace "$program recording" "$work/$program.$suffix" 1000
    done
else
    skip "threads, recording" "no tracing library"
fi
tap_end
