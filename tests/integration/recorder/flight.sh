#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The flight recorder: the last of a recording is kept, in parts.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/recorder/control_target" "$postprocess" "$malloc_trace"
need_python
knows TCMALLOC_TRACE_KEEP_MB || skip_all "not offered"
target=$built/recorder/control_target
cd "$work" || exit 99

keep() { # MB OUT CMD...
    keep_mb=$1
    shift
    TCMALLOC_TRACE_KEEP_MB=$keep_mb record "$@"
}
# Nothing of what is kept is missing.
whole() { # NAME FILE CLEAN_END
    "$postprocess" --quiet --json json "$2" p 2>err
    is "$1: exit status" $? 0
    diag <err
    is "$1: whole" "$(json json complete clean_end unmatched_frees \
        order_conflicts dropped_events)" "true $3 0 0 0"
}
parts() { find . -name "$1.k[0-7]" | wc -l; }
size() { cat "$1".k* | wc -c; }

for how in 0 1; do
    rm -f t*
    TCMALLOC_TRACE_UNCOMPRESSED=$how keep 2 t "$target" limit 12 2>err
    is "kept $how: exit status" $? 51
    is "kept $how: silent" "$(cat err)" ""
    at_least "kept $how: parts" "$(parts t)" 2
    is "kept $how: nothing else" "$(find . -name 't*' ! -name 't.k?')" ""
    at_least "kept $how: not more than asked for" 2200000 "$(size t)"
    at_least "kept $how: not much less" "$(size t)" 700000
    whole "kept $how" t true
    events=$(json json events)
    at_least "kept $how: events" "$events" 100000
    at_least "kept $how: others are gone" 11000000 "$events"
    is "kept $how: and it is known" "$(json json begins_late)" true
    at_least "kept $how: frees of what is gone" "$(json json untraced_frees)" 1000
    "$replay" --json r.json p >out 2>err
    is "kept $how: replay agrees" \
        "$(json r.json ops peak_live_bytes end_live_objects)" \
        "$(json json ops peak_live_bytes live_at_end)"
    is "kept $how: replay knows it as a part" \
        "$(json r.json is_part recorded_counters)" "true {}"
    check "kept $how: no column for the whole run's counters" \
        [ "$(grep -c ' recorded$' out)" = 0 ]
    part=$(find . -name 't.k?' | sort | head -n 1)
    cp json whole.json
    whole "kept $how: by the name of a part" "$part" true
    is "kept $how: the same" "$(json json events raw_bytes)" \
        "$(json whole.json events raw_bytes)"
    "$malloc_trace" info --json i.json t >out 2>err
    is "kept $how: info" $? 0
    diag <err
    is "kept $how: events, with frees of what is gone, for both" \
        "$("$python" -c 'import json
i, p = json.load(open("i.json"))["files"][0], json.load(open("json"))
print(i["events"] - i["older_frees"] - p["events"],
      i["older_frees"] - p["untraced_frees"])')" "0 0"
    check "kept $how: and it is said" \
        grep -q '^  events .*; [0-9,]* of older blocks$' out
    is "kept $how: it lasted as long for both" \
        "$(sed -n 's/^  lasted *\([^,]*\).*/\1/p' out)" \
        "$("$postprocess" t p 2>&1 | sed -n '1s/.* in //p')"
done

# The kept parts stay below the size that was asked for, whatever one grows to,
# and a limit does not end the recording.
for mb in 1 2 4; do
    rm -f t*
    TCMALLOC_TRACE_LIMIT_MB=1 keep $mb t "$target" limit 16
    is "$mb MiB: exit status" $? 51
    at_least "$mb MiB: not more is kept" $((mb * 1048576 * 5 / 4)) "$(size t)"
    whole "$mb MiB, with a limit" t true
    is "$mb MiB: the end of the program ended it" \
        "$("$malloc_trace" info t 2>&1 | grep -c 'reached the size\|at its size')" 0
    at_least "$mb MiB: much was recorded" "$(json json untraced_frees)" 1000
done

# A part that is missing, one that is damaged.
TCMALLOC_TRACE_UNCOMPRESSED=1 keep 8 u "$target" limit 12
at_least "parts of a larger one" "$(parts u)" 3
last=$(stat -c '%Y.%y %n' u.k? | sort | sed 's/.* //' | tail -n 1)
second=$(stat -c '%y %n' u.k? | sort | sed 's/.* //' | tail -n 2 | head -n 1)
cp "$second" saved
rm "$second"
"$postprocess" --quiet --json json u p 2>err
is "a part is missing: exit status" $? 3
is "a part is missing: not complete" "$(json json complete)" false
dd if=/dev/zero of=saved bs=1 seek=100000 count=100 conv=notrunc 2>/dev/null
cp saved "$second"
"$postprocess" --quiet --json json u p 2>err
is "a damaged part: exit status" $? 3
check "a damaged part: is named" grep -q "${second}\|u: byte\|u.k" err
[ -n "$last" ]
is "a damaged part: there is a last" $? 0

# A recording that was never too large is there from its beginning.
keep 64 v "$target" limit 1
is "all of it: one part" "$(parts v)" 1
whole "all of it" v true
is "all of it: from the beginning" "$(json json begins_late)" false
at_least "all of it: events" "$(json json events)" 900000

# Later runs: replaced, numbered, beside other files.
TCMALLOC_TRACE_UNCOMPRESSED=1 keep 1 v "$target" limit 8
whole "a later run" v true
at_least "a later run: its own" "$(json json untraced_frees)" 1000
record v "$target" limit 1
whole "a plain trace of the name" v true
is "a plain trace of the name: is read" "$(json json begins_late)" false
keep 1 v "$target" limit 1
[ ! -e v ]
is "a flight recording replaces it" $? 0
keep 1 "w.%p" "$target" limit 1
at_least "with %p" "$(find . -name 'w.*.k?' | wc -l)" 1
TCMALLOC_TRACE_START=0 keep 1 x "$target" toggle 2>err
is "two recordings of a process" "$(find . -name 'x*' | sort | tr '\n' ' ')" \
    "./x.1.k0 ./x.k0 "
mkfifo pipe
cat pipe >piped &
keep 1 pipe "$target" limit 1
wait $!
whole "a FIFO has all" piped true
is "a FIFO has all: from the beginning" "$(json json begins_late)" false

# Killed: the spool has what was not saved.
for how in 0 1; do
    rm -f k*
    LD_PRELOAD=$tracing TCMALLOC_TRACE_OUTPUT=k TCMALLOC_TRACE_KEEP_MB=1 \
        TCMALLOC_TRACE_UNCOMPRESSED=$how "$target" limit 400 2>/dev/null &
    pid=$!
    n=0
    while [ $n -lt 200 ] && [ "$(parts k)" -lt 2 ]; do
        sleep 0.05
        n=$((n + 1))
    done
    sleep 0.2
    "$postprocess" --quiet --json growing.json k p 2>err
    is "running $how: exit status" $? 3
    is "running $how: still being recorded" \
        "$(json growing.json still_being_recorded)" true
    kill -9 $pid
    wait $pid 2>/dev/null
    check "killed $how: the spool stays" test -e k.spool
    whole "killed $how" k false
    at_least "killed $how: events" "$(json json events)" 20000
done

# While there is only one part it is read as far as it was there.
LD_PRELOAD=$tracing TCMALLOC_TRACE_OUTPUT=z TCMALLOC_TRACE_KEEP_MB=4096 \
    "$target" limit 400 2>/dev/null &
pid=$!
n=0
while [ $n -lt 200 ] && [ "$(find . -name z.k0 -size +40k | wc -l)" = 0 ]; do
    sleep 0.05
    n=$((n + 1))
done
"$postprocess" --quiet --json growing.json z p 2>err
is "running, one part: exit status" $? 3
is "running, one part: still being recorded" \
    "$(json growing.json still_being_recorded)" true
at_least "running, one part: events" "$(json growing.json events)" 1000
kill -9 $pid
wait $pid 2>/dev/null
rm -f z.*

# Threads.
for how in 0 1; do
    rm -f y*
    TCMALLOC_TRACE_START=0 TCMALLOC_TRACE_UNCOMPRESSED=$how keep 1 y \
        "$target" busy 4 2>err
    is "threads $how: exit status" $? 0
    diag <err
    whole "threads $how" y true
    is "threads $how: late" "$(json json begins_late)" true
done
tap_end
