# SPDX-License-Identifier: BSD-3-Clause
"""same_ops.py MODE TRACE REPLAYED: both as `malloc-trace dump` prints processed
traces; the second was recorded from a replay of the first. The replay made the
operations of the trace, each thread's in its order: with MODE real by a thread
each, else all in the order of the trace. The main thread may have made more
before and after."""
import re
import sys
from collections import Counter, defaultdict


def threads(name):
    """Operations by thread, without names of blocks; and all in their order."""
    by_thread, whole = defaultdict(list), []
    with open(name) as f:
        for line in f:
            fields = line.split(None, 3)
            if len(fields) < 4 or "(" not in fields[3]:
                continue
            text = re.sub(r"slot \d+( = )?", "", fields[3]).strip()
            by_thread[fields[1]].append(text)
            whole.append(text)
    return by_thread, whole


def part_of(few, many):
    first = [i for i, x in enumerate(many) if few and x == few[0]]
    return not few or any(many[i:i + len(few)] == few for i in first)


mode, trace, replayed = sys.argv[1:]
want, want_all = threads(trace)
got, got_all = threads(replayed)
if len(want_all) < 1000:
    sys.exit("the trace has %d operations only" % len(want_all))
if mode != "real":
    if list(got) != ["1"] or not part_of(want_all, got_all):
        sys.exit("the operations are others, or in another order")
    sys.exit(0)
if not part_of(want["1"], got["1"]):
    sys.exit("the main thread made others")
others = Counter(tuple(v) for k, v in want.items() if k != "1")
made = Counter(tuple(v) for k, v in got.items() if k != "1")
if others - made:
    sys.exit("%d threads' operations were not made"
             % sum((others - made).values()))
# The replayer's own thread makes threads, for which the C library allocates.
more = made - others
if sum(more.values()) > 1 or any(len(x) > 100 for x in more):
    sys.exit("threads made operations that are not in the trace")
