#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether threads replay beside each other: wall time of replay with
--threads=real by that with --threads=switch, in turn, on the traces that are
named, or on a made-up one of threads that are busy at the same time and have
nothing to do with each other. "elapsed" counts what the decoding process
takes, too.
"""
import argparse
import json
import os
import random
import subprocess
import sys

sys.dont_write_bytecode = True
import bench_lib as lib  # noqa: E402

SLOTS = 20000
RUN = 1000  # operations of a thread before those of the next one
NS = 20     # recorded time of one


def text(threads, count):
    """A trace as text: each thread frees and makes blocks at random."""
    draw = random.Random(1)
    used = [bytearray(SLOTS) for _ in range(threads)]
    yield "malloc-trace text 1\n"
    for t in range(threads):
        yield "thread %d\nthread %d starts, kernel id %d\n" % (
            t + 2, t + 2, t + 2)
    done = now = live = 0
    while done < count:
        lines = []
        for t in range(threads):
            lines.append("thread %d\n" % (t + 2))
            for _ in range(RUN):
                slot = int(draw.random() * SLOTS)
                name = t * SLOTS + slot
                if used[t][slot]:
                    lines.append("free(slot %d)\n" % name)
                else:
                    lines.append("slot %d = malloc(%d)\n" % (
                        name, 16 + int(draw.random() * 500)))
                used[t][slot] ^= 1
                live += 1 if used[t][slot] else -1
        done += threads * RUN
        now += RUN * NS
        lines.append("time %d ns\n" % now)
        yield "".join(lines)
    yield "end: %d operations, %d live\n" % (done, live)


def make(build, work, threads, count):
    trace = os.path.join(work, "trace")
    tool = os.path.join(build, "malloc-trace-replay", "malloc-trace")
    p = subprocess.Popen([tool, "convert", "--from", "text", "-", trace],
                         stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         text=True)
    for part in text(threads, count):
        p.stdin.write(part)
    p.stdin.close()
    if p.wait() != 0:
        sys.exit("malloc-trace convert: status %d" % p.returncode)
    return trace


def times(build, allocator, mode, trace, work):
    out = os.path.join(work, "json")
    subprocess.run([os.path.join(build, "malloc-trace-replay", "replay"),
                    "--threads=" + mode, "--json", out, trace],
                   env=dict(os.environ, **allocator.settings),
                   stdout=subprocess.DEVNULL, check=True)
    with open(out) as f:
        figures = json.load(f)
    return figures["wall_ns"], figures["elapsed_ns"]


def compare(a, build, allocator, name, trace, work):
    walls, elapsed = [], []
    for _ in range(a.rounds):
        one = times(build, allocator, "switch", trace, work)
        real = times(build, allocator, "real", trace, work)
        walls.append(real[0] / one[0])
        elapsed.append(real[1] / one[1])
    walls.sort()
    print("%s: real / switch %.2f (%.2f to %.2f in %d rounds), elapsed %.2f" % (
        name, lib.median(walls), walls[0], walls[-1], a.rounds,
        lib.median(elapsed)))


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("traces", nargs="*", metavar="TRACE")
    p.add_argument("--build", default=".")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--operations", type=float, default=12e6)
    a = p.parse_args()
    build = os.path.abspath(a.build)
    print(lib.machine())
    with lib.WorkFolder(None) as work:
        ours = lib.allocators(build, work, {"ours"})[0]
        for trace in a.traces:
            compare(a, build, ours, os.path.basename(trace), trace, work)
        if not a.traces:
            compare(a, build, ours, "%d threads" % a.threads,
                    make(build, work, a.threads, int(a.operations)), work)


main()
