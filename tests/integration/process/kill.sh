#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kill -9 of a recording program, at any moment: trace and spool together hold
# every call that was done, none twice, none that was not begun.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/process/kill_target"
need_python

rounds=2
[ "${LONG:-0}" = 1 ] && rounds=25

# one NAME THREADS PACE WAIT FILE: records, kills after WAIT seconds, checks.
one() {
    one_name=$1
    one_file=$5
    rm -f "$work/counters"
    LD_PRELOAD=$tracing TCMALLOC_TRACE_OUTPUT=$one_file \
        "$built/process/kill_target" "$work/counters" "$2" "$3" 2>"$work/err" &
    one_pid=$!
    eventually 4 [ -s "$work/counters" ]
    sleep "$4"
    if ! kill -9 $one_pid 2>/dev/null; then
        fail "$one_name: was still running"
        diag <"$work/err"
        return
    fi
    wait $one_pid 2>/dev/null
    set --
    [ -e "$one_file" ] && set -- "$one_file"
    [ -e "$one_file.spool" ] && set -- "$@" "$one_file.spool"
    if [ $# = 0 ]; then
        fail "$one_name: leaves files"
        return
    fi
    one_done=
    if [ "$one_deep" = 1 ]; then
        if one_done=$("$python" "$here/process/kill_check.py" "$work/counters" "$@" \
            2>"$work/err"); then
            pass "$one_name: every call once ($one_done)"
        else
            fail "$one_name: every call once"
            diag <"$work/err"
        fi
    fi
    [ -x "$postprocess" ] || return
    if timeout 120 "$postprocess" --quiet --json "$work/json" "$one_file" \
        "$work/p" 2>"$work/err"; then
        is "$one_name: postprocess calls it complete, without a clean end" \
            "$(json "$work/json" complete clean_end unmatched_frees)" \
            "true false 0"
    else
        fail "$one_name: postprocess succeeds"
        { ls -l "$one_file"*; cat "$work/err"; } | diag
        return
    fi
    one_events=$(json "$work/json" events)
    if [ -n "$one_done" ]; then
        # shellcheck disable=SC2086
        set -- $one_done
        is "$one_name: postprocess has as many" "$one_events" $(($1 + $3))
    else
        # Besides the counted calls: what a thread made before its first, and
        # one begun at most.
        one_least=$(od -An -v -t u8 "$work/counters" |
            awk 'NR % 4 == 1 { s += $1 } END { printf "%.0f", s }')
        at_least "$one_name: postprocess has all that was done" \
            "$one_events" "$one_least"
        at_least "$one_name: and little more" \
            $((one_least + 200)) "$one_events"
    fi
}

for threads in 1 2 4 8; do
    i=0
    while [ $i -lt $rounds ]; do
        i=$((i + 1))
        wait=$("$python" -c "import random
print('0.%03d' % random.Random($threads * 1000 + $i).randrange(20, 150))")
        # Slow enough for the stranger's reader.
        one_deep=1
        TCMALLOC_TRACE_UNCOMPRESSED=$((i % 2))
        export TCMALLOC_TRACE_UNCOMPRESSED
        one "slow, $threads threads, $i" $threads 300 "$wait" \
            "$work/slow$threads.$i"
        # No pause between requests.
        one_deep=0
        one "fast, $threads threads, $i" $threads 0 "$wait" \
            "$work/fast$threads.$i"
        rm -f "$work"/slow* "$work"/fast*
    done
done
unset TCMALLOC_TRACE_UNCOMPRESSED

# A spool without its file is a whole trace.
one_deep=1
one "spool alone" 2 300 0.08 "$work/alone.$suffix"
if [ -x "$postprocess" ] && [ -e "$work/alone.$suffix.spool" ]; then
    "$postprocess" --quiet --json "$work/json" "$work/alone.$suffix" "$work/p1"
    all=$(json "$work/json" events)
    if [ -x "$malloc_trace" ] && [ -e "$work/alone.$suffix" ]; then
        for how in report info; do
            "$malloc_trace" $how "$work/alone.$suffix" >"$work/one" 2>"$work/err"
            "$malloc_trace" $how "$work/alone.$suffix"* >"$work/both" \
                2>>"$work/err"
            is "$how: beside its spool it counts once" \
                "$(head -n 4 "$work/both")" "$(head -n 4 "$work/one")"
        done
    fi
    rm -f "$work/alone.$suffix"
    "$postprocess" --quiet --json "$work/json2" "$work/alone.$suffix" \
        "$work/p2" \
        2>"$work/err"
    status=$?
    # Events that the saver had written and taken out of the spool are gone.
    at_least "spool alone: read under the name of the file ($status of $all)" \
        "$(json "$work/json2" events)" 1
    "$postprocess" --quiet --json "$work/json3" "$work/alone.$suffix.spool" \
        "$work/p3" 2>"$work/err"
    is "spool alone: the same under its own name" \
        "$(json "$work/json3" events)" "$(json "$work/json2" events)"
fi

# While it runs: the tools say so, and take what is there.
if [ -x "$postprocess" ]; then
    LD_PRELOAD=$tracing TCMALLOC_TRACE_OUTPUT=$work/live.$suffix \
        "$built/process/kill_target" "$work/counters" 2 300 &
    pid=$!
    sleep 0.3
    "$postprocess" --json "$work/json" "$work/live.$suffix" "$work/p" \
        2>"$work/err"
    is "a growing trace: exit status" $? 3
    check "a growing trace: says that it is still being recorded" \
        grep -q "still being recorded" "$work/err"
    at_least "a growing trace: events up to its last barrier" \
        "$(json "$work/json" events)" 100
    is "a growing trace: not complete" "$(json "$work/json" complete)" false
    kill -9 $pid
    wait $pid 2>/dev/null
fi
tap_end
