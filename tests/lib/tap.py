# SPDX-License-Identifier: BSD-3-Clause
"""TAP for the part of a shell test that is in Python; pass_on of harness.sh
reads it: ok() for each check, done() at the end."""
import sys

count = 0


def ok(good, name, *notes):
    global count
    count += 1
    print("%s %d - %s" % ("ok" if good else "not ok", count, name))
    if not good:
        for note in notes:
            for line in str(note).splitlines()[:12]:
                print("# " + line[:300])
    sys.stdout.flush()


def done():
    print("# all done")
