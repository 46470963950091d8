#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How true replays of real programs are.

    bench/fidelity_programs.py [-b BUILD] [-n ROUNDS] [PROGRAM...]

BUILD is the build tree (default: the current folder). Programs that are not
installed are left out. Two tables. The first: the allocator's counters after a
replay of a recording, as deviations in per cent from those of the recorded run,
in two modes of threads. The second, under several allocators: what processor
time and peak memory the program took, and by how much the replays' differences
to the first allocator miss the program's own, with --touch=auto and with use;
medians of ROUNDS (default 3) rounds, in which everything runs in turn.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import bench_lib as lib

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ["", "libjemalloc.so.2", "libmimalloc.so.2", "libtcmalloc_minimal.so.4"]
COUNTERS = [("misses", "tcmalloc.thread_cache_misses"),
            ("overflows", "tcmalloc.thread_cache_overflows"),
            ("fetches", "tcmalloc.central_fetches"),
            ("returns", "tcmalloc.central_returns"),
            ("transfers", "tcmalloc.transfer_cache_hits"),
            ("spans", "tcmalloc.spans_made"),
            ("from system", "tcmalloc.system_bytes_taken"),
            ("peak heap", "peak_heap_bytes"),
            ("peak live", "peak_live_bytes")]
SQL = """CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<150000)
INSERT INTO t SELECT i, 'row '||i||' '||hex(i*7919%104729), i/7.0 FROM n;
CREATE INDEX x ON t(b);
SELECT count(*), sum(c) FROM t WHERE b LIKE '%42%';
SELECT substr(b,1,6), group_concat(b), count(*) FROM t GROUP BY 1 ORDER BY 3;
UPDATE t SET b = upper(b)||'-'||a WHERE a % 3 = 0;
SELECT count(DISTINCT lower(b)) FROM t;
DELETE FROM t WHERE a % 5 = 0;
"""
C_FUNCTION = """static int f%d(int a, int b) {
    int s = 0;
    for (int i = 0; i < a; i++) {
        s += i * b;
        if (s > %d) s -= f%d(a - 1, i); else s ^= b << (i & 7);
        switch (s & 7) { case 0: s++; break; case 1: s *= 3; break; }
    }
    return s;
}
"""


def c_source(path):
    with open(path, "w") as f:
        f.write("static int f0(int a, int b) { return a + b; }\n")
        for i in range(1, 800):
            f.write(C_FUNCTION % (i, i * 37, i - 1))
        f.write("int main(int c, char **v) { (void)v; return f799(c, 3); }\n")


def programs(work):
    """Name: command, of those that are there."""
    found = {}
    if os.path.exists("/usr/bin/python3"):
        found["python"] = ["/usr/bin/python3",
                           os.path.join(HERE, "python_json.py"), "6"]
    if shutil.which("perl"):
        found["perl"] = ["perl", os.path.join(HERE, "perl_text.pl"), "6"]
    if shutil.which("sqlite3"):
        sql = os.path.join(work, "q.sql")
        with open(sql, "w") as f:
            f.write(SQL)
        found["sqlite3"] = ["sqlite3", ":memory:", ".read " + sql]
    cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], check=False,
                         stdout=subprocess.PIPE).stdout.decode().strip() \
        if shutil.which("gcc") else ""
    if os.path.isabs(cc1):
        source = os.path.join(work, "source.c")
        c_source(source)
        found["cc1"] = [cc1, "-quiet", "-O2", source, "-o", "/dev/null"]
    if shutil.which("redis-server") and shutil.which("redis-benchmark"):
        found["redis-server"] = ["redis-server", "--port", "0", "--unixsocket",
                                 os.path.join(work, "socket"), "--save", "",
                                 "--appendonly", "no"]
        found["redis-server, 2 threads"] = found["redis-server"] + [
            "--io-threads", "2", "--io-threads-do-reads", "yes"]
    return found


def client(socket):
    """What redis-server is asked for; it ends then."""
    cli = ["redis-cli", "-s", socket]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    while subprocess.run(cli + ["ping"], check=False, **quiet).returncode != 0:
        time.sleep(0.05)
    subprocess.run(["redis-benchmark", "-s", socket, "-q", "-n", "40000", "-c",
                    "20", "-P", "8", "-r", "20000", "-d", "200", "-t",
                    "set,get,lpush,lpop,sadd,hset,zadd,lrange_100"],
                   check=True, **quiet)
    subprocess.run(cli + ["shutdown", "nosave"], check=False, **quiet)


def run(command, extra, work):
    """Processor time in seconds and peak of resident memory in bytes."""
    script = ("import os, resource, sys\n"
              "pid = os.spawnvpe(os.P_NOWAIT, sys.argv[1], sys.argv[1:],"
              " dict(os.environ, **eval(os.environ['EXTRA'])))\n"
              "os.waitpid(pid, 0)\n"
              "u = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
              "print(u.ru_utime + u.ru_stime, u.ru_maxrss * 1024)\n")
    child = subprocess.Popen(
        [sys.executable, "-c", script] + command, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, env=dict(os.environ, EXTRA=repr(extra)))
    if command[0] == "redis-server":
        client(os.path.join(work, "socket"))
    out = child.communicate()[0].decode().split()
    return float(out[-2]), int(out[-1])


def replayed(replay, trace, preload, options, work):
    out = os.path.join(work, "j")
    subprocess.run([replay, "-q", "--json", out] + options + [trace],
                   env=dict(os.environ, LD_PRELOAD=preload), check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(out) as f:
        return json.load(f)


def is_there(library):
    env = dict(os.environ, LD_PRELOAD=library)
    return not subprocess.run(["true"], env=env, stderr=subprocess.PIPE,
                              check=False).stderr


def counters(name, trace, replay, ours, work):
    """Rows of the first table."""
    for mode in "switch", "real":
        timeline = os.path.join(work, "t.csv")
        j = replayed(replay, trace, ours, ["--threads=" + mode, "--timeline",
                                           timeline], work)
        cells = ["%+.1f" % j["fidelity"][k]["deviation_percent"]
                 if k in j["fidelity"] else "-" for _, k in COUNTERS]
        print("| %s, %s | %s | %s |" % (name, mode, "{:,}".format(j["ops"]),
                                        " | ".join(cells)), flush=True)


def compare(name, command, trace, replay, allocators, rounds, work):
    """Rows of the second table."""
    figures = {}
    for _ in range(rounds):
        for library in allocators:
            extra = {"LD_PRELOAD": library} if library else {}
            cpu, peak = run(command, extra, work)
            row = [cpu, peak]
            for touch in "auto", "use":
                j = replayed(replay, trace, library,
                             ["--threads=none", "--touch=" + touch], work)
                row += [j["cpu_ns"] / 1e9, j["peak_rss_bytes"]]
            figures.setdefault(library, []).append(row)
    median = {a: [statistics.median(x) for x in zip(*figures[a])]
              for a in allocators}
    base = median[allocators[0]]
    miss = {"auto": [], "use": []}
    for a in allocators:
        m = median[a]
        cells = ["%.2f s, %.1f MiB" % (m[0], m[1] / 2**20)]
        for i, touch in ((2, "auto"), (4, "use")):
            cells.append("%+.2f s, %+.1f MiB" % (
                m[i] - base[i] - (m[0] - base[0]),
                (m[i + 1] - base[i + 1] - (m[1] - base[1])) / 2**20))
            if a != allocators[0]:
                miss[touch].append(abs(m[i] - base[i] - (m[0] - base[0])))
        print("| %s, %s | %s |" % (name, lib.name_of(a), " | ".join(cells)),
              flush=True)
    return miss


def record(command, raw, tracing, work):
    run(command, {"LD_PRELOAD": tracing, "TCMALLOC_TRACE_OUTPUT": raw}, work)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-b", default=".", metavar="BUILD")
    parser.add_argument("-n", type=int, default=3, metavar="ROUNDS")
    parser.add_argument("program", nargs="*")
    args = parser.parse_args()
    build = os.path.abspath(args.b)
    tools = os.path.join(build, "malloc-trace-replay")
    libs = os.path.join(build, ".libs")
    replay = os.path.join(tools, "replay")
    ours = os.path.join(libs, "libtcmalloc_minimal.so")
    allocators = [x for x in PEERS if is_there(x)] + [ours]
    os.environ["PYTHONMALLOC"] = "malloc"
    with tempfile.TemporaryDirectory() as work:
        chosen = {k: v for k, v in programs(work).items()
                  if not args.program or k in args.program}
        print("| program, mode | operations | %s |" %
              " | ".join(k for k, _ in COUNTERS))
        print("|---|---|" + "---|" * len(COUNTERS))
        traces = {}
        for name, command in chosen.items():
            raw = os.path.join(work, "raw%d" % len(traces))
            traces[name] = raw + ".p"
            record(command, raw, os.path.join(
                libs, "libtcmalloc_minimal_tracing.so"), work)
            subprocess.run([os.path.join(tools, "postprocess"), "-q", raw,
                            traces[name]], check=True)
            counters(name, traces[name], replay, ours, work)
        print("\n| program, allocator | itself | auto misses by |"
              " use misses by |\n|---|---|---|---|")
        total = {"auto": [], "use": []}
        for name, command in chosen.items():
            miss = compare(name, command, traces[name], replay, allocators,
                           args.n, work)
            for touch, values in miss.items():
                total[touch] += values
        for touch, values in total.items():
            if values:
                print("%s misses by %.3f s on average" %
                      (touch, statistics.mean(values)))


main()
