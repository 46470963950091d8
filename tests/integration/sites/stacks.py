# SPDX-License-Identifier: BSD-3-Clause
"""stacks.py OUTPUT FILE...: the stacks of a recording of stacks_target, against
what it printed about them in OUTPUT.

stacks.py --end SIZE FILE...: how the stacks of blocks of SIZE bytes end:
whole, cut or unknown, and how many frames they have.

stacks.py --sampled MEAN FILE...: "right" if the bytes of the blocks with a
site, weighed by how likely each was to be chosen, are those of all."""
import math
import sys

import rawdump

MAKES = ("alloc", "realloc", "realloc_new")
ENDS = {0: "unknown", 1: "cut"}


def stacks(trace):
    """{size: set of stacks}"""
    found = {}
    for thread in list(trace.pieces):
        for e in trace.events(thread):
            if e["kind"] in MAKES:
                stack = tuple(trace.sites.stack(e["site"]))
                found.setdefault(e["size"], set()).add(stack)
    return found


def compare(output, paths):
    trace = rawdump.load(paths)
    found = stacks(trace)
    wrong = right = 0
    made = {}
    for text in open(output):
        part = text.split()
        if part[:3] == ["made", "code", "at"]:
            made = [int(x.strip(","), 16) for x in part[3:]]
            continue
        if not part or not part[0].isdigit():
            continue
        size, what = int(part[0]), part[1]
        want = tuple(int(x, 16) for x in part[2:])
        # The caller of malloc goes on elsewhere than that of backtrace. Of what
        # was interrupted a trace has the byte behind its address, so that it is
        # looked up as a return address.
        got = [s[1:] for s in found.get(size, ())]
        if 14000 <= size < 14004:
            got = [tuple(a - (a - 1 == b) for a, b in zip(s, want))
                   for s in got if len(s) == len(want)]
        good = len(got) == 1
        if what == "whole":
            good = good and got[0] == want
        elif what == "open":
            good = good and got[0] == want + (0,)
        elif what == "made":
            # The printing function is called from the caller of the code itself.
            good = (good and len(got[0]) > len(want)
                    and got[0][-len(want):] == want)
        elif what == "child":
            continue
        right += good
        if not good:
            wrong += 1
            print("size", size, what, "\n  want", [hex(x) for x in want],
                  "\n  got ", [[hex(x) for x in s] for s in got])
    if made:
        framed, frameless = made
        sizes = [k for k in found if 17000 <= k < 17002]
        good = (sizes and all(s[1] == framed for s in found[17000])
                and all(s[1] == frameless and s[2:] == (0,)
                        for s in found[17001]))
        wrong += not good
        right += good
        if not good:
            print("made code", [hex(x) for x in made],
                  [[[hex(x) for x in s] for s in found.get(k, ())]
                   for k in (17000, 17001)])
    plain = found.get(17100, set())
    good = len(plain) == 1 and all(len(s) == 3 and s[2] == 0 for s in plain)
    wrong += not good
    if not good:
        print("code without frame information", plain)
    print(right, "right,", wrong, "wrong")
    return wrong != 0 or right < 100


def ends(size, paths):
    found = stacks(rawdump.load(paths))
    for s in sorted(found.get(size, ())):
        end = ENDS.get(s[-1], "whole") if s else "none"
        print(end, len(s) - (end in ENDS.values()))


def sampled(mean, paths):
    trace = rawdump.load(paths)
    total = guess = variance = 0
    for thread in list(trace.pieces):
        for e in trace.events(thread):
            if e["kind"] not in MAKES:
                continue
            size = e["size"]
            total += size
            if size == 0:
                continue
            chance = -math.expm1(-size / mean)
            variance += size * size * (1 - chance) / chance
            if e["site"]:
                guess += size / chance
    error = (guess - total) / math.sqrt(variance)
    print("right" if abs(error) < 4 and trace.sites.mode[0] == 3
          and trace.sites.mode[3] == mean else "wrong by %.2f" % error)


if __name__ == "__main__":
    if sys.argv[1] == "--sampled":
        sampled(int(sys.argv[2]), sys.argv[3:])
    elif sys.argv[1] == "--end":
        ends(int(sys.argv[2]), sys.argv[3:])
    else:
        sys.exit(compare(sys.argv[1], sys.argv[2:]))
