# SPDX-License-Identifier: BSD-3-Clause
"""memory_truth.py MIX REPORT NAME KEEP DROP [NAME KEEP DROP]...: what
malloc-trace memory says of a mix (memory_mix.c) under the allocators NAME is
what the program itself counted, in KEEP, and what it gave back when it freed
the planted blocks, in DROP. Prints TAP lines, then "# all done".
"""
import json
import sys

from tap import ok

# Functions whose blocks DROP frees.
PLANTED = ("planted", "planted_too")


def said(name):
    """Lines of memory_mix: {function: [live, held, blocks]}, resident."""
    counts, resident = {}, None
    for line in open(name):
        word = line.split()
        if word[0] == "rss":
            resident = int(word[1])
        else:
            counts[word[0]] = [int(n) for n in word[1:]]
    return counts, resident


def within(got, want, share, least=4096):
    """LEAST: pages are whole."""
    return abs(got - want) <= max(share * want, least)


def look(mix, run, keep_file, drop_file):
    keep, keep_rss = said(keep_file)
    _, drop_rss = said(drop_file)
    name = f"{mix}, {run['name']}"
    end = run["moments"][-1]
    rows = end["pinners"]["site"]
    sites = {r["label"].split("(")[0].strip(): r for r in rows}
    ok(rows and rows[0]["label"].split("(")[0].strip() == "planted",
       f"{name}: the planted site comes first", [r["label"] for r in rows[:3]])
    for function, (live, held, blocks) in keep.items():
        row = sites.get(function)
        if row is None:
            ok(False, f"{name}: {function} has a row", list(sites))
            continue
        ok((row["requested_bytes"], row["blocks"]) == (live, blocks),
           f"{name}: {function}: its blocks", row, live, blocks)
        ok(within(row["held_bytes"], held, .05),
           f"{name}: {function} holds what the program counts",
           row["held_bytes"], held)
    told = sum(sites[f]["usable_bytes"] + sites[f]["held_bytes"]
               for f in PLANTED if f in sites)
    freed = keep_rss - drop_rss
    # tcmalloc-mt gives back runs of pages, of which one block in 2 MiB holds
    # more than its own page.
    ok(within(told, freed, .1) or
       (mix, run["name"]) == ("huge", "own") and freed >= told,
       f"{name}: freeing them frees what was told", told, freed)


def main(mix, report_file, arguments):
    report = json.load(open(report_file))
    runs = {r["name"]: r for r in report["allocators"]}
    while arguments:
        look(mix, runs[arguments[0]], *arguments[1:3])
        arguments = arguments[3:]
    print("# all done")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
