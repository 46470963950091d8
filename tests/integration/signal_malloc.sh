#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Signals while threads allocate.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need "$lib"
rounds=400000
[ "${LONG:-0}" = 1 ] && rounds=1000000
under untraced signal_malloc $rounds
if [ -e "$tlib" ]; then
    under recording signal_malloc $rounds
    [ ! -x "$post" ] || [ -z "$python" ] ||
        check_trace "signal_malloc recording" "$work/signal_malloc.$suffix" \
            $rounds
else
    skip "signal_malloc, recording" "no tracing library"
fi
done_testing
