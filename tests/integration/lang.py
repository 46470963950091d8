# SPDX-License-Identifier: BSD-3-Clause
"""lang.py SCRIPT RUNS FILE...: the lines of a recording of SCRIPT against what
it says of itself. A line that ends with `#= COUNT BYTES FUNCTION [FROM...]`
allocates COUNT blocks of BYTES bytes in each of RUNS runs, in FUNCTION (- for
none), called from the lines FROM, if they are given. No other line of the
script has a block of BYTES that some line has. On standard input is what the
script printed: `made FILE LINE FUNCTION BYTES` for one block of code that it
made itself. In FUNCTION a blank is written as _.

lang.py --columns SCRIPT: its lines have at least these bytes in the rows of
report --columns on standard input, and not much more.

lang.py --native FILE...: how many allocations have no line."""
import re
import sys
from collections import Counter

import rawdump

MARK = re.compile(r"#= (\d+) (\d+) (\S+)((?: \d+)*)\s*$")


def wanted(script, runs):
    found = {}
    with open(script, encoding="utf-8") as f:
        for number, text in enumerate(f, 1):
            m = MARK.search(text)
            if m:
                chain = [number] + [int(x) for x in m.group(4).split()]
                found[number] = (int(m.group(1)) * runs, int(m.group(2)),
                                 m.group(3), chain)
    return found


def allocations(paths):
    """The trace, whose definitions are known then, and what allocates."""
    trace = rawdump.load(paths)
    return trace, [e for thread in list(trace.pieces)
                   for e in trace.events(thread)
                   if e["kind"] in ("alloc", "realloc", "realloc_new")]


def text(trace, number):
    return trace.sites.texts[number].decode() if number else "-"


def lines(trace, site):
    """(file, line, function), innermost first; then the frame below."""
    found = []
    while site in trace.sites.lines:
        parent, _, file, line, function = trace.sites.lines[site]
        found.append((text(trace, file), line, text(trace, function)))
        site = parent
    return found, site


def main(script, runs, paths):
    want = wanted(script, int(runs))
    sizes = {x[1] for x in want.values()}
    made = Counter(tuple(x.split()[1:]) for x in sys.stdin
                   if x.startswith("made "))
    made_sizes = {int(x[3]) for x in made}
    got = Counter()
    wrong = []
    trace, all_events = allocations(paths)
    for e in all_events:
        if e["size"] not in sizes and e["size"] not in made_sizes:
            continue
        chain, native = lines(trace, e["site"])
        if native and native not in trace.sites.frames:
            wrong.append("a line below site %d" % native)
        if not chain:
            continue
        file, line, function = chain[0]
        function = function.replace(" ", "_")
        if e["size"] in made_sizes:
            made[file, str(line), function, str(e["size"])] -= 1
            continue
        if file != script:
            continue
        got[line, e["size"]] += 1
        if line in want and want[line][1] == e["size"]:
            numbers = [x[1] for x in chain if x[0] == script]
            expected = want[line][3]
            if want[line][2] != function:
                wrong.append("line %d is in %s" % (line, function))
            if numbers[: len(expected)] != expected:
                wrong.append("line %d has lines %s" % (line, numbers))
    for line, (count, size, _, _) in want.items():
        if got.pop((line, size), 0) != count:
            wrong.append("line %d has not %d blocks" % (line, count))
    for key, count in got.items():
        wrong.append("line %d has %d blocks of %d" % (key[0], count, key[1]))
    wrong += ["%s %d times" % (x, -n) for x, n in made.items() if n != 0]
    for x in sorted(set(wrong))[:20]:
        print(x)
    return bool(wrong) or not want


def columns(script):
    want = wanted(script, 1)
    have = {}
    for row in sys.stdin:
        part = row.split()
        # "FUNCTION (FILE:LINE)" or "FILE:LINE"; a path may have blanks.
        m = re.search(r"[ (]" + re.escape(script) + r":(\d+)\)?$",
                      row.rstrip("\n"))
        if m:
            have[int(m.group(1))] = have.get(int(m.group(1)), 0) + int(part[0])
    bad = [n for n, (count, size, _, _) in want.items()
           if not 0 <= have.get(n, -1) - count * size
           < 20000 + count * size // 50]
    print("lines that differ:", bad)
    return bool(bad)


def native(paths):
    trace, all_events = allocations(paths)
    print(sum(1 for e in all_events
              if e["site"] and not lines(trace, e["site"])[0]))


if sys.argv[1] == "--columns":
    sys.exit(columns(sys.argv[2]))
if sys.argv[1] == "--native":
    sys.exit(native(sys.argv[2:]))
sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
