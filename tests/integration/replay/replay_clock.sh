#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# replay --clock=recorded: the allocator's threads and clocks see the time of
# the trace, whatever they wait with; a clock of an allocator's own is named.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$replay"
[ "${TCM_SANITIZED:-no}" = no ] ||
    skip_all "the sanitizers' runtime has functions of these names"
source=$here/replay/replay_clock.c
for kind in PROGRAM DECAY TSC KERNEL WAITS SPIN; do
    flags="-fPIC -shared"
    name=$(echo $kind | tr '[:upper:]' '[:lower:]').so
    case $kind in PROGRAM | DECAY) flags= ;; esac
    # shellcheck disable=SC2086
    $CC -O1 -D_GNU_SOURCE $flags -fno-builtin -DDO_$kind -o "$name" "$source" -pthread \
        -ldl 2>"$err" || rm -f "$name"
done
[ -e program.so ] && [ -e waits.so ] || skip_all "no program can be made here"
mv program.so program
mv decay.so decay
record t.lz4 ./program 1.5
check "a trace" test -s t.lz4

# value NAME: of what the library wrote at the end.
value() { sed -n "s/^$1 //p" told; }
between() {
    if [ "$2" -ge "$3" ] && [ "$2" -le "$4" ]; then
        pass "$1"
    else
        note "got $2, want $3 to $4"
        fail "$1"
    fi
}

# Before the start of the trace the clock may go on by some seconds at once.
recorded_ms() { echo $(($(json j recorded_ns) / 1000000)); }

# --- Each way to wait ---------------------------------------------------------

for mode in none real; do
    for kind in nanosleep usleep absolute boottime cond cond_monotonic \
        cond_clock mutex sem poll select epoll futex signal; do
        rm -f told
        timeout 60 env CLOCK_WAIT=$kind CLOCK_OUT=told \
            LD_PRELOAD="$work/waits.so" "$replay" --clock=recorded \
            --threads=$mode --json j t.lz4 >"$out" 2>"$err"
        is "$mode, $kind: exit status" $? 0
        # The library's own life is longer than the replay.
        passed=$(value monotonic_ms)
        at_least "$mode, $kind: recorded time passed" "$passed" 1500
        between "$mode, $kind: all clocks as far" \
            "$(value realtime_ms)" $((passed - 5)) $((passed + 5))
        if [ $kind = signal ]; then
            at_least "$mode, $kind: interrupted" "$(value interrupted)" 1
        else
            between "$mode, $kind: so many waits" "$(value waits)" \
                $(($(recorded_ms) * 9 / 10 / 20 - 1)) \
                $(($(recorded_ms) / 20 + 10))
        fi
        is "$mode, $kind: no other end" "$(value wrong)" 0
        is "$mode, $kind: never back" "$(value backwards)" 0
        is "$mode, $kind: nobody is late" "$(json j clock_stragglers)" 0
        at_least "$mode, $kind: waits that ended" \
            "$(json j clock_served)" 10
    done
done

# Many waits at once, and none of them hangs.
timeout 60 env CLOCK_WAIT=cond CLOCK_THREADS=50 CLOCK_OUT=told \
    LD_PRELOAD="$work/waits.so" "$replay" --clock=recorded --json j t.lz4 \
    >"$out" 2>"$err"
is "50 threads: exit status" $? 0
between "50 threads: so many waits" "$(value waits)" \
    $(($(recorded_ms) * 40 / 20 - 50)) $(($(recorded_ms) * 50 / 20 + 500))

# --- Calls that wait for time -------------------------------------------------

# spins MODE KIND: replays under a malloc, or beside a thread, that waits so.
spins() {
    rm -f told
    timeout 60 env CLOCK_SPIN="$2" CLOCK_OUT=told \
        LD_PRELOAD="$work/spin.so" "$replay" --clock=recorded \
        --threads="$1" --json j t.lz4 >"$out" 2>"$err"
    is "$1, $2: exit status" $? 0
    is "$1, $2: no time is short or goes back" "$(value wrong)" 0
}
for mode in none real; do
    for kind in spin sleep cond; do
        spins $mode $kind
        at_least "$mode, $kind: calls that waited" "$(value waits)" 7
        passed=$(($(json j clock_call_ns) / 1000000))
        between "$mode, $kind: their time passed" $passed 14 \
            $((2 * $(value waits) + 1))
        like "$mode, $kind: the report says so" "$out" \
            'ms more passed in calls that waited'
        is "$mode, $kind: nobody is late" "$(json j clock_stragglers)" 0
    done
    spins $mode thread
    between "$mode, a thread that spins: as often as time passed" \
        "$(value rounds)" $(($(recorded_ms) / 20 - 10)) \
        $(($(recorded_ms) / 20 + 30))
    # Where processors are busy a thread may be late, or be taken up again.
    between "$mode, a thread that spins: hardly ever late" \
        "$(json j clock_stragglers)" 0 2
    spins $mode next
    between "$mode, a thread made past replay: as often as time passed" \
        "$(value rounds)" $(($(recorded_ms) / 20 - 10)) \
        $(($(recorded_ms) / 20 + 30))
    spins $mode poll
    between "$mode, a thread that polls for ever is given up" \
        "$(json j clock_stragglers)" 1 3
    at_least "$mode, a thread that polls for ever moves the clock little" 330 \
        $(($(json j clock_call_ns) / 1000000))
done

# A thread whose process is stopped is not late.
rm -f told
CLOCK_SPIN=stop CLOCK_PARENT=$$ CLOCK_OUT=told LD_PRELOAD="$work/spin.so" \
    "$replay" --clock=recorded --threads=none --json j t.lz4 >"$out" 2>"$err" &
stopped=$!
eventually 20 grep -q '^State:.T' "/proc/$stopped/status"
sleep 1.3
kill -CONT $stopped
wait $stopped
is "a stop of the process: nobody is late" "$(json j clock_stragglers)" 0
between "a stop of the process: as often as time passed" "$(value rounds)" \
    $(($(recorded_ms) / 20 - 10)) $(($(recorded_ms) / 20 + 30))

# A pause is not waited for.
rm -f told
record long.lz4 ./program 4
LD_PRELOAD='' "$replay" --clock=recorded --json j long.lz4 >"$out" 2>"$err"
at_least "a pause takes no real time" 1500 \
    $(($(json j elapsed_ns) / 1000000))
at_least "the trace has it" $(($(json j recorded_ns) / 1000000)) 3900
like "the report says so" "$out" '^recorded clock +[0-9.]+ s passed'

# Nor are all deadlines within half a century: 2.7 thousand million here.
printf 'malloc-trace text 1\nthread 1\nslot 0 = malloc(10)\ntime 1000 ns
slot 1 = malloc(5)\ntime 1700000000000000000 ns\nfree(slot 0)\nfree(slot 1)
end: 4 operations, 0 live\n' >years.txt
for mode in none real; do
    rm -f told
    timeout 60 env CLOCK_WAIT=nanosleep CLOCK_OUT=told \
        LD_PRELOAD="$work/waits.so" "$replay" --clock=recorded \
        --threads=$mode --json j years.txt >"$out" 2>"$err"
    is "$mode, a pause of years: exit status" $? 0
    between "$mode, a pause of years: all of it passed" "$(recorded_ms)" \
        1699999999000 1700000000000
    between "$mode, a pause of years: not every wait in it" \
        "$(value waits)" 1000 40000
done

# --- Memory that decays -------------------------------------------------------

# compares TIMELINE PROGRAM BASE: how many of the program's figures there are,
# and how many of the replay's, at the same time after the last free, differ by
# more than a tenth of the peak. The program's memory may fall later by up to a
# decay time: the first look of jemalloc's thread after the first free decides.
compares() {
    awk -v base="$3" '
        NR == FNR {
            split($0, w, ",")
            if (FNR == 1)
                next
            t[++n] = w[3] / 1e6
            rss[n] = w[6] - base
            if (rss[n] > peak)
                peak = rss[n]
            if (w[4] > 1e8)
                filled = 1
            if (filled && from == "" && w[4] < 1e5)
                from = t[n]
            next
        }
        $1 == "base" { own = $3; next }
        { ms[++rows] = $2; bytes[rows] = $3 - own }
        function differences(later, i, k, v, at, off, bad) {
            for (k = 1; k <= rows; k++) {
                at = from + (ms[k] > later ? ms[k] - later : 0)
                while (i < n && t[i + 1] <= at)
                    v = rss[++i]
                off = v - bytes[k]
                if (off > peak / 10 || off < -peak / 10)
                    bad++
            }
            return bad + 0
        }
        END {
            least = rows
            for (later = 0; later <= 1200; later += 20)
                if ((bad = differences(later)) < least)
                    least = bad
            print rows + 0, least
        }' "$1" "$2"
}
jemalloc=libjemalloc.so.2
record decay.lz4 ./decay >rows
if [ -z "$(LD_PRELOAD=$jemalloc true 2>&1)" ]; then
    for threads in true false; do
        conf=background_thread:$threads,dirty_decay_ms:1000,muzzy_decay_ms:0
        # Where processors are busy either may be late.
        for try in 1 2 3 4 5 6 7 8; do
            LD_PRELOAD=$jemalloc MALLOC_CONF=$conf "$replay" \
                --clock=recorded --timeline tl.csv --timeline-step=10ms \
                --json j decay.lz4 >"$out" 2>"$err"
            status=$?
            LD_PRELOAD=$jemalloc MALLOC_CONF=$conf ./decay >decay.own
            shape=$(compares tl.csv decay.own "$(json j start_rss_bytes)")
            note "run $try: moments, and those that differ: $shape"
            [ "${shape#* }" -gt 4 ] || break
        done
        is "jemalloc, threads $threads: exit status" $status 0
        at_least "jemalloc, threads $threads: recorded time has the rest at the end" \
            "$(recorded_ms)" 2400
        at_least "jemalloc, threads $threads: moments" "${shape% *}" 20
        at_least "jemalloc, threads $threads: memory as in the program" 4 \
            "${shape#* }"
    done
else
    skip "memory that decays" "no jemalloc here"
fi
hours=$(json j gb_hours)
awk "BEGIN { h = $(json j mean_rss_bytes) * $(json j recorded_ns) / 3.6e21
    exit !($hours > h * 0.99 && $hours < h * 1.01 && h > 0) }"
result "GB hours are mean memory times recorded time" $?

# --- At the recorded speed ----------------------------------------------------

rm -f told
timeout 60 env CLOCK_WAIT=cond CLOCK_OUT=told LD_PRELOAD="$work/waits.so" \
    "$replay" --speed=1 --timeline tl.csv --timeline-step=20ms --json jspeed \
    decay.lz4 >"$out" 2>"$err"
is "at the recorded speed: exit status" $? 0
looked=$(($(json jspeed look_ns) / 1000000))
stood=$(($(value real_ms) - $(value monotonic_ms)))
at_least "at the recorded speed: memory was measured for a while" $looked 20
between "at the recorded speed: the clock stood still meanwhile" $stood \
    $((looked * 3 / 4 - 30)) $((looked + 30))
at_least "at the recorded speed: moments within the pauses" \
    "$(awk -F, 'NR > 1 && $4 < 1e5 && $4 == last { n++ } { last = $4 } END { print n + 0 }' tl.csv)" 3
is "at the recorded speed: never back" "$(value backwards)" 0
is "at the recorded speed: no wait ends early" "$(value wrong)" 0

# --- What it goes with --------------------------------------------------------

"$replay" --clock=recorded --timeline tl.csv --timeline-step=20ms --check \
    --latency --json j t.lz4 >"$out" 2>"$err"
is "with --timeline, --check, --latency" $? 0
at_least "moments within the pause" \
    "$(awk -F, 'NR > 1 && $3 > 3e8 && $3 < 1.3e9' tl.csv | wc -l)" 10
last_ns() { awk -F, '{ n = $3 } END { print n }' "$1"; }
is "the last moment is at the end" "$(last_ns tl.csv)" "$(json j recorded_ns)"
"$replay" --timeline tl.csv --json j t.lz4 t.lz4 >"$out" 2>"$err"
is "at the end of two traces, without the clock" "$(last_ns tl.csv)" \
    "$(json j recorded_ns)"
"$replay" --clock=recorded --repeat 2 t.lz4 >"$out" 2>"$err"
is "with --repeat" $? 0
"$replay" --clock=recorded --max-idle=100ms --json j t.lz4 >"$out" 2>"$err"
is "with --max-idle" $? 0

"$replay" --clock=recorded --json j \
    "$top_srcdir/tests/data/formats/rep" >"$out" 2>"$err"
like "a trace without times" "$err" 'no times'
fails_with "with --speed" 2 "$replay" --clock=recorded --speed=1 t.lz4
like "with --speed: said" "$err" 'clock=recorded.*--speed'
fails_with "another clock" 2 "$replay" --clock=wall t.lz4
like "another clock: what there is" "$err" '"wall".*real.*recorded'

# Recorded time begins with the first call: an idle beginning, and what was before
# a window, count in no figure.
cat >late.c <<'END'
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    static void *block[100];
    usleep(1000000);
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < 100; i++)
            block[i] = calloc(1, 100000);
        usleep(100000);
        for (int i = 0; i < 100; i++)
            free(block[i]);
    }
    return 0;
}
END
run $CC -O1 -fno-builtin -o late late.c
record late.lz4 ./late
check "a window" "$postprocess" -q --from 500ms late.lz4 window
for trace in late.lz4 window; do
    run "$replay" --clock=recorded --json j --timeline=rows.csv $trace
    is "$trace: exit status" "$status" 0
    between "$trace: recorded time is that of its calls" "$(recorded_ms)" \
        400 900
    is "$trace: GB hours are the mean times that" "$(awk \
        -v h="$(json j gb_hours)" -v mean="$(json j mean_rss_bytes)" \
        -v ns="$(json j recorded_ns)" 'BEGIN {
            x = h / (mean / 1e9 * ns / 3600e9); print (x > 0.99 && x < 1.01) }'
    )" 1
    # Times of records are up to 1 ms before those of events, which the end has.
    is "$trace: its time does not go back" "$(awk -F, \
        'NR > 1 { if ($3 + 1e6 < t) n++; t = $3 + 0 } END { print n + 0 }' \
        rows.csv)" 0
done

# --- Clocks of an allocator's own ---------------------------------------------

# names LIBRARY KEY: the JSON has the library under KEY.
names() {
    [ -e "$1" ] || {
        skip "$1" "it cannot be made here"
        return
    }
    LD_PRELOAD=$work/$1 "$replay" --clock=recorded --json j t.lz4 \
        >"$out" 2>"$err"
    is "$1: exit status" $? 0
    if [ "$(json j "$2")" = "" ] &&
        grep -q '^not examined' "$out"; then
        skip "$1 is named" "not to be looked at here"
        return
    fi
    is "$1 is named" "$(json j "$2")" "$1"
    like "$1: in the report" "$out" "^not under it +$1: "
}
case $(uname -m) in
x86_64)
    names tsc.so clock_reads_counter
    names kernel.so clock_asks_kernel
    ;;
*) skip "clocks of an allocator's own" "test libraries are for x86-64" ;;
esac
for library in "" "$minimal" libjemalloc.so.2 libmimalloc.so.2; do
    [ -z "$(LD_PRELOAD=$library true 2>&1)" ] || continue
    LD_PRELOAD=$library "$replay" --clock=recorded t.lz4 >"$out" 2>"$err"
    is "${library##*/}: replays" $? 0
    is "${library##*/} is under the clock" "$(grep -c '^not under' "$out")" 0
done
tap_end
