#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# CPython's own tests of threads and processes, recorded with stacks and with
# lines: each of them ends as it does without a recorder. With LONG=1 all of
# them, which takes minutes.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need_python
"$python" -c 'import test.support' 2>/dev/null ||
    skip_all "this python3 has no tests"
HOME=$work
export HOME

# tests FILE NAME...: the outcome of each test into FILE.
tests() {
    file=$1
    shift
    timeout -k 5 300 "$python" "$here/process/python_tests.py" "$file" "$@" \
        >said 2>&1 </dev/null
}

# same NAME...: what depends on the machine's load may come out differently now
# and then, with and without a recorder: then both are run once more.
same() {
    for how in stack lang; do
        for try in 1 2 3; do
            rm -rf alone recorded traces
            mkdir traces
            tests alone "$@"
            want=$?
            if [ $want = 77 ]; then
                skip "$1" "$(tail -n 1 said)"
                return
            fi
            (
                LD_PRELOAD=$tracing TCMALLOC_TRACE_SITES=$how
                TCMALLOC_TRACE_OUTPUT=$work/traces/%p.$suffix
                export LD_PRELOAD TCMALLOC_TRACE_OUTPUT TCMALLOC_TRACE_SITES
                tests recorded "$@"
            )
            got=$?
            [ -e recorded ] || : >recorded
            if [ $got = $want ] && cmp -s alone recorded; then
                break
            fi
            diff alone recorded | diag
            diag 30 <said
            # It died or hung.
            [ $got = 0 ] || break
        done
        is "$1, $how: status as without" "$got" "$want"
        check "$1, $how: the outcome of $(wc -l <alone) tests as without" \
            cmp alone recorded
        at_least "$1, $how: processes were recorded" \
            "$(find traces -name "*.$suffix" | wc -l)" 1
    done
}

same futures
same test.test_thread test.test_threading_local
same test.test_threading.ThreadTests test.test_threading.ThreadJoinOnShutdown
same processes.WithProcessesTestPool
same test.test_asyncio.test_locks test.test_asyncio.test_threads \
    test.test_asyncio.test_queues
if [ "${LONG:-0}" = 1 ]; then
    same test.test_concurrent_futures
    same test.test_threading
    same test.test_threadsignals test.test_fork1 test.test_queue
    same processes
    same test.test_asyncio.test_base_events test.test_asyncio.test_events
    same test.test_asyncio.test_tasks
    same test.test_asyncio.test_subprocess
fi
tap_end
