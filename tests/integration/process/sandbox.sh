#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs that confine themselves: filters that kill, strict mode, no clock of
# the processor, namespaces. What the library calls then is in
# doc/containers.md; the lists here are those.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal" "$tracing" "$built/process/sandbox_target" "$postprocess"
need_python
target=$built/process/sandbox_target
cd "$work" || exit 99

memory=mmap,munmap,mprotect,madvise
plain=$memory,write,exit_group
recorded=$plain,futex,gettid
recorder=clock_gettime,close,exit,fallocate,fstat,getrusage,newfstatat
recorder=$recorder,pread64,prlimit64,pwrite64,unlinkat

# runs NAME STATUS OUTPUT VARIABLE=VALUE... PROGRAM ARGS...: false if the kernel
# cannot do that.
runs() {
    runs_name=$1
    runs_status=$2
    runs_output=$3
    shift 3
    rm -f t.*
    timeout -s KILL 30 env "$@" >out 2>err
    runs_got=$?
    if [ $runs_got = 77 ]; then
        skip "$runs_name" "the kernel refuses it"
        return 1
    fi
    is "$runs_name" "$runs_got $(cat out) $(cat err)" "$runs_status $runs_output "
}
whole() { # NAME WANT [FILE]
    "$postprocess" --quiet --json json "${3:-t.$suffix}" p 2>err
    is "$1: postprocess, complete, clean_end" \
        "$? $(json json complete clean_end)" "$2"
}

for how in plain "tracing, off"; do
    preload=$minimal
    [ "$how" = plain ] || preload=$tracing
    runs "$how: filter" 42 inside LD_PRELOAD="$preload" \
        "$target" allow $plain
    runs "$how: filter, little" 42 inside LD_PRELOAD="$preload" \
        "$target" allow-little $plain
    runs "$how: filter, the heap grows" 42 inside LD_PRELOAD="$preload" \
        "$target" allow-heap $plain
    runs "$how: strict" 43 inside LD_PRELOAD="$preload" "$target" strict
    runs "$how: no clock" 44 inside LD_PRELOAD="$preload" "$target" tsc
    runs "$how: setns" 45 "setns worked" LD_PRELOAD="$preload" \
        "$target" setns
done
runs "off after a recording: filter" 42 inside LD_PRELOAD="$tracing" \
    TCMALLOC_TRACE_OUTPUT=t.$suffix "$target" allow-stopped $plain &&
    whole "off after a recording: filter" "0 true true"
runs "off after a recording: no clock" 44 inside LD_PRELOAD="$tracing" \
    TCMALLOC_TRACE_OUTPUT=t.$suffix "$target" tsc-stopped &&
    whole "off after a recording: no clock" "0 true true"

# recorded NAME STATUS OUTPUT ARGS...: its trace is whole.
recorded() {
    recorded_name=$1
    recorded_status=$2
    recorded_output=$3
    shift 3
    runs "recorded: $recorded_name" "$recorded_status" "$recorded_output" \
        LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT=t.$suffix "$target" "$@" &&
        whole "recorded: $recorded_name" "0 true true"
}
recorded "filter" 42 inside allow $recorded
recorded "filter, little" 42 inside allow-little $recorded
recorded "filter that refuses gettid from then on" 42 inside \
    allow $plain,futex
recorded "filter of all threads" 42 inside allow $recorded,$recorder tsync
recorded "filter, large blocks" 42 inside allow-large $recorded,prctl
recorded "filter of all threads, large blocks" 42 inside \
    allow-large $recorded,$recorder,prctl tsync
recorded "strict" 43 inside strict
recorded "setns" 45 "setns worked" setns
recorded "unshare of users after a stop" 46 "unshare worked" unshare

export TCMALLOC_TRACE_PRESENT=0
recorded "filter, large blocks, no present bytes" 42 inside \
    allow-large $recorded
unset TCMALLOC_TRACE_PRESENT

# Files are made late: where the program has a filter of its own they are not.
lazy="LD_PRELOAD=$tracing TCMALLOC_TRACE_OUTPUT=t.%p.$suffix"
name() { find . -name 't.*' | head -n 1 | sed 's/\.spool$//'; }
# shellcheck disable=SC2086
runs "for each process: filter, little" 42 inside $lazy \
    "$target" allow-little $recorded,prctl &&
    whole "for each process: filter, little" "0 true false" "$(name)"
# shellcheck disable=SC2086
runs "for each process: filter, then much" 42 inside $lazy \
    "$target" allow-then $recorded,prctl &&
    whole "for each process: filter, then much" "3 false false" "$(name)"
tap_end
