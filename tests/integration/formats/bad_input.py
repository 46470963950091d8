#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Feeds damaged and wrong input to the tools; prints TAP.

bad_input.py TOOLS_FOLDER WORK_FOLDER RAW LZ4_RAW SPOOL LONG

RAW and LZ4_RAW: two small recordings, the second in LZ4 frames or "-". SPOOL: a
spool that is a whole recording, or "-". Every run has a time and a memory limit. What must hold of each:
  exit status 0, 1, 2 or 3, no signal;
  nothing but the trace or the report on stdout;
  for 1: exactly one line on stderr, not empty;
  for 3: something on stderr, and --json is written where it was asked for.
"""
import json
import os
import resource
import struct
import subprocess
import sys

from procdump import Processed
from rawdump import xxh64
from tap import done, ok

tools, work, raw_file, lz4_file, spool_file, long_run = sys.argv[1:]
long_run = long_run == "1"
post = os.path.join(tools, "postprocess")
replay = os.path.join(tools, "replay")
mtrace = os.path.join(tools, "malloc-trace")
out = os.path.join(work, "out")
json_file = os.path.join(work, "out.json")


# The tools inherit these: a process to set them in between each would take as
# long as the tools themselves.
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(args, data=None, stdout=subprocess.PIPE):
    """(status, stderr, stdout); status None: did not end in time."""
    if os.path.exists(json_file):
        os.unlink(json_file)
    try:
        p = subprocess.run(args, input=data, stdout=stdout, timeout=20,
                           stderr=subprocess.PIPE, check=False)
    except subprocess.TimeoutExpired:
        return None, b"timed out", b""
    return p.returncode, p.stderr, p.stdout or b""


def fault(result, wanted, data):
    """What is wrong with a result, or None. DATA: stdout may hold bytes."""
    status, err, text = result
    if status is None or status < 0 or status > 3:
        return "status %s: %r" % (status, err[:300])
    if wanted is not None and status not in wanted:
        return "status %d, want %s: %r" % (status, wanted, err[:300])
    told = [line for line in err.splitlines() if b": warning: " not in line]
    if status == 1 and (len(told) != 1 or len(told[0]) < 10):
        return "status 1 with %r" % err[:300]
    if status == 3 and not err:
        return "status 3 with nothing on stderr"
    if status == 1 and text and not data:
        return "status 1 with %r on stdout" % text[:100]
    if status in (0, 3) and os.path.exists(json_file) is not True \
            and "--json" in run.args:
        return "status %d without --json" % status
    return None


def try_file(name, args, content, wanted, data=False):
    path = os.path.join(work, "in")
    with open(path, "wb") as f:
        f.write(content)
    run.args = args
    args = [path if a == "IN" else a for a in args]
    result = run(args)
    try_file.stderr = result[1]
    return fault(result, wanted, data)


def each(name, args, variants, wanted=None):
    """One check for many damaged inputs: (label, content, wanted)."""
    faults = []
    count = 0
    for label, content, want in variants:
        f = try_file(name, args, content, want or wanted)
        count += 1
        if f:
            faults.append("%s: %s" % (label, f))
            if len(faults) > 5:
                break
    ok(not faults, "%s (%d inputs)" % (name, count), "\n".join(faults))


def cuts(b, step=1):
    for i in range(0, len(b), step):
        # Less than a magic: no trace of any kind. (Where LZ4 begins, it may be
        # one whose first bytes are lost.)
        least = 4 if b[:4] == b"\x04\x22\x4d\x18" else 8
        yield "cut to %d" % i, b[:i], (1,) if i < least else (0, 1, 3)


def flips(b, step=1):
    for i in range(0, len(b), step):
        yield flip(b, i)


def flip(b, i):
    bits = (1, 0x80, 0xFF)[i % 3] if long_run else 1 << i % 8
    c = bytearray(b)
    c[i] ^= bits
    return "byte %d ^ %x" % (i, bits), bytes(c), None


P = [post, "--quiet", "--json", json_file, "IN", out]
R = [replay, "--json", json_file, "IN"]
I = [mtrace, "info", "IN"]
D = [mtrace, "dump", "IN"]
# Tools that the front end offers.
helped = subprocess.run([mtrace, "--help"], stdout=subprocess.PIPE,
                        check=False).stdout.split()
readers = [("info", I)] + ([("dump", D)] if b"dump" in helped else [])

with open(raw_file, "rb") as f:
    raw = f.read()
lz4 = b""
if lz4_file != "-":
    with open(lz4_file, "rb") as f:
        lz4 = f.read()
run.args = []
r = run([post, "--quiet", "--json", json_file, raw_file, out])
ok(r[0] == 0, "the sample itself is good", r[1])
with open(out, "rb") as f:
    processed = f.read()
print("# samples: raw %d, framed %d, processed %d bytes" %
      (len(raw), len(lz4), len(processed)))

# Not a trace at all, or one of the other kind.
nothing = {
    "empty": b"",
    "text": b"This is not a trace, and it never was.\n" * 3,
    "zeros": bytes(5000),
    "one byte": b"\x89",
    "ELF": b"\x7fELF" + bytes(range(256)) * 4,
    "gzip": b"\x1f\x8b\x08\x00" + bytes(range(200)),
    "LZ4 magic alone": b"\x04\x22\x4d\x18",
    "LZ4 of nothing": bytes.fromhex("04224d186440a700000000055dcc02"),
}
for name, content in nothing.items():
    for tool, args in [("postprocess", P), ("replay", R)] + readers:
        # After that magic nobody knows what it would have been.
        want = (1, 3) if name in ("LZ4 magic alone", "gzip") else (1,)
        f = try_file(name, args, content, want)
        ok(not f, "%s of %s: status %s" % (tool, name, want), f)
f = try_file("processed", P, processed, (1,))
ok(not f, "postprocess of a processed trace: status 1", f)
f = try_file("raw", R, raw, (0,))
ok(not f, "replay of a raw trace: status 0", f)
if lz4:
    f = try_file("raw", R, lz4, (0,))
    ok(not f, "replay of a framed raw trace: status 0", f)


def later(b, at, value):
    """Changes a number of the header (and of its copy, if there is one)."""
    length = struct.unpack_from("<I", b, 12)[0]
    c = bytearray(b[:length])
    struct.pack_into("<H", c, at, value)
    struct.pack_into("<Q", c, length - 8, xxh64(bytes(c[: length - 8])))
    head = bytearray(b[length : length + 56])
    rest = b[length:]
    if rest[:5] == b"\xa5SG\xf1\x06":
        struct.pack_into("<Q", head, 48, xxh64(bytes(head[:48] + c)))
        rest = bytes(head + c) + rest[56 + length :]
    return bytes(c) + rest


def later_spool(b, at, value):
    """The same for the head of a spool."""
    c = bytearray(b)
    struct.pack_into("<H", c, at, value)
    struct.pack_into("<Q", c, 24, xxh64(bytes(c[:24])))
    return bytes(c)


# Newer than the tool: one line with the file, what it is and what is known.
newer = [(P, "raw", later, raw), (R, "processed", later, processed)]
for name, args in readers:
    newer += [(args, "raw", later, raw), (args, "processed", later, processed)]
if spool_file != "-":
    with open(spool_file, "rb") as f:
        spool = f.read()
    newer += [(args, "spool", later_spool, spool)
              for args in [P] + [a for _, a in readers]]
for args, name, change, b in newer:
    for what, content, says in (
            ("a later version", change(b, 8, 7), b"version 7, this program "
             b"knows version 1"),
            ("unknown must-understand bits", change(b, 10, 0x4000),
             b"must-understand bits 0x4000, this program knows version 1")):
        f = try_file("newer", args, content, (1,))
        f = f or (None if says in try_file.stderr and b"/in: " in
                  try_file.stderr else try_file.stderr)
        ok(not f, "%s of %s of a %s" % (
            " ".join(map(os.path.basename, args[:2])), what, name), f)
run.args = []
f = later(raw, 10, 0x4000)
ok(f[:10] == raw[:10] and f != raw and len(f) == len(raw),
   "(the header was changed)")

# Files that are not there, and that are not files.
for args in ([post, "--quiet", "/nonexistent/t", out],
             [replay, "/nonexistent/t"], [mtrace, "info", "/nonexistent/t"],
             [post, "--quiet", work, out], [replay, work]):
    run.args = args
    f = fault(run(args), (1,), False)
    ok(not f, "%s %s: status 1" % (os.path.basename(args[0]),
                                   "/nonexistent/t" if "/nonexistent/t" in args
                                   else "of a folder"), f)

# Wrong usage.
for args in ([post], [post, "--no-such-option", raw_file], [post, "a", "b", "c"],
             [replay, "--threads=many", out], [replay, "--speed=fast", out],
             [replay, "--no-such-option"], [mtrace], [mtrace, "fly"],
             [mtrace, "info"], [mtrace, "record"],
             [replay, "--touch=some", out]):
    run.args = []
    r = run(args, data=b"")
    ok(r[0] == 2 and r[1] and not r[2],
       "usage: %s" % " ".join(os.path.basename(a) for a in args), r)
for tool in (post, replay, mtrace, os.path.join(tools, "bump-pipes")):
    for option in ("--help", "--version"):
        r = run([tool, option])
        ok(r[0] == 0 and len(r[2]) > 10 and not r[1],
           "%s %s" % (os.path.basename(tool), option), r)
    with open("/dev/full", "wb") as full:
        r = run([tool, "--help"], stdout=full)
    ok(r[0] == 1 and r[1], "%s --help to a full disk" % os.path.basename(tool),
       r)

# Cut at every byte; each byte flipped. In a short run some of them: that the
# parsers bear all of them is for tests/fuzz to show, in one process. Every byte
# is under a checksum: no flip passes as the whole truth.


def step_of(b, about):
    """An odd number, by which flips come to every bit of a byte."""
    return 1 if long_run else len(b) // about | 1


small = step_of(raw, 120)
each("postprocess: cut raw trace", P, cuts(raw, small))
each("postprocess: no flipped byte of a raw trace goes unnoticed", P,
     flips(raw, small), (1, 3))
if lz4:
    small = step_of(lz4, 120)
    each("postprocess: cut framed trace", P, cuts(lz4, small))
    each("postprocess: flipped byte of a framed trace", P, flips(lz4, small),
         (0, 1, 3))
small = step_of(processed, 120)
each("replay: cut processed trace", R, cuts(processed, small))
each("replay: no flipped byte of a processed trace goes unnoticed", R,
     flips(processed, small), (1, 3))
small = step_of(raw, 40)
for name, args in readers:
    each(name + ": cut raw trace", args, cuts(raw, small))
    each(name + ": flipped byte of a raw trace", args, flips(raw, small),
         (0, 1, 3))
    each(name + ": cut processed trace", args, cuts(processed, small))
    each(name + ": flipped byte of a processed trace", args,
         flips(processed, small), (0, 1, 3))

# A spool: its head and header, and the heads and events of its buffers.
if spool_file != "-":
    with open(spool_file, "rb") as f:
        spool = f.read()
    used = [i for i in range(len(spool)) if spool[i]]
    step = step_of(used, 60)
    r = run([post, "--quiet", "--json", json_file, spool_file, out])
    ok(r[0] == 0, "the sample spool itself is good", r[1])
    each("postprocess: flipped byte of a spool", P,
         (flip(spool, k) for k in used[::step]), (0, 1, 3))
    each("postprocess: cut spool", P,
         (("cut to %d" % k, spool[:k], (0, 1, 3)) for k in used[::step]))
    each("info: flipped byte of a spool", I,
         (flip(spool, k) for k in used[:: step * 4]), (0, 1, 3))

def by_thread(path):
    """Calls and sizes of each thread, in their order."""
    threads = {}
    for thread, what, call, _, size, _, _ in Processed(path).ops():
        what = what.replace("realloc_new", "realloc")
        threads.setdefault(thread, []).append((what, call, size))
    return threads


def is_part(few, many):
    """FEW is MANY without some of it, in the same order."""
    rest = iter(many)
    return all(x in rest for x in few)


# The rest of a damaged trace is in order and nothing else.
# (tests/unit/tools/test_order_damage.c counts the cost of damage by place.)
for name, b in (("raw", raw), ("framed", lz4)):
    if not b or try_file("whole", P, b, (0,)):
        continue
    everything = by_thread(out)
    n = sum(map(len, everything.values()))
    wrong = []
    least = n
    for k in range(0, 12):
        c = bytearray(b)
        at = len(b) * (2 * k + 1) // 24
        size = (1, 64)[k % 2]
        c[at : at + size] = bytes(x ^ 0x5A for x in c[at : at + size])
        if try_file("left", P, bytes(c), (3,)):
            wrong.append("at %d" % at)
            continue
        left = by_thread(out)
        least = min(least, sum(map(len, left.values())))
        if not all(is_part(ops, everything.get(thread, []))
                   for thread, ops in left.items()):
            wrong.append("at %d: another order" % at)
    ok(not wrong and (name == "raw") <= least < n,
       "postprocess: what is left of a damaged "
       "%s trace is as it was (%d of %d at least)" % (name, least, n),
       "\n".join(wrong))

# A cut trace still gives what came before, and says what it is.
run.args = []
path = os.path.join(work, "in")
with open(path, "wb") as f:
    f.write(raw[: len(raw) * 2 // 3])
r = run([post, "--quiet", "--json", json_file, path, out])
ok(r[0] == 3, "a trace cut at two thirds: status 3", r)
try:
    with open(json_file) as f:
        d = json.load(f)
    ok(d["complete"] is False and d["clean_end"] is False and d["events"] > 0,
       "a trace cut at two thirds: events, and not complete", d)
except (OSError, ValueError, KeyError) as e:
    ok(False, "a trace cut at two thirds: --json", e)
r = run([replay, "--json", json_file, out])
ok(r[0] in (0, 3), "and what postprocess made of it replays", r)

# Garbage after a good trace, and in the middle of one.
for name, content in (("garbage after the end", raw + b"garbage" * 100),
                      ("garbage in the middle",
                       raw[: len(raw) // 2] + b"garbage" * 100 +
                       raw[len(raw) // 2:])):
    f = try_file(name, P, content, (3,))
    ok(not f, "postprocess: " + name, f)

# Output that cannot be written.
with open(path, "wb") as f:
    f.write(raw)
for args in ([post, "--quiet", path, "/nonexistent/out"],
             [post, "--quiet", path, "/dev/full"],
             [post, "--quiet", "--json", "/dev/full", path, out],
             [post, "--quiet", "--json", "/nonexistent/j", path, out]):
    run.args = []
    f = fault(run(args), (1,), False)
    ok(not f, "postprocess %s" % " ".join(os.path.basename(a) or a
                                          for a in args[2:]), f)
run.args = []
good = os.path.join(work, "good")
with open(good, "wb") as f:
    f.write(processed)
with open("/dev/full", "wb") as full:
    f = fault(run([post, "--quiet", path], stdout=full), (1,), False)
    ok(not f, "postprocess to a full stdout", f)
    f = fault(run([replay, good], stdout=full), (1,), False)
    ok(not f, "replay's report to a full stdout", f)
    for name, args in readers:
        f = fault(run(args[:-1] + [path], stdout=full), (1,), False)
        ok(not f, "%s to a full stdout" % name, f)
f = fault(run([replay, "--json", "/dev/full", good]), (1,), True)
ok(not f, "replay --json to a full disk", f)
for name, args in [("postprocess", [post, "--quiet", path]),
                   ("replay", [replay, good])] + [
                       (name, args[:-1] + [path]) for name, args in readers]:
    r, w = os.pipe()
    os.close(r)
    r = run(args, stdout=w)
    os.close(w)
    f = fault(r, (1,), False)
    ok(not f, "%s into a closed pipe: status 1 and one line" % name, f)
r = run(["sh", "-c", 'exec "$0" "$@" >&-', post, "--quiet", path])
f = fault(r, (1,), False)
ok(not f, "postprocess with stdout closed", f)

done()
