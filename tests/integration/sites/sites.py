# SPDX-License-Identifier: BSD-3-Clause
"""sites.py NM TIMES FILE...: the call sites of a recording of sites_target,
against the number in the name of each function that calls the malloc family.
NM: `nm -S` of the program. Every function was run TIMES times.

sites.py --modules FILE...: "module blocks bytes" by module, sorted."""
import bisect
import os
import re
import sys
from collections import Counter

import rawdump

MAKES = ("alloc", "realloc", "realloc_new", "failed")


def events(trace):
    for thread in list(trace.pieces):
        for e in trace.events(thread):
            if e["kind"] in MAKES:
                yield e


def functions(name):
    found = []
    with open(name) as f:
        for text in f:
            part = text.split()
            if len(part) == 4 and part[2] in "tTwW":
                found.append((int(part[0], 16), int(part[1], 16), part[3]))
    return sorted(found)


def main(nm, times, paths):
    trace = rawdump.load(paths)
    known = functions(nm)
    starts = [x[0] for x in known]
    count = Counter()
    all_events = list(events(trace))
    for e in all_events:
        if not e["site"]:
            count["(none)"] += 1
            continue
        path, address = trace.sites.place(e["site"])
        at = bisect.bisect_right(starts, address) - 1
        inside = (os.path.basename(path) == "sites_target" and at >= 0
                  and address < known[at][0] + known[at][1])
        count[known[at][2] if inside else os.path.basename(path)] += 1
    wrong = [(name, count[name]) for _, _, name in known
             if name.startswith("at_")
             and count[name] != times * int(re.search(r"\d+$", name).group())]
    inside = sum(n for name, n in count.items() if name.startswith("at_"))
    print("wrong", wrong)
    print("outside", {k: v for k, v in count.items()
                      if not k.startswith("at_")}, file=sys.stderr)
    return bool(wrong) or inside == 0


def modules(paths):
    trace = rawdump.load(paths)
    blocks, size = Counter(), Counter()
    for e in list(events(trace)):
        path = trace.sites.place(e["site"])[0] if e["site"] else "?"
        blocks[path] += 1
        size[path] += e["size"]
    for path in sorted(blocks):
        print(os.path.basename(path), blocks[path], size[path])


if __name__ == "__main__":
    if sys.argv[1] == "--modules":
        modules(sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
