#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the shared levels would cost with more processors than there are here.

Measured: how long a visit to a level takes, by one thread and by two that do
nothing else (bench_levels; nearly all of that is under its lock), and how often
workloads visit it in a second of processor time. Computed: the throughput of N threads of that
workload, each with a processor of its own, as a closed network of queues: N
customers, who work for a time and then visit each level's lock, which serves
one at a time (mean value analysis, Reiser and Lavenberg 1980).

It errs on the dark side in that all classes of a level count as one lock,
although each has its own, and that a visit that waits for nobody takes as long
as one between two threads that hammer the level. It errs on the bright side in
that threads are spread evenly over the shards, and that memory takes no longer
with many processors. Each level has a lock in each shard.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
import bench_lib as lib  # noqa: E402
import jobs  # noqa: E402

# Level, as bench_levels names it, and the counters of its visits.
LEVELS = (
    ("transfer", ("thread_cache_misses", "thread_cache_overflows")),
    ("central", ("central_fetches", "central_returns")),
    ("pages", ("spans_made", "spans_freed")),
)
SHARDS = 64  # at most; busy threads get shards of their own
WORKLOADS = ("mixed", "strings", "trees", "frag", "medium", "exchange",
             "producer", "server")
PROGRAMS = ("python", "perl", "ruby", "sqlite", "gcc")


class Bench:
    def __init__(self, build, work):
        self.ours = lib.allocators(build, work, {"ours"})[0]
        self.path = os.path.join(work, "counters")
        self.both = (self.ours.settings["LD_PRELOAD"] + ":" +
                     lib.program(build, "bench_counters.so"))

    def run(self, args, **how):
        """(result, counters)"""
        r = lib.run(self.ours, args, settings={
            "LD_PRELOAD": self.both, "BENCH_COUNTERS": self.path}, **how)
        found = lib.read_counters(self.path)
        if not found:
            sys.exit("%s: the library tells no counters" % args[0])
        os.unlink(self.path)
        return r, found


def visits(found):
    return [sum(found[n] for n in names) for _, names in LEVELS]


def visit_ns(bench, program, scale, rounds):
    """[(by one thread, by two)], by level: nanoseconds of a visit."""
    def of(level, threads):
        return lib.median([x.ns / x.ops for x in (
            lib.run(bench.ours, [program, level, str(scale), str(threads)])
            for _ in range(rounds))])
    return [(of(level, 1), of(level, 2)) for level, _ in LEVELS]


def throughput(think_ns, demand_ns, most):
    """[of 1 thread, 2, ... MOST], relative to one alone that never waits:
    exact mean value analysis. DEMAND_NS: by lock, of one cycle."""
    queue = [0.0] * len(demand_ns)
    alone = think_ns + sum(demand_ns)
    done = []
    for n in range(1, most + 1):
        stay = [d * (1 + q) for d, q in zip(demand_ns, queue)]
        rate = n / (think_ns + sum(stay))
        queue = [rate * s for s in stay]
        done.append(rate * alone)
    return done


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--build", default=".")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--scale", type=float, default=0.2)
    p.add_argument("--processors", default="8,16,64")
    a = p.parse_args()
    counts = [int(n) for n in a.processors.split(",")]
    build = os.path.abspath(a.build)
    rows = []
    with lib.WorkFolder() as work:
        bench = Bench(build, work)
        held = visit_ns(bench, lib.program(build, "bench_levels"), a.scale,
                        a.rounds)
        have = lib.all_workloads(build)
        todo = [(n, [have[n][0], n, str(a.scale)], {}) for n in WORKLOADS]
        for name in PROGRAMS:
            job = jobs.program(name, work, a.scale)
            if job:
                todo.append((name, job.args, job.how))
        for name, args, how in todo:
            r, c = bench.run(args, **how)
            busy_ns = r.loop_cpu or r.cpu * 1e9
            n = visits(c)
            demand = [one * k for (one, _), k in zip(held, n)]
            dark = [max(one, two) * k for (one, two), k in zip(held, n)]
            think = max(busy_ns - sum(demand), 0.0)
            done = []
            for x in counts:
                shards = min(x, SHARDS)
                locks = [d / shards for d in dark for _ in range(shards)]
                done.append(throughput(think, locks, x)[-1])
            rows.append([name] + ["%.0f" % (k / busy_ns * 1e6) for k in n] +
                        ["%.1f" % t for t in done])
    print("%s\n" % lib.machine())
    lib.table(["lock", "ns a visit, one thread", "two threads"],
              [[level, "%.0f" % one, "%.0f" % two]
               for (level, _), (one, two) in zip(LEVELS, held)])
    print()
    lib.table(["workload"] + ["%s, 1,000 visits/s" % x[0] for x in LEVELS] +
              ["%d processors do the work of" % n for n in counts], rows)


main()
