#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# fork in programs whose threads allocate all the time.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal"
forks=40
[ "${LONG:-0}" = 1 ] && forks=1000
under untraced fork_load $forks
if [ -e "$tracing" ]; then
    under recording fork_load $forks
    [ ! -x "$postprocess" ] || [ -z "$python" ] ||
        check_trace "fork_load recording" "$work/fork_load.$suffix" 10000
    under processes fork_load $((forks / 2))
    files=0
    for file in "$work"/fork_load.[0-9]*; do
        [ -e "$file" ] || continue
        files=$((files + 1))
    done
    at_least "children's recordings are there" $files $((forks / 2))
else
    skip "fork_load, recording" "no tracing library"
fi
tap_end
