#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace info of raw traces, spools and processed traces: what it counts is
# what postprocess and readers made from the documents count.
. "$top_srcdir/tests/lib/harness.sh"
need "$malloc_trace" "$postprocess" "$built/recorder/exchange" "$built/recorder/many_threads" \
    "$top_builddir/tests/fuzz/make_raw_corpus"
need_python
cd "$work" || exit 99
data=$top_srcdir/tests/data

# agree NAME RAW [exact]: info of RAW and of what postprocess makes of it.
agree() {
    "$postprocess" --quiet --json post.json "$2" p
    timeout 60 "$malloc_trace" info -v --json raw.json "$2" >raw.txt 2>raw.err
    is "$1: raw: exit status" "$?" 0
    diag <raw.err
    timeout 60 "$malloc_trace" info -v --json proc.json p >proc.txt 2>proc.err
    is "$1: processed: exit status" "$?" 0
    diag <proc.err
    "$python" - "$test_lib" "$1" "${3:-}" "$2" >tap <<'PY'
import json, sys
sys.path.insert(0, sys.argv[1])
import procdump, rawdump
name, exact, path = sys.argv[2:]
post = json.load(open("post.json"))
raw = json.load(open("raw.json"))["files"][0]
proc = json.load(open("proc.json"))["files"][0]
def ok(good, what, detail=""):
    print("%s - %s: %s" % ("ok" if good else "not ok", name, what))
    if not good:
        print("# %s" % (detail,))
# The truth about a processed trace, by another reader.
live, sizes, counts = {}, {}, {}
now = peak = blocks = 0
for thread, what, call, slot, size, align, moved in procdump.Processed("p").ops():
    if what in ("mark", "extension"):
        continue
    counts[thread] = counts.get(thread, 0) + 1
    if what in ("free", "realloc_end"):
        now -= live.pop(slot)
    elif what != "failed":
        now += size - live.get(slot, 0)
        live[slot] = size
        b = 1 << size.bit_length() - 1 if size else 0
        sizes[b] = sizes.get(b, 0) + 1
    peak = max(peak, now)
    blocks = max(blocks, len(live))
ok(proc["peak_live_bytes"] == peak == post["peak_live_bytes"], "peak of bytes",
   (proc["peak_live_bytes"], peak, post["peak_live_bytes"]))
ok(proc["peak_live_objects"] == blocks, "peak of blocks",
   (proc["peak_live_objects"], blocks))
for what, i in ("raw", raw), ("processed", proc):
    h = {b["from"]: b["count"] for b in i["size_histogram"]}
    ok(h == sizes, what + ": sizes", (h, sizes))
    ok(all(b["to"] == (2 * b["from"] - 1 if b["from"] else 0)
           for b in i["size_histogram"]), what + ": powers of two")
    t = {t["thread"]: t["events"] for t in i["thread_list"] if t["events"]}
    ok(t == counts, what + ": events of each thread", (t, counts))
    ok(i["live_at_end"] == len(live), what + ": alive at the end",
       (i["live_at_end"], len(live)))
    for key in "events", "threads", "requested_bytes", "failed_allocations":
        ok(i[key] == post[key], "%s: %s" % (what, key), (i[key], post[key]))
    ok(abs(i["bytes_per_event"] * i["events"] - i["bytes"]) < 1,
       what + ": bytes an event")
    start = i["recording"]["start_ns"]
    last = i["recording"]["last_ns"]
    ok(start <= i["peak_live_bytes_ns"] <= last and
       start <= i["peak_live_objects_ns"] <= last or exact == "shifted",
       what + ": times of the peaks lie in the recording")
    ok(i["complete"] and i["clean_end"] == post["clean_end"],
       what + ": completeness")
ok(raw["peak_live_bytes_at_most"] >= max(peak, raw["peak_live_bytes"]),
   "at most", (raw["peak_live_bytes_at_most"], peak))
if exact == "exact":
    ok(raw["peak_live_bytes"] == peak and raw["peak_live_objects"] == blocks,
       "one thread: the peaks of the raw trace are the true ones",
       (raw["peak_live_bytes"], peak))
names = [sorted((t["thread"], t["kernel_id"], t["name"])
                for t in i["thread_list"] if t["events"]) for i in (raw, proc)]
ok(names[0] == names[1], "threads have the same names", names)
PY
    while read -r line; do
        case $line in
        "ok - "*) pass "${line#ok - }" ;;
        "not ok - "*) fail "${line#not ok - }" ;;
        *) echo "$line" ;;
        esac
    done <tap
    at_least "$1: checks" "$(grep -c ok tap)" 20
    for file in raw.txt proc.txt; do
        check "$1: $file has what is promised" awk '
            /^  start / || /^  bytes an event / { n++ }
            /^  peak of live bytes / || /^  peak of live blocks / { n++ }
            /^    thread [0-9]/ && !t++ { n++ }
            /^  (program|lasted|events|threads|requested|peak) / { s++ }
            /^  (live at end|complete|cost|sizes asked for) / { s++ }
            # Some of the names stand again in what -v adds.
            END { exit n != 5 || s < 10 }' "$file"
    done
}

agree "golden" "$data/raw-v1"
"$top_builddir/tests/fuzz/make_raw_corpus" . || exit 99
if record t "$built/recorder/exchange" 3 2000 >/dev/null; then
    agree "threads that exchange blocks" "$work/t"
    cat >one.py <<'PY'
x = [bytearray(i * 7 % 5000) for i in range(3000)]
del x[::2]
x = [bytearray(i) for i in range(300)]
PY
    record one "$python" one.py && agree "one thread" "$work/one" exact
    record s.%p "$built/process/process_target" _exit 0
    for f in s.*.spool; do
        [ -e "$f" ] && mv "$f" a.spool
    done
    if [ -e a.spool ]; then
        agree "a spool alone" "$work/a.spool"
    else
        skip "a spool alone" "the process left none"
    fi
else
    skip "recordings" "recording does not work here"
fi

# Text for people fits on a terminal, and a line about a part is true of it.
narrow() { is "$1: lines of more than 79 columns" "$(awk 'length > 79' "$2")" ""; }
part() { # NAME ARGUMENT... of postprocess
    part=$1
    shift
    "$postprocess" --quiet --json post.json "$@" part.p
    "$malloc_trace" info part.p >text
    is "$part: exit status" "$?" 0
    like "$part: it says so" text '^  part  +of a recording: [0-9]'
    like "$part: nothing of the recording's end" text '^  complete  +yes$'
    like "$part: nor of what that took" text \
        '^  cost  +[0-9.]+ .?i?B, [0-9.]+ bytes an event$'
    check "$part: it lasted as postprocess says" "$python" - <<'PY'
import json, re
text = re.search(r"^  lasted +([0-9.]+) (ns|us|ms|s)", open("text").read(), re.M)
ns = float(text[1]) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[text[2]]
truth = json.load(open("post.json"))["recorded_ns"]
assert abs(ns - truth) <= 0.0051 * truth, (ns, truth)
PY
    narrow "$part" text
}
if [ -e one ]; then
    "$malloc_trace" info --json raw.json one >text
    like "the whole" text '^  lasted '
    is "the whole: no part" "$(grep -c '^  part ' text)" 0
    is "one thread: its peak needs no bound" "$(grep -c 'at most' text)" 0
    like "one thread: nor a word of doubt" text '^  peak  +[0-9]'
    is "one thread: nor in the JSON" "$("$python" -c '
import json
f = json.load(open("raw.json"))["files"][0]
print(f["peak_live_bytes_at_most"] - f["peak_live_bytes"])')" 0
    is "the peak of blocks is another moment" "$(grep -c '^  peak .*block' text)" 0
    like "the shares add up" text 'requests +up to here$'
    # from a third of it to its half
    span=$("$python" -c '
import json
r = json.load(open("raw.json"))["files"][0]["recording"]
ns = r["last_ns"] - r["start_ns"]
print("%dns %dns" % (ns / 3, ns / 2))')
    part "a window" --from "${span% *}" --to "${span#* }" one
    like "what lived before it" text \
        ' part .*: [0-9,]+ operations of prologue'
    "$malloc_trace" info t >text
    narrow "threads" text
    like "threads are named as such" text \
        '^  threads  +[0-9]+, the busiest: thread [0-9]+( \(.*\))?: [0-9]+ %'
fi
if record many "$built/recorder/many_threads" 200 >/dev/null; then
    "$malloc_trace" info many >text
    narrow "many threads" text
    is "many threads: none is the busiest with 0 %" "$(grep -c '[: ]0 %' text)" 0
fi
# A program that ends by _exit leaves its spool, and no account.
"$malloc_trace" record -o r.%e.%p -- /bin/sh -c \
    "'$built/process/process_target' _exit 0; '$built/recorder/exchange' 1 10; true" 2>text
if grep -q ' [23] traces' text; then
    like "record: whose account it has" text \
        '^  \(known for [12] of [23] traces\)$'
    like "record: what is used of a spool" text \
        '^  r.process_target.[0-9]+  [0-9.]+ B '
else
    skip "record: of some traces" "they were not recorded"
fi
if [ -e a.spool ]; then
    "$malloc_trace" info --json i.json a.spool >text
    is "a spool: what is used of it counts" "$("$python" -c '
import json
f = json.load(open("i.json"))["files"][0]
print(f["file_bytes"] - f["bytes"] - 48 * f["spool_buffers"])')" 0
fi

# Forged: slots that no allocation can have made cost no memory.
"$python" - "$test_lib" >forged <<'PY' || exit 99
import struct, sys
sys.path.insert(0, sys.argv[1])
from rawdump import xxh64
def block(kind, payload, records, ops, first, slots):
    h = struct.pack("<4sBBBBIIIIQQIIQI", b"\xa5PB\xf1", kind, 1, 32, 0,
                    len(payload), records, ops, 0, first, 0, slots, 1, 0, 0)
    h += struct.pack("<I", xxh64(h) & 0xFFFFFFFF)
    return h + struct.pack("<Q", xxh64(h + payload)) + payload
out = b"\x89MTPRC\r\n" + struct.pack("<HHIIIQ", 1, 0, 40, 0, 0, 0)
out += struct.pack("<Q", xxh64(out))
out += block(1, b"\x03", 1, 1, 0, 4000000000)
out += block(2, struct.pack("<HQHQ", 1, 1, 20, 1), 0, 0, 1, 4000000001)
sys.stdout.buffer.write(out)
PY
(ulimit -v 400000 && "$malloc_trace" info forged) >text 2>errors
is "impossible slots: exit status" "$?" 3
check "and a message" grep -q 'forged: byte 40: block with impossible slots' errors

# A trace that was made of one of another format names its converter.
"$python" - "$test_lib" "$data/processed-v1" converted <<'PY' || exit 99
import struct, sys
sys.path.insert(0, sys.argv[1])
from rawdump import xxh64
import procdump
blocks = open(sys.argv[2], "rb").read()
blocks = blocks[struct.unpack_from("<I", blocks, 12)[0]:]
name = b"wl2p 1.2\x07"
fields = struct.pack("<HH", 7, 3) + b"???" + struct.pack("<HH", 1, len(name))
fields += name
fields += b"\0" * (-len(fields) % 8)
head = b"\x89MTPRC\r\n" + struct.pack("<HHIIIQ", 1, 0, 40 + len(fields), 0, 0,
                                       0) + fields
with open(sys.argv[3], "wb") as f:
    f.write(head + struct.pack("<Q", xxh64(head)) + blocks)
assert procdump.Processed(sys.argv[3]).converter.encode() == name
PY
"$malloc_trace" info --json converted.json converted >text
is "a converted trace: exit status" "$?" 0
check "its converter is shown, and nothing that is no text" \
    grep -q '^  converted by  *wl2p 1.2\\x07$' text
check "and in the JSON" grep -Fq '"converter": "wl2p 1.2\u0007"' converted.json
"$malloc_trace" info --json other.json "$data/processed-v1" >/dev/null
is "which has none for other traces" "$(grep -c converter other.json)" 0
"$replay" converted >/dev/null
is "it replays" "$?" 0

# AS_THREAD holds until the next one or the next buffer, also in later segments,
# and says nothing outside of the late stream.
"$python" - "$test_lib" late <<'PY' || exit 99
import struct, sys
sys.path.insert(0, sys.argv[1])
from rawdump import xxh64, LATE
SEED = 5
def varint(v):
    n = max(1, -(-v.bit_length() // 7))
    return ((v << 1 | 1) << (n - 1)).to_bytes(n, "little")
def as_thread(t):
    return varint(t << 7 | 5 << 2)
def buffer(time):
    return varint(56 << 7 | 16 << 2) + struct.pack(
        "<QQIHBBQQQQ", time, 1000, 0, 0, 0, 0, 0, 0, 0, 0)
def free(token, last):
    v = token - last
    return varint((2 * v if v >= 0 else -2 * v - 1) << 2 | 2)
def segment(kind, thread, at, payload, lo, hi):
    h = struct.pack("<4sBBHIIQQQQ", b"\xa5SG\xf1", kind, 0, 0, len(payload),
                    thread, at, 0, lo, hi)
    return h + struct.pack("<Q", xxh64(h + payload, SEED)) + payload
h = b"\x89MTRAW\r\n" + struct.pack("<HHIIIQQQQQQQIBBHQ", 1, 0, 104, 7, 1, 9, SEED,
                                   0, 0, 10**18, 100, 1, 4096, 1, 0, 0, 0)
out = h + struct.pack("<Q", xxh64(h))
first = buffer(200) + as_thread(3) + free(20, 1000)
own = buffer(150) + as_thread(3) + free(900, 1000)
out += segment(1, LATE, 0, first, 190, 300)
out += segment(1, 2, 0, own, 140, 300)
out += segment(2, 0, 0, struct.pack("<Q", 1), 300, 300)
out += segment(1, LATE, len(first), free(30, 20) + free(40, 30), 300, 400)
out += segment(2, 0, 0, struct.pack("<Q", 2), 400, 400)
out += segment(5, 0, 0, struct.pack("<HQHQ", 32, 4, 50, 1), 500, 500)
open(sys.argv[2], "wb").write(out)
PY
"$malloc_trace" info --json late.json late >/dev/null
is "late events in two segments: whose they are" "$("$python" -c '
import json
print(sorted((t["thread"], t["events"])
             for t in json.load(open("late.json"))["files"][0]["thread_list"]
             if t["events"]))')" "[(2, 1), (3, 3)]"
"$postprocess" --quiet --json post.json late p 2>/dev/null
is "a trace that lacks the blocks: postprocess" "$(json post.json events frees \
    unmatched_frees ops)" "4 4 4 0"
is "and its closing block" "$("$python" - "$test_lib" p <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import procdump
t = procdump.Processed(sys.argv[2])
list(t.ops())
print(*(t.closing[f] for f in (1, 8, 12, 13, 15)))
PY
)" "0 4 4 0 4"
tap_end
