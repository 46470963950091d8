# SPDX-License-Identifier: BSD-3-Clause
"""compare_page.py PAGE JSON CSV NAME...: the page of a comparison is well-formed
and fetches nothing, has the figures of the JSON and the CSV, and each NAME as
text.

Prints TAP lines, then "# all done".
"""
import csv
import json
import math
import re
import sys

from page import Page


def check(what, good, why=""):
    print(f"ok 0 - {what}" if good else f"# {why}\nnot ok 0 - {what}")


def ratio(v):
    return "%.3f" % v if v < 9.995 else "%.1f" % v if v < 999.5 else "%.0f" % v


def nearest(n, unit):
    return (2 * n + unit) // (2 * unit)


def three(n, unit, name):
    """Three digits, rounded, a half upwards."""
    if nearest(100 * n, unit) < 1000:
        return f"{nearest(100 * n, unit) / 100:.2f} {name}"
    if nearest(10 * n, unit) < 1000:
        return f"{nearest(10 * n, unit) / 10:.1f} {name}"
    return f"{nearest(n, unit)} {name}"


def figure(metric, v):
    """As people read it."""
    n = math.floor(v + .5)
    if metric.endswith("_bytes"):
        unit, names = 1, ["B", "KiB", "MiB", "GiB"]
        while nearest(n, unit) >= 1024:
            unit *= 1024
        name = names[len(bin(unit)) // 10]
        return f"{n} B" if unit == 1 else three(n, unit, name)
    if "_ns" in metric:
        if n < 1000:
            return "%.*f ns" % (1 if v < 99.95 else 0, v)
        for unit, name in ((1000, "us"), (10**6, "ms"), (10**9, "s")):
            if nearest(n, unit) < 1000:
                return three(n, unit, name)
    return "%.2f" % v if metric == "rss_over_live" else f"{n:,}"


def main(page_file, json_file, csv_file, names):
    text = open(page_file, encoding="utf-8").read()
    page = Page()
    page.feed(text)
    page.close()
    check("its tags are balanced", not page.stack and not page.faults,
          f"{page.stack} {page.faults[:5]}")
    check("it has one main part", len(page.texts.get("main", [])) == 1)
    style = "".join(re.findall(r"<style>(.*?)</style>", text, re.S))
    check("it fetches nothing", style and
          not re.search(r"url\(|@import|//", style) and
          not re.search(r"fetch|XMLHttp|import\(|https?:", page.script))
    check("it works in the light and in the dark, and on paper",
          "prefers-color-scheme: dark" in style and "@media print" in style)
    check("no control character is left", not re.search(
        "[\0-\x08\x0b-\x1f\x7f-\x9f]", text))

    want = json.load(open(json_file))
    data = json.loads(page.data)
    check("its data are those of the JSON", data["comparison"] == want)
    said = "".join(page.texts["section"])
    check("what is said in words is the same",
          want["words"] and all(line in said
                                for line in want["words"].split("\n")))

    check("the recommendation comes first", "".join(page.texts["section"])
          .strip().startswith(want["recommendation"]["text"]))

    rows, metric = {}, None
    for row in page.rows:
        if len(row) == 1:
            metric = row[0].split()[-1]
        elif metric and len(row) == 4:
            rows[row[0], metric] = row
    wrong = []
    for v in want["verdicts"]:
        row = rows.get((v["contestant"], v["metric"]))
        expect = [figure(v["metric"], v["value"])]
        expect.append(expect[0] if v["ratio"] is None else ratio(v["ratio"]))
        if v["lo"] is not None:
            expect[1] += f" ({ratio(v['lo'])} to {ratio(v['hi'])})"
        if row is None or row[1:3] != expect or v["lo"] is not None and \
                v["verdict"] not in row[3]:
            wrong.append((v, row, expect))
    check("its table has the verdicts of the JSON",
          want["verdicts"] and not wrong, wrong[:1])

    titles, wrong, runs = set(page.texts["title"]), [], 0
    for run in csv.DictReader(open(csv_file, errors="replace")):
        for key in ("cpu_ns_per_op", "peak_rss_bytes"):
            dot = f"{run['contestant']}, round {run['round']}: " + \
                figure(key, float(run[key]))
            runs += 1
            if dot not in titles:
                wrong.append(dot)
    check("each run of the CSV is a dot", runs and not wrong, wrong[:3])
    everything = "".join(page.texts["body"])
    for name in names:
        check("as text: " + ascii(name), name in everything)
    print("# all done")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
