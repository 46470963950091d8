# SPDX-License-Identifier: BSD-3-Clause
"""json.dumps and json.loads of 20,000 dicts, twelve times (PYTHONMALLOC=malloc
sends every object to malloc)."""
import json
import sys

rows = [{"id": i, "name": "row %d" % i, "tags": ["a%d" % (i % 97), "b"],
         "x": i / 7, "y": i * 0.25, "ok": i % 3 == 0} for i in range(20000)]
total = 0
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 12):
    text = json.dumps(rows)
    rows = json.loads(text)
    total += len(text)
if total == 0:
    sys.exit(1)
