#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a trace that postprocess writes, against a model of them.

  post_window.py TOOLS RAW [killed | growing | fifo | parts]

RAW is of window_target, whole or in the form that is named. The whole output is cut by the model below, which knows
the documentation only; what postprocess cut must be equal, operation for
operation. One line of TAP a check.
"""
import json
import os
import re
import subprocess
import sys

from procdump import Processed
from rawdump import Header
from tap import done, ok

tools, raw = sys.argv[1:3]
form = sys.argv[3] if len(sys.argv) > 3 else "file"
# A growing trace has the events up to its last barrier.
usual = 3 if form == "growing" else 0
OPS = ("alloc", "realloc_new", "realloc", "free", "realloc_end")


def tool(name, *args):
    return subprocess.run([os.path.join(tools, name)] + list(args),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)


def post(*args, out="out.p", status=None):
    status = usual if status is None else status
    name, feeder = raw, None
    if form == "fifo":
        name = "fifo"
        feeder = subprocess.Popen(["sh", "-c", 'exec cat "$1" >fifo', "sh",
                                   raw], stderr=subprocess.DEVNULL)
    p = tool("postprocess", "--quiet", "--json", "out.json", *args, name, out)
    if feeder:
        feeder.kill()  # where it was not read to its end
        feeder.wait()
    if p.returncode != status:
        ok(False, "%s: exit status %d" % (args, p.returncode), p.stderr)
        sys.exit(0)
    if status == usual:
        with open("out.json") as f:
            return json.load(f)
    return p


def by_block(ops):
    """OPS with the number of the allocation in the trace instead of slots."""
    at, n, out = {}, 0, []
    for thread, what, call, slot, size, align, moved in ops:
        if what in ("alloc", "realloc_new"):
            at[slot] = n
            n += 1
        out.append((thread, what, call, at.get(slot), size, align, moved))
    return out


FREES = {5: 34, 7: 34, 6: 35, 8: 35, 21: 40, 23: 40, 22: 41, 24: 41}


def model(ops, begin=None, end=None, only=None, free=False, strip=False):
    """The part of OPS (on slots) from the mark BEGIN to the mark END."""
    phase = "before" if begin else "within"
    live = {}  # slot: [in the output, operation that makes it, its number]
    made, out = 0, []

    def asked(thread):
        return only is None or thread in only

    def emit(op, slot):
        out.append(op[:3] + (slot,) + op[4:])

    for op in ops:
        thread, what, call, slot, size, align, moved = op
        if what == "mark":
            if phase == "before" and size == begin:
                phase = "within"
                for s, b in sorted(live.items(), key=lambda x: x[1][2]):
                    if b[0] is False:
                        b[0] = True
                        emit(b[1], s)
                begins = True
            else:
                begins = False
            if phase == "within":
                if not strip and (asked(thread) or begins or size == end):
                    out.append(op)
                if size == end:
                    break
        elif what in ("alloc", "realloc_new"):
            made += 1
            # True: in the output; False: will be; None: of another thread
            state = None
            if asked(thread):
                state = phase == "within"
            live[slot] = [state, op, made]
            if state:
                emit(op, slot)
        elif what == "realloc":
            made += 1
            b = live[slot]
            b[1] = (thread, "realloc_new", call, slot, size, 0, 0)
            b[2] = made
            if b[0]:
                emit(op, slot)
            elif b[0] is None and asked(thread):
                b[0] = phase == "within"
                if b[0]:
                    emit(b[1], slot)
        elif what in ("free", "realloc_end"):
            if live.pop(slot)[0]:
                emit(op, slot)
        elif phase == "within" and asked(thread):
            out.append(op)
    if free:
        for s, b in sorted(live.items(), key=lambda x: x[1][2]):
            if b[0]:
                emit((b[1][0], "free", FREES.get(b[1][2], 32), s, 0, 0, 0), s)
                b[0] = False
    return by_block(out), sum(1 for b in live.values() if b[0])


def first_difference(a, b):
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return "at %d: %s, expected %s" % (i, x, y)
    return "%d operations, expected %d" % (len(a), len(b))


def compare(name, full, got_json, want, part=True):
    ops, live = want
    got = by_block(Processed("out.p").ops())
    ok(got == ops, name + ": as the model says", first_difference(got, ops))
    n = sum(1 for op in ops if op[1] in OPS)
    ok((got_json["ops"], got_json["live_at_end"]) == (n, live),
       name + ": its counts", "%s, expected %d %d" % (got_json, n, live))
    p = tool("replay", "--json", "replay.json", "out.p")
    with open("replay.json") as f:
        r = json.load(f)
    ok((p.returncode in (0, usual), r["ops"], r["peak_live_bytes"], r["end_live_objects"],
        r["unknown_blocks"], r["lost_frees"]) ==
       (True, n, got_json["peak_live_bytes"], live, 0, 0),
       name + ": replays by itself", p.stderr + str(r))
    apart = got_json["prologue_ops"] + got_json["epilogue_ops"]
    ok(r["apart_ops"] == apart and (r["apart_ns"] > 0) == (apart > 0) and
       (r["ns_per_op"] == 0 if n == apart else
        abs(r["ns_per_op"] * (n - apart) - r["wall_ns"]) <
        r["wall_ns"] * 0.01), name + ": what was not recorded is timed apart",
       str(r))
    part = part or got_json["begins_late"]
    ok((r["is_part"], r["recorded_counters"]) == (part, {}) or
       (not part and r["recorded_counters"]),
       name + ": counters of the whole run do not stand beside its", str(r))
    return got


def lines_with(text, what):
    return {int(m) for m in
            re.findall(r"(?m)^\s*\d+\s+(\d+) \S+ " + what, text)}


def ended(text):
    return lines_with(text, "thread ends")


def started(text):
    return lines_with(text, "thread starts")


def threads_of(text):
    return lines_with(text, r"slot \d+ = ")


def windows(full):
    for begin, end in (("turn 2", "turn 5"), ("turn 4", None), (None, "turn 3"),
                       ("turn 1", "turn 1")):
        args = []
        if begin:
            args += ["--from-mark", begin]
        if end:
            args += ["--to-mark", end]
        if begin == end:
            # the second mark is looked for after the first
            p = post(*args, status=1)
            ok("no mark" in p.stderr and "after the first mark" in p.stderr,
               "one mark twice: not found after the first", p.stderr)
            continue
        got = compare("%s to %s" % (begin, end), full, post(*args),
                      model(full, begin, end))
        text = tool("malloc-trace", "dump", "out.p").stdout
        ok(("prologue: " in text) == (begin is not None),
           "%s to %s: a prologue is marked" % (begin, end))
        if begin:
            before = text[: text.index("recorded operations follow")]
            with open("out.json") as f:
                n = json.load(f)["prologue_ops"]
            ok(n > 50 and len(re.findall(r"slot \d+ = ", before)) == n and
               "free(" not in before,
               "%s to %s: it makes blocks" % (begin, end), before)
            # Whose end stands before the mark in the whole output has its end
            # in the prologue, if it has anything there.
            past = tool("malloc-trace", "dump", raw_out).stdout
            past = ended(past[: past.index('mark "%s"' % begin)])
            ok(ended(before) == past & threads_of(before) and
               threads_of(before) == started(before),
               "%s to %s: it starts its threads, and ends those that had "
               "ended" % (begin, end), before)
    p = post("--from-mark", "turn 99", status=1)
    ok(p.stderr.count("\n") == 1 and '"turn 99"' in p.stderr and
       '"turn 0", "turn 1"' in p.stderr, "no such mark: the others are named",
       p.stderr)
    for args in (["--from", "1", "--from-mark", "x"],
                 ["--to", "1", "--to-mark", "x"], ["--from", "2", "--to", "1"],
                 ["--from", "soon"], ["--from", "1.5x"], ["--from", ""],
                 ["--to", "-1"], ["--only-threads", "1,,2"],
                 ["--live-at-end=some"]):
        p = post(*args, status=2)
        ok(p.stderr.count("\n") == 1, " ".join(args) + ": usage", p.stderr)


def times(full):
    whole = post()
    length = whole["recorded_ns"]
    plain = by_block(full)
    # From 0 on nothing is missing; a window may end after the end.
    post("--from", "0", "--to", "10h")
    got = by_block(Processed("out.p").ops())
    ok(got == plain, "--from 0 --to 10h: everything")
    forms = {}
    half = length // 2
    for text in ("%dns" % half, "%.9f" % (half / 1e9),
                 "%.6fms" % (half / 1e6), "0h0m%.9fs" % (half / 1e9)):
        post("--from", text, out="half.p")
        with open("half.p", "rb") as f:
            forms[text] = f.read()
    ok(len(set(forms.values())) == 1, "--from: the same time in any form",
       {k: len(v) for k, v in forms.items()})
    time_window(full)
    p = post("--from", "9h", status=1)
    ok(p.stderr.count("\n") == 1 and "after the end" in p.stderr,
       "--from after the end: says so", p.stderr)


def time_window(full):
    # Times that the whole output states, of operations well inside.
    reader = Processed(raw_out)
    stamps = []
    for _ in reader.ops():
        stamps.append(reader.time)
    if stamps[-1] > reader.raw.clock_start:
        stamps = [t - reader.raw.clock_start for t in stamps]
    begin, end = stamps[len(stamps) // 4], stamps[len(stamps) * 3 // 4]
    ok(begin < end, "the trace takes some milliseconds", stamps[-1])
    j = post("--from", "%dns" % begin, "--to", "%dns" % end)
    n = j["prologue_ops"]
    window = list(Processed("out.p").ops())[n:]
    shapes = [(t, w, c, z) for t, w, c, _, z, _, _ in full]
    part = [(t, w, c, z) for t, w, c, _, z, _, _ in window]
    at = [i for i in range(len(shapes))
          if part and shapes[i : i + len(part)] == part]
    ok(len(at) == 1, "--from --to: one run of the whole, without hole",
       "%d operations at %s" % (len(part), at))
    if at:
        # The whole states a time each millisecond, the window knows it more
        # exactly: between two stamps it may begin and end anywhere.
        first, last = at[0], at[0] + len(part) - 1
        inner = [i for i, t in enumerate(stamps) if begin < t < end]
        ok(stamps[first] >= max([t for t in stamps if t < begin] or [0]) and
           stamps[last] <= end and
           (not inner or first <= inner[0] and inner[-1] <= last),
           "--from --to: the right part", (first, last, begin, end))


def names():
    """The threads that ended, by name."""
    named = {}
    for line in tool("malloc-trace", "dump", raw_out).stdout.splitlines():
        m = re.match(r"\s*\d+\s+(\d+) .*thread ends, name \"(\w+)\"", line)
        if m:
            named.setdefault(m.group(2), []).append(int(m.group(1)))
    return named


def threads(full):
    named = names()
    ok(sorted(named) == ["maker", "rest", "user"] and
       len(named["maker"]) >= 3, "the threads have names", named)
    for what, only in (("maker", named["maker"]),
                       ("maker,rest", named["maker"] + named["rest"]),
                       ("%d" % named["user"][0], named["user"][:1]),
                       ("1,user", [1] + named["user"])):
        j = post("--only-threads", what)
        compare("--only-threads " + what, full, j,
                model(full, only=set(only)))
        ok(j["left_out_events"] > 100, "--only-threads %s: tells what is "
           "left out" % what, j)
    j = post("--only-threads", "user,maker", "--from-mark", "turn 3",
             "--to-mark", "turn 7", "--live-at-end=free")
    compare("all together", full, j,
            model(full, "turn 3", "turn 7", set(named["user"] +
                                                named["maker"]), True))
    j = post("--live-at-end=free")
    compare("--live-at-end=free", full, j, model(full, free=True))
    ok(j["epilogue_ops"] > 50 and j["live_at_end"] == 0,
       "--live-at-end=free: tells how many", j)
    j = post("--live-at-end=keep", "--drop-sites")
    with open("out.p", "rb") as a, open(raw_out, "rb") as b:
        pass
    ok(by_block(Processed("out.p").ops()) == by_block(full),
       "--live-at-end=keep, --drop-sites: everything")
    p = post("--only-threads", "nobody", status=1)
    ok('"nobody"' in p.stderr and p.stderr.count("\n") == 1,
       "no such name: says so", p.stderr)
    p = post("--only-threads", "1,9999", status=1)
    ok(p.stderr.endswith(": no thread 9999\n") and
       p.stderr.count("\n") == 1, "no such number: says so", p.stderr)
    with open(raw, "rb") as f:
        p = subprocess.run([os.path.join(tools, "postprocess"),
                            "--only-threads", "maker", "-", "/dev/null"],
                           stdin=f, stderr=subprocess.PIPE)
    ok(p.returncode == 1 and b"read twice" in p.stderr,
       "names with a pipe: says why not", p.stderr)


def strip(full):
    j = post("--strip")
    compare("--strip", full, j, model(full, strip=True),
            part=False)
    with open("out.p", "rb") as f:
        data = f.read()
    words = [b"turn", b"maker", b"user", b"rest", b"window_target",
             b"window"]
    ok(not [w for w in words if w in data.replace(
     b"libtcmalloc", b"")], "--strip: no string of the run is left")
    b = Processed(raw_out).data
    length = int.from_bytes(b[16:20], "little")
    whole = b[32 : 32 + length]
    own = data[32 : 32 + int.from_bytes(data[16:20], "little")]
    secret = [whole[24:32], whole[32:40], whole[56:64]]
    ok(not [s for s in secret if s in data],
       "--strip: nor start, random number or wall clock")
    ok(own[16:24] == bytes(8) and own[64:72] == whole[64:72] and
       Header(own) is not None, "--strip: a sound header without ids")
    text = tool("malloc-trace", "dump", "out.p").stdout
    ok(re.search(r' header, version 1, recorder "[^"]*"$', text, re.M),
       "--strip: dump shows neither process nor program", text)
    ok(set(re.findall(r"kernel id (\d+)", text)) == {"0"} and
       set(re.findall(r'thread ends, name "(.*)"', text)) == {""},
       "--strip: threads have neither name nor kernel id")
    marks = [op[4] for op in full if op[1] == "mark"]
    post("--strip", "--from-mark", marks[2], "--only-threads",
         str(names()["user"][0]))
    ok(os.path.getsize("out.p") > 1000, "--strip goes with a window")


def other_form(full):
    """Every option once, on traces that are no complete file."""
    marks = [op[4] for op in full if op[1] == "mark"]
    ok(len(marks) > 2 and (marks[-1] == "end"), "marks, up to the last",
       marks)
    begin, end = marks[len(marks) // 3], marks[len(marks) * 2 // 3]
    named = names()
    makers = ",".join(map(str, named["maker"]))
    compare(form + ": a window", full,
            post("--from-mark", begin, "--to-mark", end),
            model(full, begin, end))
    compare(form + ": from a mark to the end, live blocks freed", full,
            post("--from-mark", begin, "--live-at-end=free"),
            model(full, begin, free=True))
    compare(form + ": threads by number, up to a mark", full,
            post("--only-threads", makers, "--to-mark", end),
            model(full, None, end, set(named["maker"])))
    if form == "fifo":
        p = post("--only-threads", "maker", status=1)
        ok("read twice" in p.stderr, "fifo: names say why not", p.stderr)
    else:
        compare(form + ": threads by name, stripped", full,
                post("--only-threads", "maker", "--strip"),
                model(full, only=set(named["maker"]), strip=True))
    time_window(full)
    strip(full)


raw_out = "full.p"
if form == "fifo":
    os.mkfifo("fifo")
post(out=raw_out)
everything = list(Processed(raw_out).ops())
if form == "file":
    windows(everything)
    times(everything)
    threads(everything)
    strip(everything)
else:
    other_form(everything)
done()
