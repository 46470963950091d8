#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Resident memory that recording adds: at most 8 bytes an object slot of spans in
# use, 2 MiB for programs below a million events and 6 MiB above, 8 KiB a quiet
# and 72 KiB a busy thread, and what may wait to be saved (1 MiB here, which is
# allowed to large programs alone: what others publish does not have to wait).
# With recording off: nothing but the library's own data.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal" "$tracing" "$built/recorder/memory_target"
[ -r /proc/self/smaps ] || skip_all "no /proc/self/smaps"
export TCMALLOC_TRACE_BUFFER_MB=1

# Data of the library that was written to, and a few pages of chance.
own_kib=128

# compared NAME EVENTS BLOCKS THREADS BUSY
compared() {
    compared_name=$1
    shift
    plain=$(LD_PRELOAD=$minimal "$built/recorder/memory_target" "$@")
    quiet=$(LD_PRELOAD=$tracing TCMALLOC_TRACE_OUTPUT=$work/t \
        TCMALLOC_TRACE_START=0 "$built/recorder/memory_target" "$@")
    traced=$(record "$work/t.$suffix" "$built/recorder/memory_target" "$@")
    at_least "$compared_name: measured" "$plain" 50
    at_least "$compared_name, recording off: at most $own_kib KiB more" \
        $((plain + own_kib)) "$quiet"
    # A slot each, and what is left over in their last spans.
    allowed=$(($2 * 8 * 102 / 100 / 1024 + ($3 - $4) * 8 + $4 * 72 + own_kib))
    if [ "$1" -lt 1000000 ]; then
        allowed=$((allowed + 2048))
    else
        allowed=$((allowed + 6144 + 1024))
    fi
    at_least "$compared_name: at most $allowed KiB more, has $((traced - plain))" \
        $((plain + allowed)) "$traced"
}

compared "next to nothing" 0 10 0 0
compared "many blocks" 0 1000000 0 0
compared "one busy thread" 400000 1000 1 1
compared "quiet threads" 0 1000 400 0
compared "busy and quiet threads" 800000 1000 24 4
compared "many events" 4000000 1000 4 4
tap_end
