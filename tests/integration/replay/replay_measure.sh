#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# That replay measures the allocator and not itself: the calls it makes are those
# of the trace, its own memory is left out, caches are switched by the rules.
. "$top_srcdir/tests/lib/harness.sh"

if [ "${TCM_SANITIZED:-no}" != no ]; then
    skip_all "the sanitizers' runtime replaces malloc"
fi
make=$top_builddir/tests/unit/tools/replay_make
probe=$work/probe.so
# shellcheck disable=SC2086
if ! $CC -O2 -fPIC -shared -fno-builtin -o "$probe" \
    "$top_srcdir/tests/unit/tools/replay_probe.c" 2>"$err"; then
    skip_all "no shared library can be made here"
fi

# probed TRACE OPTIONS...: replay under the probe; its account is in `account`.
probed() {
    trace=$1
    shift
    rm -f account
    REPLAY_PROBE_OUT=$work/account LD_PRELOAD=$probe "$replay" \
        --json j "$@" "$trace" >"$out" 2>"$err"
    status=$?
    [ $status -eq 0 ] && [ -s account ] && return
    show_last "$status" "replay $* $trace"
    fail "replay under the probe"
    tap_end
}
key() {
    sed -n "s/^$2=//p" "$1"
}

# counter OBJECT NAME: of JSON file j.
counter() {
    sed -n "/\"$1\": {/,/}/s/.*\"tcmalloc.$2\": \([0-9]*\).*/\1/p" j
}

# --- Nothing but the trace's calls -------------------------------------------

"$make" pairs 1.p 100000 >1.truth || exit 99
"$make" pairs 2.p 1100000 >2.truth || exit 99
probed 1.p --threads=none
mallocs=$(key account mallocs)
frees=$(key account frees)
probed 2.p --threads=none
is "500,000 more mallocs in the trace are 500,000 more calls" \
    "$(($(key account mallocs) - mallocs))" 500000
is "the same with frees" "$(($(key account frees) - frees))" 500000
is "and the replayer calls nothing else" \
    "$(key account callocs),$(key account reallocs),$(key account aligned)" \
    0,0,0
is "it makes no call before the start and after the end" \
    "$mallocs,$frees" "$(key 1.truth allocs),$(key 1.truth allocs)"

"$make" calls 3.p 20000 >3.truth || exit 99
probed 3.p --threads=none
[ "$(key account news)" -gt 100 ] && [ "$(key account deletes)" -gt 100 ] &&
    [ "$(key account callocs)" -gt 100 ] &&
    [ "$(key account reallocs)" -gt 100 ] &&
    [ "$(key account aligned)" -gt 100 ]
result "each kind of call reaches the allocator's own" $?
[ "$(key account sized_deletes)" -gt 10 ]
result "sized deletes too" $?
is "and these get the block's own size" "$(key account wrong_sizes)" 0

# --- Thread caches ------------------------------------------------------------

"$make" threads t.p 100000 >t.truth || exit 99
probed t.p --threads=switch
is "caches are switched by the rules" "$(key account violations)" 0
is "every thread has a cache of its own, and the replayer needs none" \
    "$(key account used)" "$(key t.truth threads)"
# 40 threads were started, 8 are left (and the replayer's is attached)
is "caches of ended threads are destroyed" "$(key account destroyed)" 32
[ "$(key account releases)" -ge "$(key t.truth thread_switches)" ]
result "at every switch" $?
is "and that is told" "$(json j thread_cache_switching)" true
is "without a warning" "$(cat "$err")" ""
probed t.p
is "switching is the default where it can be" \
    "$(json j thread_cache_switching)" true
for value in "" 0 1; do
    NO_THREAD_CACHE_SWITCH=$value
    export NO_THREAD_CACHE_SWITCH
    probed t.p
    is "NO_THREAD_CACHE_SWITCH='$value' turns it off" \
        "$(key account releases),$(json j thread_cache_switching)" 0,false
    like "which is warned of" "$err" \
        "$(key t.truth threads) threads were recorded, and all ran on one thread"
    like "in JSON too" j \
        "\"$(key t.truth threads) threads were recorded, and all ran on"
done
probed t.p --threads=switch
is "asked for in words it is done" "$(json j thread_cache_switching)" true
unset NO_THREAD_CACHE_SWITCH
probed t.p --threads=none
is "with none the caches are left alone" \
    "$(key account releases),$(key account sets)" 0,0
LD_PRELOAD='' fails_with "switching asked of an allocator that cannot" 1 \
    "$replay" --threads=switch t.p
is "is told in one line" "$(wc -l <"$err" | tr -d ' ')" 1

# --- Counters -----------------------------------------------------------------

probed 1.p --threads=none
like "the allocator's counters are told, from start to end" "$out" \
    "tcmalloc.central_fetches +50,00[0-9] "
like "beside those recorded" "$out" \
    "tcmalloc.central_fetches +50,00[0-9] +50,000 +[+]0.0[0-9] %\$"
is "one thread: no warning" "$(cat "$err")" ""
is "in JSON too" "$(counter recorded_counters central_fetches)" \
    "$(key 1.truth allocs)"
is "of every counter it has" "$(counter allocator_counters spans_made)" 50000
is "only what it has at both ends" "$(counter allocator_counters spans_freed)" \
    ""
is "which is asked for twice" "$(key account readings)" 2
like "its version is told" j '"allocator": "probe.so \(probe 4.5.6\)"'

probed 3.p --threads=none
is "malloc_trim is called as recorded" "$(key account trims)" \
    "$(key 3.truth recorded_trims)"
[ "$(key account last_pad)" -gt 1000000000 ]
result "with its pad" $?
is "and that is told" "$(json j trims)" "$(key 3.truth recorded_trims)"

# --- Memory -------------------------------------------------------------------

# A million blocks of 100 bytes on average: 112 in the C library, and 8 for each
# in replay's table, which must not count.
"$make" pairs m.p 2000000 >m.truth || exit 99
unset LD_PRELOAD
check "replay of a million live blocks" "$replay" --json j m.p
live=$(json j peak_live_bytes)
grown=$(($(json j peak_rss_bytes) - $(json j start_rss_bytes)))
note "live $live, resident memory grew by $grown"
[ "$grown" -gt $((live + 1000000 * 8)) ] &&
    [ "$grown" -lt $((live + 1000000 * 18)) ]
result "the growth of resident memory is the allocator's alone" $?
[ "$(json j replayer_rss_bytes)" -gt 8000000 ]
result "the replayer's own share is told apart" $?

# Each page is a fault, unless the system gives more at once.
if [ "$(json j end_huge_bytes)" = 0 ]; then
    at_least "the pages came by faults" \
        $((4096 * $(json j minor_faults))) \
        $(($(json j end_rss_bytes) - $(json j start_rss_bytes)))
else
    skip "the pages came by faults" "there are huge pages"
fi
[ $(($(json j user_ns) + $(json j system_ns))) -gt 0 ]
result "processor time by the system's account" $?
like "in the report" "$out" \
    '^system use +user .*, system .*, [0-9,]+ faults, [0-9,]+ switches$'
average=$(($(json j avg_rss_bytes) - $(json j start_rss_bytes)))
note "on average it grew by $average"
[ "$average" -gt 0 ] && [ "$average" -lt "$grown" ]
result "the average lies between start and peak" $?
# The look at the peak lies within a sixteenth of it.
at=$(($(json j rss_at_peak_live_bytes) - $(json j start_rss_bytes)))
[ "$at" -gt $((grown - grown / 8)) ] && [ "$at" -le "$grown" ]
result "memory at the peak of live bytes" $?
ratio=$(json j rss_over_live)
note "resident bytes by live ones $ratio"
awk "BEGIN { exit !($ratio > 1.05 && $ratio < 1.4) }"
result "by live bytes there" $?
waste=$(json j peak_waste_bytes)
awk "BEGIN { at = $(json j rss_at_peak_live_bytes)
    d = $waste - (at - at / $ratio); exit !(-2 < d && d < 2) }"
result "less these" $?
like "in the report, too" "$out" '^at peak of live +[0-9.]+ MiB, 1\.[0-9]+ by live'

# The processor counts here, or it is said why not.
if [ "$(json j counters)" = missing ]; then
    like "no counters, and why" j '"counters_unavailable": "[^"]'
    is "the report is silent" "$(grep -c '^counted' "$out")" 0
else
    is "counters" "$(json j counters_unavailable)" missing
    like "in the report, too" "$out" '^counted +[1-9]'
    instructions=$(sed -n 's/^    "instructions": \([0-9]*\),*$/\1/p' j)
    # A call is some instructions, at the least.
    [ -z "$instructions" ] || at_least "instructions" "$instructions" \
        $((2 * $(json j ops)))
fi

# One block of 64 MiB that comes and goes is seen at its peak. The kernel's own
# count of the peak may lag behind by some pages a processor.
"$make" blob b.p 64 >b.truth || exit 99
check "a block of 64 MiB" "$replay" --json j b.p
grown=$(($(json j peak_rss_bytes) - $(json j start_rss_bytes)))
note "peak grew by $grown"
[ $grown -gt 66000000 ] && [ $grown -lt 70000000 ]
result "is seen at the peak" $?
for mode in none real; do
    check "the same ($mode)" "$replay" --threads=$mode --json j b.p
    at=$(($(json j rss_at_peak_live_bytes) - $(json j start_rss_bytes)))
    note "where most bytes are live it grew by $at"
    [ $at -gt 66000000 ] && [ $at -lt 70000000 ]
    result "is seen where most bytes are live ($mode)" $?
    [ "$(json j peak_rss_bytes)" -ge "$(json j rss_at_peak_live_bytes)" ] &&
        [ "$(json j peak_rss_bytes)" -ge "$(json j avg_rss_bytes)" ]
    result "no figure is above the peak ($mode)" $?
done
# The tunable has the C library ask for huge pages.
GLIBC_TUNABLES=glibc.malloc.hugetlb=1 "$replay" --json j b.p >"$out" 2>"$err"
huge=$(json j huge_bytes)
if [ "${huge:-0}" -gt 0 ]; then
    [ "$huge" -gt 33000000 ] && [ "$huge" -le $((64 << 20)) ]
    result "huge pages are told, where most bytes are live" $?
else
    skip "huge pages are told" "the system gave none"
fi
check "a block of 64 MiB" "$replay" --json j b.p
left=$(($(json j end_rss_bytes) - $(json j start_rss_bytes)))
note "end grew by $left"
[ $left -lt 3000000 ]
result "and not at the end" $?
check "the same, not touched" "$replay" --touch=none --json j b.p
grown=$(($(json j peak_rss_bytes) - $(json j start_rss_bytes)))
note "peak grew by $grown"
[ $grown -lt 3000000 ]
result "takes no memory" $?
check "the same, a byte a page" "$replay" --touch=page --json j b.p
grown=$(($(json j peak_rss_bytes) - $(json j start_rss_bytes)))
[ $grown -gt 66000000 ] && [ $grown -lt 70000000 ]
result "takes it all" $?

wall=$(json j wall_ns)
cpu=$(json j cpu_ns)
[ "$wall" -gt 0 ] && [ "$cpu" -gt 0 ]
result "times are told" $?

# The replayer's own share: some of the processor time, and not all of it, also
# of a trace that has fewer batches than are looked at, and of far more. It
# disturbs nothing that is counted (what the other checks here hold).
for n in 100 400000; do
    "$make" python s.p $n >s.truth || exit 99
    check "$n operations and more" "$replay" --json j s.p
    cp "$out" s.txt
    own=$(json j replayer_cpu_ns)
    note "own share $own of $(json j cpu_ns) ns"
    [ "${own:-0}" -gt 0 ]
    result "the replayer's own share is told" $?
    like "beside the processor time" s.txt \
        "^processor time .*; replay's own share [0-9.]* ns\$"
    is "the run is as ever" "$(json j ops) $(json j end_live_objects)" \
        "$(sed -n 's/^ops=//p' s.truth) \
$(sed -n 's/^end_live_objects=//p' s.truth)"
done
[ "$own" -lt "$(json j cpu_ns)" ]
result "it is less than all" $?
is "a made trace has no recorded time" "$(json j malloc_percent)" missing

# --- Beside the recorded run --------------------------------------------------

# deviations: those in j, by name, without signs.
deviations() {
    awk -F'[":,]+' '/^  "fidelity"/ { on = 1; next }
        on && /^  }/ { on = 0 }
        on && /^    "/ { name = $2 }
        on && /"deviation_percent"/ { sub(/^ *-?/, "", $3); print name, $3 }' j
}
# One thread: the library gets the same calls. It runs for some samples.
cat >walk.c <<'END'
#include <stdlib.h>
#include <string.h>
#include <time.h>
int main(void) {
    static void *held[50000];
    unsigned x = 1;
    struct timespec now, start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        for (unsigned i = 0; i < 20000; i++) {
            x = x * 1664525u + 1013904223u;
            void **h = &held[(x >> 8) % 50000];
            free(*h);
            *h = memset(malloc(16 + (x >> 12) % 3000), 1, 16);
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 +
                 (now.tv_nsec - start.tv_nsec) / 1000000 < 450);
    return 0;
}
END
if [ -x "$minimal" ] && $CC -O1 -fno-builtin -o walk walk.c 2>"$err" &&
    record walk.t ./walk >/dev/null 2>&1; then
    "$postprocess" -q walk.t walk.p
    for mode in switch none; do
        LD_PRELOAD=$minimal check "a program of one thread ($mode)" \
            "$replay" --threads=$mode --json j --timeline walk.csv walk.p
        deviations >dev
        at_least "counters beside the recorded ones ($mode)" \
            "$(wc -l <dev | tr -d ' ')" 12
        awk '$1 !~ /_heap_bytes$/ && $2 != 0' dev >off
        is "none deviates ($mode)" "$(cat off)" ""
        like "the heap where it was sampled ($mode)" dev '^average_heap_bytes '
        like "in the report ($mode)" "$out" '^deviations above 2 %: none$'
    done
    like "memory of both in the course of time" walk.csv \
        ',recorded_rss_bytes,recorded_heap_bytes,heap_bytes,'
    rows=$(awk -F, 'NR > 1 && $9 != "" { n++
            d = $10 > $11 ? $10 - $11 : $11 - $10; if (d > $10 / 4) bad++ }
        END { print n + 0, bad + 0 }' walk.csv)
    note "rows with both, far from each other: $rows"
    at_least "where it was sampled" "${rows% *}" 3
    is "they are near each other" "${rows#* }" 0
    TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=524288 LD_PRELOAD=$minimal \
        check "with another setting" "$replay" --json j walk.p
    like "larger deviations are named" "$out" \
        '^deviations above 2 %: .*tcmalloc.thread_cache_overflows'
    "$replay" --json j walk.p >"$out" 2>"$err"
    is "under another allocator nothing is compared" \
        "$(grep -c '^deviations' "$out") $(grep -c '"fidelity"' j)" "0 0"
    "$postprocess" -q --to 100ms walk.t part.p
    LD_PRELOAD=$minimal "$replay" --json j part.p >"$out" 2>"$err"
    is "nor is a part of a recording" "$(grep -c '^deviations' "$out")" 0
else
    skip "counters beside the recorded ones" "no recording here"
fi

# Share of malloc in the recorded run.
if record work.t "$top_builddir/tests/integration/recorder/exchange" 2 20000 \
    >/dev/null 2>&1; then
    "$postprocess" -q work.t work.p
    check "a recording" "$replay" --json j work.p
    is "another allocator is no part of the recorded run" \
        "$(json j malloc_percent)" missing
    like "whose time is told" "$out" '^recorded run +[0-9.]+ .* of processor time$'
    check "under this library" env LD_PRELOAD="$minimal" "$replay" --json j work.p
    like "malloc's share is told" "$out" \
        '^malloc took +about [0-9.]+ % of the recorded run \(.* of processor time\)$'
    recorded=$(json j recorded_cpu_ns)
    [ "${recorded:-0}" -gt 0 ]
    result "with the processor time of the recorded run" $?
    check "twice" "$replay" --json j work.p work.p
    is "two traces: the sum" "$(json j recorded_cpu_ns)" $((2 * recorded))
    "$postprocess" -q --to 1us work.t part.p
    check "a part of it" "$replay" --json j part.p
    is "says nothing of the whole" "$(json j malloc_percent)" missing
    check "a part and the whole" "$replay" --json j part.p work.p
    is "nor do both" "$(json j recorded_cpu_ns)" missing
    "$postprocess" -q --strip work.t strip.p
    check "all of it, stripped" "$replay" --json j strip.p
    is "has it" "$(json j recorded_cpu_ns)" "$recorded"
else
    skip "malloc's share of the recorded run" "no recording here"
fi
# --- Over all calls -----------------------------------------------------------

check "latency" "$replay" --latency=1/1 --json j 1.p
quantile=$(json j p999_ns)
note "p99.9 of all calls $quantile ns"
awk "BEGIN { exit !(${quantile:-0} > 0) }"
result "of all kinds of call together" $?
like "in the report, too" "$out" '^all +100,000 '

# A terminal has 80 columns.
for mode in switch none real; do
    [ $mode = switch ] && [ ! -x "$minimal" ] && continue
    LD_PRELOAD=$([ -x "$minimal" ] && echo "$minimal") "$replay" --latency \
        --threads=$mode t.p >"$out" 2>"$err"
    is "no line is longer than a terminal's ($mode)" \
        "$(cat "$out" "$err" | awk 'length($0) > 80')" ""
done

# --- In the course of time ----------------------------------------------------

# Sums over the rows of a CSV file of rows that are not as they should be.
sound() {
    awk -F, 'NR == 1 { n = NF; next }
        NF != n || $1 < op || $2 < ns { bad++ }
        { op = $1; ns = $2 }
        END { print bad + 0, NR - 1, op }' "$1"
}
ops=$("$replay" -q --threads=none --json j 2.p 2>"$err" && json j ops)
for mode in none real; do
    check "a timeline ($mode)" "$replay" -q --threads=$mode \
        --timeline t.csv --timeline-step=100000 2.p
    sound t.csv >sound
    read -r bad rows last <sound
    is "its rows are whole and in order ($mode)" "$bad" 0
    [ "$rows" -ge 7 ] && [ "$rows" -le 13 ]
    result "as many as were asked for ($mode)" $?
    is "live bytes at the end are the trace's ($mode)" \
        "$(tail -n 1 t.csv | cut -d, -f4)" \
        "$("$replay" -q --threads=none --json j 2.p && [ "$last" = "$ops" ] &&
            json j end_live_bytes)"
done
check "as JSON" "$replay" -q --timeline t.json 2.p
if [ -n "$python" ]; then
    check "which is JSON" "$python" -c 'import json, sys
rows = json.load(open("t.json"))["timeline"]
sys.exit(len(rows) < 10 or "rss_bytes" not in rows[0])'
fi
if [ -x "$minimal" ]; then
    LD_PRELOAD=$minimal "$replay" -q --timeline t.csv 2.p
    like "under our library: where bytes are" t.csv ",thread_cache_bytes,"
fi
"$replay" --json j --timeline /dev/full 2.p >"$out" 2>"$err"
is "a full disk: status" $? 1
like "is told" "$err" "/dev/full: No space left"
like "and loses no report" "$out" "^wall time "
is "nor JSON" "$(json j ops)" "$ops"

tap_end
