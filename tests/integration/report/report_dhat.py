# SPDX-License-Identifier: BSD-3-Clause
"""report_dhat.py DHAT REPORT FRAMES: blocks and bytes that a program asked for
as valgrind's DHAT saw them (JSON) and as `malloc-trace report --json` does, by
the places of the innermost FRAMES calls, or of all from main on (0, with rows
--by=stack): file and line, or module where there is no line. Both have to be
equal, but for sites in the loader (whose tables grow with the libraries that are
there) and in the two's own libraries, for what libstdc++ takes before it starts,
and for what pthread_getattr_np resizes (which DHAT shows where it was first
allocated)."""
import json
import os
import re
import sys
from collections import Counter

OWN = re.compile(r"vgpreload|libtcmalloc|^ld-linux|^libstdc|^\(not known\)|"
                 r"dl-tls\.c|pthread_getattr_np\.c")
# DHAT shows nothing below these.
LAST = "main", "__libc_start_call_main", "start_thread"
DEPTH = 30  # DHAT counts frames before it expands inlined functions
# Names of functions may have parentheses, too.
DHAT = re.compile(r"^0x[0-9A-F]+: (.*?)"
                  r"(?: \((?:in ([^()]*)|([^()]*):(\d+))\))?$")
SITE = re.compile(r"^(.*?)(?: \((.*):(\d+)\))? \[([^][]*)\+0x[0-9a-f]+\]$")


def text(path, line, module):
    """Functions have other names for one address: lines are the same, but of
    the C library's format loop, some of whose addresses have two."""
    if os.path.basename(path or "") == "vfprintf-internal.c":
        return "vfprintf-internal.c"
    if line:
        return "%s:%s" % (os.path.basename(path), line)
    return re.sub(r"(\.so)\..*", r"\1", os.path.basename(module))


def of_dhat(name, frames):
    with open(name) as f:
        d = json.load(f)
    sums = Counter()
    for pp in d["pps"]:
        stack = []
        for number in pp["fs"]:
            function, module, path, line = DHAT.match(
                d["ftbl"][number]).groups()
            if not stack and module and "vgpreload" in module:
                continue
            stack.append(text(path, line, module or "?"))
            if len(stack) == frames or (frames == 0 and function in LAST):
                break
        stack = stack[:DEPTH]
        key = " < ".join(stack)
        sums[key, "blocks"] += pp["tbk"]
        sums[key, "bytes"] += pp["tb"]
        sums[key, "live blocks"] += pp["ebk"]
        sums[key, "live bytes"] += pp["eb"]
    return sums


def of_report(name, frames):
    with open(name) as f:
        d = json.load(f)
    sums = Counter()
    for row in d["rows"]:
        stack = []
        for frame in row["location"].split(" < ")[:frames or None]:
            m = SITE.match(frame)
            stack.append(text(m[2], m[3], m[4]) if m else
                         text(None, None, frame.split("+0x")[0]))
            if frames == 0 and m and m[1] in LAST:
                break
        stack = stack[:DEPTH]
        key = " < ".join(stack)
        sums[key, "blocks"] += row["calls"]
        sums[key, "bytes"] += row["bytes"]
        sums[key, "live blocks"] += row["live_blocks"]
        sums[key, "live bytes"] += row["live_bytes"]
    return sums


def main(dhat, report, frames):
    a, b = of_dhat(dhat, frames), of_report(report, frames)
    wrong = equal = 0
    for key in sorted(set(a) | set(b)):
        if OWN.search(key[0]):
            continue
        if a[key] == b[key]:
            equal += a[key] != 0 and key[1] == "blocks"
            continue
        wrong += 1
        print("%s: dhat %d, report %d %s" % (key[0], a[key], b[key], key[1]))
    print("%d places are equal" % equal)
    return wrong != 0 or equal == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
