#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The malloc family, C++ operators, fork, exit, threads and the cache switch,
# under both libraries, recording and not.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need "$lib"

# under HOW PROGRAM ARGS...: each of the program's checks becomes one of ours.
under() {
    under_how=$1
    under_program=$2
    shift 2
    [ -x "$built/$under_program" ] || {
        skip "$under_program $under_how" "not built"
        return
    }
    case $under_how in
    untraced) set -- env LD_PRELOAD="$lib" "$built/$under_program" "$@" ;;
    quiet) set -- env LD_PRELOAD="$tlib" "$built/$under_program" "$@" ;;
    *) set -- env LD_PRELOAD="$tlib" \
        TCMALLOC_TRACE_OUTPUT="$work/$under_program.$suffix" \
        "$built/$under_program" "$@" ;;
    esac
    timeout 200 "$@" >"$work/tap" 2>"$work/err"
    under_status=$?
    while read -r line; do
        case $line in
        "ok "*"# SKIP"*) skip "$under_program $under_how" "${line#*# SKIP }" ;;
        "ok "*) ok "$under_program $under_how: ${line#* - }" ;;
        "not ok "*) not_ok "$under_program $under_how: ${line#* - }" ;;
        "# "*) echo "$line" ;;
        esac
    done <"$work/tap"
    if ! grep -q '^1\.\.' "$work/tap" || [ $under_status -ge 2 ]; then
        not_ok "$under_program $under_how: runs to its end ($under_status)"
        diag <"$work/err"
    fi
}

threads=3000
[ "${LONG:-0}" = 1 ] && threads=100000
for how in untraced quiet recording; do
    [ $how = untraced ] || [ -e "$tlib" ] || {
        skip "$how" "no tracing library"
        continue
    }
    under $how malloc_abi
    under $how cxx_operators
    under $how fork_exit
    under $how thread_exit $threads
    under $how cache_switch
done

# What was recorded on the way is whole.
if [ -e "$tlib" ] && [ -x "$post" ] && [ -n "$python" ]; then
    for p in malloc_abi cxx_operators fork_exit thread_exit cache_switch; do
        if "$post" --quiet --json "$work/json" "$work/$p.$suffix" \
            "$work/p" 2>"$work/err"; then
            is "recording of $p: whole" "$(json "$work/json" complete \
                clean_end unmatched_frees order_conflicts)" "true true 0 0"
        else
            not_ok "recording of $p: postprocess"
            diag <"$work/err"
        fi
    done
else
    skip "recordings" "no tools"
fi
done_testing
