#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs workloads under several allocators, interleaved, and prints medians,
ratios, resident memory, and what it all comes to.

Example: bench/run.sh --build . --rounds 9 --csv runs.csv --table-csv table.csv
"""
import argparse
import csv
import os
import re
import sys

sys.dont_write_bytecode = True
import bench_lib as lib  # noqa: E402
import jobs  # noqa: E402
import summary  # noqa: E402

DEFAULT = ("ours", "glibc") + tuple(lib.PEERS)


def options():
    early = argparse.ArgumentParser(add_help=False)
    early.add_argument("--build", default=".")
    build = os.path.abspath(early.parse_known_args()[0].build)
    try:
        epilog = "workloads:\n" + "\n".join(
            "  %-18s %s" % x for x in jobs.listing(build))
    except SystemExit as none:
        epilog = "workloads: not known, %s" % none
    p = argparse.ArgumentParser(description=__doc__, epilog=epilog,
                                formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--build", default=".", help="build folder (default .)")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--scale", type=float, default=1,
                   help="length of the workloads")
    p.add_argument("--only", help="workloads, separated by commas")
    p.add_argument("--without", help="workloads to leave out")
    p.add_argument("--allocators", help="of ours, tracing-off, tracing-on, "
                   "glibc, gperftools,\njemalloc, mimalloc (default: all but "
                   "the tracing ones)")
    p.add_argument("--extra", action="append", default=[],
                   metavar="NAME=LIBRARY", help="another allocator")
    p.add_argument("--cpu", action="store_true",
                   help="CPU time of the threads, not wall time")
    p.add_argument("--counters", action="store_true",
                   help="run once under our library and print its counters")
    p.add_argument("--list", action="store_true", help="list the workloads")
    p.add_argument("--csv", help="every single run, to this file")
    p.add_argument("--table-csv", help="medians and ratios, to this file")
    p.add_argument("--work", help="folder for traces (default /tmp)")
    a = p.parse_args()
    if a.rounds < 1:
        p.error("--rounds must be 1 at least")
    if a.scale <= 0:
        p.error("--scale must be above 0")
    a.build = build
    known = dict(jobs.listing(build))
    a.only = set(a.only.split(",")) if a.only else set(known)
    a.without = set(a.without.split(",")) if a.without else set()
    unknown = sorted((a.only | a.without) - set(known))
    if unknown:
        p.error("no such workload: %s" % ", ".join(unknown))
    names = {"tracing-off", "tracing-on"} | set(DEFAULT)
    if a.allocators:
        a.allocators = set(a.allocators.split(","))
        unknown = sorted(a.allocators - names -
                         {x.partition("=")[0] for x in a.extra})
        if unknown:
            p.error("no such allocator: %s" % ", ".join(unknown))
    else:
        a.allocators = set(DEFAULT)
    a.allocators |= {x.partition("=")[0] for x in a.extra}
    return a, known


RUN_COLUMNS = ("workload allocator round ops loop_ns loop_cpu_ns wall_s user_s "
               "system_s peak_rss_kib average_rss_kib told").split()


def run_row(name, allocator, number, r):
    return [name, allocator, number, r.ops or "", r.ns or "", r.loop_cpu or "",
            "%.6f" % r.wall, "%.6f" % r.user, "%.6f" % r.system, r.rss,
            r.average, " ".join("%s=%d" % x for x in r.told.items())]


def compare(a, todo, chosen):
    """Status of the script."""
    names = [x.name for x in chosen]
    out = csv.writer(open(a.csv, "w", newline="")) if a.csv else None
    if out:
        out.writerow(RUN_COLUMNS)
    c = summary.Comparison(names)
    told, failed = {}, False
    for job in todo:
        try:
            results = lib.interleave(chosen, job.args, a.rounds,
                                     tolerant=True, **job.how)
        except lib.Skipped as reason:
            print("  %s: left out, %s" % (job.name, reason), file=sys.stderr)
            continue
        failed |= len(results) < len(names)
        if out:
            for n, runs in results.items():
                for i, r in enumerate(runs):
                    out.writerow(run_row(job.name, n, i, r))
        cells = c.add("time", job.name, job.unit, {
            n: [job.time(r) / job.factor for r in runs]
            for n, runs in results.items()})
        c.add("peak RSS", job.name, "KiB",
              {n: [r.rss for r in runs] for n, runs in results.items()})
        c.add("average RSS", job.name, "KiB",
              {n: [r.average for r in runs] for n, runs in results.items()})
        if any(runs[0].told for runs in results.values()):
            told[job.name] = {n: (lib.median([r.rss for r in runs]), {
                key: lib.median([r.told[key] for r in runs])
                for key in runs[0].told}) for n, runs in results.items()}
        print("  %-20s" % job.name + "  ".join(
            summary.cell_text(cells.get(n), 2, n == names[0])
            for n in names), file=sys.stderr)
    print("%s\n%d rounds, interleaved; medians; (ratio to %s, +- half of the "
          "middle half)\n\nTime\n" % (lib.machine(), a.rounds, names[0]))
    summary.print_table(c, "time")
    for measure in summary.MEASURES[1:]:
        print("\n%s of the process, KiB\n" %
              (measure[0].upper() + measure[1:]))
        summary.print_table(c, measure)
    if told:
        print("\nPeak resident / peak live bytes, and steady resident / steady "
              "live bytes\n")
        summary.print_live(told, names)
    if names[0] == "ours":
        summary.print_summary(c)
    if a.table_csv:
        with open(a.table_csv, "w", newline="") as f:
            summary.write_csv(c, csv.writer(f))
    return 1 if failed else 0


def counters(a, todo, work):
    ours = lib.allocators(a.build, work, {"ours"})[0]
    path = os.path.join(work, "counters")
    reader = lib.program(a.build, "bench_counters.so")
    both = ours.settings["LD_PRELOAD"] + ":" + reader
    print("%s\nPer million operations, or (*) of the whole run where these are "
          "not counted.\n" % lib.machine())
    names, rows = None, []
    for job in todo:
        try:
            r = lib.run(ours, job.args, settings={
                "LD_PRELOAD": both, "BENCH_COUNTERS": path}, **job.how)
        except lib.Skipped as reason:
            print("  %s: left out, %s" % (job.name, reason), file=sys.stderr)
            continue
        found = lib.read_counters(path)
        if not found:
            sys.exit("%s: the library tells no counters" % job.name)
        os.unlink(path)
        names = names or list(found)
        scale = 1e6 / r.ops if r.ops else 1
        rows.append([job.name + ("" if r.ops else " *")] +
                    ["%.0f" % (found[n] * scale) for n in names])
    lib.table(["workload"] + [n.replace("_", " ") for n in names or []], rows)
    return 0


def main():
    a, known = options()
    if a.list:
        for name, what in known.items():
            print("%s\t%s" % (name, what))
        return 0
    with lib.WorkFolder(a.work) as work:
        chosen = lib.allocators(a.build, work, a.allocators, a.extra)
        if not chosen:
            sys.exit("none of these allocators is here")
        todo = jobs.all_jobs(a.build, work, a.scale, a.cpu, lambda name:
                             name in a.only and name not in a.without)
        if a.counters:
            return counters(a, todo, work)
        return compare(a, todo, chosen)


sys.exit(main())
