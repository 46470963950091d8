#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Signals while threads allocate.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal"
rounds=400000
[ "${LONG:-0}" = 1 ] && rounds=1000000
under untraced signal_malloc $rounds
if [ -e "$tracing" ]; then
    under recording signal_malloc $rounds
    [ ! -x "$postprocess" ] || [ -z "$python" ] ||
        check_trace "signal_malloc recording" "$work/signal_malloc.$suffix" \
            $rounds
else
    skip "signal_malloc, recording" "no tracing library"
fi
tap_end
