#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reads processed traces, from doc/processed-trace-format.md alone.

  procdump.py FILE           one line for each operation
  procdump.py --dump FILE    the lines of `malloc-trace dump`

Any violation of the format ends it with status 1 and one line on stderr.
"""
import struct
import subprocess
import sys

from rawdump import (ACCOUNTS, Bad, CALLS, EXTENSIONS, Header, line, origin,
                     quoted, request, seconds, site_def_text, varint, xxh64,
                     zigzag)

MAGIC = b"\x89MTPRC\r\n"
SYNC = b"\xa5PB\xf1"


class Processed:
    """ops() yields (thread, kind, call, slot, size, align, moved); kind is
    alloc, free, realloc, realloc_new, realloc_end, failed or mark (its text
    in place of the size). With everything=True also block, closing, sized
    (a free), present, loss, sample, start, end, other; record is the offset
    and the bytes of the current operation's record then."""

    def __init__(self, path, everything=False):
        self.everything = everything
        self.record = (0, b"")
        self.time = 0
        self.index = None
        with open(path, "rb") as f:
            b = f.read()
        if b[:4] == b"\x04\x22\x4d\x18":
            b = subprocess.run(["lz4", "-dc"], input=b, check=True,
                               stdout=subprocess.PIPE).stdout
        if b[:8] != MAGIC:
            raise Bad("no processed trace")
        version, must, length, raw = struct.unpack_from("<HHII", b, 8)
        if version != 1 or must:
            raise Bad("version")
        if xxh64(b[: length - 8]) != struct.unpack_from("<Q", b,
                                                        length - 8)[0]:
            raise Bad("checksum of the header")
        try:
            self.raw = Header(b[32 : 32 + raw]) if raw else None
        except Bad:
            self.raw = None  # the blocks are readable without it
        self.converter = None
        p = (32 + raw + 7) // 8 * 8
        while length - 8 - p >= 4:
            tag, n = struct.unpack_from("<HH", b, p)
            if tag == 0 or n > length - 8 - p - 4:
                break
            if tag == 1:
                self.converter = b[p + 4 : p + 4 + n].decode()
            p += 4 + n
        self.data = b
        self.at = length
        self.closing = None

    def ops(self):
        b = self.data
        p = self.at
        stack = []  # all free slots, without a bound
        count = done = 0
        thread = 0
        places = []  # of blocks, in the form of the index
        while p < len(b):
            if b[p : p + 4] != SYNC or p + 72 > len(b):
                raise Bad("no block at %d" % p)
            (kind, alloc_call, free_call, zero, length, records, ops, taken,
             first, time, slots, current, last8, last_slot, head,
             check) = struct.unpack_from("<BBBBIIIIQQIIQIIQ", b, p + 4)
            payload = b[p + 72 : p + 72 + length]
            if zero or xxh64(b[p : p + 60]) & 0xFFFFFFFF != head:
                raise Bad("head of the block at %d" % p)
            if xxh64(b[p : p + 64] + payload) != check:
                raise Bad("checksum of the block at %d" % p)
            if first != done or slots != count:
                raise Bad("block at %d follows another one" % p)
            if kind == 3:
                self.index = (p, list(struct.iter_unpack("<3Q", payload)))
            elif kind == 1:
                places.append((p, first, time))
            if self.everything and kind in (1, 2):
                self.record, self.time = (p, payload), time
                yield ((0, "block", records, None, ops, first, 0) if kind == 1
                       else (0, "closing", 0, None, 0, 0, 0))
            if kind == 2:
                self.closing = dict(struct.iter_unpack("<HQ", payload))
                if p + 72 + length != len(b):
                    raise Bad("bytes after the closing block")
                self.check_index(places)
                return
            if kind == 1:
                if current != thread and done:
                    raise Bad("block at %d has another thread" % p)
                state = [alloc_call, free_call, current, last8, last_slot,
                         count]
                n = 0
                for op in self.block(payload, records, taken, stack, state,
                                     p + 72):
                    n += op[1] in ("alloc", "free", "realloc", "realloc_new",
                                   "realloc_end", "sized")
                    yield op
                if n != ops:
                    raise Bad("block at %d has %d operations, not %d" %
                              (p, n, ops))
                thread, count = state[2], state[5]
                done += n
            p += 72 + length
        raise Bad("no closing block")

    def check_index(self, places):
        """Checks that the index has each block, or each 2nd, 4th, ... one."""
        if (self.index and self.index[0]) != self.closing.get(32):
            raise Bad("the index is not where the closing block says")
        if self.index:
            step = 1
            while (len(places) + step - 1) // step > 8192:
                step *= 2
            if self.index[1] != places[::step]:
                raise Bad("the index is not that of the blocks")

    def block(self, b, records, taken, stack, state, base):
        alloc_call, free_call, thread, last8, last_slot, count = state
        p = 0
        listed = []
        slot = last_slot
        for _ in range(taken):
            v, p = varint(b, p)
            slot += zigzag(v)
            listed.append(slot)
        if listed != stack[::-1][:taken]:
            raise Bad("listed slots are not those on the stack")
        births = []
        birth = 0
        depth = len(stack)
        lowest = depth

        def take():
            nonlocal count, lowest
            if stack:
                s = stack.pop()
                lowest = min(lowest, len(stack))
            else:
                s = count
                count += 1
            births.append(s)
            return s

        def size(code):
            nonlocal last8
            if code & 1:
                last8 += zigzag(code >> 4)
                return last8 * 8 + (code >> 1 & 7)
            last8 += zigzag(code >> 1)
            return last8 * 8

        for _ in range(records):
            self.record = (base + p, b"")
            v, p = varint(b, p)
            if v & 1:
                n = size(v >> 1)
                yield thread, "alloc", alloc_call, take(), n, 0, 0
            elif v & 2:
                birth += zigzag(v >> 2)
                s = births[birth]
                stack.append(s)
                yield thread, "free", free_call, s, 0, 0, 0
            elif v & 4:
                last_slot += zigzag(v >> 3)
                stack.append(last_slot)
                yield thread, "free", free_call, last_slot, 0, 0, 0
            elif v & 8:
                birth += zigzag(v >> 4)
                w, p = varint(b, p)
                n = size(w >> 2)
                yield (thread, "realloc", 4 if w & 1 else 3, births[birth], n,
                       0, w >> 1 & 1)
            else:
                kind, arg = v >> 4 & 31, v >> 9
                x = b""
                if kind >= 16:
                    x = b[p : p + arg]
                    p += arg
                    self.record = (self.record[0], x)
                if kind == 1:
                    alloc_call = arg
                elif kind == 2:
                    free_call = arg
                elif kind == 3:
                    thread = arg
                elif kind == 4:
                    self.time += arg
                elif kind == 5:
                    last_slot += zigzag(arg)
                    w, p = varint(b, p)
                    n = size(w >> 2)
                    yield (thread, "realloc", 4 if w & 1 else 3, last_slot, n,
                           0, w >> 1 & 1)
                elif kind == 16:
                    yield (thread, "alloc", x[0], take(),
                           int.from_bytes(x[2:], "little"), 1 << x[1], 0)
                elif kind == 17:
                    yield (thread, "realloc_new", x[0], take(),
                           int.from_bytes(x[2:], "little"), 0, 0)
                elif kind == 18:
                    s = struct.unpack_from("<I", x, 1)[0]
                    stack.append(s)
                    yield thread, "realloc_end", x[0], s, 0, 0, 0
                elif kind == 19:
                    s = struct.unpack_from("<I", x, 1)[0]
                    stack.append(s)
                    yield (thread, "sized" if self.everything else "free",
                           x[0], s, int.from_bytes(x[5:], "little"), 0, 0)
                elif kind == 20:
                    yield (thread, "failed", x[0], None,
                           int.from_bytes(x[3:], "little"), 0, 0)
                elif kind == 23:
                    yield thread, "mark", 0, None, x.decode("latin-1"), 0, 0
                elif kind == 24:
                    yield (thread, "extension", 0, None,
                           struct.unpack_from("<Q", x, 1)[0], x[0], 0)
                elif kind == 29:
                    s = struct.unpack_from("<I", x, 2)[0]
                    yield (thread, "realloc", x[0], s,
                           int.from_bytes(x[6:], "little"), 0, x[1] >> 1 & 1)
                elif kind == 31 and x[:1] == b"\1" and self.everything:
                    yield (thread, "present", 0, None,
                           int.from_bytes(x[1:], "little"), 0, 0)
                elif kind >= 16 and self.everything:
                    yield thread, "other", kind, None, len(x), 0, 0
        if p != len(b):
            raise Bad("a block has bytes after its last record")
        if depth - lowest != taken:
            raise Bad("a block lists %d slots and takes %d" %
                      (taken, depth - lowest))
        state[2], state[5] = thread, count


CLOSING = (
    "ops records blocks slots live_at_end peak_live_bytes threads events "
    "mallocs memaligns reallocs frees failed_allocations requested_bytes "
    "unmatched_frees unmatched_reallocs untraced_frees dropped_events "
    "order_conflicts complete clean_end still_being_recorded thread_switches "
    "widest_interval_ns median_interval_ns damaged_places lost_stream_bytes "
    "start_ns end_ns raw_bytes damaged_events index_offset "
    "present_blocks").split()

CLOSING_OF_SOME = {40: "prologue_ops", 41: "epilogue_ops",
                   42: "left_out_events", 43: "begins_late", 44: "wrong_frees"}


def closing_name(field):
    if field >= 0x8000:
        return ACCOUNTS.get(field - 0x8000, "field%d" % field)
    if field in CLOSING_OF_SOME:
        return CLOSING_OF_SOME[field]
    return CLOSING[field - 1] if field <= len(CLOSING) else "field%d" % field


def fields(x, name):
    return "".join(" %s=%d" % (name(f), v)
                   for f, v in struct.iter_unpack("<HQ", x))


def raw_account(field):
    return ACCOUNTS.get(field, "field%d" % field)


def text_of(op, x, start):
    """Line of malloc-trace dump for an operation with bytes X."""
    _, what, call, slot, size, align, moved = op
    name = CALLS.get(call)
    if what == "alloc":
        return "slot %d = %s(%s)" % (slot, name,
                                     request({"size": size, "align": align}))
    if what == "free":
        return "%s(slot %d)" % (name, slot)
    if what == "sized":
        return "%s(slot %d, %d)" % (name, slot, size)
    if what == "realloc":
        return "slot %d = %s(slot %d, %d)%s" % (slot, name, slot, size,
                                                " moved" if moved else "")
    if what == "realloc_new":
        return "slot %d = %s(%s, %d)" % (slot, name, "unknown" if x[1] & 1
                                         else "NULL", size)
    if what == "realloc_end":
        return "%s(slot %d, 0) freed it" % (name, slot)
    if what == "failed":
        old = ""
        if call in (3, 4):
            old = "known, " if x[2] & 4 else "NULL, "
        return "%s(%s%s) failed" % (name, old, request({"size": size,
                                                        "log2": x[1]}))
    if what == "mark":
        return "mark " + quoted(x)
    if what == "present":
        return "present bytes %d" % size
    if what == "extension":
        return "extension %s(%d)" % (EXTENSIONS.get(align, align), size)
    kind = call
    if kind == 21:
        return "thread starts, kernel id %d" % struct.unpack("<II", x)[1]
    if kind == 22:
        return "thread ends, name " + quoted(x[4:])
    if kind == 27:
        return "site %d" % int.from_bytes(x, "little")
    if kind == 28:
        return site_def_text(x)
    if kind == 25:
        return "sample" + fields(x[8:], raw_account)
    if kind == 26:
        n, a, z = struct.unpack_from("<3Q", x, 4)
        return "gap, %d events dropped, %s..%s" % (n, seconds(a, start),
                                                   seconds(z, start))
    return "record of kind %d, %d bytes" % (kind, len(x))


def dump(path):
    p = Processed(path, everything=True)
    h = p.raw
    start = h.clock_start if h else 0
    print(line(0, "-", "-", "header, version 1" + (origin(h) if h else "")))
    for op in p.ops():
        at, x = p.record
        thread, what, kind = op[:3]
        time = p.time
        if what == "block":
            text = "block, %d records, %d operations after %d" % (
                op[2], op[4], op[5])
        elif what == "closing":
            text = "end" + fields(x, closing_name)
        else:
            text = text_of(op, x, start)
        if what in ("block", "closing"):
            thread = 0
        elif what == "other" and kind in (21, 22, 26):
            thread = struct.unpack_from("<I", x)[0]
        elif what == "other" and kind == 25:
            thread, time = 0, struct.unpack_from("<Q", x)[0]
        print(line(at, thread or "-", seconds(time, start), text))


def main(path):
    for thread, what, call, slot, size, align, moved in Processed(path).ops():
        print(thread, what, CALLS.get(call, "-"),
              "-" if slot is None else slot, size, align, moved)


if __name__ == "__main__":
    try:
        if sys.argv[1] == "--dump":
            dump(sys.argv[2])
        else:
            main(sys.argv[1])
    except (Bad, OSError, IndexError) as e:
        sys.stderr.write("procdump: %r\n" % e)
        sys.exit(1)
