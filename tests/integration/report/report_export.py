# SPDX-License-Identifier: BSD-3-Clause
"""report_export.py REPORT SPEEDSCOPE DHAT HEAP FOLDED: profiles of one trace in
formats of other programs against the JSON of its report. Prints TAP."""
import json
import re
import sys

import tap

REPORT, SPEEDSCOPE, DHAT, HEAP, FOLDED = sys.argv[1:]


def ok_that(name, good):
    tap.ok(good, name)


def same(name, got, want):
    tap.ok(got == want, name, "got %s" % got, "want %s" % want)


def read(name):
    with open(name, encoding="utf-8", errors="replace") as f:
        return f.read()


total = json.loads(read(REPORT))["total"]

# speedscope
profile = json.loads(read(SPEEDSCOPE))
frames = profile["shared"]["frames"]
sums = {}
for p in profile["profiles"]:
    ok_that("speedscope, %s: a weight for each stack" % p["name"],
              len(p["samples"]) == len(p["weights"]) and
              all(0 <= k < len(frames) for s in p["samples"] for k in s))
    sums[p["name"]] = sum(p["weights"])
    ok_that("and an end", p["endValue"] == sums[p["name"]])
same("its sums are the report's", sums, {
    "allocated": total["bytes"], "live": total["live_bytes"],
    "at the peak": total["peak_bytes"],
    "temporary blocks": total["temporary"], "calls": total["calls"]})

# DHAT
dhat = json.loads(read(DHAT))
points = dhat["pps"]
same("DHAT's sums are the report's",
         {k: sum(p[k] for p in points)
          for k in ("tb", "tbk", "gb", "gbk", "eb", "ebk")},
         {"tb": total["bytes"], "tbk": total["calls"],
          "gb": total["peak_bytes"], "gbk": total["peak_blocks"],
          "eb": total["live_bytes"], "ebk": total["live_blocks"]})
ok_that("no more than ever was alive",
          all(max(p["gb"], p["eb"]) <= p["mb"] <= p["tb"] for p in points))
ok_that("its stacks are each once",
          len({tuple(p["fs"]) for p in points}) == len(points))
ok_that("of frames that it has",
          all(0 < k < len(dhat["ftbl"]) for p in points for k in p["fs"]))

# gperftools
LINE = re.compile(r"^ *(\d+): +(\d+) \[ *(\d+): +(\d+)\] @(( 0x[0-9a-f]{8,})+|"
                  r" heapprofile)$")
text = read(HEAP)
head, *lines = text[:text.index("\n\n")].split("\n")
rows = [LINE.match(x) for x in lines]
ok_that("a heap profile's lines", all(rows) and head.startswith(
    "heap profile: "))
wants = [total["live_blocks"], total["live_bytes"], total["calls"],
         total["bytes"]]
same("their sums are the report's",
         [sum(int(r[k]) for r in rows) for k in range(1, 5)], wants)
same("and the head's",
         [int(x) for x in LINE.match(head[len("heap profile: "):]).groups()[:4]],
         wants)
ok_that("its libraries do not overlap", (lambda spans: all(
    a[1] <= b[0] for a, b in zip(spans, spans[1:])))(sorted(
        (int(m[0], 16), int(m[1], 16)) for m in re.findall(
            r"^([0-9a-f]+)-([0-9a-f]+) r-xp 00000000 00:00 \d+ .+$",
            text[text.index("MAPPED_LIBRARIES:"):], re.M))))

# Folded stacks
rows = [re.match(r"^(.*) (\d+)$", x) for x in read(FOLDED).splitlines()]
ok_that("folded stacks", all(rows))
same("their sum is the report's", sum(int(r[2]) for r in rows),
         total["bytes"])
tap.done()
