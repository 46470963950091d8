#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# That replay measures the allocator and not itself: the calls it makes are those
# of the trace, its own memory is left out, caches are switched by the rules.
# shellcheck source=../lib/preload.sh disable=SC1091,SC2154
. "$top_srcdir/tests/lib/preload.sh"

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
    show_last "replay $* $trace"
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
is "$(($(key account mallocs) - mallocs))" 500000 \
    "500,000 more mallocs in the trace are 500,000 more calls"
is "$(($(key account frees) - frees))" 500000 "the same with frees"
is "$(key account callocs),$(key account reallocs),$(key account aligned)" \
    0,0,0 "and the replayer calls nothing else"
[ "$mallocs" -lt 50100 ]
result $? "it makes few calls before the start and after the end"

"$make" calls 3.p 20000 >3.truth || exit 99
probed 3.p --threads=none
[ "$(key account news)" -gt 100 ] && [ "$(key account deletes)" -gt 100 ] &&
    [ "$(key account callocs)" -gt 100 ] &&
    [ "$(key account reallocs)" -gt 100 ] &&
    [ "$(key account aligned)" -gt 100 ]
result $? "each kind of call reaches the allocator's own"
[ "$(key account sized_deletes)" -gt 10 ]
result $? "sized deletes too"
is "$(key account wrong_sizes)" 0 "and these get the block's own size"

# --- Thread caches ------------------------------------------------------------

"$make" threads t.p 100000 >t.truth || exit 99
probed t.p --threads=switch
is "$(key account violations)" 0 "caches are switched by the rules"
is "$(key account used)" "$(($(key t.truth threads) + 1))" \
    "every thread has a cache of its own, and the replayer one"
# 40 threads were started, 8 are left (and the replayer's is attached)
is "$(key account destroyed)" 32 "caches of ended threads are destroyed"
[ "$(key account releases)" -ge "$(key t.truth thread_switches)" ]
result $? "at every switch"
is "$(json j thread_cache_switching)" true "and that is told"
is "$(cat "$err")" "" "without a warning"
probed t.p
is "$(json j thread_cache_switching)" true \
    "switching is the default where it can be"
for value in "" 0 1; do
    NO_THREAD_CACHE_SWITCH=$value
    export NO_THREAD_CACHE_SWITCH
    probed t.p
    is "$(key account releases),$(json j thread_cache_switching)" 0,false \
        "NO_THREAD_CACHE_SWITCH='$value' turns it off"
    like "$err" "$(key t.truth threads) threads were recorded, and all ran on one thread" \
        "which is warned of"
    like j "\"$(key t.truth threads) threads were recorded, and all ran on" \
        "in JSON too"
done
probed t.p --threads=switch
is "$(json j thread_cache_switching)" true "asked for in words it is done"
unset NO_THREAD_CACHE_SWITCH
probed t.p --threads=none
is "$(key account releases),$(key account sets)" 0,0 \
    "with none the caches are left alone"
LD_PRELOAD='' fails_with 1 "switching asked of an allocator that cannot" \
    "$replay" --threads=switch t.p
is "$(wc -l <"$err" | tr -d ' ')" 1 "is told in one line"

# --- Counters -----------------------------------------------------------------

probed 1.p --threads=none
like "$out" "tcmalloc.central_fetches +50,00[0-9] " \
    "the allocator's counters are told, from start to end"
like "$out" "tcmalloc.central_fetches +50,00[0-9] +50,000\$" \
    "beside those recorded"
is "$(cat "$err")" "" "one thread: no warning"
is "$(counter recorded_counters central_fetches)" "$(key 1.truth allocs)" \
    "in JSON too"
is "$(counter allocator_counters spans_made)" 50000 \
    "of every counter it has"
is "$(counter allocator_counters spans_freed)" "" \
    "only what it has at both ends"
is "$(key account readings)" 2 "which is asked for twice"
like j '"allocator": "probe.so \(probe 4.5.6\)"' "its version is told"

probed 3.p --threads=none
is "$(key account trims)" "$(key 3.truth recorded_trims)" \
    "malloc_trim is called as recorded"
[ "$(key account last_pad)" -gt 1000000000 ]
result $? "with its pad"
is "$(json j trims)" "$(key 3.truth recorded_trims)" "and that is told"

# --- Memory -------------------------------------------------------------------

# A million blocks of 100 bytes on average: 112 in the C library, and 8 for each
# in replay's table, which must not count.
"$make" pairs m.p 2000000 >m.truth || exit 99
unset LD_PRELOAD
ok "replay of a million live blocks" "$replay" --json j m.p
live=$(json j peak_live_bytes)
grown=$(($(json j peak_rss_bytes) - $(json j start_rss_bytes)))
diag "live $live, resident memory grew by $grown"
[ "$grown" -gt $((live + 1000000 * 8)) ] &&
    [ "$grown" -lt $((live + 1000000 * 18)) ]
result $? "the growth of resident memory is the allocator's alone"
[ "$(json j replayer_rss_bytes)" -gt 8000000 ]
result $? "the replayer's own share is told apart"

# One block of 64 MiB that comes and goes is seen at its peak. The kernel's own
# count of the peak may lag behind by some pages a processor.
"$make" blob b.p 64 >b.truth || exit 99
ok "a block of 64 MiB" "$replay" --json j b.p
grown=$(($(json j peak_rss_bytes) - $(json j start_rss_bytes)))
diag "peak grew by $grown"
[ $grown -gt 66000000 ] && [ $grown -lt 70000000 ]
result $? "is seen at the peak"
left=$(($(json j end_rss_bytes) - $(json j start_rss_bytes)))
diag "end grew by $left"
[ $left -lt 3000000 ]
result $? "and not at the end"
ok "the same, not touched" "$replay" --touch=none --json j b.p
grown=$(($(json j peak_rss_bytes) - $(json j start_rss_bytes)))
diag "peak grew by $grown"
[ $grown -lt 3000000 ]
result $? "takes no memory"
ok "the same, a byte a page" "$replay" --touch=page --json j b.p
grown=$(($(json j peak_rss_bytes) - $(json j start_rss_bytes)))
[ $grown -gt 66000000 ] && [ $grown -lt 70000000 ]
result $? "takes it all"

wall=$(json j wall_ns)
cpu=$(json j cpu_ns)
[ "$wall" -gt 0 ] && [ "$cpu" -gt 0 ]
result $? "times are told"

# The replayer's own share: some of the processor time, and not all of it, also
# of a trace that has fewer batches than are looked at, and of far more. It
# disturbs nothing that is counted (what the other checks here hold).
for n in 100 400000; do
    "$make" python s.p $n >s.truth || exit 99
    ok "$n operations and more" "$replay" --json j s.p
    cp "$out" s.txt
    own=$(json j replayer_cpu_ns)
    diag "own share $own of $(json j cpu_ns) ns"
    [ "${own:-0}" -gt 0 ]
    result $? "the replayer's own share is told"
    like s.txt "^processor time .*; replay's own share [0-9.]* ns\$" \
        "beside the processor time"
    is "$(json j ops) $(json j end_live_objects)" \
        "$(sed -n 's/^ops=//p' s.truth) \
$(sed -n 's/^end_live_objects=//p' s.truth)" "the run is as ever"
done
[ "$own" -lt "$(json j cpu_ns)" ]
result $? "it is less than all"
is "$(json j malloc_percent)" "" "a made trace has no recorded time"

# What malloc took of the recorded run.
if record work.t "$top_builddir/tests/integration/exchange" 2 20000 \
    >/dev/null 2>&1; then
    "$postprocess" -q work.t work.p
    ok "a recording" "$replay" --json j work.p
    like "$out" \
        '^malloc took +about [0-9.]+ % of the recorded run \(.* of processor time\)$' \
        "malloc's share is told"
    recorded=$(json j recorded_cpu_ns)
    [ "${recorded:-0}" -gt 0 ]
    result $? "with the processor time of the recorded run"
    ok "twice" "$replay" --json j work.p work.p
    is "$(json j recorded_cpu_ns)" $((2 * recorded)) "two traces: the sum"
    "$postprocess" -q --to 1us work.t part.p
    ok "a part of it" "$replay" --json j part.p
    is "$(json j malloc_percent)" "" "says nothing of the whole"
    ok "a part and the whole" "$replay" --json j part.p work.p
    is "$(json j recorded_cpu_ns)" "" "nor do both"
    "$postprocess" -q --strip work.t strip.p
    ok "all of it, stripped" "$replay" --json j strip.p
    is "$(json j recorded_cpu_ns)" "$recorded" "has it"
else
    skip "malloc's share of the recorded run" "no recording here"
fi
tap_end
