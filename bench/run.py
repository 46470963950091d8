#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the benchmark programs under several allocators, interleaved, and
prints medians and ratios.

Example: bench/run.py --build . --rounds 9 --csv result.csv
"""
import argparse
import csv
import os
import sys

import bench_lib as lib


def jobs(build, only, cpu):
    """(name, command, value of a run in ns, how it is measured)"""
    for w, (path, _) in lib.all_workloads(build).items():
        if not only or w in only:
            if cpu:
                yield (w, [path, w], lambda r: r.loop_cpu / r.ops,
                       "cpu ns/op")
            else:
                yield w, [path, w], lambda r: r.ns / r.ops, "ns/op"
    if not only or "python" in only:
        os.environ["PYTHONMALLOC"] = "malloc"
        yield ("python", [os.path.realpath(sys.executable), "-S",
                          os.path.join(lib.HERE, "python_json.py")],
               lambda r: r.user * 1e9, "user ms")
    if not only or "small" in only:
        yield "small", ["/bin/true"], lambda r: r.wall * 1e9, "wall ms"


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--build", default=".", help="build folder (default .)")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--scale", default="1", help="length of the workloads")
    p.add_argument("--only", help="workloads, separated by commas")
    p.add_argument("--allocators", help="of ours, tracing-off, tracing-on, "
                   "glibc, gperftools, jemalloc, mimalloc")
    p.add_argument("--extra", action="append", default=[],
                   metavar="NAME=LIBRARY", help="another allocator")
    p.add_argument("--cpu", action="store_true",
                   help="CPU time of the threads, not wall time")
    p.add_argument("--csv", help="every single run, to this file")
    p.add_argument("--work", help="folder for traces (default /tmp)")
    a = p.parse_args()
    if a.rounds < 1:
        p.error("--rounds must be 1 at least")
    build = os.path.abspath(a.build)
    only = set(a.only.split(",")) if a.only else None
    wanted = set(a.allocators.split(",")) if a.allocators else None
    out = csv.writer(open(a.csv, "w", newline="")) if a.csv else None
    if out:
        out.writerow("workload allocator round ops loop_ns loop_cpu_ns wall_s "
                     "user_s "
                     "system_s peak_rss_kib".split())
    todo = list(jobs(build, only, a.cpu))
    if not todo:
        p.error("no such workload")
    with lib.WorkFolder(a.work) as work:
        chosen = lib.allocators(build, work, wanted, a.extra)
        names = [x.name for x in chosen]
        print(lib.machine())
        print("%d rounds, interleaved; medians; (ratio to %s, +- half of the "
              "middle half)\n" % (a.rounds, names[0]))
        rows, rss_rows = [], []
        all_ratios = {n: [] for n in names}
        for name, command, value, unit in todo:
            if unit.endswith("ns/op"):
                command = command + [a.scale]
            results = lib.interleave(chosen, command, a.rounds)
            if out:
                for n in names:
                    for i, r in enumerate(results[n]):
                        out.writerow([name, n, i, r.ops or "", r.ns or "",
                                      r.loop_cpu or "",
                                      "%.6f" % r.wall, "%.6f" % r.user,
                                      "%.6f" % r.system, r.rss])
            base = [value(r) for r in results[names[0]]]
            row, rss = ["%s (%s)" % (name, unit)], [name]
            for n in names:
                these = [value(r) for r in results[n]]
                middle = lib.median(these) / (
                    1 if unit.endswith("ns/op") else 1e6)
                if min(base) > 0 and min(these) > 0:
                    times, spread = lib.ratio(these, base)
                    all_ratios[n].append(times)
                    extra = "" if n == names[0] else " (%.2f+-%.2f)" % (
                        times, spread)
                else:
                    extra = ""
                row.append("%.2f%s" % (middle, extra))
                rss.append("%d" % lib.median([r.rss for r in results[n]]))
            rows.append(row)
            rss_rows.append(rss)
            print("  " + "  ".join(row), file=sys.stderr)
        rows.append(["geometric mean of ratios"] +
                    ["%.3f" % lib.geometric_mean(all_ratios[n])
                     for n in names])
        lib.table(["workload"] + names, rows)
        print("\npeak resident memory, KiB\n")
        lib.table(["workload"] + names, rss_rows)


main()
