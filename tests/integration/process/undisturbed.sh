#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A recorded program sees of itself, and may do to itself, the same as without
# recording; its trace is whole, or one line says why it is not.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal" "$tracing" "$built/process/undisturbed_target" "$postprocess"
need_python
target=$built/process/undisturbed_target
mkdir "$work/run"
cd "$work/run" || exit 99

# both NAME WHAT LEAST MODE...: output and status are those of the untraced run.
# WHAT: whole, the trace is complete; cut, the recording stopped, one line says
# so, and what is there can be read; killed, the process had no time to end it.
both() {
    both_name=$1
    both_what=$2
    both_least=$3
    shift 3
    timeout -k 5 120 env LD_PRELOAD="$minimal" "$target" "$@" >../plain 2>../err
    both_status=$?
    rm -f ../t*
    record "$work/t.$suffix" "$target" "$@" >../traced 2>../err
    is "$both_name: exit status" $? $both_status
    check "$both_name: the same output" diff ../plain ../traced
    case $both_what in
    cut)
        check "$both_name: one line on stderr" one_line ../err
        both_want="3 false"
        ;;
    *)
        is "$both_name: nothing on stderr" "$(cat ../err)" ""
        both_want="0 true"
        ;;
    esac
    "$postprocess" --quiet --json ../json "$work/t.$suffix" ../p 2>../err
    is "$both_name: postprocess" "$? $(json ../json complete)" "$both_want"
    at_least "$both_name: events" "$(json ../json events)" "$both_least"
}

both "what it sees" whole 1100000 see
both "all signals" whole 500000 signals
both "blocked signals" whole 500000 blocked
both "no descriptors" whole 500000 nofile
both "no processes" whole 500000 nproc
both "small files" cut 1000 fsize
both "little address space" whole 500000 space
both "children" whole 1000000 children
both "exec from a thread" killed 500000 exec
at_least "exec from a thread: the next image has a file" \
    "$(find .. -name "t.$suffix.1" -size +0 | wc -l)" 1
both "_exit from a thread" killed 500000 exit

if [ "$(id -u)" = 0 ]; then
    mkdir ../root
    both "chroot" whole 1100000 chroot "$work/root"
    chmod 755 "$work"
    both "another user" whole 1100000 user
else
    skip "chroot, another user" "not root"
fi
tap_end
