#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Records programs that are killed, and spoils what they leave.

cuts.py LIBRARY TOOLS TARGET CUTS LATE: prints TAP. However a trace and its
spool are cut, removed or put together from different moments: either all that
was recorded is read, or the tools end with status 3, and postprocess says
"complete": false and a line with file and offset.
"""
import json
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import time

from tap import done, ok

library, tools, target, cuts, late = sys.argv[1:]
cuts = int(cuts)
rand = random.Random(4711)


class Program:
    """One that is recorded, and does a step when told to."""

    def __init__(self, out, limit=None, command=(target,), **settings):
        env = dict(os.environ, LD_PRELOAD=library, TCMALLOC_TRACE_OUTPUT=out,
                   **settings)

        def bound():
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            bufsize=0, preexec_fn=bound)

    def step(self, kind="t"):
        self.process.stdin.write(kind.encode())
        if self.process.stdout.read(1) != kind.encode():
            raise RuntimeError("the target is gone")

    def kill(self):
        self.process.kill()
        self.process.wait()


def size(name):
    try:
        return os.stat(name).st_size
    except FileNotFoundError:
        return 0


def written(name, than):
    """Waits until NAME is longer, and quiet for a few rounds."""
    last = time.time()
    now = size(name)
    until = time.time() + 60
    while time.time() < until:
        if now > than and time.time() - last > 0.1:
            return now
        time.sleep(0.01)
        if size(name) != now:
            now, last = size(name), time.time()
    raise RuntimeError("%s does not grow" % name)


class Reading:
    def __init__(self, name):
        if os.path.exists("json"):
            os.remove("json")
        p = subprocess.run(
            [tools + "/postprocess", "--json", "json", name, "p"],
            capture_output=True, text=True, errors="replace")
        self.status, self.text = p.returncode, p.stderr
        self.json = {}
        if os.path.exists("json"):
            with open("json") as f:
                self.json = json.load(f)
        self.events = self.json.get("events", 0)

    def whole(self):
        return self.status == 0 and self.json["complete"]

    def told(self):
        if self.status == 1:  # no trace is left
            return True
        return (self.status == 3 and self.json["complete"] is False and
                re.search(r"^postprocess: .*: byte \d+: ", self.text, re.M)
                is not None)

    def __str__(self):
        return "%d %s %s %s" % (self.status, self.events,
                                self.json.get("complete"), self.text)


def judge(name, events):
    """'whole', 'told' or what is wrong."""
    r = Reading(name)
    if r.whole():
        return "whole" if r.events == events else \
            "%d events of %d: %s" % (r.events, events, r)
    return "told" if r.told() else "neither: %s" % r


def lengths(n, marks=()):
    """Lengths to cut N bytes to."""
    some = {rand.randrange(n) for _ in range(cuts)}
    return sorted(some | {0, 1, n - 1, n // 4096 * 4096} |
                  {m for m in marks if m < n})


def cut_each(name, what, whole, events, marks=()):
    """Cuts WHAT, one of the files of NAME."""
    bad, told = [], 0
    for n in lengths(len(whole), marks):
        with open(what, "wb") as f:
            f.write(whole[:n])
        how = judge(name, events)
        told += how == "told"
        if how not in ("told", "whole"):
            bad.append((n, how))
    with open(what, "wb") as f:
        f.write(whole)
    return bad, told


def others(name):
    """Exit status of the tools beside postprocess."""
    result = []
    for tool in ("info", "dump"):
        result.append(subprocess.run(
            [tools + "/malloc-trace", tool, name], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL).returncode)
    return result


def read(name):
    with open(name, "rb") as f:
        return f.read()


def write(name, data):
    with open(name, "wb") as f:
        f.write(data)


def segments(data):
    """Where the segments of a plain trace may begin."""
    return [m.start() for m in re.finditer(b"\xa5SG\xf1", data)]


def cut_files(how, plain):
    out = "cut" + how
    p = Program(out, TCMALLOC_TRACE_UNCOMPRESSED=plain)
    for _ in range(3):
        before = size(out)
        p.step()
        written(out, before)
    p.step("f")
    p.kill()
    r = Reading(out)
    ok(r.whole() and r.events > 72000, how + ": a kill loses nothing", r)
    events = r.events
    data, spool = read(out), read(out + ".spool")
    bad, told = cut_each(out, out, data, events,
                         segments(data)[::40] if plain == "1" else ())
    ok(not bad and told > cuts // 2, how + ": each cut of the file is told",
       told, *bad[:4])
    bad, told = cut_each(out, out + ".spool", spool, events,
                         range(0, len(spool), 4096))
    ok(not bad and told > cuts // 2, how + ": each cut of the spool is told",
       told, *bad[:4])

    write(out, data[:len(data) // 2])
    r = Reading(out)
    ok(re.search(r"^postprocess: warning: %s: byte %d: ends in the middle, \d+ bytes%s "
                 r"lost$" % (out, len(data) // 2,
                             "" if plain == "1" else " before compression"),
                 r.text, re.M) and "missing: 0" not in r.text,
       how + ": with the file's name and its length", r)
    ok(others(out) == [3, 3], how + ": info and dump tell it too",
       others(out))
    info = subprocess.run([tools + "/malloc-trace", "info", "--json", "-",
                           out], capture_output=True, text=True)
    ok(json.loads(info.stdout)["files"][0]["complete"] is False,
       how + ": not complete for info", info.stdout)
    os.remove(out)
    r = Reading(out)
    ok(r.status == 3 and r.told() and out + ".spool: byte 40" in r.text,
       how + ": the file is gone", r)
    write(out, b"")
    ok(judge(out, events) == "told", how + ": the file is empty",
       Reading(out))
    write(out, data)
    r = Reading(out + ".spool")
    ok(r.status == 3 and r.told(), how + ": the spool alone is asked for", r)
    ok(judge(out, events) == "whole", how + ": all is there again",
       Reading(out))


def one_moment(how, plain):
    """Copies of a recording that goes on."""
    out = "live" + how
    p = Program(out, TCMALLOC_TRACE_UNCOMPRESSED=plain)
    p.step()
    end = written(out, 0)
    shutil.copy(out, "first")
    shutil.copy(out + ".spool", "first.spool")
    events = Reading("first").events
    ok(Reading("first").whole() and events > 24000,
       how + ": a copy of what is at rest is whole", Reading("first"))
    p.step()
    end = written(out, end)
    shutil.copy(out, "second")
    shutil.copy(out + ".spool", "second.spool")
    p.kill()

    shutil.copy("first", "mix")
    shutil.copy("second.spool", "mix.spool")
    ok(judge("mix", -1) == "told", how + ": the file was copied earlier",
       Reading("mix"))
    shutil.copy("second", "mix")
    shutil.copy("first.spool", "mix.spool")
    r = Reading("mix")
    ok(r.status == 3 and "not of one moment" in r.text,
       how + ": the spool was copied earlier", r)

    # A page 0 that is older than the rest: a slow copy has it, and a power
    # failure may leave it.
    old, new = read("first.spool"), read("second.spool")
    shutil.copy("first", "mix")
    write("mix.spool", old[:4096] + new[4096:])
    ok(judge("mix", -1) == "told",
       how + ": page 0 and file are older than the buffers", Reading("mix"))
    shutil.copy("second", "mix")
    write("mix.spool", old[:4096] + new[4096:])
    r = Reading("mix")
    ok(r.status == 3 and "not of one moment" in r.text,
       how + ": page 0 alone is", r)
    # A program that ended as it should, and a spool of before.
    p = Program(out + "2", TCMALLOC_TRACE_UNCOMPRESSED=plain)
    p.step()
    written(out + "2", 0)
    shutil.copy(out + "2.spool", "mix.spool")
    p.step()
    p.process.stdin.close()
    p.process.wait()
    shutil.copy(out + "2", "mix")
    ok(Reading("mix").whole() and
       Reading("mix").events == Reading(out + "2").events,
       how + ": what has its footer needs no spool", Reading("mix"))


def parts(how, plain):
    """A flight recording whose last part is cut, or gone."""
    out = "keep" + how
    p = Program(out, TCMALLOC_TRACE_UNCOMPRESSED=plain,
                TCMALLOC_TRACE_KEEP_MB="1")

    def names():
        return [n for n in os.listdir(".") if re.match(out + r"\.k\d$", n)]

    def newest():
        return max(names(), key=lambda n: os.stat(n).st_mtime_ns)

    # A part that was just begun has nothing to lose yet.
    for _ in range(400):
        p.step()
        if len(names()) >= 4:
            time.sleep(0.1)
            if size(newest()) > 8000:
                break
    p.kill()
    r = Reading(out)
    ok(r.whole() and len(names()) >= 4, how + ": parts: a kill loses nothing",
       r, names())
    events = r.events
    last = newest()
    data = read(last)
    bad, told = cut_each(out, last, data, events)
    ok(not bad and told > cuts // 2,
       how + ": parts: each cut of the last is told", told, *bad[:4])
    os.remove(last)
    ok(judge(out, events) == "told", how + ": parts: the last is gone",
       Reading(out))


def lazy():
    """A spool that nothing was saved from is a whole trace."""
    p = Program("lazy.%p")
    p.step("f")
    name = "lazy.%d" % p.process.pid
    p.kill()
    r = Reading(name)
    ok(not os.path.exists(name) and r.whole() and r.events >= 10,
       "before anything was saved the spool is the trace", r)


def small_files():
    """The spool cannot grow: what is in private memory is lost with a kill."""
    p = Program("small", limit=150000, TCMALLOC_TRACE_UNCOMPRESSED="0")
    p.step("f")
    spool = read("small.spool")
    try:
        for _ in range(3):
            p.step()
    except (RuntimeError, OSError):
        pass
    p.kill()
    grown = read("small.spool")
    ok(struct.unpack_from("<Q", spool, 56) == (0,) and
       struct.unpack_from("<Q", grown, 56) == (1,),
       "the spool says that there are buffers elsewhere",
       len(spool), len(grown))
    r = Reading("small")
    ok(r.status == 3 and not r.json["complete"] and
       "small.spool: byte 56: " in r.text,
       "and that is told after a kill", r)


def removed():
    """The spool goes while the program runs: no concern of the program's."""
    for how in ("removed", "replaced"):
        for kill in (True, False):
            p = Program(how)
            p.step()
            written(how, 0)
            if how == "removed":
                os.remove(how + ".spool")
            else:
                write("other", b"other")
                os.replace("other", how + ".spool")
            p.step()
            p.step("f")
            if kill:
                p.kill()
            else:
                p.process.stdin.close()
                p.process.wait()
            r = Reading(how)
            good = not r.whole() if kill else \
                r.whole() and p.process.returncode == 0
            ok(good, "the spool is %s, then %s" %
               (how, "a kill: told" if kill else "the end: all is there"),
               p.process.returncode, r)
            os.remove(how)
            if os.path.exists(how + ".spool"):
                os.remove(how + ".spool")


def after_the_end():
    """So many calls behind the recorder's destructor that there is a spool
    again."""
    for plain in "01":
        out = "late" + plain
        p = Program(out, command=(late,), LATE_CALLS="9000", LATE_KILL="1",
                    TCMALLOC_TRACE_UNCOMPRESSED=plain)
        p.process.wait()
        r = Reading(out)
        ok(os.path.exists(out + ".spool") and r.whole(),
           "late %s: a kill loses nothing" % plain, r)
        bad, told = cut_each(out, out, read(out), r.events)
        ok(not bad and told > 0, "late %s: each cut is told" % plain, told,
           *bad[:4])


for how, plain in (("lz4", "0"), ("plain", "1")):
    if how == "lz4" and os.environ["LZ4"] == "no":
        continue
    cut_files(how, plain)
    one_moment(how, plain)
    parts(how, plain)
lazy()
removed()
if os.environ["LZ4"] != "no":
    small_files()
if late:
    after_the_end()
done()
