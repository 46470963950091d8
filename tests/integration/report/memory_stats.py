# SPDX-License-Identifier: BSD-3-Clause
"""memory_stats.py jemalloc|glibc|own MEMORY STATS LOG: what replay --memory
counts at the end of a run is what the allocator says of itself after it (replay
--allocator-stats). LOG: calls with addresses of another run (replay --log).
Prints TAP lines, then "# all done".
"""
import bisect
import json
import re
import sys
from collections import Counter

from tap import done, ok

PAGE = 4096

kind, memory_file, stats_file, log_file = sys.argv[1:]
memory = json.load(open(memory_file))
end = memory["moments"][-1]
text = open(stats_file).read()


def live_blocks():
    """Address and size of each block of LOG that is not freed."""
    live = {}
    for line in open(log_file):
        made = re.search(r"^(?:malloc|realloc)\(.*?(\d+)\) = ([0-9a-f]+)<(\d+)>",
                         line)
        freed = re.search(r"^(?:free|realloc)\([0-9a-f]+<(\d+)>", line)
        if freed:
            live.pop(freed[1], None)
        if made:
            live[made[3]] = int(made[2], 16), int(made[1])
    return list(live.values())


def blocks_by_size():
    counts = Counter()
    for row in end["rows"]:
        counts[row[1]] += row[4]
    return counts


def jemalloc():
    whole = json.loads(text)["jemalloc"]
    stats = whole["stats.arenas"]["0"]
    bins = whole["arenas"]["bin"]
    sizes = [b["size"] for b in bins]
    counts, told = blocks_by_size(), {}
    wrong = []
    for b, s in zip(bins, stats["bins"]):
        told[b["size"]] = s["curregs"]
        # jemalloc makes a few small blocks for itself.
        if not 0 <= s["curregs"] - counts[b["size"]] <= 8:
            wrong.append((b["size"], s["curregs"], counts[b["size"]]))
    ok(sum(told.values()) > 1000 and not wrong,
       "jemalloc: blocks of each bin", wrong[:3])

    # A slab begins where the distances of its blocks are multiples of their
    # size, so each address tells its slab.
    slabs, large = {b["size"]: set() for b in bins}, 0
    for address, size in live_blocks():
        at = bisect.bisect_left(sizes, max(size, 1))
        if at == len(sizes):
            large += size
            continue
        size, length = sizes[at], bins[at]["slab_size"]
        first = [b for b in range(address // PAGE * PAGE,
                                  address - length, -PAGE)
                 if (address - b) % size == 0]
        slabs[size].add(first[0])
        ok(len(first) == 1, "one slab") if len(first) != 1 else None
    wrong, uses = [], 0
    for b, s in zip(bins, stats["bins"]):
        slots = b["nregs"] * s["curslabs"]
        mine = b["nregs"] * len(slabs[b["size"]])
        if slots and counts[b["size"]]:
            uses += 1
            if abs(s["curregs"] / slots - counts[b["size"]] / mine) > .01:
                wrong.append((b["size"], s, len(slabs[b["size"]])))
    ok(uses >= 3 and not wrong, "jemalloc: the utilisation of each bin",
       wrong[:3], uses)

    resident = (stats["pactive"] + stats["pdirty"]) * PAGE
    used = end["resident_bytes"] - end["never_bytes"]
    # Pages of slabs that no block was in yet are active and not resident.
    spare = sum(b["slab_size"] for b in bins)
    ok(-spare <= used - resident <= spare,
       "jemalloc: its active and dirty pages", used, resident,
       stats["pactive"], stats["pdirty"], stats["pmuzzy"])


def glibc():
    rest = text[text.rindex("</heap>"):]

    def total(what):
        # Since 2.43 there are no fast bins.
        found = re.search(r'type="%s".* size="(\d+)"' % what, rest)
        return int(found[1]) if found or what != "fast" else 0
    free = total("fast") + total("rest")
    used = total("current") - free + total("mmap")
    mine = end["requested_bytes"] + end["rounding_bytes"]
    # A header of 8 bytes for each block, and 7 blocks for each of 64 sizes of
    # up to 1 KiB that a thread keeps for itself, which count as used.
    most = 8 * end["live_blocks"] + 64 * 7 * 520
    ok(0 <= used - mine <= most, "glibc: bytes in use by malloc_info", used,
       mine, most)
    beside = end["free_bytes"] + end["empty_bytes"]
    ok(abs(beside - free) <= most + 256 * 1024,
       "glibc: its free lists and top", beside, free, most)


def own():
    counts, wrong, spans = blocks_by_size(), [], 0
    for line in text.splitlines():
        m = re.match(r"class +\d+ \[ +(\d+) bytes \].* (\d+) in use; +(\d+) "
                     "spans", line)
        if m and int(m[3]):
            spans += int(m[3])
            if counts[int(m[1])] != int(m[2]):
                wrong.append((line, counts[int(m[1])]))
    ok(spans > 10 and not wrong, "this library: blocks of each class",
       wrong[:3])
    said = {}
    for line in text.splitlines():
        m = re.match(r"MALLOC: . +(\d+) \(.*\) (.*)$", line)
        if m:
            said[m[2]] = int(m[1])
    used = end["requested_bytes"] + end["rounding_bytes"]
    ok(said["Bytes in use by application"] == used,
       "this library: bytes in use", said, used)
    # Free objects on pages that were never written to are not resident.
    free = sum(said[f"Bytes {what}"] for what in
               ("in page heap freelist", "in central cache freelist",
                "in transfer cache freelist", "in thread cache freelists",
                "at the ends of spans"))
    mine = end["free_bytes"] + end["empty_bytes"]
    ok(.98 * free <= mine <= free, "this library: free bytes by its spans",
       free, mine)


{"jemalloc": jemalloc, "glibc": glibc, "own": own}[kind]()
done()
