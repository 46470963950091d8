#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Memory in the course of time: programs that idle, and replays of them at the
recorded speed and with a recorded clock, under several allocators.

    bench/recorded_time.py [-b BUILD] [-n ROUNDS] [PROGRAM...]

BUILD is the build tree (default: the current folder). PROGRAM: fill, waves,
threads (all by default) of idle_phases.c. A row has, of resident memory at 20
moments: the mean of the program itself and of both replays; at how many moments
the replay with a recorded clock is within 2 % of the peak of what the other
one, and the program, have within a tenth of a second, and the largest
difference;
then the time of the two replays, without what measures memory in the second
one; and how often jemalloc's background threads ran, in the three, between the
program's first free and the end of its first large block. Memory before the first
operation is taken off. Medians of ROUNDS (default 1). Replays have fixed
addresses (setarch), as allocators draw random numbers from them.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MOMENTS = 20
NEAR = 0.1
FIXED = ["setarch", "-R"]
SETTINGS = [
    ("C library", "", {}),
    ("jemalloc", "libjemalloc.so.2", {}),
    ("jemalloc, decay 1 s", "libjemalloc.so.2",
     {"MALLOC_CONF": "dirty_decay_ms:1000,muzzy_decay_ms:1000"}),
    ("jemalloc, threads", "libjemalloc.so.2",
     {"MALLOC_CONF": "background_thread:true"}),
    ("jemalloc, threads, decay 1 s", "libjemalloc.so.2",
     {"MALLOC_CONF": "background_thread:true,dirty_decay_ms:1000,"
                     "muzzy_decay_ms:1000"}),
    ("mimalloc, purge 1 s", "libmimalloc.so.2",
     {"MIMALLOC_PURGE_DELAY": "1000", "MIMALLOC_DECOMMIT_DELAY": "1000"}),
    ("this library", "OURS", {}),
]


def resident(pid):
    """Bytes without those of files, which are hardly the program's heap."""
    try:
        with open("/proc/%d/statm" % pid) as f:
            words = f.read().split()
    except (OSError, ValueError):
        return None
    if len(words) < 3:
        return None
    return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGESIZE")


def watched(command, env):
    """Rows (seconds, bytes) of a program while it runs."""
    start = time.monotonic()
    rows = []
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as p:
        while p.poll() is None:
            now = resident(p.pid)
            if now:
                rows.append((time.monotonic() - start, now))
            time.sleep(0.005)
        if p.returncode != 0:
            sys.exit("%s: status %d" % (command, p.returncode))
    return rows


def replayed(replay, options, trace, env, work):
    """Rows of a replay, its JSON, and its seconds."""
    out, table = os.path.join(work, "j"), os.path.join(work, "t.csv")
    start = time.monotonic()
    done = subprocess.run(FIXED +
                          [replay, "-q", "--json", out, "--timeline", table,
                           "--timeline-step=50ms"] + options + [trace],
                          env=env, stderr=subprocess.DEVNULL, check=False)
    wall = time.monotonic() - start
    if done.returncode != 0:
        sys.exit("replay %s: status %d" % (options, done.returncode))
    with open(table) as f:
        rows = [(int(r["recorded_ns"]) / 1e9, int(r["rss_bytes"]))
                for r in csv.DictReader(f)]
    with open(out) as f:
        return rows, json.load(f), wall


def moments(end):
    return [end * (i + 0.5) / MOMENTS for i in range(MOMENTS)]


def values_near(rows, at, distance):
    """Bytes at AT, the last ones known before, and within DISTANCE of it."""
    before = [v for t, v in rows if t <= at]
    near = [v for t, v in rows if abs(t - at) <= distance]
    return [before[-1] if before else rows[0][1]] + near


def mean_of(rows, end):
    return statistics.mean(values_near(rows, at, 0)[0] for at in moments(end))


def differences(rows, others, end, peak):
    """How many moments of ROWS are within 2 % of PEAK of what OTHERS have
    within NEAR seconds, and the largest difference in per cent."""
    part = []
    for at in moments(end):
        value = values_near(rows, at, 0)[0]
        near = values_near(others, at, NEAR)
        off = max(min(near) - value, value - max(near), 0)
        part.append(off * 100 / peak)
    return sum(x <= 2 for x in part), max(part)


def is_there(library):
    env = dict(os.environ, LD_PRELOAD=library)
    return not subprocess.run(["true"], env=env, stderr=subprocess.PIPE,
                              check=False).stderr


def has_threads(extra):
    return "background_thread:true" in extra.get("MALLOC_CONF", "")


def runs_in(name):
    """Runs of threads that a process has written; 0: it has none."""
    try:
        with open(name) as f:
            return int(f.read())
    except FileNotFoundError:
        return 0


def record(libs, tools, command, work):
    raw, trace = os.path.join(work, "raw"), os.path.join(work, "p")
    env = dict(os.environ, TCMALLOC_TRACE_OUTPUT=raw, LD_PRELOAD=os.path.join(
        libs, "libtcmalloc_minimal_tracing.so"))
    subprocess.run(command, env=env, check=True)
    subprocess.run([os.path.join(tools, "postprocess"), "-q", raw, trace],
                   check=True)
    return trace


def row_of(settings, program, kind, trace, replay, work):
    library, extra = settings
    runs = os.path.join(work, "runs")
    env = dict(os.environ, LD_PRELOAD=library, **extra)
    if has_threads(extra):
        env.update(LD_PRELOAD=os.path.join(work, "runs.so") + " " + library,
                   IDLE_RUNS=runs)
    before = max(v for _, v in watched([program, "rest"], env))
    itself = [(t, v - before) for t, v in watched([program, kind], env)]
    often = [runs_in(runs)]
    paced, j, slow = replayed(replay, ["--speed=1"], trace, env, work)
    often.append(runs_in(runs))
    clocked, j, _ = replayed(replay, ["--clock=recorded"], trace, env, work)
    often.append(runs_in(runs))
    start = time.monotonic()
    subprocess.run([replay, "-q", "--clock=recorded", trace], env=env,
                   stderr=subprocess.DEVNULL, check=True)
    fast = time.monotonic() - start
    end = j["recorded_ns"] / 1e9
    base = j["start_rss_bytes"]
    paced = [(t, v - base) for t, v in paced]
    clocked = [(t, v - base) for t, v in clocked]
    peak = max(v for _, v in paced)
    return ([mean_of(x, end) / 2**20 for x in (itself, paced, clocked)] +
            list(differences(clocked, paced, end, peak)) +
            list(differences(clocked, itself, end, peak)) + [slow, fast] +
            often)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-b", default=".", metavar="BUILD")
    parser.add_argument("-n", type=int, default=1, metavar="ROUNDS")
    parser.add_argument("program", nargs="*",
                        default=["fill", "waves", "threads"])
    args = parser.parse_args()
    build = os.path.abspath(args.b)
    tools = os.path.join(build, "malloc-trace-replay")
    libs = os.path.join(build, ".libs")
    ours = os.path.join(libs, "libtcmalloc_minimal.so")
    with tempfile.TemporaryDirectory() as work:
        program = os.path.join(work, "idle_phases")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-fno-builtin",
                        "-o", program, os.path.join(HERE, "idle_phases.c"),
                        "-pthread"], check=True)
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-fno-builtin",
                        "-DDO_RUNS", "-fPIC", "-shared", "-o",
                        os.path.join(work, "runs.so"),
                        os.path.join(HERE, "idle_phases.c")], check=True)
        for kind in args.program:
            trace = record(libs, tools, [program, kind], work)
            print("\n| %s | program | speed 1 | clock | near speed 1 | at most "
                  "| near program | at most | speed 1 | clock "
                  "| runs of threads |" % kind)
            print("|---|" + "---:|" * 10)
            for name, library, extra in SETTINGS:
                library = ours if library == "OURS" else library
                if not is_there(library):
                    continue
                rows = [row_of((library, extra), program, kind, trace,
                               os.path.join(tools, "replay"), work)
                        for _ in range(args.n)]
                v = [statistics.median(x) for x in zip(*rows)]
                print("| %s | %.1f MiB | %.1f MiB | %.1f MiB | %d of 20 "
                      "| %.1f %% | %d of 20 | %.1f %% | %.2f s | %.2f s "
                      "| %s |" %
                      ((name,) + tuple(v[:9]) +
                       ("%d, %d, %d" % tuple(v[9:]) if has_threads(extra)
                        else "",)), flush=True)


main()
