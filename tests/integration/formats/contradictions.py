# SPDX-License-Identifier: BSD-3-Clause
"""Writes processed traces that contradict themselves, from
doc/processed-trace-format.md alone.

  contradictions.py FOLDER

makes a file for each case, the first being one without fault, and prints a line
for each: file, case, and which words `malloc-trace info` and replay must have
for it, as patterns.
"""
import os
import struct
import sys

from rawdump import xxh64

FIELDS = dict(ops=1, records=2, blocks=3, slots=4, live_at_end=5,
              peak_live_bytes=6, threads=7, events=8, mallocs=9, memaligns=10,
              reallocs=11, frees=12, failed_allocations=13,
              requested_bytes=14, unmatched_frees=15, unmatched_reallocs=16,
              dropped_events=18, complete=20, clean_end=21,
              still_being_recorded=22, thread_switches=23, damaged_places=26,
              lost_stream_bytes=27, start_ns=28, end_ns=29, index_offset=32,
              present_blocks=33, prologue_ops=40, begins_late=43, recorder_events=0x8020,
              recorder_mallocs=0x8021, recorder_memaligns=0x8022,
              recorder_reallocs=0x8023, recorder_frees=0x8024,
              recorder_failed=0x8025)


def varint(v):
    n = 1
    while v >= 1 << 7 * n:
        n += 1
    return ((v << 1 | 1) << n - 1).to_bytes(n, "little")


def zigzag(v):
    return v << 1 if v >= 0 else -v * 2 - 1


def block(kind, payload, records=0, ops=0, first=0, time=0, taken=0, slots=0,
          thread=0, last_8th=0, last_slot=0, alloc=1, free=32):
    h = struct.pack("<4sBBBBIIIIQQIIQI", b"\xa5PB\xf1", kind, alloc, free, 0,
                    len(payload), records, ops, taken, first, time, slots,
                    thread, last_8th, last_slot)
    h += struct.pack("<I", xxh64(h) & 0xFFFFFFFF)
    return h + struct.pack("<Q", xxh64(h + payload)) + payload


class Block:
    def __init__(self, state):
        self.state = dict(state)
        self.head = dict(state)
        self.out = b""
        self.records = self.ops = self.birth = 0

    def put(self, data, op=1):
        self.out += data
        self.records += 1
        self.ops += op

    def code(self, size):
        code = zigzag(size // 8 - self.state["last_8th"]) << 1
        self.state["last_8th"] = size // 8
        return code

    def alloc(self, size):
        self.put(varint(self.code(size) << 1 | 1))

    def free(self, birth):
        self.put(varint(zigzag(birth - self.birth) << 2 | 2))
        self.birth = birth

    def free_old(self, slot):
        self.put(varint(zigzag(slot - self.state["last_slot"]) << 3 | 4))
        self.state["last_slot"] = slot

    def realloc_old(self, slot, size):
        self.put(varint(zigzag(slot - self.state["last_slot"]) << 9 | 5 << 4) +
                 varint(self.code(size) << 2))
        self.state["last_slot"] = slot

    def inline(self, kind, value):
        self.put(varint(value << 9 | kind << 4), 0)

    def bytes(self, kind, data, op=0):
        self.put(varint(len(data) << 9 | kind << 4) + data, op)

    def switch(self, thread):
        self.inline(3, thread)
        self.state["thread"] = thread

    def time(self, ns):
        self.inline(4, ns)
        self.state["time"] += ns

    def whole(self, first, taken=b""):
        return block(1, taken + self.out, self.records, self.ops, first,
                     **self.head)


def make(case, value=None):
    """The trace of that case."""
    raw = b"x" * 64 if case == "raw header" else b""
    head = b"\x89MTPRC\r\n" + struct.pack("<HHIIIQ", 1, 0, 40 + len(raw),
                                          len(raw), 0, 0) + raw
    head += struct.pack("<Q", xxh64(head))
    one = Block(dict(slots=0, thread=0, time=0, last_8th=0, last_slot=0))
    if case != "no thread":
        one.switch(0 if case == "thread 0" else 1)
        one.bytes(21, struct.pack("<II", 1, 11))
    if case == "started twice":
        one.bytes(21, struct.pack("<II", 1, 11))
    if case == "present":
        one.bytes(31, b"\1" + struct.pack("<H", value))
    one.alloc(24)
    one.alloc(104)
    if case == "present of a free":
        one.bytes(31, b"\1\2")
    if case == "note of a later version":
        one.bytes(31, b"\2\2")
    one.free(0)
    if case == "present of no operation":
        one.bytes(31, b"\1\2")
    one.time(1000000)
    one.alloc(16)
    one.free(2)
    if case == "freed twice":
        one.free(2)
    if case == "present at the end":
        one.bytes(31, b"\1\2")
    if case == "many":
        for _ in range(100):
            one.free(2)
    if case == "realloc of nothing":
        one.bytes(29, struct.pack("<BBIQ", 3, 0, 0, 1 << 49), 1)
    if case == "sample":
        one.bytes(25, struct.pack("<QHI", 5, 1, 1))
    if case == "loss":
        one.bytes(26, struct.pack("<IQQQ", 1, 1, 9, 8))
    one.state["slots"] = 2
    state = dict(one.state)
    if case == "head":
        state[value[0]] += value[1]
    two = Block(state)
    two.head["taken"] = 1
    listed = 1 if case == "takes a filled slot" else 0
    taken = varint(zigzag(listed - two.head["last_slot"]))
    if case == "new slot":
        taken = b""
        two.head["taken"] = 0
        two.state["slots"] += 1
    two.switch(2)
    two.alloc(16)
    two.free_old(1)
    two.bytes(22, struct.pack("<I", 7 if case == "unknown end" else 2) + b"t")
    if case == "ended twice":
        two.bytes(22, struct.pack("<I", 2) + b"t")
    if case == "late start":
        two.bytes(21, struct.pack("<II", 2, 5))
    if case == "long record":
        two.bytes(23, b"m" * 17000)
    if case == "realloc of a freed block":
        two.realloc_old(1, 104)
    blocks = [one.whole(0), two.whole(one.ops, taken)]
    offsets = [len(head), len(head) + len(blocks[0])]
    entries = [(offsets[0], 0, 0), (offsets[1], one.ops, two.head["time"])]
    end = dict(two.state)
    if case == "index entry":
        entries[1] = (offsets[1] + 8, one.ops, two.head["time"])
    if case == "index short":
        entries.pop(0)
    out = head + b"".join(blocks)
    at = len(out)
    index = block(3, b"".join(struct.pack("<QQQ", *e) for e in entries),
                  first=one.ops + two.ops, **end)
    if case == "index first":
        at = len(out)
        out += index
        late = Block(end)
        late.time(1)
        end = late.state
        out += late.whole(one.ops + two.ops)
        two.records += late.records
        blocks.append(b"")
    else:
        out += index
        if case == "index twice":
            at = len(out)
            out += index
    account = dict(ops=one.ops + two.ops, records=one.records + two.records,
                   blocks=len(blocks), slots=two.state["slots"],
                   live_at_end=1, peak_live_bytes=128, threads=2, events=7,
                   mallocs=4, memaligns=0, reallocs=0, frees=3,
                   failed_allocations=0, requested_bytes=160,
                   unmatched_frees=0, unmatched_reallocs=0,
                   dropped_events=0, complete=1, clean_end=1,
                   thread_switches=1, recorder_events=7, recorder_mallocs=4,
                   recorder_memaligns=0, recorder_reallocs=0,
                   recorder_frees=3, recorder_failed=0,
                   start_ns=1, end_ns=2, index_offset=at)
    if case == "spooled":
        account["recorder_mallocs"] -= value
        account["recorder_events"] -= value
    if case in ("account", "kept"):
        account[value[0]] = account.get(value[0], 0) + value[1]
    if case == "without complete":
        del account["complete"]
        account[value[0]] = value[1]
    payload = b"".join(struct.pack("<HQ", FIELDS[k], v & (1 << 64) - 1)
                       for k, v in account.items())
    if case == "field twice":
        payload += payload[:10]
    if case == "account cut":
        payload += b"\0"
    if case == "end":
        end[value[0]] += value[1]
    return out + block(2, payload, records=case == "closing records",
                       first=one.ops + two.ops, **end)


CASES = [
    ("good", None, "", ""),
    ("freed twice", None, "operation 6: a free names slot 0, which holds "
     "nothing", "1 operations on slots that hold nothing"),
    ("realloc of nothing", None, "a realloc names slot 0, which holds nothing",
     "1 operations on slots that hold nothing"),
    ("realloc of a freed block", None, "a realloc names slot 1, which holds "
     "nothing", "1 operations on slots that hold nothing"),
    ("takes a filled slot", None, "an allocation takes slot 1, which holds a "
     "block", "1 allocations to slots that hold a block"),
    ("takes a filled slot", 1, "lists slots that are not those freed last",
     None),
    ("new slot", None, "takes a new slot while others are free", None),
    ("no thread", None, "a call without a thread", None),
    ("thread 0", None, "a switch to thread 0", None),
    ("started twice", None, "thread 1 starts twice", None),
    ("ended twice", None, "thread 2 ends twice", None),
    ("late start", None, "thread 2 starts after its end", None),
    ("unknown end", None, "thread 7 ends and never began", None),
    ("sample", None, "a sample that is cut", None),
    ("loss", None, "a loss that ends before it begins", None),
    ("present", 24, "", ""),
    ("present", 25, "present bytes 25 of a block of memory of 24", None),
    ("present of a free", None, "present bytes without a block of memory", None),
    ("present of no operation", None, "present bytes without a block of memory",
     None),
    ("present at the end", None, "present bytes without a block of memory", None),
    ("note of a later version", None, "", ""),
    ("long record", None, "a record of 17000 bytes", None),
    ("index entry", None, "the index does not match the blocks", None),
    ("index short", None, "the index does not match the blocks", None),
    ("index first", None, "operations after the index", None),
    ("index twice", None, "a second index", None),
    ("field twice", None, "account: field 1 twice", None),
    ("account cut", None, "account cut", None),
    ("closing records", None, "records in a block of a kind without records",
     None),
    ("raw header", None, "the raw trace's header is damaged", None),
    ("many", None, "83 more problems", "hold nothing"),
    ("head", ("slots", 5), "slot count 7, after the block before 2", None),
    ("head", ("time", -999), "time goes back by 999 ns", None),
    ("head", ("time", 999), "time 999 ns after the block before", None),
    ("head", ("thread", 8), "thread 9, after the block before 1", None),
    ("head", ("last_8th", 1), "state differs from that after the block before",
     None),
    ("end", ("slots", -1), "slot count 1, after the block before 2", None),
]
for field in ("ops", "records", "blocks", "slots", "live_at_end",
              "peak_live_bytes", "threads", "mallocs", "memaligns", "reallocs",
              "frees", "failed_allocations", "requested_bytes",
              "thread_switches"):
    for by in 1, -1:
        CASES.append(("account", (field, by), "account: " + field, None))
CASES += [
    ("account", ("events", 1), "account: events 8, but the kinds add up to 7",
     None),
    ("account", ("dropped_events", 3), "complete, but dropped_events 3", None),
    ("account", ("still_being_recorded", 1),
     "complete, but still_being_recorded 1", None),
    ("account", ("damaged_places", 1), "complete, but damaged_places 1", None),
    ("account", ("lost_stream_bytes", 1), "complete, but lost_stream_bytes 1",
     None),
    ("account", ("complete", 6), "account: complete 7, neither 0 nor 1", None),
    ("account", ("clean_end", 1), "clean_end 2, neither 0 nor 1", None),
    ("account", ("still_being_recorded", 2), "neither 0 nor 1", None),
    ("account", ("begins_late", 2), "begins_late 2, neither 0 nor 1", None),
    ("account", ("unmatched_frees", 1),
     "account: ops 7, but the events make 6", None),
    ("account", ("unmatched_reallocs", 1),
     "account: unmatched_reallocs 1, the blocks have at most 0", None),
    ("account", ("recorder_events", 1),
     "recorder counted 8 events, but the kinds add up to 7", None),
    ("account", ("recorder_mallocs", 1),
     "account: mallocs 4, the recorder counted 5", None),
    ("account", ("recorder_frees", 1),
     "account: frees 3, the recorder counted 4", None),
    ("account", ("recorder_failed", 1),
     "account: failed_allocations 0, the recorder counted 1", None),
    ("account", ("present_blocks", 1), "account: present_blocks 1, the blocks "
     "have 0", None),
    ("spooled", 2, "", ""),
    ("kept", ("end_ns", 5), "", ""),
    ("without complete", ("begins_late", 0), "", ""),
    ("without complete", ("dropped_events", 1), "lacks something", None),
    ("without complete", ("damaged_places", 1), "lacks something", None),
    ("without complete", ("lost_stream_bytes", 1), "lacks something", None),
    ("without complete", ("still_being_recorded", 1), "still being recorded",
     None),
    ("account", ("start_ns", 5), "account: end_ns is before start_ns", None),
    ("account", ("index_offset", 1), "account: wrong offset of the index",
     None),
]


def main():
    for i, (case, value, info, replay) in enumerate(CASES):
        name = "%02d" % i
        with open(os.path.join(sys.argv[1], name), "wb") as f:
            f.write(make(case, value))
        what = case if not isinstance(value, tuple) else "%s %s %+d" % (
            (case,) + value)
        print("|".join((name, what, info, info if replay is None else replay)))


main()
