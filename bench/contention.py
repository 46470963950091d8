#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Throughput of several allocators, interleaved, with more and more threads that
hammer the levels which threads share: millions of malloc and free calls a
second of wall time, all threads together; the work is the same for any number.
"""
import argparse
import csv
import os
import sys

sys.dont_write_bytecode = True
import bench_lib as lib  # noqa: E402

DEFAULT = ("ours", "glibc") + tuple(lib.PEERS)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--build", default=".", help="build folder (default .)")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--scale", type=float, default=1)
    p.add_argument("--threads", default="1,2,4,8,16")
    p.add_argument("--only", help="of own, central, transfer, pages")
    p.add_argument("--allocators", help="of %s" % ", ".join(DEFAULT))
    p.add_argument("--extra", action="append", default=[],
                   metavar="NAME=LIBRARY", help="a further allocator")
    p.add_argument("--cpu", action="store_true",
                   help="CPU time of the threads in place of wall time, which\n"
                   "shows what waiting costs on a machine that does other "
                   "things too")
    p.add_argument("--csv", help="every single run, to this file")
    a = p.parse_args()
    if a.rounds < 1:
        p.error("--rounds must be 1 at least")
    build = os.path.abspath(a.build)
    path = lib.program(build, "bench_contention")
    only = a.only.split(",") if a.only else None
    out = csv.writer(open(a.csv, "w", newline="")) if a.csv else None
    if out:
        out.writerow("workload threads allocator round ops loop_ns loop_cpu_ns "
                     "peak_rss_kib average_rss_kib".split())
    rows, rss_rows = [], []
    with lib.WorkFolder() as work:
        wanted = set(a.allocators.split(",")) if a.allocators else set(DEFAULT)
        wanted |= {x.partition("=")[0] for x in a.extra}
        chosen = lib.allocators(build, work, wanted, a.extra)
        names = [x.name for x in chosen]
        if not names:
            p.error("no such allocator")
        for workload, _ in lib.workloads(path):
            if only and workload not in only:
                continue
            for threads in a.threads.split(","):
                results = lib.interleave(
                    chosen, [path, workload, str(a.scale), threads], a.rounds,
                    tolerant=True)
                speed = {n: [1e3 * r.ops / (r.loop_cpu if a.cpu else r.ns)
                             for r in runs] for n, runs in results.items()}
                row, rss = [workload, threads], [workload, threads]
                for n in names:
                    if n not in speed:
                        row.append("-")
                        rss.append("-")
                        continue
                    text = "%.1f" % lib.median(speed[n])
                    if n != names[0] and names[0] in speed:
                        text += " (%.2f+-%.2f)" % lib.ratio(speed[n],
                                                            speed[names[0]])
                    row.append(text)
                    rss.append("%d" % lib.median([r.rss for r in results[n]]))
                    for i, r in enumerate(results[n]):
                        if out:
                            out.writerow([workload, threads, n, i, r.ops, r.ns,
                                          r.loop_cpu, r.rss, r.average])
                rows.append(row)
                rss_rows.append(rss)
                print("  " + "  ".join(row), file=sys.stderr)
    if not rows:
        p.error("no such workload")
    print("%s\n%d rounds, interleaved; medians of M operations/s of %s time; "
          "(ratio to %s, +- half of the middle half)\n" %
          (lib.machine(), a.rounds, "CPU" if a.cpu else "wall", names[0]))
    lib.table(["workload", "threads"] + names, rows)
    print("\npeak resident memory, KiB\n")
    lib.table(["workload", "threads"] + names, rss_rows)


main()
