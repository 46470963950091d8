#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Memory that ends: limits, no addresses left, operator new.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need "$lib"
under untraced low_memory
under untraced low_memory_new
if [ -e "$tlib" ]; then
    under processes low_memory
    under quiet low_memory_new
    under recording low_memory_new
else
    skip "low_memory, recording" "no tracing library"
fi
done_testing
