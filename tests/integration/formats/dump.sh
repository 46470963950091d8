#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace dump: its lines are those that readers made from the documents of
# both formats print, where to begin and to end, damaged places, pipes.
. "$top_srcdir/tests/lib/harness.sh"
need "$malloc_trace" "$postprocess" "$top_builddir/tests/fuzz/make_raw_corpus"
need_python
cd "$work" || exit 99
data=$top_srcdir/tests/data
corpus=$top_srcdir/tests/fuzz/corpus
lz4=${TCM_HAVE_LZ4:-yes}

dump() { # leaves text, errors and $status
    timeout 60 "$malloc_trace" dump "$@" >text 2>errors
    status=$?
}

# same NAME READER FILE: the lines by offset are those of READER.py.
same() {
    dump "$3"
    is "$1: exit status" "$status" 0
    is "$1: nothing on stderr" "$(cat errors)" ""
    "$python" "$test_lib/$2.py" --dump "$3" >want
    sort -n -s text >sorted
    check "$1: the lines of another reader" diff want sorted
    at_least "$1: lines" "$(wc -l <want)" 20
}

"$top_builddir/tests/fuzz/make_raw_corpus" . || exit 99
"$postprocess" --quiet raw/plain kinds || exit 99
same "golden raw" rawdump "$data/raw-v1"
same "every kind of raw event" rawdump raw/plain
same "a spool" rawdump spool/alone.spool
same "golden processed" procdump "$data/processed-v1"
same "golden processed with index" procdump "$data/processed-v1-index"
same "golden processed, ends at their lower bounds" procdump \
    "$data/processed-v1-ends"
same "golden processed with present bytes" procdump "$data/processed-v1-present"
same "kinds of processed records" procdump kinds
same "random records" procdump "$corpus/proc/kinds"
if [ "$lz4" != no ] && have lz4; then
    same "golden raw in frames" rawdump "$data/raw-v1-frames"
    lz4 -q kinds kinds.lz4
    same "processed in a frame" procdump kinds.lz4
fi

# A trace from a pipe, by the name - and without a name.
dump raw/plain
cp text whole
check "the lines are in the order of the file" sort -c -n -s whole
dump - <raw/plain
check "from a file as stdin" cmp text whole
# shellcheck disable=SC2002
cat raw/plain | "$malloc_trace" dump >text
check "from a pipe" cmp text whole

# Lines of known events.
check "a call" grep -q '^ *[0-9]* *1 [-0-9.]*\.\.[-0-9.]* #1 = malloc(24)$' whole
check "a free" grep -q ' free(#1)$' whole

# Where to begin and how many: any line can be had alone, with its offset.
for file in raw/plain kinds "$data/processed-v1-index"; do
    dump "$file"
    cp text whole
    at=$(awk 'NR == 20 { print $1 }' whole)
    awk -v at="$at" '$1 >= at' whole >want
    dump --from "$at" "$file"
    check "--from: of $(basename "$file") the rest" cmp text want
    dump --from "$((at + 1))" --count 3 "$file"
    awk -v at="$at" '$1 > at' whole | head -n 3 >want
    check "--from and --count: three lines of it" cmp text want
    is "--count: exit status" "$status" 0
done
dump --count 0 kinds
is "no line at all" "$status $(wc -c <text)" "0 0"
dump --from 99999999 kinds
is "behind the end" "$status $(wc -c <text)" "0 0"

# A long trace: the index names the block, and what is before is not read. One
# byte of the first block is changed; who reads from the start sees it.
"$python" - "$test_lib" >long <<'PY' || exit 99
import struct, sys
sys.path.insert(0, sys.argv[1])
from rawdump import xxh64
def block(kind, payload, records, ops, first):
    h = struct.pack("<4sBBBBIIIIQQIIQI", b"\xa5PB\xf1", kind, 1, 32, 0,
                    len(payload), records, ops, 0, first, 0, 0, 1, 0, 0)
    h += struct.pack("<I", xxh64(h) & 0xFFFFFFFF)
    return h + struct.pack("<Q", xxh64(h + payload)) + payload
out = b"\x89MTPRC\r\n" + struct.pack("<HHIIIQ", 1, 0, 40, 0, 0, 0)
out += struct.pack("<Q", xxh64(out))
index = b""
first = 0
for i in range(50):
    index += struct.pack("<3Q", len(out), first, 0)
    b = block(1, b"\x03\x05" * 100, 200, 200, first)
    first += 200
    out += b
at = len(out)
out += block(3, index, 0, 0, first)
out += block(2, struct.pack("<HQHQ", 1, first, 32, at), 0, 0, first)
out = bytearray(out)
out[40 + 72 + 5] ^= 0x40
sys.stdout.buffer.write(out)
PY
dump --from 9000 long
is "with an index the beginning is not read" "$status $(head -n 1 text |
    awk '{ print $1 }')" "0 9000"
cp text want
"$malloc_trace" dump --from 9000 <long >text 2>errors
is "without seeking it is" "$?" 3
check "and gives the same lines" cmp text want
"$python" -c 'import sys
whole = bytearray(sys.stdin.buffer.read())
whole[40 + 72 + 5] ^= 0x40
sys.stdout.buffer.write(whole)' <long >intact
dump intact
awk '$1 > 40' text >want
dump --from 41 intact
is "in the first block there is nothing to seek for" "$status" 0
check "and all of it comes" cmp text want
dump long
is "damage is a line, and that a block is missing" "$(grep -c damage: text)" 2
check "with its place" grep -q '^ *40  *- - damage: .* 272 bytes lost$' text
head -c -40 long >unindexed
dump --from 9000 unindexed
is "a cut trace has no index" "$status" 3
check "and is read all the same" grep -q '^ *9000 ' text

# Damage of a raw trace: lines, and what is behind it.
at=$(awk '/ #65 = malloc/ { print $1 }' whole)
dump raw/plain
cp text whole
at=$(awk '/ #65 = malloc/ { print $1 }' whole)
"$python" - raw/plain "$at" >bad <<'PY'
import sys
b = bytearray(open(sys.argv[1], "rb").read())
b[int(sys.argv[2])] ^= 1
sys.stdout.buffer.write(b)
PY
dump bad
is "a changed byte: exit status" "$status" 3
is "one line on stderr" "$(wc -l <errors | tr -d ' ')" 1
check "which says how much" grep -q 'bad: [0-9]* damaged places' errors
check "a line of damage" grep -q '^ *[0-9]* *- - damage: damaged, [0-9]* bytes lost$' text
grep -v damage: text >without
comm -13 whole without >new
is "no line that was not there" "$(cat new)" ""
check "what is behind it is there" grep -q ' footer ' text
if [ "$lz4" != no ]; then
    head -c 700 raw/lz4 >cut
    dump cut
    is "a cut frame: exit status" "$status" 3
    check "a line of it" grep -q '^ *- *- - damage: LZ4 frame at stored byte' text
fi
# Many frames, of which the first is broken: the blocks behind it are there.
if [ "$lz4" != no ] && have lz4; then
    { head -c 3000 "$data/processed-v1-index" | lz4 -q
        tail -c +3001 "$data/processed-v1-index" | lz4 -q; } >frames
    dump frames
    is "two frames" "$status $(wc -l <text)" "0 $("$malloc_trace" dump \
        "$data/processed-v1-index" | wc -l)"
    "$python" - frames >bad <<'PY'
import sys
b = bytearray(open(sys.argv[1], "rb").read())
b[9] ^= 0x55
sys.stdout.buffer.write(b)
PY
    dump bad
    is "the first frame is broken: exit status" "$status" 3
    check "what is behind it is there" grep -q ' end ops=2590 ' text
    "$malloc_trace" info bad >text 2>errors
    is "and info says what it is" "$? $(grep -c ': processed trace' text)" "3 1"
fi
dump raw/killed
is "killed: exit status" "$status" 0
check "the spool is told" grep -q '^ *- *- - file: what follows is from "raw/killed.spool"$' text
mv raw/killed.spool raw/elsewhere
dump raw/killed
is "without its spool: exit status" "$status" 3
check "and what is missing" grep -q 'ends without a footer' errors

# The parts of a flight recording, of which the first is gone.
"$python" - "$corpus/parts/two" <<'PY' || exit 99
import struct, sys
b = open(sys.argv[1], "rb").read()
while b:
    number, _, n = struct.unpack_from("<BBH", b)
    open("t.k%d" % number, "wb").write(b[4 : 4 + n])
    b = b[4 + n :]
PY
dump t
is "parts: exit status" "$status" 0
is "parts: where the next begins" "$(grep -c ' - - file: the next part of "t"$' text)" 1
cp text whole
for n in 1 2; do
    grep -q " barrier $n\$" whole
    is "parts: part $n is there" "$?" 0
done
dump t.k2
sed 's/"t.k2"$/"t"/' text >renamed
check "parts: by the name of any" diff renamed whole

# Outputs that fail, and readers that want no more.
if [ -c /dev/full ]; then
    "$malloc_trace" dump raw/plain >/dev/full 2>errors
    is "a full disk: exit status" "$?" 1
    is "and one line" "$(wc -l <errors | tr -d ' ')" 1
fi
{ "$malloc_trace" dump "$data/raw-v1" 2>errors; echo $? >status; } | true
is "a closed pipe is said" "$(cat errors)" \
    "malloc-trace dump: cannot write to standard output: Broken pipe"
is "and no success" "$(cat status)" 1
dump /nonexistent/t
is "no such file: exit status" "$status" 1
dump a b
is "two files: exit status" "$status" 2
dump --count many a
is "no number: exit status" "$status" 2
tap_end
