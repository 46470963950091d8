#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The malloc family, C++ operators, fork, exit, threads and the cache switch,
# under both libraries, recording and not.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal"

threads=3000
[ "${LONG:-0}" = 1 ] && threads=100000
for how in untraced quiet recording; do
    under $how malloc_abi
    under $how malloc_names
    under $how cxx_operators
    under $how fork_exit
    under $how thread_exit $threads
    under $how cache_switch
done

# The recordings of these runs are whole.
if [ -e "$tracing" ] && [ -x "$postprocess" ] && [ -n "$python" ]; then
    for p in malloc_abi malloc_names cxx_operators fork_exit thread_exit cache_switch; do
        if "$postprocess" --quiet --json "$work/json" "$work/$p.$suffix" \
            "$work/p" 2>"$work/err"; then
            is "recording of $p: whole" "$(json "$work/json" complete \
                clean_end unmatched_frees order_conflicts)" "true true 0 0"
        else
            fail "recording of $p: postprocess"
            diag <"$work/err"
        fi
    done
else
    skip "recordings" "no tools"
fi
tap_end
