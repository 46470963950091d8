#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Threads that come and go, and what runs when they end.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need "$lib"
threads=4000
[ "${LONG:-0}" = 1 ] && threads=100000
under untraced thread_life $threads
under untraced tls_destructors
if [ -e "$tlib" ]; then
    under quiet thread_life $((threads / 4))
    for program in thread_life tls_destructors; do
        under recording $program $threads
        [ ! -x "$post" ] || [ -z "$python" ] ||
            check_trace "$program recording" "$work/$program.$suffix" 1000
    done
else
    skip "threads, recording" "no tracing library"
fi
done_testing
