#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Wrong frees stop the program with a message that names the pointer.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need "$lib"
under untraced misuse
if [ -e "$tlib" ]; then
    under quiet misuse
    under processes misuse
else
    skip "misuse, recording" "no tracing library"
fi
done_testing
