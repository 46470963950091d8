#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace info of raw traces, spools and processed traces: what it counts is
# what postprocess and readers made from the documents count.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need "$mtrace" "$post" "$built/exchange" "$top_builddir/tests/bin/make_raw_corpus"
need_python
cd "$work" || exit 99
data=$top_srcdir/tests/data

# agree NAME RAW [exact]: info of RAW and of what postprocess makes of it.
agree() {
    "$post" --quiet --json post.json "$2" p
    timeout 60 "$mtrace" info --json raw.json "$2" >raw.txt 2>raw.err
    is "$1: raw: exit status" "$?" 0
    diag <raw.err
    timeout 60 "$mtrace" info --json proc.json p >proc.txt 2>proc.err
    is "$1: processed: exit status" "$?" 0
    diag <proc.err
    "$python" - "$here" "$1" "${3:-}" "$2" >tap <<'PY'
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
        "ok - "*) ok "${line#ok - }" ;;
        "not ok - "*) not_ok "${line#not ok - }" ;;
        *) echo "$line" ;;
        esac
    done <tap
    at_least "$1: checks" "$(grep -c ok tap)" 20
    for file in raw.txt proc.txt; do
        check "$1: $file has what is promised" awk '
            /^  start / || /^  lasted / || /^  bytes an event / { n++ }
            /^  sizes asked for$/ || /^  peak of live bytes / { n++ }
            /^  peak of live blocks / || /^    thread [0-9]/ && !t++ { n++ }
            /^  complete / { n++ }
            END { exit n != 8 }' "$file"
    done
}

agree "golden" "$data/raw-v1"
"$top_builddir/tests/bin/make_raw_corpus" . || exit 99
if record t "$built/exchange" 3 2000 >/dev/null; then
    agree "threads that exchange blocks" "$work/t"
    cat >one.py <<'PY'
x = [bytearray(i * 7 % 5000) for i in range(3000)]
del x[::2]
x = [bytearray(i) for i in range(300)]
PY
    record one "$python" one.py && agree "one thread" "$work/one" exact
    record s.%p "$built/process_target" _exit 0
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

# Forged: slots that no allocation can have made cost no memory.
"$python" - "$here" >forged <<'PY' || exit 99
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
(ulimit -v 400000 && "$mtrace" info forged) >text 2>errors
is "impossible slots: exit status" "$?" 3
check "and a message" grep -q 'forged: byte 40: block with impossible slots' errors
done_testing
