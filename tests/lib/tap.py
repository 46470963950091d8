# SPDX-License-Identifier: BSD-3-Clause
"""TAP of the Python part of a shell test: ok() for each check, done() at the
end. pass_on of harness.sh reads it."""
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
