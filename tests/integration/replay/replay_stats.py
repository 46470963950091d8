# SPDX-License-Identifier: BSD-3-Clause
"""replay_stats.py jemalloc|glibc DUMP BASE STATS

DUMP: malloc-trace dump of a trace of malloc, calloc and free; STATS and BASE:
what the allocator said of itself after a replay of it, and of an empty trace.
Prints "same", or what differs.
"""
import bisect
import json
import re
import sys
from collections import Counter

kind, dump_file, base_file, stats_file = sys.argv[1:]

requests = []
live = {}
for line in open(dump_file):
    made = re.search(r" slot (\d+) = (?:malloc|calloc)\((\d+)\)", line)
    freed = re.search(r" free\(slot (\d+)", line)
    if made:
        live[made[1]] = int(made[2])
        requests.append(int(made[2]))
    elif freed:
        del live[freed[1]]
if not requests or not live:
    sys.exit("no requests in the dump")


def jemalloc(name):
    """By size of class: requests of small ones, blocks alive of the others,
    and at 0 the requests of these."""
    whole = json.load(open(name))["jemalloc"]
    stats = whole["stats.arenas"]["0"]
    counts = Counter({0: stats["large"]["nrequests"]})
    for c, s in zip(whole["arenas"]["bin"], stats["bins"]):
        counts[c["size"]] = s["nrequests"]
    first = len(counts)
    for c, s in zip(whole["arenas"]["lextent"], stats["lextents"]):
        counts[c["size"]] = s["curlextents"]
    return counts, first


def glibc(name):
    """Bytes in use."""
    text = open(name).read()
    text = text[text.rindex("</heap>"):]

    def total(what):
        # Since 2.43 there are no fast bins.
        found = re.search(r'type="%s".* size="(\d+)"' % what, text)
        return int(found[1]) if found or what != "fast" else 0
    return (total("current") - total("fast") - total("rest") + total("mmap"))


if kind == "jemalloc":
    (base, _), (got, large) = jemalloc(base_file), jemalloc(stats_file)
    sizes = sorted(got)

    def class_of(n):
        return bisect.bisect_left(sizes, max(n, 1))
    want = Counter({0: sum(class_of(n) >= large for n in requests)})
    for n in requests:
        want[sizes[class_of(n)]] += class_of(n) < large
    for n in live.values():
        want[sizes[class_of(n)]] += class_of(n) >= large
    for size in sizes:
        extra = got[size] - base[size] - want[size]
        # Release 5.3.1 counts some requests of large blocks twice.
        if extra != 0 and not (size == 0 and 0 < extra <= want[0] / 50):
            sys.exit("of %d bytes: %d, %d before, %d in the trace" %
                     (size, got[size], base[size], want[size]))
else:
    # Chunks have a header of 8 bytes, are multiples of 16, and 32 at least;
    # mapped ones are whole pages and have 16.
    least = sum(live.values())
    most = sum(max(32, (n + 8 + 15) // 16 * 16) if n < 128 << 10 else
               (n + 16 + 4095) // 4096 * 4096 for n in live.values())
    # A piece below 32 bytes stays with its neighbour.
    most += 16 * len(live)
    used = glibc(stats_file) - glibc(base_file)
    if not least <= used <= most:
        sys.exit("%d bytes in use, %d to %d in the trace" %
                 (used, least, most))
print("same")
