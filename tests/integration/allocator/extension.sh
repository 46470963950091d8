#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The C interface beyond malloc, under both libraries, recording and not; what a
# recording shows of it; the XML of malloc_info.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal" "$built/allocator/extension"

for how in untraced quiet recording; do
    under $how extension
done

if [ -e "$tracing" ] && [ -x "$postprocess" ] && [ -n "$python" ]; then
    check_trace "recording" "$work/extension.$suffix" 50000
    TCMALLOC_TRACE_UNCOMPRESSED=1 record "$work/calls" "$built/allocator/extension" \
        calls 2>"$work/err"
    is "calls: exit status" $? 0
    diag <"$work/err"
    cat >"$work/show.py" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import rawdump
t = rawdump.load(sys.argv[2:])
print(" ".join("%d:%d" % (e["which"], e["arg"]) for thread in t.pieces
               for e in t.events(thread) if e["kind"] == "extension"))
PY
    is "each call is recorded, in order, with its argument" \
        "$("$python" "$work/show.py" "$test_lib" "$work/calls" 2>&1)" \
        "1:7 2:0 3:12345 5:0 4:0 6:0"
    check "postprocess carries them along" "$postprocess" --quiet \
        "$work/calls" \
        "$work/p"
    is "each of them" "$("$python" "$test_lib/procdump.py" "$work/p" |
        awk '$2 == "extension" { printf "%s%s:%s", n++ ? " " : "", $6, $5 }')" \
        "1:7 2:0 3:12345 5:0 4:0 6:0"
    if "$replay" --json "$work/json" "$work/p" >"$work/out" 2>"$work/err"; then
        is "replay repeats malloc_trim alone" "$(json "$work/json" trims)" 1
    else
        fail "replay repeats malloc_trim alone"
        diag <"$work/err"
    fi
else
    skip "recordings" "no tools"
fi

# malloc_info and malloc_stats, called by a program that knows nothing of us.
if [ -n "$python" ]; then
    cat >"$work/parse.py" <<'PY'
import ctypes, sys
import xml.etree.ElementTree as tree
c = ctypes.CDLL(None)
c.fopen.restype = ctypes.c_void_p
f = ctypes.c_void_p(c.fopen(sys.argv[1].encode(), b"w"))
assert c.malloc_info(0, f) == 0
assert c.malloc_info(1, f) == 22
assert c.fclose(f) == 0
r = tree.parse(sys.argv[1]).getroot()
assert r.tag == "malloc" and r.get("version") == "1"
heap = r.find("heap")
system = int(r.find("system").get("size"))
assert system == int(heap.find("system").get("size")) > 0
for e in r.iter("total"):
    assert (int(e.get("count")) == 0) <= (int(e.get("size")) == 0)
names = {e.get("name"): int(e.get("value")) for e in r.iter("counter")}
assert names["tcmalloc.system_bytes_taken"] >= system, names
assert r.find("library").get("version")
print("fine")
PY
    for l in "$minimal" "$tracing"; do
        is "$(basename "$l"): malloc_info writes XML that a parser takes" \
            "$(LD_PRELOAD="$l" "$python" "$work/parse.py" "$work/xml" 2>&1)" fine
        LD_PRELOAD="$l" "$python" -c 'import ctypes
ctypes.CDLL(None).malloc_stats()' 2>"$work/err"
        at_least "$(basename "$l"): malloc_stats prints to stderr" \
            "$(grep -c '^MALLOC:' "$work/err")" 20
    done
else
    skip "malloc_info" "no python3"
fi
tap_end
