#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Imports every trace that is found in the folders, of any format that
malloc-trace convert reads, replays it under each allocator and prints a table:
processor time of an operation and peak of resident memory, of each allocator
the median of the rounds, and how it stands to the first one.

Files that are no traces are left out; those that lack something are marked.
"""
import argparse
import csv
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import bench_lib as lib  # noqa: E402

DEFAULT = ("glibc", "ours") + tuple(lib.PEERS)
MARGIN = 0.02


def files_of(folders):
    for folder in folders:
        if not os.path.isdir(folder):
            yield folder
            continue
        for place, names, leaves in os.walk(folder):
            names.sort()
            for name in sorted(leaves):
                yield os.path.join(place, name)


class Trace:
    """A file, made a processed trace at PATH; FORMAT is None if it is none."""

    def __init__(self, tools, name, path):
        self.name, self.path, self.format = name, path, None
        info = os.path.join(tools, "malloc-trace")
        made = subprocess.run([info, "convert", name, path],
                              capture_output=True, text=True, check=False)
        if made.returncode in (0, 3):
            self.format = ""
        elif "processed trace already" in made.stderr:
            self.format, self.path = "processed trace", name
        if self.format is None:
            return
        said = subprocess.run([info, "info", "-q", "--json", "-", self.path],
                              capture_output=True, text=True, check=False)
        facts = json.loads(said.stdout)["files"][0]
        self.format = self.format or facts["converter"].split(", from ")[1]
        self.lacks = 3 in (made.returncode, said.returncode)
        self.ops, self.threads = facts["ops"], facts["threads"]
        self.peak = facts["peak_live_bytes"]


def replay(tools, trace, allocator, threads, limit):
    """Its figures; None: it failed."""
    env = dict(os.environ)
    env.pop("LD_PRELOAD", None)
    env.update(allocator.settings)
    try:
        r = subprocess.run(
            [os.path.join(tools, "replay"), "-q", "--json", "/dev/stdout",
             "--threads=" + threads, trace.path],
            env=env, capture_output=True, text=True, timeout=limit,
            check=False)
    except subprocess.TimeoutExpired:
        return None
    if r.returncode not in (0, 3):
        return None
    return json.loads(r.stdout)


def verdict(base, other):
    """How OTHER stands to BASE: lists of the same length, of the same rounds."""
    ratio = lib.median([b / a for a, b in zip(base, other) if a])
    if ratio < 1 - MARGIN:
        return "less", ratio
    return ("more" if ratio > 1 + MARGIN else "same"), ratio


def measure(tools, trace, chosen, a, out):
    """The figures of TRACE by allocator: lists of ns and of bytes."""
    threads = a.threads
    if threads == "auto":
        threads = "real" if trace.threads > 1 else "none"
    found = {x.name: ([], []) for x in chosen}
    for number in range(a.rounds):
        for x in chosen:
            j = replay(tools, trace, x, threads, a.limit)
            if j is None:
                found[x.name] = None
            if found[x.name] is None:
                continue
            ns = j["cpu_ns"] / max(j["ops"], 1)
            found[x.name][0].append(ns)
            found[x.name][1].append(j["peak_rss_bytes"])
            if out:
                out.writerow([trace.name, trace.format, trace.ops,
                              trace.threads, trace.peak, threads, x.name,
                              number, j["cpu_ns"], j["wall_ns"],
                              j["peak_rss_bytes"]])
    return found


def row_of(trace, chosen, found):
    row = [os.path.basename(trace.name) + (" *" if trace.lacks else ""),
           trace.format, trace.ops, trace.threads, "%.1f" % (trace.peak / 1e6)]
    base = found[chosen[0].name]
    words = []
    for x in chosen:
        these = found[x.name]
        if not these:
            row.append("failed")
            continue
        row.append("%.0f ns, %.1f MB" % (lib.median(these[0]),
                                         lib.median(these[1]) / 1e6))
        if x is not chosen[0] and base:
            time, _ = verdict(base[0], these[0])
            memory, _ = verdict(base[1], these[1])
            words.append("%s: %s time, %s memory" % (x.name, time, memory))
    return row + ["; ".join(words)]


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("folder", nargs="+", help="folders, or single files")
    p.add_argument("--build", default=".", help="build folder (default .)")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--allocators", help="of %s; the first one that is named is "
                   "what\nthe others are held against" % ", ".join(DEFAULT))
    p.add_argument("--threads", default="auto",
                   choices=("auto", "none", "real"),
                   help="auto: real where a trace has more than one thread")
    p.add_argument("--limit", type=float, default=600,
                   help="seconds that a replay may take")
    p.add_argument("--csv", help="every single replay, to this file")
    a = p.parse_args()
    if a.rounds < 1:
        p.error("--rounds must be 1 at least")
    build = os.path.abspath(a.build)
    tools = os.path.join(build, "malloc-trace-replay")
    names = a.allocators.split(",") if a.allocators else list(DEFAULT)
    out = csv.writer(open(a.csv, "w", newline="")) if a.csv else None
    if out:
        out.writerow("file format ops threads peak_live_bytes mode allocator "
                     "round cpu_ns wall_ns peak_rss_bytes".split())
    rows, left_out = [], []
    with lib.WorkFolder() as work:
        chosen = lib.allocators(build, work, set(names))
        chosen.sort(key=lambda x: names.index(x.name))
        if not chosen:
            p.error("no such allocator")
        for name in files_of(a.folder):
            trace = Trace(tools, name, os.path.join(work, "trace"))
            if trace.format is None:
                left_out.append(name)
                continue
            rows.append(row_of(trace, chosen,
                               measure(tools, trace, chosen, a, out)))
    lib.table(["file", "format", "operations", "threads", "peak, MB"] +
              [x.name for x in chosen] + ["against " + chosen[0].name], rows)
    if any(row[0].endswith(" *") for row in rows):
        print("\n* lacks something")
    if left_out:
        print("\nno traces: %s" % ", ".join(left_out))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
