#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints the calls in a capture file of memray, for malloc-trace:

    memray run -o CAPTURE PROGRAM.py
    memray_calls.py CAPTURE >LOG

A line is TID: CALL(ARGUMENTS), as Android's malloc_debug writes it. memray's own
module reads the file, whose format belongs to one version of memray. It has no
times, no alignment, and a realloc as a free and an allocation. Objects of Python's
own allocator (--trace-python-allocators) lie in memory that mmap or malloc gave it
and are left out, as is mmap itself.
"""
import sys

ALLOCATIONS = ("MALLOC", "CALLOC", "REALLOC", "POSIX_MEMALIGN",
               "ALIGNED_ALLOC", "MEMALIGN", "VALLOC", "PVALLOC")


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, end="", file=sys.stderr)
        return 2
    try:
        import memray
    except ImportError as e:
        print("memray_calls.py: %s" % e, file=sys.stderr)
        return 1
    allocates = {int(memray.AllocatorType[x]) for x in ALLOCATIONS}
    frees = int(memray.AllocatorType.FREE)
    try:
        with memray.FileReader(sys.argv[1]) as reader:
            for r in reader.get_allocation_records():
                if r.allocator == frees:
                    print("%d: free 0x%x" % (r.tid, r.address))
                elif r.allocator in allocates:
                    print("%d: malloc 0x%x %d" % (r.tid, r.address, r.size))
        sys.stdout.flush()
    except (OSError, ValueError, NotImplementedError) as e:
        print("memray_calls.py: %s: %s" % (sys.argv[1], e), file=sys.stderr)
        return 1
    return 0


sys.exit(main())
