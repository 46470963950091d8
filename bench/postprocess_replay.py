#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How fast postprocess orders and replay executes, on recordings made now.

postprocess: events a second of wall time, output to /dev/null; peak memory.
replay: operations a second in its measured part, under several allocators.
"""
import argparse
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import bench_lib as lib  # noqa: E402


def read(path):
    with open(path) as f:
        return json.load(f)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--build", default=".")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--scale", default="1")
    p.add_argument("--work", help="folder for traces (default /tmp)")
    a = p.parse_args()
    build = os.path.abspath(a.build)
    os.environ["PYTHONMALLOC"] = "malloc"
    tools = os.path.join(build, "malloc-trace-replay")
    post, replay = (os.path.join(tools, x) for x in ("postprocess", "replay"))
    have = lib.all_workloads(build)
    jobs = [("python", [os.path.realpath(sys.executable), "-S",
                        os.path.join(lib.HERE, "python_json.py")]),
            ("random", [have["random"][0], "random", a.scale]),
            ("threads", [have["threads"][0], "threads", a.scale]),
            ("strings", [have["strings"][0], "strings", a.scale]),
            ("server", [have["server"][0], "server", a.scale])]
    rows, replay_rows, names = [], [], []
    with lib.WorkFolder(a.work) as work:
        recorder = lib.allocators(build, work, {"tracing-on"})[0]
        under = [x for x in lib.allocators(build, work)
                 if not x.name.startswith("tracing")]
        names = [x.name for x in under]
        plain = lib.Allocator("plain")
        raw = os.path.join(work, "trace.lz4")
        processed = os.path.join(work, "p")
        out = os.path.join(work, "json")
        for name, command in jobs:
            lib.run(recorder, command)
            runs = [lib.run(plain, [post, "--quiet", "--json", out, raw,
                                    "/dev/null"]) for _ in range(a.rounds)]
            d = read(out)
            lib.run(plain, [post, "--quiet", raw, processed])
            wall = lib.median([r.wall for r in runs])
            squeezed = subprocess.run(
                ["sh", "-c", 'lz4 -c "$0" 2>/dev/null | wc -c', processed],
                stdout=subprocess.PIPE, check=True).stdout
            rows.append([name, "%.1f" % (d["events"] / 1e6), d["threads"],
                         "%.1f" % (d["events"] / wall / 1e6),
                         "%d" % lib.median([r.rss for r in runs]),
                         d["order_conflicts"],
                         "%.2f" % (d["raw_bytes"] / d["events"]),
                         "%.2f" % (d["file_bytes"] / d["events"]),
                         "%.2f" % (d["out_bytes"] / d["ops"]),
                         "%.2f" % (int(squeezed) / d["ops"])])
            print("  " + "  ".join(map(str, rows[-1])), file=sys.stderr)
            speed = {n: [] for n in names}
            for r in range(-1, a.rounds):
                for x in under:
                    lib.run(x, [replay, "--json", out, processed])
                    if r >= 0:
                        speed[x.name].append(read(out)["ns_per_op"])
            replay_rows.append([name] + [
                "%.1f" % (1e3 / lib.median(speed[n])) for n in names])
            print("  " + "  ".join(replay_rows[-1]), file=sys.stderr)
    print(lib.machine())
    print("\npostprocess, %d rounds, medians\n" % a.rounds)
    lib.table(["trace", "M events", "threads", "M events/s", "RSS KiB",
               "conflicts", "raw B/event", "stored", "out B/op", "out LZ4"],
              rows)
    print("\nreplay, M operations/s\n")
    lib.table(["trace"] + names, replay_rows)


main()
