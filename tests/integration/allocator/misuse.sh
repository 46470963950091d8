#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Wrong frees stop the program with a message that names the pointer; those that
# are recorded stop nothing (wrong_frees.sh).
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal"
under untraced misuse
if [ -e "$tracing" ]; then
    under quiet misuse
    under processes misuse
else
    skip "misuse, recording" "no tracing library"
fi
tap_end
