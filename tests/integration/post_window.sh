#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Parts of a trace: windows by time and mark, threads, without what tells where
# it comes from.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need "$tlib" "$post" "$replay" "$mtrace" "$built/window_target"
need_python
cd "$work" || exit 99

TCMALLOC_TRACE_UNCOMPRESSED=1 record t.raw "$built/window_target" 1 4 ||
    skip_all "recording does not work"
"$python" "$here/post_window.py" "$tools" t.raw >py.out 2>&1
pass_on py.out
done_testing
