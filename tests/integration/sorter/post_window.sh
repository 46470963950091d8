#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Parts of a trace: windows by time and mark, threads, stripped traces.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$postprocess" "$replay" "$malloc_trace" "$built/sorter/window_target"
need_python
cd "$work" || exit 99

TCMALLOC_TRACE_UNCOMPRESSED=1 record t.raw "$built/sorter/window_target" 1 4 ||
    skip_all "recording does not work"
try() { # RAW [FORM]
    "$python" "$here/sorter/post_window.py" "$tools" "$@" >py.out 2>&1
    pass_on py.out
}
try t.raw
try t.raw fifo
rm -f fifo

# A program that is killed leaves the rest in its spool.
TCMALLOC_TRACE_UNCOMPRESSED=1 record k.raw "$built/sorter/window_target" 2 2 400 kill
check "killed: there is a spool" test -s k.raw.spool
try k.raw killed

# A running recording is read up to its last barrier: wait until it is behind the
# mark "end".
LD_PRELOAD=$tracing TCMALLOC_TRACE_OUTPUT=$work/g.raw \
    "$built/sorter/window_target" 3 2 400 stay &
pid=$!
cleanup() { kill -9 $pid 2>/dev/null; }
tries=0
until "$malloc_trace" dump g.raw 2>/dev/null | grep -q 'mark "end"'; do
    tries=$((tries + 1))
    [ $tries = 600 ] && break
    sleep 0.1
done
try g.raw growing
cleanup
wait $pid 2>/dev/null

# The first part of a flight recording is gone.
TCMALLOC_TRACE_UNCOMPRESSED=1 TCMALLOC_TRACE_KEEP_MB=1 \
    record f.raw "$built/sorter/window_target" 4 4 4000
at_least "parts of a recording" "$(find . -name 'f.raw.k?' | wc -l)" 2
rm f.raw.k0
try f.raw parts
tap_end
