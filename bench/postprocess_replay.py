#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How fast postprocess orders and replay executes, on recordings made now.

postprocess: events a second of wall time, output to /dev/null, on one cpu and
on all; peak memory. x lz4 -d: how often `lz4 -d` reads the compressed output
meanwhile, on one cpu too, the runs taking turns; machines differ less in it.
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
    p.add_argument("--only", help="traces, separated by commas")
    p.add_argument("--no-replay", action="store_true")
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
    if a.only:
        jobs = [j for j in jobs if j[0] in a.only.split(",")]
    one_cpu = ["taskset", "-c", str(max(os.sched_getaffinity(0)))]
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
            lib.run(plain, [post, "--quiet", raw, processed])
            subprocess.run(["lz4", "-qf", processed, processed + ".lz4"],
                           check=True)
            runs = {"one": [], "all": [], "lz4": []}
            for _ in range(a.rounds):
                order = [post, "--quiet", "--json", out, raw, "/dev/null"]
                runs["one"].append(lib.run(plain, one_cpu + order))
                runs["lz4"].append(lib.run(plain, one_cpu + [
                    "lz4", "-dqf", processed + ".lz4", "/dev/null"]))
                runs["all"].append(lib.run(plain, order))
            d = read(out)
            squeezed = os.path.getsize(processed + ".lz4")

            def rate(which):
                return "%.1f" % (d["events"] / 1e6 / lib.median(
                    [r.wall for r in runs[which]]))
            rows.append([name, "%.1f" % (d["events"] / 1e6), d["threads"],
                         rate("one"), rate("all"),
                         "%.1f" % lib.ratio([r.wall for r in runs["one"]],
                                            [r.wall for r in runs["lz4"]])[0],
                         "%d" % lib.median([r.rss for r in runs["all"]]),
                         d["order_conflicts"],
                         "%.2f" % (d["raw_bytes"] / d["events"]),
                         "%.2f" % (d["file_bytes"] / d["events"]),
                         "%.2f" % (d["out_bytes"] / d["ops"]),
                         "%.2f" % (squeezed / d["ops"])])
            print("  " + "  ".join(map(str, rows[-1])), file=sys.stderr)
            if a.no_replay:
                continue
            speed = {n: [] for n in names}
            for r in range(-1, a.rounds):
                for x in under:
                    mode = "switch" if x.name == "ours" else "none"
                    lib.run(x, [replay, "--threads=" + mode, "--json", out,
                                processed])
                    if r >= 0:
                        speed[x.name].append(read(out)["ns_per_op"])
            replay_rows.append([name] + [
                "%.1f" % (1e3 / lib.median(speed[n])) for n in names])
            print("  " + "  ".join(replay_rows[-1]), file=sys.stderr)
    print(lib.machine())
    print("\npostprocess, %d rounds, medians\n" % a.rounds)
    lib.table(["trace", "M events", "threads", "M events/s, 1 cpu", "all",
               "x lz4 -d", "RSS KiB", "conflicts", "raw B/event", "stored", "out B/op", "out LZ4"],
              rows)
    if not a.no_replay:
        print("\nreplay, M operations/s\n")
        lib.table(["trace"] + names, replay_rows)


main()
