#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace info --timeline: memory over time as a program knows it that held
# known amounts at known times, and as it follows from traces made here.
. "$top_srcdir/tests/lib/harness.sh"
need "$malloc_trace" "$postprocess" "$built/formats/info_timeline_target"
need_python

# made.py KIND: a trace as text, and as the file "truth" a line of each event: time,
# live bytes, live blocks. Of KIND timed, untimed, ramp (live bytes grow and
# shrink evenly) or wild (times up to the last possible one).
cat >made.py <<'END'
import random, sys
kind = sys.argv[1]
draw = random.Random(7)
out, truth = ["malloc-trace text 1"], []
live, now = {}, 5000000
def event(line):
    out.append(line)
    truth.append("%d %d %d" % (now - 5000000, sum(live.values()), len(live)))
if kind != "untimed":
    out.append("time %d ns" % now)
out.append("thread 1")
for i in range(4000):
    if kind == "ramp":
        if i < 2000:
            live[i] = 1000
            event("slot %d = malloc(1000)" % i)
        else:
            del live[3999 - i]
            event("free(slot %d)" % (3999 - i))
    elif live and draw.random() < 0.45:
        slot = draw.choice(list(live))
        del live[slot]
        event("free(slot %d)" % slot)
    else:
        slot = min(set(range(len(live) + 1)) - set(live))
        live[slot] = draw.randrange(1, 100000)
        event("slot %d = malloc(%d)" % (slot, live[slot]))
    if kind == "ramp":
        now += 1000000
        out.append("time %d ns" % now)
    elif kind != "untimed" and draw.random() < 0.2:
        now += draw.choice((1, 1000, 700000, 30000000))
        if kind == "wild" and i > 3000:
            now = min(2 * now, 2**64 - 1)
        out.append("time %d ns" % now)
out.append("end: 4000 operations, %d live" % len(live))
print("\n".join(out))
open("truth", "w").write("\n".join(truth) + "\n")
END
made() { "$python" made.py "$1" >"$1"; }

# rows.py FILE KIND: each row of the CSV has what the file "truth" has up to it.
cat >rows.py <<'END'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
truth = [[int(x) for x in line.split()] for line in open("truth")]
assert 2 <= len(rows) <= 512, len(rows)
assert int(rows[-1]["operation"]) == len(truth), rows[-1]
done = before = 0
for r in rows:
    if sys.argv[2] != "untimed":
        end = done
        while end < len(truth) and truth[end][0] <= int(r["recorded_ns"]):
            end += 1
        assert end == int(r["operation"]), (end, r)
    else:
        end = int(r["operation"])
        assert r["recorded_ns"] == "0", r
    at = truth[end - 1][1:] if end else [0, 0]
    assert at == [int(r["live_bytes"]), int(r["live_blocks"])], (at, r)
    most = max([before] + [t[1] for t in truth[done:end]])
    assert most == int(r["most_live_bytes"]), (most, r)
    done, before = end, at[0]
assert done == len(truth), done
END

for kind in timed untimed ramp wild; do
    made $kind
    check "$kind: a file" "$malloc_trace" info --timeline=$kind.csv $kind
    check "$kind: is true" "$python" rows.py $kind.csv $kind
done
check "as JSON" "$malloc_trace" info -q --timeline=j.json timed
check "is the same" "$python" - <<'END'
import csv, json
rows = [{k: int(v) for k, v in r.items()} for r in csv.DictReader(open("timed.csv"))]
assert json.load(open("j.json"))["timeline"] == rows
END
"$malloc_trace" info --timeline=- timed >got
check "on standard output nothing but the rows" cmp got timed.csv
check "of a trace through a pipe" sh -c \
    "cat timed | '$malloc_trace' info --timeline=pipe.csv -"
check "is the same" cmp pipe.csv timed.csv

# --- Lines --------------------------------------------------------------------

# ramp.py COLUMNS KIND FILE: the line goes up from the lowest block of the KIND to
# the highest and down again, as wide as COLUMNS allow, with its mark in the
# middle.
cat >ramp.py <<'END'
import sys
columns, kind, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
blocks = {"ascii": " .:-=+*#@",
          "blocks": " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"}[kind]
lines = open(name, encoding="utf-8", newline="").read().replace("\r", "").split("\n")
at = next(i for i, line in enumerate(lines) if line.startswith("  live heap "))
line, axis, mark = lines[at][16:], lines[at + 2][16:], lines[at + 1]
width = columns - 17
assert width - 1 <= len(line) <= width, (len(line), width)
levels = [blocks.index(c) for c in line]
top = levels.index(max(levels))
assert levels[0] <= 1 and max(levels) == len(blocks) - 1, line
assert levels[:top] == sorted(levels[:top]), line
assert levels[top:] == sorted(levels[top:], reverse=True), line
assert set(levels) >= set(range(1, len(blocks))), line
caret = mark.index("^") - 16
assert abs(caret - width // 2) <= 1, (caret, width)
assert "1.91 MiB after 2.00 s" in mark, mark
assert axis.startswith("0 ns ") and axis.endswith(" 4.00 s"), axis
assert len(axis) == width, axis
assert max(map(len, lines)) < max(columns, 80), lines
END
for locale in C.UTF-8 de_DE.utf8; do
    LC_ALL=$locale "$malloc_trace" info --timeline ramp >text
    check "blocks in the locale $locale" "$python" ramp.py 80 blocks text
done
for locale in C POSIX de_DE.ISO-8859-1; do
    LC_ALL=$locale "$malloc_trace" info --timeline ramp >text
    check "ASCII in the locale $locale" "$python" ramp.py 80 ascii text
done
cat >terminal.py <<'END'
# terminal.py COLUMNS COMMAND...: runs the command on a terminal so wide.
import fcntl, os, pty, struct, subprocess, sys, termios
ours, theirs = pty.openpty()
fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 40, int(sys.argv[1]), 0, 0))
p = subprocess.Popen(sys.argv[2:], stdout=theirs)
os.close(theirs)
try:
    while True:
        sys.stdout.buffer.write(os.read(ours, 4096))
except OSError:
    pass
sys.exit(p.wait())
END
for columns in 50 132; do
    check "on a terminal of $columns columns" env LC_ALL=C.UTF-8 "$python" \
        terminal.py $columns "$malloc_trace" info --timeline ramp
    cp "$out" text
    check "lines are as wide" "$python" ramp.py $columns blocks text
done
"$malloc_trace" info --timeline untimed >text
like "without times operations are the axis" text '^ {60,}4,000 operations$'
like "and the place of the peak" text '\^? ?[0-9.]+ MiB after [0-9,]+ operations'
printf 'malloc-trace text 1\nend: 0 operations, 0 live\n' >empty
run "$malloc_trace" info --timeline empty
is "a trace of nothing: status" "$status" 0
like "says so" "$out" '^  live heap +no events$'
check "its file" "$malloc_trace" info --timeline=empty.csv empty
is "has a head alone" "$(wc -l <empty.csv)" 1

# --- Wrong uses ---------------------------------------------------------------

fails_with "a file for two traces" 2 "$malloc_trace" info --timeline=x timed ramp
like "is refused with its name" "$err" 'timeline=x takes one FILE, not 2'
check "lines for two are shown" "$malloc_trace" info --timeline timed ramp
is "each has its own" "$(grep -c '^  live heap' "$out")" 2
"$malloc_trace" convert -q ramp processed
cp processed kept
fails_with "a trace as the file" 2 "$malloc_trace" info --timeline=kept timed
check "is not touched" cmp kept processed
fails_with "the trace itself" 2 "$malloc_trace" info --timeline=timed timed
fails_with "standard output twice" 2 "$malloc_trace" info --timeline=- --json=- \
    timed
[ ! -e /dev/full ] || fails_with "a full disk" 1 "$malloc_trace" info \
    --timeline=/dev/full timed
"$malloc_trace" info --timeline=whole.csv processed >/dev/null
check "a processed trace is as its text" cmp whole.csv ramp.csv

# --- A program that knows -----------------------------------------------------

record t "$built/formats/info_timeline_target" >truth || skip_recordings=1
if [ -z "${skip_recordings:-}" ] && [ -s truth ]; then
    "$postprocess" -q t p
    # plateaus TRACE: memory as the program says, in the middle of each time.
    cat >plateaus.py <<'END'
import csv, json, sys
start = json.load(open(sys.argv[2]))["files"][0]["recording"]["start_ns"]
rows = [{k: int(v) for k, v in r.items() if v} for r in csv.DictReader(open(sys.argv[1]))]
most = 0
for line in open("truth"):
    held, since, until = map(int, line.split())
    middle = (since + until) // 2 - start
    i = next(i for i, r in enumerate(rows) if r["recorded_ns"] >= middle)
    for key in "live_bytes", "most_live_bytes":
        assert held <= rows[i][key] <= held + 65536, (held, rows[i])
    assert rows[i]["live_blocks"] >= held >> 20, rows[i]
    # The recorder samples every 100 ms; memory that is live is resident.
    sampled = [r for r in rows if since < r["recorded_ns"] + start < until and
               "recorded_rss_bytes" in r]
    assert sampled, (held, "has no sample")
    for r in sampled[1:]:
        assert r["recorded_rss_bytes"] >= held, (held, r)
        assert r["recorded_heap_bytes"] >= held, (held, r)
    most = max(most, held)
assert most <= max(r["most_live_bytes"] for r in rows) <= most + 65536
assert max(r.get("recorded_rss_bytes", 0) for r in rows) <= most + (32 << 20)
END
    for trace in t p; do
        check "$trace: a file" "$malloc_trace" info --timeline=$trace.csv \
            --json=$trace.json $trace
        check "$trace: memory as the program says" "$python" plateaus.py \
            $trace.csv $trace.json
        LC_ALL=C "$malloc_trace" info --timeline $trace >text
        like "$trace: the mark has the peak" text \
            '^ +(\^ )?60[.]0 MiB after [0-9.]+ m?s( \^)?$'
        like "$trace: RSS has a line, too" text '^  RSS  '
        is "$trace: a mark for each" "$(grep -c '\^' text)" 2
    done
else
    skip "a program that knows" "recording does not work here"
fi
if record x "$built/recorder/exchange" 3 2000 >/dev/null; then
    "$postprocess" -q x p
    for trace in x p; do
        "$malloc_trace" info -q --timeline=$trace.csv --json=$trace.json $trace
        check "threads, $trace: the sums are those of the summary" "$python" - \
            $trace <<'END'
import csv, json, sys
f = json.load(open(sys.argv[1] + ".json"))["files"][0]
rows = [{k: int(v) for k, v in r.items() if v}
        for r in csv.DictReader(open(sys.argv[1] + ".csv"))]
assert rows[-1]["live_blocks"] == f["live_at_end"], (rows[-1], f["live_at_end"])
assert rows[-1]["operation"] == f["events"] - f["failed_allocations"]
assert all(r["live_bytes"] < 2**40 for r in rows)
if sys.argv[1] == "p":
    assert max(r["most_live_bytes"] for r in rows) == f["peak_live_bytes"]
END
    done
else
    skip "threads" "recording does not work here"
fi

# Early events of a thread that rests until _exit stand at the trace's end.
cat >rest.c <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile sink;
static void *rest(void *unused) {
    for (int i = 0; i < 100; i++)
        sink = malloc(10);
    pause();
    return unused;
}
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 1000; i++)
        sink = malloc(10);
    pthread_create(&thread, NULL, rest, NULL);
    for (int i = 0; i < 1000; i++) {
        sink = malloc(i < 500 ? 10 : 100000);
        usleep(1000);
    }
    _exit(0);
}
END
if run ${CC:-cc} -O1 -fno-builtin -o rest rest.c -pthread &&
    record rest.lz4 ./rest >/dev/null; then
    "$malloc_trace" info -q --timeline=rest.csv rest.lz4
    check "what is live late is not credited to an early time" "$python" - <<'END'
import csv
rows = [{k: int(v) for k, v in r.items() if v}
        for r in csv.DictReader(open("rest.csv"))]
early = [r["most_live_bytes"] for r in rows if r["recorded_ns"] < 400e6]
assert early and max(early) < 1e6, early
assert max(r["most_live_bytes"] for r in rows) > 40e6
END
else
    skip "a thread that rests" "recording does not work here"
fi
tap_end
