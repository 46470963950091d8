#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What malloc-trace compare predicts for real programs, beside what they take
under the same allocators. Run in the build folder, or with --build FOLDER.
Prints a table for each program, and at the end where prediction and program
differ in sign: in memory by more than 5 per cent, in processor time by more than
the program's own interval."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import jobs

REDIS = """
redis-server --port 0 --unixsocket "$1/socket" --save '' --appendonly no &
until redis-cli -s "$1/socket" ping; do sleep 0.05; done
redis-benchmark -s "$1/socket" -q -n 40000 -c 20 -P 8 -r 20000 -d 200 \\
    -t set,get,lpush,lpop,sadd,hset,zadd
redis-cli -s "$1/socket" shutdown nosave
wait
"""


def cxx_job(work, scale):
    compiler = shutil.which("g++")
    program = os.path.join(work, "threads")
    if not compiler:
        return None, {}
    subprocess.run([compiler, "-O2", "-pthread", "-o", program, os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "compare_threads.cc")],
        check=True)
    return [program, str(jobs.times(scale, 40000))], {}


def redis_job(work, _scale):
    there = shutil.which("redis-server") and shutil.which("redis-benchmark")
    return there and ["sh", "-c", REDIS, "sh", work], {}


LUA = """
local function tree(depth)
    if depth == 0 then return {} end
    return {tree(depth - 1), tree(depth - 1)}
end
local function count(t)
    return t[1] and 1 + count(t[1]) + count(t[2]) or 1
end
local kept, sum = tree(15), 0
for round = 1, tonumber(arg[1]) do sum = sum + count(tree(11)) end
print(sum + count(kept))
"""

GIT = """
cd "$1" && git init -q . && git config gc.auto 0
git config user.name bench && git config user.email bench@localhost
awk 'BEGIN { for (i = 0; i < 30000; i++) print "line", i, i * 7919 % 10007 }' \
    >text
for i in 1 2 3 4 5 6; do
    awk -v i="$i" '{ if (NR % 53 == i) print "changed", i, $0; else print }' \
        text >next && mv next text
    split -l 500 text part. && git add . && git commit -q -m "$i"
done
"""


def text_file(work, lines):
    path = os.path.join(work, "text")
    with open(path, "w") as f:
        for i in range(lines):
            f.write("word%d of line %d, %x\n" % (i * 7919 % 10007, i, i * i))
    return path


def lua_job(work, scale):
    lua = shutil.which("lua5.4") or shutil.which("lua")
    path = os.path.join(work, "trees.lua")
    with open(path, "w") as f:
        f.write(LUA)
    return lua and [lua, path, str(jobs.times(scale, 2000))], {}


def awk_job(work, scale):
    awk = shutil.which("gawk")
    return awk and [awk, """{ for (i = 1; i <= NF; i++) { n[$i]++;
        l[length($i)] = substr(l[length($i)] $i, 1, 200) } }
        END { for (w in n) s += n[w]; print s }""",
                    text_file(work, jobs.times(scale, 200000))], {}


def jq_job(work, scale):
    path = os.path.join(work, "rows.json")
    with open(path, "w") as f:
        json.dump([{"id": i, "name": "n%d" % i, "tags": ["a", "b%d" % (i % 9)]}
                   for i in range(jobs.times(scale, 60000))], f)
    jq = shutil.which("jq")
    return jq and [jq, "group_by(.tags[1]) | map(length)", path], {}


def zstd_job(work, scale):
    zstd = shutil.which("zstd")
    return zstd and [zstd, "-q", "-f", "-T2", "-9", "-o",
                     os.path.join(work, "out.zst"),
                     text_file(work, jobs.times(scale, 1600000))], {}


def xz_job(work, scale):
    xz = shutil.which("xz")
    return xz and [xz, "-k", "-f", "-T2", "-1", "--block-size=1MiB",
                   text_file(work, jobs.times(scale, 400000))], {}


def git_job(work, _scale):
    if not shutil.which("git"):
        return None, {}
    subprocess.run(["sh", "-c", GIT, "sh", work], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return ["git", "-C", work, "pack-objects", "--all", "--no-reuse-delta",
            "--threads=2", "-q", "--window=40", os.path.join(work, "p")], {}


def map_job(work, scale):
    compiler = shutil.which("g++")
    program = os.path.join(work, "big_map")
    if not compiler:
        return None, {}
    subprocess.run([compiler, "-O2", "-o", program, os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "compare_map.cc")],
        check=True)
    return [program, str(jobs.times(scale, 600000))], {}


# Four are interpreters, five have threads (C++, redis, zstd, xz, git), and Lua's
# trees and the large map gain by huge pages.
PROGRAMS = {"python": jobs.python_job, "perl": jobs.perl_job,
            "ruby": jobs.ruby_job, "lua": lua_job, "gawk": awk_job,
            "sqlite": jobs.sqlite_job, "gcc": jobs.gcc_job, "jq": jq_job,
            "map in C++": map_job, "threads in C++": cxx_job,
            "redis": redis_job, "zstd": zstd_job, "xz": xz_job,
            "git": git_job}


def options():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default=".", help="build folder (default .)")
    p.add_argument("--scale", type=float, default=0.5,
                   help="length of the programs")
    p.add_argument("--rounds", type=int, default=12)
    p.add_argument("--keep", help="folder for the JSON of each comparison")
    p.add_argument("--only", default="", help="programs, separated by commas")
    return p.parse_args()


def compared(o, command, work):
    out = os.path.join(work, "v.json")
    subprocess.run([os.path.join(o.build, "malloc-trace-replay",
                                 "malloc-trace"), "compare", "-q",
                    "--run-program", "-n", str(o.rounds), "--json", out, "--"]
                   + command, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL)
    with open(out) as f:
        return json.load(f)


def table(name, result):
    print("\n### %s\n" % name)
    print("| allocator | time, predicted | time, program | memory, predicted "
          "| memory, program |")
    print("|---|---:|---:|---:|---:|")
    rows = {}
    for p in result["program"]:
        rows.setdefault(p["contestant"], {})[p["figure"]] = p
    for who, row in rows.items():
        cells = []
        for figure in ("cpu_ns", "peak_rss_bytes"):
            p = row.get(figure)
            cells += ["%.3f" % p["predicted_ratio"], "%.3f (%.3f to %.3f)" % (
                p["true_ratio"], p.get("lo", 0), p.get("hi", 0))] \
                if p else ["", ""]
        print("| %s | %s |" % (who, " | ".join(cells)))
    for c in result["contestants"]:
        if not c["ok"]:
            print("\n%s: %s" % (c["name"], c["why"]))


def disagreements(name, result):
    for p in result["program"]:
        is_memory = p["figure"] == "peak_rss_bytes"
        sure = p.get("lo", 0) > 1 or 0 < p.get("hi", 2) < 1
        if not sure or (is_memory and abs(p["true_ratio"] - 1) < 0.05):
            continue
        if (p["predicted_ratio"] > 1) != (p["true_ratio"] > 1):
            yield "%s, %s, %s: predicted %.3f, truth %.3f" % (
                name, p["contestant"], p["figure"], p["predicted_ratio"],
                p["true_ratio"])


def main():
    o = options()
    wanted = [w for w in o.only.split(",") if w]
    wrong, pairs = [], 0
    for name, job in PROGRAMS.items():
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as work:
            command = job(work, o.scale)[0]
            if not command:
                print("%s: not installed, left out" % name)
                continue
            result = compared(o, command, work)
        if o.keep:
            with open(os.path.join(o.keep, name + ".json"), "w") as f:
                json.dump(result, f)
        table(name, result)
        pairs += len(result["program"])
        wrong += disagreements(name, result)
        sys.stdout.flush()
    print("\n%d of %d ratios differ in sign beyond their spread:" %
          (len(wrong), pairs))
    for w in wrong:
        print("- " + w)


main()
