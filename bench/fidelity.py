#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How true replays are: programs under several allocators, and beside each the
replays of one recording under the same allocator.

    bench/fidelity.py [-b BUILD] [-n ROUNDS] [PROGRAM...]

BUILD is the build tree (default: the current folder). Without PROGRAM all of
fidelity_keep.c are measured. Medians of ROUNDS (default 3) rounds, in which
everything runs in turn: the program's peak of resident memory and its wall
time, and of each way to replay the peak and the wall time as ratios to the
program's. The program does more than allocate, so its time is the longer one;
its order among allocators is what counts.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import bench_lib as lib

HERE = os.path.dirname(os.path.abspath(__file__))
STOPPED = "stopped"  # not an option: the trace of stop_all.c
WAYS = [("real", ["--threads=real"]),
        ("no skew bound", ["--threads=real", "--skew=inf"]),
        ("stop at frees", ["--threads=real", STOPPED]),
        ("one thread", []),
        ("real, use", ["--threads=real", "--touch=use"])]
PEERS = ["", "libjemalloc.so.2", "libmimalloc.so.2", "libtcmalloc_minimal.so.4"]


def run(command, preload):
    """What it printed, and wall time in seconds."""
    env = dict(os.environ, LD_PRELOAD=preload)
    start = time.monotonic()
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        sys.exit("%s: status %d" % (" ".join(command), done.returncode))
    return done.stdout.decode(), time.monotonic() - start


def run_program(command, preload):
    """Peak RSS in bytes and wall time in seconds."""
    text, wall = run(command, preload)
    return int(text.split()[1]) * 1024, wall


def replayed(replay, options, trace, preload, work):
    out = os.path.join(work, "j")
    if STOPPED in options:
        options = [x for x in options if x != STOPPED]
        trace += ".stopped"
    run([replay, "-q", "--json", out] + options + [trace], preload)
    with open(out) as f:
        j = json.load(f)
    return j["peak_rss_bytes"], j["wall_ns"] / 1e9


def is_there(library):
    env = dict(os.environ, LD_PRELOAD=library)
    return not subprocess.run(["true"], env=env, stderr=subprocess.PIPE,
                              check=False).stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-b", default=".", metavar="BUILD")
    parser.add_argument("-n", type=int, default=3, metavar="ROUNDS")
    parser.add_argument("program", nargs="*",
                        default=["single", "busy", "pass", "keep", "pairs",
                                 "crowd", "queue", "short", "buffers",
                                 "tables", "fibres"])
    args = parser.parse_args()
    build = os.path.abspath(args.b)
    tools = os.path.join(build, "malloc-trace-replay")
    libs = os.path.join(build, ".libs")
    allocators = [x for x in PEERS if is_there(x)]
    allocators.append(os.path.join(libs, "libtcmalloc_minimal.so"))
    with tempfile.TemporaryDirectory() as work:
        program = os.path.join(work, "fidelity_keep")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-fno-builtin",
                        "-o", program,
                        os.path.join(HERE, "fidelity_keep.c"), "-pthread"],
                       check=True)
        for kind in args.program:
            raw, trace = os.path.join(work, "raw"), os.path.join(work, "p")
            env = dict(os.environ, TCMALLOC_TRACE_OUTPUT=raw, LD_PRELOAD=os.
                       path.join(libs, "libtcmalloc_minimal_tracing.so"))
            subprocess.run([program, kind], env=env, check=True,
                           stdout=subprocess.DEVNULL)
            subprocess.run([os.path.join(tools, "postprocess"), "-q", raw,
                            trace], check=True)
            subprocess.run([os.path.join(build, "bench", "stop_all"), trace,
                            trace + ".stopped"], check=True)
            measure(kind, program, trace, os.path.join(tools, "replay"),
                    allocators, args.n, work)


def measure(kind, program, trace, replay, allocators, rounds, work):
    figures = {}
    for _ in range(rounds):
        for library in allocators:
            figures.setdefault((library, None), []).append(
                run_program([program, kind], library))
            for name, options in WAYS:
                figures.setdefault((library, name), []).append(
                    replayed(replay, options, trace, library, work))
    print("\n| %s | program | %s |" % (kind, " | ".join(w for w, _ in WAYS)))
    print("|---|---|" + "---|" * len(WAYS))
    for library in allocators:
        row = []
        peak, wall = (statistics.median(x) for x in
                      zip(*figures[library, None]))
        row.append("%.1f MiB, %.2f s" % (peak / 2**20, wall))
        for name, _ in WAYS:
            p, w = (statistics.median(x) for x in zip(*figures[library, name]))
            row.append("%.2f, %.2f" % (p / peak, w / wall))
        print("| %s | %s |" % (lib.name_of(library), " | ".join(row)),
              flush=True)


main()
