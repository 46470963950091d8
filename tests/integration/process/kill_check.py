#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares what a killed program had done with what its recording holds.

kill_check.py COUNTERS FILE...: COUNTERS as kill_target.c writes them, FILEs
the trace and its spool. Prints "OTHER DONE RECORDED": events that are not of
the threads' loops, calls known to be done, calls recorded. Status 1 and one
line on stderr where a call is missing, doubled or another one.
"""
import struct
import sys

import rawdump

RING = 20
CALLS = ("alloc", "free", "realloc", "realloc_new", "realloc_end", "failed")


def fail(text):
    sys.stderr.write("kill_check: %s\n" % text)
    sys.exit(1)


def main(counters, files):
    with open(counters, "rb") as f:
        data = f.read()
    done = [struct.unpack_from("<QQ", data, 64 * i) for i in range(16)]
    trace = rawdump.load(files)
    other = recorded = 0
    seen = set()
    for stream in sorted(trace.pieces):
        label = first = None
        tokens = {}
        n = 0
        for e in trace.events(stream):
            if e["kind"] == "alloc" and 90000 <= e["size"] < 90016:
                label = e["size"] - 90000
                if label in seen:
                    fail("thread %d is there twice" % label)
                seen.add(label)
                first = e["token"]
                other += 1
            elif e["kind"] in CALLS:
                if label is None or e.get("old") == first:
                    other += 1
                    continue
                if n % 2 and (n + 1) // 2 >= RING:
                    want = tokens.pop(n + 1 - 2 * RING)
                    if e["kind"] != "free" or e["old"] != want:
                        fail("call %d of thread %d: %s" % (n, label, e))
                else:
                    size = (label + 1 if n % 2 else
                            16 + (n * 37 + label * 11) % 2000)
                    if e["kind"] != "alloc" or e["size"] != size:
                        fail("call %d of thread %d: %s" % (n, label, e))
                    tokens[n] = e["token"]
                n += 1
        if trace.gaps:
            fail("a gap in stream %d" % stream)
        if label is not None:
            if not done[label][0] <= n <= done[label][0] + 1:
                fail("thread %d did %d calls, %d are recorded" %
                     (label, done[label][0], n))
            recorded += n
    for i in range(16):
        if done[i][1] and i not in seen:
            fail("thread %d is missing" % i)
    print(other, sum(d[0] for d in done), recorded)


main(sys.argv[1], sys.argv[2:])
