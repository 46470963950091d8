#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# How replay ends: signals, sleep after the report; and what it says meanwhile.
. "$top_srcdir/tests/lib/harness.sh"

make=$top_builddir/tests/unit/tools/replay_make
"$make" threads p.p 300000 >p.truth || exit 99
whole=$(sed -n 's/^ops=//p' p.truth)
size=$(wc -c <p.p)

# await WHAT COMMAND...: until the command succeeds, at most 20 s.
await() {
    await_what=$1
    shift
    eventually 20 "$@"
    result "$await_what" $?
}

# --- Signals ------------------------------------------------------------------

# fed_half SIGNAL ARGS...: replay gets half of a trace by a FIFO and then the
# signal, while it waits for more.
mkfifo feed
# has_read: passes if the decoding process has read half of the trace, and done
# what it can with that: it sleeps each time that it is looked at.
# shellcheck disable=SC2317
has_read() {
    decoder=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
    decoder=${decoder% }
    read_bytes=$(sed -n 's/^rchar: //p' "/proc/${decoder:-0}/io" 2>/dev/null)
    [ "${read_bytes:-0}" -ge $((size / 2)) ] || return 1
    for _ in 1 2 3; do
        grep -q '^State:.*S' "/proc/$decoder/status" 2>/dev/null || return 1
        sleep 0.05
    done
}
fed_half() {
    signal=$1
    shift
    rm -f j
    "$replay" --json j "$@" feed >"$out" 2>"$err" &
    pid=$!
    exec 9>feed
    head -c $((size / 2)) p.p >&9
    eventually 20 has_read || sleep 1
    kill "-$signal" $pid
    wait $pid
    status=$?
    exec 9>&-
}
for mode in none real; do
    fed_half TERM --threads=$mode
    is "$mode: a signal: status 3" $status 3
    like "$mode: says so" "$err" "^replay: warning: interrupted"
    is "$mode: says nothing else of the trace" \
        "$(grep -c "feed" "$err")" 0
    is "$mode: in JSON" "$(json j interrupted complete damaged_places)" \
        "true false 0"
    ops=$(json j ops)
    [ "$ops" -gt $((whole / 4)) ] && [ "$ops" -lt "$whole" ]
    result "$mode: what was read was replayed ($ops of $whole)" $?
    like "$mode: the report is there" "$out" "^operations +[1-9]"
done
head -c $((size / 2)) p.p >half.p
"$replay" --json cut half.p >"$out" 2>"$err"
fed_half TERM --threads=none
is "as many bytes asked for as of a cut trace" \
    "$(json j requested_bytes)" "$(json cut requested_bytes)"
check "without a signal" "$replay" --json j p.p
is "nothing is interrupted" "$(json j interrupted complete)" "false true"

# An allocator whose calls take so long that the whole trace would take minutes:
# what was done until the signal is told.
cat >slow.c <<'END'
#include <stddef.h>
#include <time.h>
void *__libc_malloc(size_t);
void *malloc(size_t size) {
    static int calls;
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) > 500)
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    return __libc_malloc(size);
}
END
# shellcheck disable=SC2086
if [ "${TCM_SANITIZED:-no}" = no ] && $CC -shared -fPIC -o slow.so slow.c \
    2>"$err"; then
    for mode in none real; do
        for signal in TERM INT; do
            rm -f j
            # In the background the shell has INT ignored; a signal to the whole
            # group would be the second one.
            LD_PRELOAD=$work/slow.so timeout --foreground -s "$signal" -k 60 2 \
                "$replay" --json j --threads=$mode p.p >"$out" 2>"$err"
            is "$mode, $signal: a slow allocator is left" $? 124
            is "$mode, $signal: in JSON" "$(json j interrupted complete)" \
                "true false"
            [ "$(json j ops)" -lt "$whole" ]
            result "$mode, $signal: what was done is told" $?
        done
    done
else
    skip "a slow allocator" "none can be made here"
fi

# A signal while the first operations of the ring's second turn run, which begin
# after about two million: no more is reported than was executed.
cat >counts.c <<'END'
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
void *__libc_malloc(size_t);
void __libc_free(void *);
static unsigned mallocs, frees, last;
__attribute__((constructor)) static void begin(void) {
    last = (unsigned)atoi(getenv("LAST"));
}
__attribute__((destructor)) static void end(void) {
    FILE *f = mallocs < last ? NULL : fopen("counted", "w");
    if (f != NULL)
        fprintf(f, "%u\n", mallocs + frees);
}
void *malloc(size_t size) {
    unsigned n = __atomic_add_fetch(&mallocs, 1, __ATOMIC_RELAXED);
    if (n == last)
        raise(SIGTERM);
    if (n >= last)
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    return __libc_malloc(size);
}
void free(void *p) {
    if (p != NULL)
        __atomic_add_fetch(&frees, 1, __ATOMIC_RELAXED);
    __libc_free(p);
}
END
# shellcheck disable=SC2086
if [ "${TCM_SANITIZED:-no}" = no ] && $CC -shared -fPIC -o counts.so counts.c \
    2>"$err"; then
    "$make" threads long.p 5000000 >/dev/null || exit 99
    for last in 1008000 1012000 1016000 1020000; do
        rm -f counted j
        LAST=$last LD_PRELOAD=$work/counts.so "$replay" --json j \
            --threads=real long.p >"$out" 2>"$err"
        ops=$(json j ops) counted=$(cat counted)
        [ "$ops" -gt 0 ] && [ "$ops" -le "$counted" ]
        result "interrupted at $last: $ops reported, $counted executed" $?
    done
    rm -f long.p
else
    skip "operations executed" "no library can be made here"
fi

# Twice, while the decoding process cannot answer: at once, without an account.
rm -f j
"$replay" --json j feed >"$out" 2>"$err" &
pid=$!
exec 9>feed
children() { cat "/proc/$pid/task/$pid/children" 2>/dev/null; }
if [ -e "/proc/$pid/task/$pid/children" ]; then
    # shellcheck disable=SC2317
    has_child() { [ -n "$(children)" ]; }
    await "there is a decoding process" has_child
    decoder=$(children)
    # shellcheck disable=SC2086
    kill -STOP $decoder
    kill -TERM $pid
    sleep 0.2
    check "a signal alone waits for it" kill -0 $pid
    kill -TERM $pid
    wait $pid 2>/dev/null
    is "a second one ends replay" $? 143
    is "without an account" "$(cat j)" ""
else
    kill -TERM $pid
    skip "two signals" "no children file in /proc"
fi
exec 9>&-

# --- Sleep --------------------------------------------------------------------

for sleep in x 1x p.p --; do
    fails_with "-s $sleep" 2 "$replay" -s "$sleep" p.p
done
check "a short sleep" "$replay" -s 0.01 p.p
for how in -s-1 --sleep=-1 --sleep=1h; do
    rm -f j
    "$replay" "$how" --json j p.p >"$out" 2>"$err" &
    pid=$!
    await "$how: the account is written" json j ops
    await "$how: the report, too" grep -q "^resident memory" "$out"
    await "$how: it sleeps" grep -q '^State:.*S' /proc/$pid/status
    is "$how: the decoding process is gone" \
        "$(cat /proc/$pid/task/$pid/children 2>/dev/null)" ""
    kill -TERM $pid
    wait $pid
    is "$how: a signal ends it: status 0" $? 0
    is "$how: and is no interruption" "$(json j interrupted)" false
done

# --- Several runs -------------------------------------------------------------

check "--repeat" "$replay" --repeat=3 --json j p.p p.p
like "the report has a table" "$out" "^3 runs +least +median +most"
for line in "processor time" "wall time" "peak memory"; do
    like "of $line" "$out" "^$line +[0-9].* [0-9].* [0-9]"
done
is "one line each" "$(wc -l <"$out" | tr -d ' ')" 6
check "--repeat with a timeline" "$replay" -q --repeat=2 --timeline t.csv \
    --allocator-stats=s p.p
is "each run has files of its own" \
    "$(echo t*.csv s.[0-9] "$(sed 1d t.2.csv | head -n 1 | cut -d, -f1)")" \
    "t.1.csv t.2.csv s.1 s.2 $(sed -n 2p t.1.csv | cut -d, -f1)"
if [ -n "$python" ]; then
    cat >runs.py <<'END'
import json, statistics, sys
whole = json.load(open("j"))
runs = whole["runs"]
print(whole["repeat"], len(runs), {r["ops"] for r in runs},
      whole["complete"], whole["interrupted"])
for key in ("wall_ns", "cpu_ns", "peak_rss_bytes"):
    of = [r[key] for r in runs]
    got = whole[key]
    print((got["min"], got["max"]) == (min(of), max(of)) and
          abs(got["median"] - statistics.median(of)) <= 1)
END
    is "JSON has all runs" "$("$python" runs.py | tr '\n' ' ')" \
        "3 3 {$((2 * whole))} True False True True True "
    check "--repeat of an even number" "$replay" -q --repeat=2 --json j p.p
    is "is quiet" "$(cat "$out")" ""
    is "has their middle" "$("$python" runs.py | tr '\n' ' ')" \
        "2 2 {$whole} True False True True True "
    "$replay" --repeat 2 --json - p.p >j 2>"$err"
    is "on standard output" "$("$python" runs.py | sed -n 1p)" \
        "2 2 {$whole} True False"
    like "with the report on stderr" "$err" "^wall time"
fi
fails_with "--repeat of a damaged trace" 3 "$replay" --repeat=3 half.p
is "says once what is wrong" "$(grep -c half.p "$err")" 1
fails_with "--repeat of no trace" 1 "$replay" --repeat=3 --json j "$0"
is "says so once" "$(grep -c . "$err"),$(cat j 2>/dev/null)" 1,
for bad in 0 -1 x; do
    fails_with "--repeat=$bad" 2 "$replay" --repeat=$bad p.p
done
fails_with "--repeat of standard input" 2 "$replay" --repeat=2 <p.p
fails_with "--repeat of standard input by name" 2 "$replay" --repeat=2 p.p -
fails_with "--repeat of a FIFO" 2 "$replay" --repeat=2 feed
check "words of every kind" "$replay" -q --repeat 2 --json j -- ./p.p
for group in no yes; do
    rm -f j
    setsid "$replay" --repeat=10000 --json j p.p >"$out" 2>"$err" &
    pid=$!
    sleep 1
    to=$pid
    [ $group = no ] || to=-$pid
    kill -s TERM -- $to
    wait $pid
    is "a signal to all of them: $group: status 3" $? 3
    like "the runs until then are reported" "$out" "^wall time"
    like "in JSON" j '^  "interrupted": true'
    like "each whole but the last" j '^      "complete": true'
done

# --- Progress -----------------------------------------------------------------

cat >terminal.py <<'END'
"""terminal.py COMMAND...: what it writes to a terminal on standard error."""
import os, pty, subprocess, sys
master, slave = pty.openpty()
process = subprocess.Popen(sys.argv[1:], stderr=slave,
                           stdout=subprocess.DEVNULL)
os.close(slave)
text = b""
while True:
    try:
        piece = os.read(master, 4096)
    except OSError:
        break
    if not piece:
        break
    text += piece
sys.stdout.write(text.decode())
sys.exit(process.wait())
END
if [ -n "$python" ]; then
    check "on a terminal" "$python" terminal.py "$replay" p.p
    like "says how far it is" "$out" \
        'operations, [0-9.]+ M/s, [0-9]+ %, .* left'
    check "on a terminal, quiet" "$python" terminal.py "$replay" -q p.p
    is "says no such thing" "$(grep -c 'M/s' "$out")" 0
    check "on no terminal" "$replay" p.p
    is "neither" "$(grep -c 'M/s,' "$err")" 0
else
    skip "progress" "no python3"
fi
tap_end
