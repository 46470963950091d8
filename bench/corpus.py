#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Imports every trace that is found in the folders, of any format that
malloc-trace convert reads, and has malloc-trace compare replay them under each
allocator. Prints a table: processor time of an operation and peak of resident
memory, of each allocator the median of the rounds, and how it stands to the
first one; then the verdict of compare over all traces.

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
                path = os.path.join(place, name)
                if os.path.isfile(path):  # opening a FIFO waits
                    yield path


class Trace:
    """A file, as a processed trace named KEY in FOLDER; FORMAT is None if it is
    none."""

    def __init__(self, tools, name, folder, key):
        self.name, self.format = name, None
        self.key = key + "-" + os.path.basename(name) + ".trace"
        self.path = os.path.join(folder, self.key)
        info = os.path.join(tools, "malloc-trace")
        made = subprocess.run([info, "convert", name, self.path],
                              capture_output=True, text=True, check=False)
        if made.returncode in (0, 3):
            self.format = ""
        elif "processed trace already" in made.stderr:
            self.format = "processed trace"
            os.symlink(os.path.abspath(name), self.path)
        if self.format is None:
            if os.path.exists(self.path):
                os.unlink(self.path)
            return
        said = subprocess.run([info, "info", "-q", "--json", "-", self.path],
                              capture_output=True, text=True, check=False)
        facts = json.loads(said.stdout)["files"][0]
        self.format = self.format or facts["converter"].split(", from ")[1]
        self.lacks = 3 in (made.returncode, said.returncode)
        self.ops, self.threads = facts["ops"], facts["threads"]
        self.peak = facts["peak_live_bytes"]


def contestant(allocator):
    """The word by which compare takes it."""
    settings = dict(allocator.settings)
    library = settings.pop("LD_PRELOAD", None)
    return allocator.name + ("=" + library if library else "") + "".join(
        ",%s=%s" % pair for pair in settings.items())


def compare(tools, traces, chosen, a, csv_name):
    """Runs malloc-trace compare on all traces; its text, "" if it failed."""
    words = [os.path.join(tools, "malloc-trace"), "compare", "-n",
             str(a.rounds), "--baseline", chosen[0].name, "--csv", csv_name,
             "--margin", "%g%%" % (100 * MARGIN)]
    for x in chosen:
        words += ["-a", contestant(x)]
    if a.threads != "auto":
        words += ["--threads=" + a.threads]
    if a.json:
        words += ["--json", os.path.abspath(a.json)]
    env = dict(os.environ)
    env.pop("LD_PRELOAD", None)
    made = subprocess.run(words + [t.key for t in traces], env=env,
                          cwd=os.path.dirname(csv_name), text=True,
                          stdout=subprocess.PIPE, check=False)
    return made.stdout if made.returncode in (0, 3) else ""


def verdict(base, other):
    """How OTHER stands to BASE: lists of the same length, of the same rounds."""
    ratio = lib.median([b / a for a, b in zip(base, other) if a] or [1])
    if ratio < 1 - MARGIN:
        return "less"
    return "more" if ratio > 1 + MARGIN else "same"


def runs_of(csv_name):
    """The successful runs of compare: by trace and allocator, rows by round."""
    found = {}
    with open(csv_name, newline="") as file:
        for row in csv.DictReader(file):
            if row["ok"] == "true":
                of = found.setdefault(row["trace"], {})
                of.setdefault(row["contestant"], {})[row["round"]] = row
    return found


def row_of(trace, chosen, found):
    """A row of the table. FOUND: the runs of TRACE by allocator."""
    row = [os.path.basename(trace.name) + (" *" if trace.lacks else ""),
           trace.format, trace.ops, trace.threads, "%.1f" % (trace.peak / 1e6)]
    base, words = found.get(chosen[0].name, {}), []
    for x in chosen:
        runs = found.get(x.name)
        if not runs:
            row.append("failed")
            continue
        row.append("%.0f ns, %.1f MB" % tuple(
            lib.median([float(r[key]) for r in runs.values()]) / unit
            for key, unit in (("cpu_ns_per_op", 1), ("peak_rss_bytes", 1e6))))
        both = [n for n in runs if n in base]
        if x is chosen[0] or not both:
            continue
        time, memory = (
            verdict([float(base[n][key]) for n in both],
                    [float(runs[n][key]) for n in both])
            for key in ("cpu_ns_per_op", "peak_rss_bytes"))
        words.append("%s: %s time, %s memory" % (x.name, time, memory))
    return row + ["; ".join(words)]


def write_csv(name, traces, chosen, found):
    """Every single run, a row each."""
    keys = ("cpu_ns_per_op", "wall_ns_per_op", "peak_rss_bytes")
    with open(name, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["file", "format", "ops", "threads", "peak_live_bytes",
                      "allocator", "round", *keys])
        for t in traces:
            for x in chosen:
                for n, run in found.get(t.key, {}).get(x.name, {}).items():
                    out.writerow([t.name, t.format, t.ops, t.threads, t.peak,
                                  x.name, n] + [run[key] for key in keys])


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
    p.add_argument("--csv", help="every single replay, to this file")
    p.add_argument("--json", help="the verdict of compare, to this file")
    a = p.parse_args()
    if a.rounds < 1:
        p.error("--rounds must be 1 at least")
    build = os.path.abspath(a.build)
    tools = os.path.join(build, "malloc-trace-replay")
    names = a.allocators.split(",") if a.allocators else list(DEFAULT)
    traces, left_out = [], []
    with lib.WorkFolder() as work:
        chosen = lib.allocators(build, work, set(names))
        chosen.sort(key=lambda x: names.index(x.name))
        if not chosen:
            p.error("no such allocator")
        for name in files_of(a.folder):
            trace = Trace(tools, name, work, str(len(traces) + 1))
            if trace.format is None:
                left_out.append(name)
            else:
                traces.append(trace)
        text, found, runs = "", {}, os.path.join(work, "runs.csv")
        if traces:
            text = compare(tools, traces, chosen, a, runs)
        if os.path.exists(runs):
            found = runs_of(runs)
    rows = [row_of(t, chosen, found.get(t.key, {})) for t in traces]
    if a.csv:
        write_csv(a.csv, traces, chosen, found)
    lib.table(["file", "format", "operations", "threads", "peak, MB"] +
              [x.name for x in chosen] + ["against " + chosen[0].name], rows)
    if any(row[0].endswith(" *") for row in rows):
        print("\n* lacks something")
    if left_out:
        print("\nno traces: %s" % ", ".join(left_out))
    if text:
        print("\nAll traces together:\n\n" + text.strip())
    return 0 if text else 1


if __name__ == "__main__":
    sys.exit(main())
