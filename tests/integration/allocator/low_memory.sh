#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Memory that ends: limits, no addresses left, operator new.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal"
under untraced low_memory
under untraced low_memory_new
under untraced locked_memory
if [ -e "$tracing" ]; then
    under processes low_memory
    under quiet low_memory_new
    under recording low_memory_new
    under quiet locked_memory
else
    skip "low_memory, recording" "no tracing library"
fi

# The setting concerns all that runs meanwhile, so it is made for a moment only,
# in the long run, and where the system has promised little so far.
setting=/proc/sys/vm/overcommit_memory
memory_kib() { sed -n "s/^$1: *\\([0-9]*\\) kB/\\1/p" /proc/meminfo; }
why_not_strict() {
    if [ -z "${LONG:-}" ]; then
        echo "done by the long run"
    elif [ "$(id -u)" != 0 ] || ! [ -w $setting ]; then
        echo "$setting cannot be written"
    elif [ "$(memory_kib Committed_AS)" -gt \
        $(($(memory_kib CommitLimit) - 2097152)) ]; then
        echo "the system has promised too much memory already"
    elif ! echo 2 2>/dev/null >$setting; then
        echo "$setting cannot be changed"
    fi
}
before=$(cat $setting)
cleanup() { [ "$(cat $setting)" = "$before" ] || echo "$before" >$setting; }
why=$(why_not_strict)
if [ -n "$why" ]; then
    skip "low_memory with vm.overcommit_memory=2" "$why"
else
    under untraced low_memory system
    if [ -e "$tracing" ]; then
        under quiet low_memory system
        under processes low_memory system
    fi
    cleanup
    is "the setting is as before" "$(cat $setting)" "$before"
fi
tap_end
