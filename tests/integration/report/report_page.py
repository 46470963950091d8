# SPDX-License-Identifier: BSD-3-Clause
"""report_page.py PAGE REPORT NAME...: the page of a report is well-formed and
fetches nothing, has the figures of the report's JSON, and each NAME, as text or in
its data. report_page.py --drive PAGE OUT: PAGE with a script that uses it as a
reader would, and writes what it finds into its body's data-found."""
import json
import re
import sys

import tap
from page import Page

DRIVE = """<script>
"use strict";
addEventListener("load", () => {
  const $ = id => document.getElementById(id), found = {};
  const frames = () => [...$("flame").children];
  const frame = text => frames().find(e => e.textContent === text);
  const rows = () => [...$("rows").children].map(tr =>
    tr.lastElementChild.textContent);
  const key = (e, k) => e.dispatchEvent(
    new KeyboardEvent("keydown", { key: k, bubbles: true, cancelable: true }));
  const said = () => $("says-frame").textContent;
  const width = e => Math.round(parseFloat(e.style.width));
  found.frames = frames().length;
  found.rows = rows().length;
  found.all = said();
  found.widths = frames().slice(1, 4).map(width);
  $("measures").children[2].click();
  found.live = said();
  found.by_live = rows()[1];
  $("measures").children[3].click();
  found.temporary = said();
  $("measures").children[0].click();
  $("words").value = "LIBY";
  $("words").dispatchEvent(new Event("input"));
  found.searched = rows().slice(1);
  found.lit = frames().filter(e => e.classList.contains("found")).length;
  found.share = $("found").textContent;
  $("words").value = "";
  $("words").dispatchEvent(new Event("input"));
  frame("libx.so.2+0xfff").click();
  found.zoomed = said();
  found.zoomed_width = width(frame("libx.so.2+0xfff"));
  key(document.activeElement, "ArrowDown");
  found.below = document.activeElement.textContent;
  key(document.activeElement, "ArrowUp");
  key(document.activeElement, "ArrowUp");
  found.above = document.activeElement.textContent;
  key(document.activeElement, "Escape");
  found.whole = frames().length;
  key(document.body, "/");
  found.focus = document.activeElement.id;
  document.querySelector('.sites [data-column="1"] button').click();
  found.by_calls = rows()[1];
  document.querySelector('.sites [data-column="1"] button').click();
  found.up = document.querySelector('.sites [data-column="1"]')
    .getAttribute("aria-sort");
  document.querySelector("#rows .place").textContent = "name_".repeat(400);
  const height = n => document.querySelector(
    '.sites [data-column="' + n + '"] button').offsetHeight;
  found.head = height(6) === height(0);
  document.body.dataset.found = JSON.stringify(found);
});
</script></body>"""


def main(page_file, report_file, names):
    text = open(page_file, encoding="utf-8").read()
    report = json.load(open(report_file, encoding="utf-8"))
    page = Page()
    page.feed(text)
    page.close()
    tap.ok(not page.stack and not page.faults, "its tags are balanced",
           page.stack, page.faults[:5])
    style = "".join(re.findall(r"<style>(.*?)</style>", text, re.S))
    tap.ok(style and not re.search(r"url\(|@import|//", style) and
           not re.search(r"fetch|XMLHttp|import\(|https?:", page.script),
           "it fetches nothing")
    tap.ok("prefers-color-scheme: dark" in style and "@media print" in style,
           "it works in the light and in the dark, and on paper")
    tap.ok(not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f]", text),
           "no control character is left")
    tap.ok(len(page.texts.get("main", [])) == 1, "it has one main part")
    data = json.loads(page.data)
    place = {key: i for i, key in enumerate(data["columns"])}
    keys = ["bytes", "calls", "live_bytes", "live_blocks", "peak_bytes",
            "peak_blocks", "temporary", "ended"]
    total = report["total"]
    tap.ok([data["total"][place[k]] for k in keys] ==
           [total[k] for k in keys], "its total is the report's")
    rows = {r["location"].encode("utf-8", "replace"): r
            for r in report["rows"]}
    tap.ok(all([row[place[k]] for k in keys] ==
               [rows[row[0].encode("utf-8", "replace")][k] for k in keys]
               for row in data["rows"]), "and so are its rows")
    tap.ok([sum(row[place[k]] for row in data["rows"] + [data["rest"]])
            for k in keys] == [total[k] for k in keys],
           "which are the total, with what is left out")
    tap.ok(len(data["rows"]) == len(rows) or data["rest"][0],
           "and that is said")
    if "flame" in data:
        flame = data["flame"]
        tap.ok([flame[k][0] for k in ("bytes", "peak", "live", "temporary")] ==
               [total[k] for k in ("bytes", "peak_bytes", "live_bytes",
                                   "temporary")],
               "all of the flame graph is the total")
        below = [0] * len(flame["bytes"])
        for i, up in enumerate(flame["parent"]):
            if i:
                below[up] += flame["bytes"][i]
        tap.ok(all(a <= b for a, b in zip(below, flame["bytes"])) and
               len(flame["bytes"]) <= 20000, "frames are as wide as theirs")
    everything = "".join(page.texts["body"])
    largest = [r for r in report["rows"] if r["location"] != "(not known)"]
    largest = max(largest, key=lambda r: r["bytes"], default=None)
    _, asks, name = everything.partition("The place that asks for most memory is ")
    tap.ok(not asks or name.startswith(
        re.match("[ -~]*", largest["location"]).group()),
        "what asks for most memory is the largest row")
    for name in names:
        tap.ok(name in everything or
               json.dumps(name, ensure_ascii=False)[1:-1] in page.data.replace(
                   "\\u003c", "<"), "as text: " + ascii(name))
    tap.done()


if sys.argv[1] == "--drive":
    with open(sys.argv[3], "w", encoding="utf-8") as f:
        f.write(open(sys.argv[2], encoding="utf-8").read().replace(
            "</body>", DRIVE))
else:
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
