#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reads raw traces and spools, from doc/raw-trace-format.md alone.

An independent reader: it shares no code with the tools it is used to check.

  rawdump.py [FILE...]           one line an event
  rawdump.py --dump FILE...      the lines of `malloc-trace dump`, by offset
  rawdump.py --counts FILE...    JSON of counts, as postprocess defines them
  rawdump.py --marked FILE...    per thread, events between a block of 5130000
                                 + x bytes and one of 5140000 + x, x being the
                                 thread's letter; blocks named x.1, x.2, ...

FILEs of one recording (trace and spool) are merged. Any violation of the
format ends it with status 1 and one line on stderr.
"""
import json
import os
import struct
import subprocess
import sys

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
RAW_MAGIC = b"\x89MTRAW\r\n"
SPOOL_MAGIC = b"\x89MTSPL\r\n"
SEGMENT_SYNC = b"\xa5\x53\x47\xf1"
BUFFER_SYNC = b"\xa5\x53\x42\xf1"
LATE = 0xFFFFFFFF

CALLS = {
    1: "malloc", 2: "calloc", 3: "realloc", 4: "reallocarray", 5: "new",
    6: "new[]", 7: "new(nothrow)", 8: "new[](nothrow)", 16: "memalign",
    17: "aligned_alloc", 18: "posix_memalign", 19: "valloc", 20: "pvalloc",
    21: "new(align)", 22: "new[](align)", 23: "new(align,nothrow)",
    24: "new[](align,nothrow)", 32: "free", 33: "cfree", 34: "delete",
    35: "delete[]", 36: "delete(size)", 37: "delete[](size)",
    38: "delete(nothrow)", 39: "delete[](nothrow)", 40: "delete(align)",
    41: "delete[](align)", 42: "delete(size,align)",
    43: "delete[](size,align)", 44: "delete(align,nothrow)",
    45: "delete[](align,nothrow)", 46: "free_sized",
    47: "free_aligned_sized",
}
ACCOUNTS = {
    1: "tcmalloc.thread_cache_misses", 2: "tcmalloc.thread_cache_overflows",
    3: "tcmalloc.central_fetches", 4: "tcmalloc.central_returns",
    5: "tcmalloc.transfer_cache_hits", 6: "tcmalloc.spans_made",
    7: "tcmalloc.spans_freed", 8: "tcmalloc.system_bytes_taken",
    9: "tcmalloc.system_bytes_returned", 16: "rss_anon_bytes",
    17: "minor_faults", 18: "major_faults", 32: "events", 33: "mallocs",
    34: "memaligns", 35: "reallocs", 36: "frees", 37: "failed_allocations",
    38: "untraced_frees", 39: "dropped_events", 40: "waits", 41: "wait_ns",
    42: "threads", 43: "buffers", 44: "segments", 45: "raw_bytes",
    46: "stored_bytes", 47: "slow_path_times", 48: "saver_cpu_ns",
    49: "rounds", 50: "end_reason", 51: "program_cpu_ns",
    52: "stacks_checked", 53: "stacks_different",
}
SEGMENTS = {1: "data", 2: "barrier", 3: "sample", 4: "notice", 5: "footer",
            6: "header", 7: "present", 8: "sites"}


class Bad(Exception):
    pass


def rotl(x, r):
    return ((x << r) | (x >> (64 - r))) & MASK


def xxh64(data, seed=0):
    n = len(data)
    p = 0
    if n >= 32:
        a = (seed + P1 + P2) & MASK
        b = (seed + P2) & MASK
        c = seed
        d = (seed - P1) & MASK
        for w, x, y, z in struct.iter_unpack("<4Q", data[: n // 32 * 32]):
            a = rotl((a + w * P2) & MASK, 31) * P1 & MASK
            b = rotl((b + x * P2) & MASK, 31) * P1 & MASK
            c = rotl((c + y * P2) & MASK, 31) * P1 & MASK
            d = rotl((d + z * P2) & MASK, 31) * P1 & MASK
        h = (rotl(a, 1) + rotl(b, 7) + rotl(c, 12) + rotl(d, 18)) & MASK
        for v in (a, b, c, d):
            h = ((h ^ (rotl(v * P2 & MASK, 31) * P1)) * P1 + P4) & MASK
        p = n // 32 * 32
    else:
        h = (seed + P5) & MASK
    h = (h + n) & MASK
    while p + 8 <= n:
        k = struct.unpack_from("<Q", data, p)[0]
        k = rotl(k * P2 & MASK, 31) * P1 & MASK
        h = (rotl(h ^ k, 27) * P1 + P4) & MASK
        p += 8
    if p + 4 <= n:
        h ^= struct.unpack_from("<I", data, p)[0] * P1 & MASK
        h = (rotl(h, 23) * P2 + P3) & MASK
        p += 4
    while p < n:
        h ^= data[p] * P5 & MASK
        h = rotl(h, 11) * P1 & MASK
        p += 1
    h = (h ^ (h >> 33)) * P2 & MASK
    h = (h ^ (h >> 29)) * P3 & MASK
    return h ^ (h >> 32)


def varint(b, p):
    """Returns (payload, next position); IndexError past the end."""
    first = b[p]
    if not first:
        raise Bad("varint begins with a zero byte")
    n = (first & -first).bit_length()
    if p + n > len(b):
        raise IndexError
    return int.from_bytes(b[p : p + n], "little") >> n, p + n


def zigzag(v):
    return v >> 1 if not v & 1 else -((v + 1) >> 1)


def site_def(x):
    """Parses a definition of a call site or module: (kind, number, ...)."""
    if x[0] == 1:
        site, parent, module, address = struct.unpack_from("<IIIQ", x, 1)
        return "frame", site, parent, module, address
    number = struct.unpack_from("<I", x, 1)[0]
    if x[0] == 2:
        start, end, bias, n = struct.unpack_from("<QQQB", x, 5)
        return "module", number, start, end, bias, x[30 : 30 + n], x[30 + n :]
    if x[0] == 3:
        return "path", number, x[5:]
    if x[0] == 4:
        site, parent, language, file, line, function = struct.unpack_from(
            "<IIBIII", x, 1)
        return "line", site, parent, language, file, line, function
    if x[0] == 5:
        return ("text",) + struct.unpack_from("<II", x, 1) + (x[9:],)
    if x[0] == 6:
        return ("mode",) + struct.unpack_from("<BBIQ", x, 1)
    raise Bad("definition %d of a call site" % x[0])


def site_def_text(x):
    d = site_def(x)
    if d[0] == "path":
        return "more of the path of module %d, %s" % (d[1], quoted(d[2]))
    if d[0] == "line":
        return ("site %d is line %d of language %d, file text %d, "
                "function text %d%s" % (
                    d[1], d[5], d[3], d[4], d[6],
                    ", called at site %d" % d[2] if d[2] else ""))
    if d[0] == "text":
        return "text %d from byte %d, %s" % (d[1], d[2], quoted(d[3]))
    if d[0] == "mode":
        return "sites of mode %d%s%s%s" % (
            d[1], ", of frees too" if d[2] else "",
            ", frames at most %d" % d[3] if d[3] else "",
            ", a sample each bytes %d" % d[4] if d[4] else "")
    if d[0] == "module":
        return "module %d at 0x%x to 0x%x, bias 0x%x, build id %s, %s" % (
            d[1], d[2], d[3], d[4], d[5].hex() or "none", quoted(d[6]))
    text = " returns to 0x%x" % d[4]
    if d[3] == 0 and d[4] < 2:
        text = (" is not known", " is left out")[d[4]]
    return "site %d%s%s%s" % (d[1], text,
                              " in module %d" % d[3] if d[3] else "",
                              ", called at site %d" % d[2] if d[2] else "")


class Sites:
    """Definitions of call sites and modules of a trace."""

    def __init__(self):
        self.frames = {}  # site -> (parent, module, address)
        self.modules = {}  # number -> [start, end, bias, build id, path]
        self.lines = {}  # site -> (parent, language, file, line, function)
        self.texts = {}  # number -> bytes
        self.mode = None  # (mode, frees, depth, mean)

    def take(self, x):
        d = site_def(x)
        if d[0] == "frame":
            if self.frames.setdefault(d[1], d[2:]) != d[2:]:
                raise Bad("site %d is defined twice" % d[1])
        elif d[0] == "line":
            if self.lines.setdefault(d[1], d[2:]) != d[2:]:
                raise Bad("site %d is defined twice" % d[1])
        elif d[0] == "text":
            had = self.texts.get(d[1], b"")
            if had[d[2] : d[2] + len(d[3])] not in (b"", d[3]) or (
                    d[2] > len(had)):
                raise Bad("text %d has two forms" % d[1])
            self.texts[d[1]] = had[: d[2]] + d[3] + had[d[2] + len(d[3]) :]
        elif d[0] == "mode":
            self.mode = d[1:]
        elif d[0] == "module":
            self.modules[d[1]] = list(d[2:])
        else:
            self.modules[d[1]][4] += d[2]

    def stack(self, site):
        """Return addresses, the innermost first; of what lies outside of the
        last one, if anything does, 0 or 1."""
        while site:
            parent, _, address = self.frames[site]
            yield address
            site = parent

    def place(self, site):
        """Returns the module's path and the address in it before the return."""
        _, module, address = self.frames[site]
        if not module:
            return "", address
        m = self.modules[module]
        return m[4].decode(), address - m[2] - 1


class Header:
    def __init__(self, b):
        if b[:8] != RAW_MAGIC:
            raise Bad("no raw trace")
        (self.version, self.must, self.length, self.pid, self.parent,
         self.start, self.random, self.parent_start, self.parent_random,
         self.wall, self.clock_start, self.first_token, self.page_size,
         self.clock, self.settings, _, self.bound) = struct.unpack_from(
            "<HHIIIQQQQQQQIBBHQ", b, 8)
        if self.version != 1 or self.must:
            raise Bad("version %d, must-understand %x" %
                      (self.version, self.must))
        n = self.length
        if n % 8 or n > 2048 or n < 104 or len(b) < n:
            raise Bad("header of %d bytes" % n)
        if xxh64(b[: n - 8]) != struct.unpack_from("<Q", b, n - 8)[0]:
            raise Bad("checksum of the header")
        self.fields = {}
        p = 96
        while p + 4 <= n - 8:
            tag, length = struct.unpack_from("<HH", b, p)
            if not tag:
                break
            self.fields[tag] = b[p + 4 : p + 4 + length]
            p += 4 + length
        self.id = (self.pid, self.start, self.random)


def event_length(b, p):
    """Returns the position after the event at p."""
    v, q = varint(b, p)
    t = v & 3
    if t == 3:
        return varint(b, q)[1]
    if t == 0 and (v >> 2 & 31) >= 16:
        q += v >> 7
        if q > len(b):
            raise IndexError
    return q


def whole_blocks(b):
    """LZ4 frames without checksums, the last one ended behind its last whole
    block: from 1.10 on, lz4 writes nothing of a frame that is cut."""
    p = 0
    while b[p : p + 5] == b"\x04\x22\x4d\x18\x40":
        p += 7
        while len(b) - p >= 4:
            n = struct.unpack_from("<I", b, p)[0] & 0x7FFFFFFF
            if len(b) - p < 4 + n:
                return b[:p] + bytes(4)
            p += 4 + n
            if n == 0:
                break
        else:
            return b[:p] + bytes(4)
    return b


class Trace:
    """Recording: header, pieces of each thread's stream, the rest."""

    def __init__(self):
        self.header = None
        self.pieces = {}  # thread -> [(offset, bytes, buffer_start, lo, hi)]
        self.segments = []  # (kind, time_lo, time_hi, payload) in file order
        self.places = []  # offset of each
        self.header_at = 0
        self.footer = None
        self.cut = False
        self.sites = Sites()

    def take_header(self, h):
        if self.header and self.header.id != h.id:
            raise Bad("files are of different recordings")
        self.header = self.header or h

    def read(self, path):
        with open(path, "rb") as f:
            b = f.read()
        if b[:4] == b"\x04\x22\x4d\x18":
            b = subprocess.run(["lz4", "-dc"], input=whole_blocks(b),
                               check=False, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL).stdout
        if b[:8] == SPOOL_MAGIC:
            self.read_spool(b)
        else:
            self.read_raw(b)

    def read_raw(self, b):
        h = Header(b)
        self.take_header(h)
        p = h.length
        last_barrier = 0
        barrier_time = 0
        while p < len(b):
            if len(b) - p < 56:
                self.cut = True
                return
            if b[p : p + 4] != SEGMENT_SYNC:
                raise Bad("no segment at %d" % p)
            (kind, _, _, length, thread, offset, start, lo, hi,
             check) = struct.unpack_from("<BBHIIQQQQQ", b, p + 4)
            if length > 1 << 20:
                raise Bad("segment of %d bytes at %d" % (length, p))
            if p + 56 + length > len(b):
                self.cut = True
                return
            payload = b[p + 56 : p + 56 + length]
            # a copy of the header, read before the random number is known
            seed = 0 if kind == 6 else h.random
            if xxh64(b[p : p + 48] + payload, seed) != check:
                raise Bad("checksum of the segment at %d" % p)
            if lo > hi:
                raise Bad("segment at %d: time runs backwards" % p)
            self.segments.append((kind, lo, hi, payload))
            self.places.append(p)
            if kind == 1:
                if start > offset:
                    raise Bad("segment at %d before its buffer" % p)
                if hi <= barrier_time:
                    raise Bad("segment at %d belongs before its barrier" % p)
                self.add(thread, offset, payload, start, lo, hi, p + 56)
            elif kind == 2:
                number = struct.unpack("<Q", payload)[0]
                if number != last_barrier + 1:
                    raise Bad("barrier %d after %d" % (number, last_barrier))
                if lo < barrier_time:
                    raise Bad("barriers run backwards")
                last_barrier, barrier_time = number, lo
            elif kind == 8:
                q = 0
                while q < length:
                    end = event_length(payload, q)
                    self.sites.take(payload[varint(payload, q)[1] : end])
                    q = end
            elif kind == 5:
                self.footer = dict(struct.iter_unpack("<HQ", payload))
            p += 56 + length

    def read_spool(self, b):
        version, must, at = struct.unpack_from("<HHI", b, 8)
        if version != 1 or must:
            raise Bad("spool version")
        if xxh64(b[:24]) != struct.unpack_from("<Q", b, 24)[0]:
            raise Bad("checksum of the spool's head")
        h = Header(b[at:])
        self.header_at = at
        self.take_header(h)
        p = 4096
        while p + 48 <= len(b):
            size, thread, _, offset, lo, _, check = struct.unpack_from(
                "<IIIQQQQ", b, p + 4)
            if (b[p : p + 4] != BUFFER_SYNC
                    or xxh64(b[p : p + 40], h.random) != check):
                p += 4096
                continue
            given_ns, given = (0, 0)
            if p + size <= len(b):
                given_ns, given = struct.unpack_from("<QI", b, p + size - 16)
            body = b[p + 48 : p + size]
            q = 0
            while q < len(body) and body[q]:
                try:
                    q = event_length(body, q)
                except IndexError:
                    raise Bad("spool buffer at %d: event runs out" % p)
            cut = 0
            if 48 < given <= 48 + q and given_ns > lo:
                while cut < given - 48:
                    cut = event_length(body, cut)
                if cut != given - 48:
                    raise Bad("spool buffer at %d: cut inside an event" % p)
                self.add(thread, offset, body[:cut], offset, lo, given_ns,
                         p + 48)
                lo = given_ns
            if q > cut:
                self.add(thread, offset + cut, body[cut:q], offset, lo, MASK,
                         p + 48 + cut)
            p += max(4096, (size + 4095) // 4096 * 4096)

    def add(self, thread, offset, payload, start, lo, hi, place):
        self.pieces.setdefault(thread, []).append(
            (offset, payload, start, lo, hi, place))

    def stream(self, thread):
        """Yields runs of contiguous bytes: (offset, bytes, times); only the
        first run of a whole stream begins at 0."""
        at = None
        run = bytearray()
        times = []
        for offset, payload, start, lo, hi, place in sorted(
                self.pieces[thread], key=lambda x: (x[0], len(x[1]))):
            if at is not None and offset + len(payload) <= at:
                continue
            if at is None or offset > at:
                if run:
                    yield bytes(run), times
                if offset != start:
                    at = None
                    run, times = bytearray(), []
                    continue
                run, times, at = bytearray(), [], offset
                self.gaps += offset > 0 and 1 or 0
            times.append((len(run), lo, hi, place + at - offset))
            run += payload[at - offset :]
            at = offset + len(payload)
        if run:
            yield bytes(run), times

    def events(self, thread):
        """Yields dicts, in the order of the thread's stream."""
        self.gaps = 0
        for run, times in self.stream(thread):
            yield from self.decode(thread, run, times)

    def decode(self, thread, b, times, everything=False):
        p = 0
        owner = thread
        nxt = left = last8 = freed = time = 0
        site, follow = 0, [0] * 256
        alloc_call = free_call = None
        began = False
        k = 0
        lo = 0

        def take():
            nonlocal nxt, left
            if left == 0:
                raise Bad("thread %d: no token left" % thread)
            nxt += 1
            left -= 1
            return nxt - 1

        def size(code):
            nonlocal last8
            if code & 1:
                last8 += zigzag(code >> 4)
                return (last8 * 8 + (code >> 1 & 7)) & MASK
            last8 += zigzag(code >> 1)
            return last8 * 8 & MASK

        while p < len(b):
            while k < len(times) and times[k][0] <= p:
                lo, hi = times[k][1], times[k][2]
                k += 1
            try:
                # Most events begin with a varint of one byte.
                v, q = (b[p] >> 1, p + 1) if b[p] & 1 else varint(b, p)
                t = v & 3
                v >>= 2
                e = {"thread": owner, "lo": max(lo, time), "hi": hi}

                if t and not began:
                    raise Bad("thread %d: event before BUFFER" % thread)
                if t == 1:
                    e.update(kind="alloc", call=alloc_call, size=size(v),
                             token=take(), align=0)
                elif t == 2:
                    freed += zigzag(v)
                    e.update(kind="free", call=free_call, old=freed)
                elif t == 3:
                    w, q = varint(b, q)
                    freed += zigzag(v)
                    e.update(kind="realloc", call=4 if w & 1 else 3,
                             old=freed, moved=w >> 1 & 1, size=size(w >> 2),
                             token=take())
                else:
                    kind, arg = v & 31, v >> 5
                    if kind >= 16:
                        x = b[q : q + arg]
                        if len(x) < arg:
                            raise IndexError
                        q += arg
                    if not began and kind != 16:
                        raise Bad("thread %d: event before BUFFER" % thread)
                    if kind == 1:
                        alloc_call = arg
                        e = None
                    elif kind == 2:
                        free_call = arg
                        e = None
                    elif kind == 3:
                        time += arg
                        e.update(kind="time", time=time)
                    elif kind == 4:
                        nxt += left + (arg >> 5)
                        left = 1 << (arg & 31)
                        e = None
                    elif kind == 5:
                        owner = arg
                        e = None
                    elif kind == 6:
                        e.update(kind="untraced", count=arg)
                    elif kind == 7:
                        e.update(kind="present", count=arg)
                    elif kind == 8:
                        n = follow[site % 256]
                        if arg:
                            n = site + zigzag(arg)
                        if not 0 <= n < 1 << 24:
                            raise Bad("thread %d: site %d" % (thread, n))
                        follow[site % 256] = n
                        site = n
                        e.update(kind="site", site=site)
                    elif kind == 16:
                        site, follow = 0, [0] * 256
                        (when, token, n, cpu, alloc_call, free_call, untraced,
                         dropped, waits, wait_ns) = struct.unpack("<QQIHBBQQQQ", x)
                        if began and token < nxt:
                            raise Bad("thread %d: tokens go back" % thread)
                        if when < time:
                            raise Bad("thread %d: time goes back" % thread)
                        time, nxt, left = when, token, n
                        last8, freed, began = 0, token, True
                        owner = thread
                        e.update(kind="buffer", untraced=untraced,
                                 dropped=dropped, waits=waits, cpu=cpu)
                        if everything:
                            e.update(time=time, next=token, left=n)
                    elif kind == 17:
                        e.update(kind="start", tid=struct.unpack("<I", x)[0])
                    elif kind == 18:
                        e.update(kind="end", name=x.decode("latin-1"))
                    elif kind == 19:
                        e.update(kind="alloc", call=x[0], align=1 << x[1],
                                 size=int.from_bytes(x[2:], "little"),
                                 token=take())
                    elif kind == 20:
                        e.update(kind="failed", call=x[0], log2=x[1],
                                 old=struct.unpack_from("<Q", x, 2)[0],
                                 size=int.from_bytes(x[10:], "little"))
                    elif kind == 21:
                        freed = struct.unpack_from("<Q", x, 1)[0]
                        e.update(kind="free", call=x[0], old=freed,
                                 given=int.from_bytes(x[9:], "little"))
                    elif kind == 22:
                        e.update(kind="realloc_new", call=x[0],
                                 unknown=x[1] & 1,
                                 size=int.from_bytes(x[2:], "little"),
                                 token=take())
                    elif kind == 23:
                        freed = struct.unpack_from("<Q", x, 1)[0]
                        e.update(kind="realloc_end", call=x[0], old=freed)
                    elif kind == 24:
                        e.update(kind="mark", text=x.decode("latin-1"))
                    elif kind == 25:
                        e.update(kind="extension", which=x[0],
                                 arg=struct.unpack_from("<Q", x, 1)[0])
                    elif kind == 26:
                        n, a, z = struct.unpack("<QQQ", x)
                        e.update(kind="gap", count=n, start=a, stop=z)
                    elif kind == 27:
                        self.sites.take(x)
                        e.update(kind="site_def", bytes=x)
                    elif kind == 28:
                        e.update(kind="wrong", by=x[0], what=x[1],
                                 old=struct.unpack_from("<Q", x, 2)[0],
                                 value=struct.unpack_from("<Q", x, 10)[0])
                    else:
                        e.update(kind="unknown", length=len(x))
            except IndexError:
                raise Bad("thread %d: event runs out of the stream" % thread)
            except struct.error:
                raise Bad("thread %d: event of a wrong length" % thread)
            if (e and not everything and
                    e["kind"] in ("time", "unknown", "site", "site_def",
                                   "wrong")):
                e = None
            if e:
                e["at"] = p
                if "call" in e or e["kind"].startswith("realloc"):
                    e.setdefault("site", site)
                if "call" in e and e["call"] not in CALLS:
                    raise Bad("thread %d: call %s" % (thread, e["call"]))
                yield e
            p = q


def load(paths):
    t = Trace()
    for path in paths:
        t.read(path)
    t.gaps = 0
    return t


def counts(t):
    c = dict(events=0, mallocs=0, memaligns=0, reallocs=0, frees=0,
             failed_allocations=0, requested_bytes=0, untraced_frees=0,
             dropped_events=0, threads=0, marks=0, gaps=0)
    live = {}
    ended = []
    active = set()
    for thread in t.pieces:
        for e in t.events(thread):
            k = e["kind"]
            if k in ("alloc", "realloc", "realloc_new"):
                if e["token"] in live:
                    raise Bad("token %d given twice" % e["token"])
                if e["token"] < t.header.first_token:
                    raise Bad("token %d before the first" % e["token"])
                live[e["token"]] = e["size"]
                c["requested_bytes"] += e["size"]
                key = ("reallocs" if k != "alloc" else
                       "memaligns" if e["align"] else "mallocs")
                c[key] += 1
            if k in ("free", "realloc", "realloc_end"):
                ended.append(e["old"])
            if k == "free":
                c["frees"] += 1
            elif k == "realloc_end":
                c["reallocs"] += 1
            elif k == "failed":
                c["failed_allocations"] += 1
            elif k == "untraced":
                c["untraced_frees"] += e["count"]
            elif k == "gap":
                c["dropped_events"] += e["count"]
            elif k == "mark":
                c["marks"] += 1
            if k in ("alloc", "free", "realloc", "realloc_new", "realloc_end",
                     "failed"):
                active.add(e["thread"])
        c["gaps"] += t.gaps
    c["threads"] = len(active)
    c["events"] = sum(c[k] for k in ("mallocs", "memaligns", "reallocs",
                                     "frees", "failed_allocations"))
    if len(ended) != len(set(ended)):
        raise Bad("a block ends twice")
    c["unmatched_frees"] = sum(1 for x in ended if x not in live)
    c["live_at_end"] = len(live) - (len(ended) - c["unmatched_frees"])
    c["clean_end"] = t.footer is not None
    return c


def describe(e, name):
    k = e["kind"]
    if k == "alloc":
        s = "%s %d" % (CALLS[e["call"]], e["size"])
        if e["align"]:
            s += " align %d" % e["align"]
        return s + " -> " + name(e["token"])
    if k == "free":
        s = "%s %s" % (CALLS[e["call"]], name(e["old"]))
        return s + (" given %d" % e["given"] if "given" in e else "")
    if k == "realloc":
        return "%s %s %d%s -> %s" % (
            CALLS[e["call"]], name(e["old"]), e["size"],
            " moved" if e["moved"] else "", name(e["token"]))
    if k == "realloc_new":
        return "%s %s %d -> %s" % (
            CALLS[e["call"]], "unknown" if e["unknown"] else "null",
            e["size"], name(e["token"]))
    if k == "realloc_end":
        return "%s %s ended" % (CALLS[e["call"]], name(e["old"]))
    if k == "failed":
        s = "failed %s %d" % (CALLS[e["call"]], e["size"])
        if e["log2"]:
            s += " align " + ("bad" if e["log2"] == 255
                              else str(1 << e["log2"]))
        return s + (" old " + name(e["old"]) if e["old"] else "")
    return k + "".join(" %s=%s" % (x, e[x]) for x in e
                       if x not in ("kind", "thread", "lo", "hi", "at"))


WRONGS = {1: "freed already", 2: "inside a block", 3: "no block"}
EXTENSIONS = {1: "malloc_trim", 2: "release_free_memory",
              3: "release_to_system", 4: "mark_thread_idle",
              5: "mark_thread_temporarily_idle", 6: "mark_thread_busy"}


def quoted(b):
    return '"%s"' % "".join(
        "\\" + chr(c) if c in b'"\\' else
        chr(c) if 0x20 <= c < 0x7F else "\\x%02x" % c for c in b)


def origin(h):
    """Text about the origin of a trace, from its header."""
    text = ", process %d" % h.pid if h.pid else ""
    for what, field in ((", executable ", 1), (", recorder ", 2),
                        (", allocator ", 5)):
        if h.fields.get(field):
            text += what + quoted(h.fields[field])
    return text


def seconds(ns, start):
    d = ns - start
    return "%s%d.%09d" % ("-" if d < 0 else "", abs(d) // 10**9,
                          abs(d) % 10**9)


def line(offset, thread, time, what):
    """Formats text like malloc-trace dump."""
    return "%10s %4s %s %s" % (offset, thread, time, what)


def request(e):
    log2 = e.get("log2") or e.get("align", 0).bit_length() - 1
    return "%d%s" % (e["size"],
                     ", align no power of two" if log2 >= 64 else
                     ", align %d" % (1 << log2) if log2 > 0 else "")


def accounts(payload):
    return "".join(" %s=%d" % (ACCOUNTS.get(f, "field%d" % f), v)
                   for f, v in struct.iter_unpack("<HQ", payload))


def event_text(e, start):
    """Line of malloc-trace dump for an event."""
    k = e["kind"]
    call = CALLS.get(e.get("call"))
    if k == "alloc":
        return "#%d = %s(%s)" % (e["token"], call, request(e))
    if k == "free":
        return "%s(#%d%s)" % (call, e["old"], ", %d" % e["given"]
                              if "given" in e else "")
    if k == "realloc":
        return "#%d = %s(#%d, %d)%s" % (e["token"], call, e["old"], e["size"],
                                        " moved" if e["moved"] else "")
    if k == "realloc_new":
        return "#%d = %s(%s, %d)" % (e["token"], call, "unknown" if
                                     e["unknown"] else "NULL", e["size"])
    if k == "realloc_end":
        return "%s(#%d, 0) freed it" % (call, e["old"])
    if k == "failed":
        old = ""
        if e["call"] in (3, 4):
            old = "#%d, " % e["old"] if e["old"] else "NULL, "
        return "%s(%s%s) failed" % (call, old, request(e))
    if k == "buffer":
        return ("buffer, cpu %d, next #%d, left %d, untraced frees %d, "
                "dropped %d, waits %d" % (e["cpu"], e["next"], e["left"],
                                          e["untraced"], e["dropped"],
                                          e["waits"]))
    if k == "extension":
        return "extension %s(%d)" % (EXTENSIONS.get(e["which"], e["which"]),
                                     e["arg"])
    if k == "gap":
        return "gap, %d events dropped, %s..%s" % (
            e["count"], seconds(e["start"], start), seconds(e["stop"], start))
    if k == "wrong":
        text = "wrong %s: %s" % (CALLS[e["by"]], WRONGS[e["what"]])
        if e["old"]:
            text += ", #%d" % e["old"]
        return text + {2: ", byte %d", 3: ", %#x"}.get(
            e["what"], "%.0s") % e["value"]
    if k == "site":
        return "site %d" % e["site"]
    if k == "site_def":
        return site_def_text(e["bytes"])
    return {"untraced": "untraced frees %s", "present": "present bytes %s",
            "start": "thread starts, kernel "
            "id %s", "end": "thread ends, name %s", "mark": "mark %s",
            "unknown": "event of a later version, %s bytes"}[k] % (
                e["count"] if k in ("untraced", "present") else e["tid"] if k == "start"
                else e["length"] if k == "unknown" else
                quoted(e["name" if k == "end" else "text"].encode("latin-1")))


def dump_stream(t, thread, run, times):
    start = t.header.clock_start
    events = list(t.decode(thread, run, times, True))
    first = lo = 0
    for n, (begin, seg_lo, seg_hi, place) in enumerate(times):
        end = times[n + 1][0] if n + 1 < len(times) else len(run)
        last = first
        while last < len(events) and events[last]["at"] < end:
            last += 1
        mine = events[first:last]
        first = last
        # The next time in the segment bounds each event from above.
        bounds = [seg_hi]
        for e in reversed(mine):
            bounds.append(e.get("time", bounds[-1]))
        bounds.reverse()
        lo = max(lo, seg_lo)
        for e, later in zip(mine, bounds[1:]):
            if "time" in e:
                lo = max(lo, e["time"])
                if e["kind"] == "time":
                    continue
            hi = max(min(later, seg_hi), lo)
            time = "%s..%s" % (seconds(lo, start), "" if hi == MASK else
                               seconds(hi, start))
            if e["kind"] == "buffer":
                time = seconds(e["time"], start)
            offset = place + e["at"] - begin
            owner = e["thread"]
            yield offset, line(offset, "-" if owner == LATE else owner, time,
                               event_text(e, start))


def dump(t, out):
    h = t.header
    lines = [(t.header_at, line(t.header_at, "-", "-",
              "header, version %d" % h.version + origin(h)))]
    for thread in t.pieces:
        for run, times in t.stream(thread):
            lines += dump_stream(t, thread, run, times)
    for (kind, lo, _, payload), at in zip(t.segments, t.places):
        if kind in (1, 6):
            continue
        if kind == 7:
            for i, (token, n) in enumerate(struct.iter_unpack("<QQ", payload)):
                p = at + 56 + 16 * i
                lines.append((p, line(p, "-", seconds(lo, h.clock_start),
                                      "present bytes %d of #%d" % (n, token))))
            continue
        if kind == 8:
            q = 0
            while q < len(payload):
                end = event_length(payload, q)
                x = payload[varint(payload, q)[1] : end]
                p = at + 56 + q
                lines.append((p, line(p, "-", seconds(lo, h.clock_start),
                                      site_def_text(x))))
                q = end
            continue
        if kind == 2:
            text = "barrier %d" % struct.unpack_from("<Q", payload)[0]
        elif kind == 4:
            text = "notice %d %s" % (struct.unpack_from("<H", payload)[0],
                                     quoted(payload[2:]))
        elif kind in (3, 5):
            text = SEGMENTS[kind] + accounts(payload)
        lines.append((at, line(at, "-", seconds(lo, h.clock_start), text)))
    for _, text in sorted(lines):
        out.write(text + "\n")


def marked(t, out):
    listing = {}
    names = {}
    for thread in sorted(t.pieces):
        label = None
        markers = set()
        for e in t.events(thread):
            edge = e["size"] - 5130000 if e["kind"] == "alloc" else 0
            if 32 < edge < 127:
                label, n = chr(edge), 0
                listing[label] = []
                markers.add(e["token"])
            elif 10032 < edge < 10127:
                label = None
                markers.add(e["token"])
            elif (label is not None and e["kind"] not in ("buffer", "untraced")
                  and e.get("old") not in markers):
                if "token" in e:
                    n += 1
                    names[e["token"]] = "%s.%d" % (label, n)
                listing[label].append(e)
    for label in sorted(listing):
        for e in listing[label]:
            out.write("%s: %s\n" % (
                label, describe(e, lambda x: names.get(x, "?"))))


def main(args):
    mode = "list"
    if args and args[0] in ("--counts", "--dump", "--marked", "--segments"):
        mode = args.pop(0)[2:]
    if not args or args[0].startswith("--"):
        sys.stderr.write(__doc__)
        return 2
    t = load(args)
    if mode == "counts":
        print(json.dumps(counts(t), indent=2))
    elif mode == "dump":
        dump(t, sys.stdout)
    elif mode == "marked":
        marked(t, sys.stdout)
    elif mode == "segments":
        for kind, lo, hi, payload in t.segments:
            print(SEGMENTS.get(kind, kind), lo, hi, len(payload))
    else:
        for thread in sorted(t.pieces):
            for e in t.events(thread):
                print(e["thread"], describe(e, str))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Bad, OSError) as e:
        sys.stderr.write("rawdump: %s\n" % e)
        sys.exit(1)
    except BrokenPipeError:
        os._exit(1)
