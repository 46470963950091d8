#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Confined processes: system calls that a filter refuses, other process ids, no
# /proc, a read-only root, small and full folders, another user. The program
# does what it does; what was recorded can be read (doc/containers.md).
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/process/sandbox_target" "$built/recorder/exchange" "$postprocess"
need_python
program="$built/recorder/exchange 3 12000"
want=$($program)
cd "$work" || exit 99

# The program's output and status stay.
unaffected() { # NAME STATUS
    is "$1: exit status" "$2" 0
    is "$1: the program's output" "$(cat out)" "$want"
}
# Nothing is said, and all of it is there.
whole() { # NAME FILE
    is "$1: nothing on stderr" "$(cat err)" ""
    "$postprocess" --quiet --json json "$2" p 2>err
    is "$1: whole" "$? $(json json complete clean_end unmatched_frees)" \
        "0 true true 0"
    at_least "$1: events" "$(json json events)" 40000
}

"$built/process/sandbox_target" refuse getcpu true
if [ $? = 0 ]; then
    most=close_range,fallocate,getrandom,madvise,ftruncate,unshare
    each="close_range fallocate madvise"
    if [ "${LONG:-0}" = 1 ]; then
        each="$each getrandom ftruncate readlinkat prctl getcpu unshare"
    fi
    for calls in $each $most; do
        rm -f t.*
        # shellcheck disable=SC2086
        timeout 60 "$built/process/sandbox_target" refuse $calls env LD_PRELOAD="$tracing" \
            TCMALLOC_TRACE_OUTPUT=t.$suffix $program >out 2>err
        unaffected "without $calls" $?
        whole "without $calls" t.$suffix
    done
    cat >to_socket.py <<'END'
"""to_socket.py FILE COMMAND...: copies what COMMAND writes to descriptor 9, a
socket, to FILE."""
import os
import socket
import subprocess
import sys

near, far = socket.socketpair()
os.dup2(far.fileno(), 9)
far.close()
command = subprocess.Popen(sys.argv[2:], pass_fds=[9])
os.close(9)
with near, near.makefile("rb") as stream, open(sys.argv[1], "wb") as f:
    f.write(stream.read())
sys.exit(command.wait())
END
    rm -f t.*
    # shellcheck disable=SC2086
    timeout 60 python3 to_socket.py t.$suffix \
        "$built/process/sandbox_target" refuse close_range,unshare \
        env LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT=/dev/fd/9 $program >out 2>err
    unaffected "to a socket, with a shared table" $?
    whole "to a socket, with a shared table" t.$suffix
else
    skip "filters" "the kernel refuses them"
fi

# The rest needs namespaces of its own.
if ! have unshare || ! unshare -Urm true 2>/dev/null; then
    skip "namespaces" "unshare -Urm is refused"
    tap_end
fi

# apart OPTIONS SCRIPT: in namespaces, with the program as "$@".
apart() {
    apart_options=$1
    apart_script=$2
    # shellcheck disable=SC2086
    timeout 60 unshare -Urm $apart_options sh -c "$apart_script" sh \
        env LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT="$trace" $program >out \
        2>err
}

trace=$work/a.$suffix
apart "" '"$@"'
unaffected "another user namespace" $?
whole "another user namespace" "$trace"

if unshare -Urmpf true 2>/dev/null; then
    trace=$work/b.%p
    apart -pf '"$@"'
    unaffected "another pid namespace" $?
    whole "another pid namespace" "$(find . -name 'b.[0-9]*' ! -name '*.spool' |
        head -n 1)"
    # Two containers whose processes have the same id, and one folder.
    apart -pf '"$@"'
    is "same process id: a name of its own" \
        "$(find . -name 'b.[0-9]*' | wc -l)" 2
    whole "same process id" "$(find . -name 'b.[0-9]*.1')"
else
    skip "another pid namespace" "unshare -p is refused"
fi

trace=$work/c.$suffix
apart "" 'mount -t tmpfs none /proc && exec "$@"'
unaffected "no /proc" $?
whole "no /proc" "$trace"

# The folder in which a program was started stays its own to leave.
mkdir mounted
timeout 60 unshare -Urm sh -c 'mount -t tmpfs none mounted && cd mounted && exec "$@"' sh \
    env LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT="$work/m.$suffix" \
    sh -c 'cd / && umount "$1"' sh "$work/mounted" >out 2>err
is "the first folder can be unmounted" "$? $(cat err)" "0 "

# Read-only but for a folder.
mkdir open
trace=$work/open/d.$suffix
if unshare -Urm sh -c 'mount --bind . . && mount -o remount,bind,ro . &&
    ! touch "$1/probe" 2>/dev/null' sh "$PWD" 2>/dev/null; then
    apart "" "mount -t tmpfs none '$work/open' &&
        mount --rbind '$work' '$work' && cd '$work' &&
        mount -o remount,bind,ro '$work' && \"\$@\" &&
        '$postprocess' --quiet --json /dev/stderr '$trace' >/dev/null"
    unaffected "read-only but for a folder" $?
    check "read-only but for a folder: whole" grep -q '"complete": true' err
    trace=$work/e.$suffix
    apart "" "mount --bind '$work' '$work' && cd '$work' &&
        mount -o remount,bind,ro '$work' && \"\$@\""
    unaffected "read-only" $?
    check "read-only: one line on stderr" one_line err
    check "read-only: it names the file" grep -q "cannot record to $trace" err
else
    skip "read-only" "remounting is refused"
fi

# A folder with next to no room, for the trace and its spool.
trace=$work/open/f.$suffix
for kib in 64 600; do
    apart "" "mount -t tmpfs -o size=${kib}k none '$work/open' &&
        { \"\$@\"; echo \$? >'$work/status'; } &&
        { '$postprocess' --quiet --json '$work/json' '$trace' '$work/p' \
            2>/dev/null
        echo \$? >'$work/read'; }"
    unaffected "$kib KiB of room" "$(cat status)"
    check "$kib KiB of room: one line on stderr" one_line err
    is "$kib KiB of room: what is there can be read" "$(cat read)" 3
    is "$kib KiB of room: known to be incomplete" "$(json json complete)" false
done

# A tiny /dev/shm is no matter.
trace=$work/g.$suffix
apart "" 'mount -t tmpfs -o size=4k none /dev/shm && exec "$@"'
unaffected "tiny /dev/shm" $?
whole "tiny /dev/shm" "$trace"
tap_end
