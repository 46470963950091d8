# SPDX-License-Identifier: BSD-3-Clause
"""lang.py SCRIPT RUNS FILE...: the lines of a recording of SCRIPT against what
it says of itself. A line that ends with `#= COUNT BYTES FUNCTION [FROM...]`
allocates COUNT blocks of BYTES bytes in each of RUNS runs, in FUNCTION (- for
none), called from the lines FROM, if they are given. No other line of the
script has a block of BYTES that some line has. On standard input is what the
script printed: `made FILE LINE FUNCTION BYTES` for one block of code that it
made itself. In FUNCTION a blank is written as _. With PLAIN in the environment
only the last part of FUNCTION counts: the version knows no qualified names.

lang.py --columns SCRIPT: its lines have at least these bytes in the rows of
report --columns on standard input, and not much more.

lang.py --native FILE...: how many allocations have no line.

lang.py --below SCRIPT FILE NM LOOP...: a line that ends with `#< BYTES
LIBRARY...` has one or more blocks of BYTES bytes; all of these have native
frames of the LIBRARIES, in this order from the innermost one on, maybe with
others between them, up to one of the LOOPs, the functions that run lines, or to
a part of it that lies elsewhere, which has no name. In no stack a frame of a
LOOP has one outside of it. NM is `nm -DS` of the file that has the LOOPs."""
import functools
import os
import re
import sys
from collections import Counter

import rawdump

BELOW = re.compile(r"#< (\d+) (\S.*)$")
MARK = re.compile(r"#= (\d+) (\d+) (\S+)((?: \d+)*)\s*$")


def wanted(script, runs):
    found = {}
    with open(script, encoding="utf-8") as f:
        for number, text in enumerate(f, 1):
            m = MARK.search(text)
            if m:
                chain = [number] + [int(x) for x in m.group(4).split()]
                function = m.group(3)
                if "PLAIN" in os.environ:
                    function = function.rpartition(".")[2]
                found[number] = (int(m.group(1)) * runs, int(m.group(2)),
                                 function, chain)
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
    """(file, line, function), innermost first; native frames that the innermost
    one called, as (path of the module, address in its file); how the lines end
    and how the frames do: -1 nothing is outside of them, 0 it is not known, 1
    there are more."""
    found, native, ends = [], [], [-1, -1]
    while site:
        if site in trace.sites.lines:
            parent, _, file, line, function = trace.sites.lines[site]
            found.append((text(trace, file), line, text(trace, function)))
        else:
            parent, module, address = trace.sites.frames[site]
            if module == 0 and address <= 1:
                ends[0 if found else 1] = address
            else:
                native.append(trace.sites.place(site))
                if found:
                    ends[0] = "a frame"
        site = parent
    return found, native, ends


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
        chain, native, ends = lines(trace, e["site"])
        if not chain:
            continue
        if ends[0] not in (-1, 1) or not 1 <= len(native) <= 16:
            wrong.append("site %d has %d frames, %s" %
                         (e["site"], len(native), ends))
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
            if any(x[1] == 0 for x in chain):
                wrong.append("line %d has a line 0: %s" % (line, chain))
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


def below(script, file, names, loop):
    want, named, wrong, seen = {}, [], [], set()
    with open(script, encoding="utf-8") as f:
        for number, row in enumerate(f, 1):
            m = BELOW.search(row)
            if m:
                want[number, int(m.group(1))] = m.group(2).split()
    with open(names, encoding="utf-8") as f:
        for row in f:
            part = row.split()
            if len(part) == 4 and part[2] in "tTwW":
                named.append((int(part[0], 16), int(part[1], 16), part[3]))

    @functools.lru_cache(maxsize=None)
    def name(at):
        return next((n for a, size, n in named if a <= at < a + size), "")

    trace, all_events = allocations([file])
    for site, bytes_asked in {(e["site"], e["size"]) for e in all_events}:
        chain, native, ends = lines(trace, site)
        if not chain:
            continue
        found = [name(at) if path == native[-1][0] else "other"
                 for path, at in native]
        outer = found.pop()
        if any(n in loop for n in found):
            wrong.append("frames %s" % (found + [outer]))
        key = chain[0][1], bytes_asked
        if chain[0][0] != script or key not in want:
            continue
        seen.add(key)
        if ends[1] != -1 or outer not in ("", *loop):
            wrong.append("line %d: frames %s" % (key[0], found + [outer]))
        left = list(want[key])
        for path, _ in native:
            if left and path.rpartition("/")[2].startswith(left[0]):
                left.pop(0)
        if left:
            wrong.append("line %d has %s" % (key[0], native))
    wrong += ["line %d has no blocks of %d" % x for x in set(want) - seen]
    for x in sorted(set(wrong))[:20]:
        print(x)
    return bool(wrong) or not want


if sys.argv[1] == "--below":
    sys.exit(below(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:]))
if sys.argv[1] == "--columns":
    sys.exit(columns(sys.argv[2]))
if sys.argv[1] == "--native":
    sys.exit(native(sys.argv[2:]))
sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
