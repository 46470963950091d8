# SPDX-License-Identifier: BSD-3-Clause
"""memory_page.py PAGE [REPORT]: the page of malloc-trace memory is well-formed,
fetches nothing, and has the figures of the JSON. memory_page.py --drive PAGE
OUT: PAGE with a script that uses it as a reader would, and writes what it finds
into its body's data-found."""
import json
import re
import sys

import tap
from page import Page

DRIVE = """<script>
"use strict";
addEventListener("load", () => {
  const found = {}, map = document.querySelector("details[open] svg.map");
  const key = k => map.dispatchEvent(
    new KeyboardEvent("keydown", { key: k, bubbles: true, cancelable: true }));
  const zoom = map.closest("figure").querySelector(".zoom");
  found.hidden = zoom.hidden;
  key("ArrowRight");
  key("Enter");
  found.pages = zoom.querySelectorAll("svg:first-of-type rect title").length;
  found.says = [...zoom.querySelectorAll("rect title")].every(t =>
    /^[0-9a-f]+000: (all alive|empty|never used|not resident|\\d+ to \\d+ % free)$/
      .test(t.textContent));
  const box = map.getBoundingClientRect();
  map.dispatchEvent(new PointerEvent("pointermove", { bubbles: true,
    clientX: box.left + 3, clientY: box.top + 3 }));
  found.tip = /^[0-9a-f]+00000, 2.00 MiB\\n.*(alive|free|empty|never)/.test(
    map.querySelector(".cursor title").textContent);
  document.body.dataset.found = JSON.stringify(found);
});
</script></body>"""

PARTS = ("requested_bytes", "rounding_bytes", "free_bytes", "empty_bytes",
         "never_bytes")


def nearest(n, unit):
    return (2 * n + unit) // (2 * unit)


def size(n):
    """As people read it: three digits, a half upwards."""
    unit, names = 1, ["B", "KiB", "MiB", "GiB", "TiB"]
    while nearest(n, unit) >= 1024:
        unit *= 1024
    name = names[(unit.bit_length() - 1) // 10]
    if unit == 1:
        return f"{n} B"
    if nearest(100 * n, unit) < 1000:
        return f"{nearest(100 * n, unit) / 100:.2f} {name}"
    if nearest(10 * n, unit) < 1000:
        return f"{nearest(10 * n, unit) / 10:.1f} {name}"
    return f"{nearest(n, unit)} {name}"


def look_at_figures(page, data, report):
    cells = [cell for row in page.rows for cell in row]
    missing, maps = [], []
    for i, run in enumerate(report["allocators"]):
        for k, m in enumerate(run["moments"]):
            missing += [size(m[p]) for p in PARTS if size(m[p]) not in cells]
            of_map = data["maps"].get(f"{i}.{k}")
            sums = [sum(s[1 + n] for s in of_map["squares"] if len(s) == 5)
                    for n in range(4)]
            want = [m["requested_bytes"] + m["rounding_bytes"],
                    m["free_bytes"], m["empty_bytes"], m["never_bytes"]]
            if sums != want:
                maps.append((sums, want))
            rows = m["pinners"]["site"][:3]
            missing += [size(round(r["held_bytes"])) for r in rows
                        if r["held_bytes"] >= 1 and
                        size(round(r["held_bytes"])) not in cells]
            missing += [r["label"] for r in rows if r["held_bytes"] >= 1 and
                        r["label"] not in "".join(cells)]
    tap.ok(not missing, "its tables have the figures of the JSON", missing[:5])
    tap.ok(not maps, "its maps add up to them", maps[:2])
    said = page.texts["section"][0]
    tap.ok(all(run["sentence"] in said for run in report["allocators"]),
           "the sentences come first")


def main(page_file, report_file=None):
    text = open(page_file, encoding="utf-8").read()
    page = Page()
    page.feed(text)
    page.close()
    tap.ok(not page.stack and not page.faults, "its tags are balanced",
           page.stack, page.faults[:5])
    tap.ok(text.count("<main>") == 1, "it has one main part")
    style = "".join(re.findall(r"<style>(.*?)</style>", text, re.S))
    tap.ok(style and not re.search(r"url\(|@import|//", style) and
           not re.search(r"fetch|XMLHttp|import\(|https?:", page.script.replace(
               "http://www.w3.org/2000/svg", "")), "it fetches nothing")
    tap.ok(not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f]", text),
           "no control character is left")
    data = json.loads(page.data)
    tap.ok(data["maps"] and all(
        len(m["squares"]) <= 2048 for m in data["maps"].values()),
        "its maps are bounded")
    if report_file:
        look_at_figures(page, data, json.load(open(report_file)))
    tap.done()


if sys.argv[1] == "--drive":
    with open(sys.argv[3], "w", encoding="utf-8") as f:
        f.write(open(sys.argv[2], encoding="utf-8").read().replace(
            "</body>", DRIVE))
else:
    main(*sys.argv[1:])
