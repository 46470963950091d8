#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What recording costs: against the untraced library, in one interleaved run.

ns/event: (wall recorded - wall untraced) / events of all threads, whole
process. loop: the same of the loop alone, without start and end of recording.
cpu: CPU time of the program's own threads instead of wall time; the one to
look at when the machine does other things too.

--sites: what call sites cost, by mode, beside heaptrack (if it is there) in the
same run. ns/alloc: user time beyond that of recording without sites, by
allocation; heaptrack's beyond that of glibc. user: against the same library
(heaptrack: glibc) without recording. B/alloc: bytes beyond those without sites,
before LZ4.
"""
import argparse
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import bench_lib as lib  # noqa: E402
import jobs  # noqa: E402

LOOPS = ("pairs", "lifo", "random", "threads", "random200", "random1m")
MALLOC_BOUND = ("bignum", "strings", "trees", "fifo", "server")
PROGRAMS = ("python", "perl", "ruby", "sqlite", "gcc")
BUFFERS = ("buffers", "medium")
STACKS = ("stack-same", "stack-turns", "stack-some")
SITES = ("none", "caller", "stack:16", "stack:32", "lang")
HEAPTRACK = ("/usr/lib/heaptrack/libheaptrack_preload.so",
             "/usr/lib/x86_64-linux-gnu/heaptrack/libheaptrack_preload.so")
QUICK = ("pairs", "lifo", "random", "threads", "bignum", "strings")


def account(build, path):
    """What malloc-trace info tells of the trace."""
    p = subprocess.run([os.path.join(build, "malloc-trace-replay",
                                     "malloc-trace"),
                        "info", "--json", "-", path],
                       stdout=subprocess.PIPE, check=False)
    if p.returncode:
        sys.exit("malloc-trace info: status %d" % p.returncode)
    d = json.loads(p.stdout)["files"][0]
    if not d["complete"]:
        sys.exit("the recording lacks something")
    return d


def commands(build, work, scale, wanted):
    """[(name, command)]: loops, malloc-bound programs, real programs."""
    have = lib.all_workloads(build)
    for name in LOOPS + STACKS + BUFFERS + MALLOC_BOUND:
        if wanted(name):
            yield name, [have[name][0], name, str(scale)]
    for name in PROGRAMS:
        if wanted(name):
            job = jobs.program(name, work, scale)
            if job is None:
                print("  %s: not installed, left out" % name, file=sys.stderr)
            else:
                yield name, job.args
    if wanted("small"):
        yield "small", ["/bin/true"]


def sites_allocators(build, work):
    """[Allocator]: not recording, each mode of call sites, glibc, heaptrack."""
    off = lib.allocators(build, work, {"tracing-off"})[0]
    preload = off.settings["LD_PRELOAD"]
    chosen = [off]
    for mode in SITES:
        chosen.append(lib.Allocator(mode, preload, {
            "TCMALLOC_TRACE_OUTPUT": os.path.join(work, mode),
            "TCMALLOC_TRACE_SITES": mode}))
    for path in HEAPTRACK:
        if os.path.exists(path):
            chosen.append(lib.Allocator("glibc"))
            chosen.append(lib.Allocator("heaptrack", path, {
                "DUMP_HEAPTRACK_OUTPUT": os.path.join(work, "heaptrack")}))
            break
    return chosen


def sites(a, build, only):
    rows = []
    with lib.WorkFolder(a.work) as work:
        chosen = sites_allocators(build, work)
        names = [x.name for x in chosen]
        for name, command in commands(build, work, a.scale,
                                      lambda x: x in only):
            results = lib.interleave(chosen, command, a.rounds)
            plain = account(build, os.path.join(work, "none"))
            allocs = sum(plain["footer"][x]
                         for x in ("mallocs", "memaligns", "reallocs"))
            off = results[chosen[0].name]
            for mode in names[1:]:
                if mode == "glibc":
                    continue
                rival = mode == "heaptrack"
                base = results["glibc" if rival else "none"]
                still = results["glibc"] if rival else off
                added = lib.median([(x.user - y.user) * 1e9 / allocs
                                    for x, y in zip(results[mode], base)])
                user = lib.ratio([r.user for r in results[mode]],
                                 [r.user for r in still])
                told = None if rival else account(build,
                                                  os.path.join(work, mode))
                rows.append([
                    name, "%.1f" % (allocs / 1e6), mode, "%.1f" % added,
                    "%.3f+-%.3f" % user,
                    "-" if rival else "%.2f" % (
                        (told["bytes"] - plain["bytes"]) / allocs)])
                print("  " + "  ".join(rows[-1]), file=sys.stderr)
    print(lib.machine())
    print("%d rounds, interleaved, medians\n" % a.rounds)
    lib.table(["workload", "M allocs", "sites", "ns/alloc", "user", "B/alloc"],
              rows)
    if a.csv:
        with open(a.csv, "w") as f:
            f.write("workload,m_allocs,sites,ns_alloc,user_ratio,spread,"
                    "bytes_alloc\n")
            for row in rows:
                f.write(",".join(row).replace("+-", ",") + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--build", default=".")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--scale", type=float, default=1)
    p.add_argument("--only", help="workloads, separated by commas")
    p.add_argument("--quick", action="store_true", help="a few workloads")
    p.add_argument("--no-lz4", action="store_true",
                   help="record without LZ4 frames")
    p.add_argument("--sites", action="store_true",
                   help="what call sites cost instead")
    p.add_argument("--csv")
    p.add_argument("--work", help="folder for traces (default /tmp)")
    a = p.parse_args()
    build = os.path.abspath(a.build)
    only = (set(a.only.split(",")) if a.only
            else set(QUICK) if a.quick else None)
    if a.sites:
        sites(a, build, only or set(STACKS + ("pairs", "random", "python")))
        return
    if a.no_lz4:
        os.environ.pop("TCMALLOC_TRACE_UNCOMPRESSED", None)
    csv = open(a.csv, "w") if a.csv else None
    if csv:
        csv.write("workload,events,ns_event,ns_event_loop,ns_event_cpu,"
                  "wall_ratio,user_ratio,cpu_ratio,rss_added_kib,"
                  "raw_bytes_event,stored_bytes_event,saver_s_per_million\n")
    rows = []
    ratios = []
    with lib.WorkFolder(a.work) as work:
        chosen = lib.allocators(build, work,
                                {"ours", "tracing-off", "tracing-on"})
        trace = os.path.join(work, "trace.lz4")
        if a.no_lz4:
            chosen[-1].settings["TCMALLOC_TRACE_UNCOMPRESSED"] = "1"
        for name, command in commands(build, work, a.scale,
                                      lambda x: not only or x in only):
            results = lib.interleave(chosen, command, a.rounds)
            off, quiet, on = (results[x.name] for x in chosen)
            if name == "small":
                print("start and end of a recording: %.0f us" % lib.median(
                    [(x.wall - y.wall) * 1e6 for x, y in zip(on, off)]))
                continue
            told = account(build, trace)
            events = told["events"]
            raw, stored = told["bytes"], told["file_bytes"]
            saver = told["footer"]["saver_cpu_ns"] / 1e3
            wall = lib.ratio([r.wall for r in on], [r.wall for r in off])
            still = lib.ratio([r.wall for r in quiet], [r.wall for r in off])
            added = lib.median([(x.wall - y.wall) * 1e9 / max(events, 1)
                                for x, y in zip(on, off)])
            loop = lib.median([(x.ns - y.ns) / events
                               for x, y in zip(on, off)]) if off[0].ns else None
            own = lib.median([(x.loop_cpu - y.loop_cpu) / events
                              for x, y in zip(on, off)]) if off[0].ns else None
            user = (lib.ratio([r.user for r in on], [r.user for r in off])[0]
                    if all(r.user for r in off) else None)
            cpu = (lib.ratio([r.cpu for r in on], [r.cpu for r in off])[0]
                   if all(r.cpu for r in off) else None)
            rss = lib.median([x.rss - y.rss for x, y in zip(on, off)])
            if name in MALLOC_BOUND:
                ratios.append(wall[0])

            def text(v, form="%.2f"):
                return "-" if v is None else form % v
            row = [name, "%.1f" % (events / 1e6), text(added), text(loop),
                   text(own), "%.3f+-%.3f" % wall, "%.3f" % still[0], text(user, "%.3f"),
                   text(cpu, "%.3f"), "%d" % rss,
                   text(raw / events), text(stored / events, "%.3f"),
                   text(saver / events, "%.5f")]
            rows.append(row)
            print("  " + "  ".join(row), file=sys.stderr)
            if csv:
                csv.write(",".join([name, str(events), text(added),
                                    text(loop), text(own), "%.4f" % wall[0],
                                    text(user, "%.4f"), text(cpu, "%.4f"),
                                    str(rss), text(raw and raw / events),
                                    text(stored and stored / events,
                                         "%.4f")]) + "\n")
    print(lib.machine())
    print("%d rounds, interleaved, medians; recorded against untraced%s\n" %
          (a.rounds, ", without LZ4" if a.no_lz4 else ""))
    lib.table(["workload", "M events", "ns/event", "loop", "cpu", "wall ratio",
               "off", "user", "user+sys", "RSS +KiB", "raw B/event",
               "stored", "saver s/M"], rows)
    if ratios:
        print("\ngeometric mean of wall ratios of malloc-bound programs (%s): %.3f" %
              (", ".join(n for n in MALLOC_BOUND if not only or n in only),
               lib.geometric_mean(ratios)))


main()
