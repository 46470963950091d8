#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the order of a processed trace against the addresses of the run.

order_check.py LOG THREADS STEPS LIVES PROCESSED: LOG as order_target.c writes
it. Prints "OPERATIONS HANDED_OVER": operations that were checked, and how many
allocations got an address that another thread had freed. Status 1 and one line
where the order cannot have been the one of the run:
  a thread's calls are not its own, in its own order;
  a block is given out while another one lives at the same place;
  a free or realloc is of another block than the program's.
"""
import bisect
import struct
import sys

import procdump

log, threads, steps, lives, path = sys.argv[1:]
steps = int(steps)
total = int(threads) * int(lives)


def fail(text):
    sys.stderr.write("order_check: %s\n" % text)
    sys.exit(1)


with open(log, "rb") as f:
    data = f.read()
entries = []
for number in range(total):
    n = struct.unpack_from("<Q", data, 64 * number)[0]
    at = 64 * total + 64 * steps * number
    entries.append(list(struct.iter_unpack("<4Q", data[at : at + 32 * n])))
if not all(entries):
    fail("a log is empty")

life = {}  # thread of the trace -> number of its life
position = [0] * total
marker_slots = set()
address_of = {}  # slot -> (address, size), of blocks in the logs
starts = []  # sorted addresses of live blocks
ends = {}
freed_by = {}
checked = handed = 0


def born(address, size, thread, what):
    global handed
    end = address + max(size, 1)
    i = bisect.bisect_left(starts, address)
    if i < len(starts) and starts[i] < end:
        fail("%s: given out at %x while a block lives at %x" %
             (what, address, starts[i]))
    if i and ends[starts[i - 1]] > address:
        fail("%s: given out at %x inside the block at %x" %
             (what, address, starts[i - 1]))
    starts.insert(i, address)
    ends[address] = end
    if freed_by.get(address, thread) != thread:
        handed += 1


def died(address, thread, what):
    i = bisect.bisect_left(starts, address)
    if i == len(starts) or starts[i] != address:
        fail("%s: freed at %x, where nothing lives" % (what, address))
    del starts[i]
    del ends[address]
    freed_by[address] = thread


try:
    for thread, what, call, slot, size, _, moved in \
            procdump.Processed(path).ops():
        if what == "alloc" and 5130033 <= size < 5130033 + total:
            life[thread] = size - 5130033
            marker_slots.add(slot)
            continue
        if what == "alloc" and 5140033 <= size < 5140033 + total:
            number = life.pop(thread, None)
            if number != size - 5140033:
                fail("life %d ends in thread %d" % (size - 5140033, thread))
            if position[number] != len(entries[number]):
                fail("life %d: %d of %d calls" % (
                    number, position[number], len(entries[number])))
            marker_slots.add(slot)
            continue
        if what == "free" and slot in marker_slots:
            marker_slots.discard(slot)
            continue
        number = life.get(thread)
        if number is None:
            if slot in address_of and what in ("free", "realloc"):
                fail("thread %d frees a block of others" % thread)
            continue
        name = "call %d of life %d" % (position[number], number)
        if position[number] == len(entries[number]):
            fail(name + ": more calls than the thread made")
        kind, address, length, before = entries[number][position[number]]
        position[number] += 1
        checked += 1
        if what == "alloc":
            if kind != 1 or size != length:
                fail("%s: malloc(%d), log %s" % (name, size, kind))
            born(address, size, thread, name)
            address_of[slot] = address
        elif what == "free":
            if kind != 2 or address_of.pop(slot, None) != address:
                fail("%s: free of another block" % name)
            died(address, thread, name)
        elif what == "realloc":
            if kind != 3 or size != length or address_of.get(slot) != before:
                fail("%s: realloc of another block" % name)
            if bool(moved) != (address != before):
                fail("%s: realloc moved or not" % name)
            if moved:
                born(address, size, thread, name)
                died(before, thread, name)
            else:
                died(before, thread, name)
                born(address, size, thread, name)
            address_of[slot] = address
        else:
            fail("%s: %s" % (name, what))
except procdump.Bad as e:
    fail(e)
if position != [len(e) for e in entries]:
    fail("calls are missing: %s" % [len(e) - p
                                    for e, p in zip(entries, position)])
print(checked, handed)
