#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the verdicts of malloc-trace compare are true: how often it shows a
difference where there is none (the same library under two names), and how often
it finds a planted one (bench/compare_waste.c, which takes so much more time or
memory). Run in the build folder, or with --build FOLDER."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def options():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default=".", help="build folder (default .)")
    p.add_argument("--same", type=int, default=200,
                   help="comparisons of equals (default 200)")
    p.add_argument("--planted", type=int, default=100,
                   help="comparisons with a planted difference (default 100)")
    p.add_argument("--percent", type=int, default=3, help="how large it is")
    p.add_argument("--rounds", type=int, default=0,
                   help="of each comparison (default: as compare chooses)")
    p.add_argument("--operations", type=int, default=60000)
    return p.parse_args()


class Bench:
    def __init__(self, o, work):
        self.o, self.work = o, work
        self.compare = os.path.join(o.build, "malloc-trace-replay",
                                    "malloc-trace")
        self.library = os.path.join(work, "waste.so")
        subprocess.run(["cc", "-O2", "-fno-builtin", "-shared", "-fPIC", "-o",
                        self.library, os.path.join(HERE, "compare_waste.c")],
                       check=True)
        self.trace = os.path.join(work, "trace.lz4")
        program = os.path.join(work, "program.py")
        with open(program, "w") as f:
            f.write("""
import random
r = random.Random(7)
keep = {}
for i in range(%d):
    keep[r.randrange(4000)] = bytearray(r.randrange(600, 3000))
""" % o.operations)
        raw = os.path.join(work, "raw.lz4")
        subprocess.run([self.compare, "record", "-q", "-o", raw, "--",
                        sys.executable, "-S", program], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([os.path.join(o.build, "malloc-trace-replay",
                                     "postprocess"), "-q", "-z", raw,
                        self.trace], check=True)

    def run(self, one, other, rounds=0):
        """The verdicts of the second beside the first, by metric."""
        out = os.path.join(self.work, "v.json")
        command = [self.compare, "compare", "-q", "--no-check",
                   "--json", out, "--baseline", "one",
                   "-a", "one=" + one, "-a", "other=" + other]
        rounds = rounds or self.o.rounds
        if rounds:
            command += ["-n", str(rounds)]
        subprocess.run(command + [self.trace], check=True)
        with open(out) as f:
            return {v["metric"]: v for v in json.load(f)["verdicts"]}


SHOWN = ("faster", "slower", "smaller", "larger", "fewer", "more", "less")


def same(b, library):
    """Comparisons in which any metric shows a difference."""
    wrong = 0
    which = {}
    for _ in range(b.o.same):
        shown = [m for m, v in b.run(library, library).items()
                 if v["verdict"] in SHOWN]
        wrong += bool(shown)
        for m in shown:
            which[m] = which.get(m, 0) + 1
    print("%s with itself: %d of %d comparisons show a difference (%.1f %%)%s"
          % (os.path.basename(library), wrong, b.o.same,
             100 * wrong / max(1, b.o.same),
             " " + str(which) if which else ""))


def planted(b, metric, settings):
    found = excused = missed = 0
    ratios = []
    for _ in range(b.o.planted):
        v = b.run(b.library, b.library + "," + settings)[metric]
        ratios.append(v["ratio"])
        if v["verdict"] in ("slower", "larger"):
            found += 1
        elif v["smallest_difference"] is None or \
                v["smallest_difference"] > b.o.percent / 100:
            excused += 1
        else:
            missed += 1
    ratios.sort()
    print("%s, %s, %.3f times: found in %d of %d, in %d more the stated "
          "smallest difference was larger, missed in %d"
          % (metric, settings, ratios[len(ratios) // 2], found, b.o.planted,
             excused, missed))


def waste_for(b, percent):
    """The number of steps that takes so much more time."""
    steps, ratio = 10, 1.0
    for _ in range(6):
        ratio = b.run(b.library, b.library + ",MALLOC_WASTE=%d" % steps,
                      25)["cpu_ns_per_op"]["ratio"]
        if ratio > 1 + percent / 200:
            break
        steps *= 2
    return max(1, round(steps * percent / 100 / (ratio - 1)))


def fat_for(b, percent):
    """The same of memory; the process has some that is not the allocator's."""
    ratio = b.run(b.library, b.library + ",MALLOC_FAT=100",
                  12)["peak_rss_bytes"]["ratio"]
    return max(1, round(100 * percent / 100 / (ratio - 1)))


def main():
    o = options()
    with tempfile.TemporaryDirectory() as work:
        b = Bench(o, work)
        same(b, b.library)
        if o.planted:
            planted(b, "cpu_ns_per_op",
                    "MALLOC_WASTE=%d" % waste_for(b, o.percent))
            planted(b, "peak_rss_bytes", "MALLOC_FAT=%d" % fat_for(b, o.percent))


main()
