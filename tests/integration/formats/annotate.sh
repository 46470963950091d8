#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace annotate: golden lines, those of an independent script on a
# random trace, summaries, damage.
. "$top_srcdir/tests/lib/harness.sh"
need "$malloc_trace"
annotate() { "$malloc_trace" annotate "$@"; }

# One line ends in blanks.
sed 's,<8>$,&   ,' >trace <<'END'
malloc(17) = 100000
malloc(8) = 101000
malloc(30) = 0x100020
free(101000)
malloc(5000) = 0x101000
malloc(1) = 0x103000

free(0x101000)
# a comment
malloc(20) = 81d2899a0<8>
realloc(81d2899a0<8>, 96) = 81d21e100<9>
free(81d21e100<9>)   # 16 bytes, what another tool said
free(0x999)
END
sed 's/ *$//' >lifetimes <<'END'
malloc(17) = 100000
malloc(8) = 101000
malloc(30) = 0x100020
free(101000)                                      # 8 bytes, allocated 2 lines ago
malloc(5000) = 0x101000
malloc(1) = 0x103000

free(0x101000)                                    # 5000 bytes, allocated 3 lines ago
# a comment
malloc(20) = 81d2899a0<8>
realloc(81d2899a0<8>, 96) = 81d21e100<9>          # 20 bytes, allocated 1 lines ago
free(81d21e100<9>)                                # 96 bytes, allocated 1 lines ago
free(0x999)
END
# ~ is the blank that ends the comment of a malloc.
tr '~' ' ' >layout <<'END'
malloc(17) = 100000                               # prev 0, gap -1, next 0, gap -1, pages [256, 256], 1 more pages~
malloc(8) = 101000                                # prev 100000, gap 4079, next 0, gap -1, pages [257, 257], 1 more pages~
malloc(30) = 0x100020                             # prev 100000, gap 15, next 101000, gap 4034, pages [256, 256], 0 more pages~
free(101000)                                      # 8 bytes, allocated 2 lines ago, prev 100020, gap 4034, next 0, gap -1, pages [257-257], 1 fewer pages
malloc(5000) = 0x101000                           # prev 100020, gap 4034, next 0, gap -1, pages [257, 258], 2 more pages~
malloc(1) = 0x103000                              # prev 101000, gap 3192, next 0, gap -1, pages [259, 259], 1 more pages~

free(0x101000)                                    # 5000 bytes, allocated 3 lines ago, prev 100020, gap 4034, next 103000, gap 3192, pages [257-258], 2 fewer pages
# a comment
malloc(20) = 81d2899a0<8>                         # prev 103000, gap 34847877535, next 0, gap -1, pages [8508041, 8508041], 1 more pages~
realloc(81d2899a0<8>, 96) = 81d21e100<9>          # 20 bytes, allocated 1 lines ago, prev 103000, gap 34847877535, next 0, gap -1, pages [8508041-8508041], 1 fewer pages
free(81d21e100<9>)                                # 96 bytes, allocated 1 lines ago, prev 103000, gap 34847437055, next 0, gap -1, pages [8507934-8507934], 1 fewer pages
free(0x999)
END
for what in lifetimes layout; do
    check "$what" "$malloc_trace" annotate $what trace
    cp "$out" once
    cp "$err" said
    check "$what: the golden lines" diff $what once
    check "$what: of what is annotated" "$malloc_trace" annotate $what once
    cp "$out" twice
    check "$what: is the same" diff once twice
    check "$what: of a pipe" sh -c \
        "'$malloc_trace' annotate $what <trace >piped"
    check "$what: is the same" diff once piped
done
like "an unknown block is told" said "1 frees or reallocs of unknown blocks"
printf 'malloc(30) = 10<1>\nmalloc(30) = 20<2>\n' >over
check "blocks that overlap" "$malloc_trace" annotate layout over
like "are told" "$err" ": 1 of the blocks overlap"
check "quiet" "$malloc_trace" annotate -q layout trace
is "prints nothing" "$(cat "$out" "$err")" ""

# A random trace, and a script that keeps a sorted list.
if [ -n "$python" ]; then
    "$python" - <<'END'
import bisect, random
random.seed(11)
lines, want = [], {'lifetimes': [], 'layout': []}
live, keys = {}, []
def near(p):
    i = bisect.bisect_left(keys, p)
    below = keys[i - 1] if i else None
    if i < len(keys) and keys[i] == p: i += 1
    return below, keys[i] if i < len(keys) else None
def last(p, s): return (p + max(s, 1) - 1) >> 12
def around(p, s, makes):
    below, above = near(p)
    first, end = p >> 12, last(p, s)
    pages = end - first + 1
    g1 = g2 = -1
    if below is not None:
        g1 = p - below - live[below][0]
        if last(below, live[below][0]) == first: pages -= 1
    if above is not None:
        g2 = above - p - s
        if pages > 0 and above >> 12 == end: pages -= 1
    return 'prev %x, gap %d, next %x, gap %d, pages [%d%s%d], %d %s' % (
        below or 0, g1, above or 0, g2, first, ', ' if makes else '-', end,
        pages, 'more pages ' if makes else 'fewer pages')
def place(size):
    while True:
        p = 0x7f0000000000 + random.randrange(1 << 22) * 16
        below, above = near(p)
        if p not in live and (below is None or below + live[below][0] <= p) and \
                (above is None or p + size <= above):
            return p
def begin(p, s):
    live[p] = (s, len(lines) + 1)
    bisect.insort(keys, p)
def end(p):
    s, line = live[p]
    text = '%d bytes, allocated %d lines ago' % (s, len(lines) + 1 - line)
    lay = text + ', ' + around(p, s, False)
    del live[p]
    keys.remove(p)
    return text, lay
def put(line, a, b):
    for what, comment in (('lifetimes', a), ('layout', b)):
        want[what].append(line if comment is None else line.ljust(49) + ' # ' + comment)
    lines.append(line)
for i in range(20000):
    size = random.choice([0, 1, 24, 100, 5000, 70000])
    kind = random.random() if live else 0
    if kind < 0.5:
        p = place(size)
        comment = around(p, size, True)
        begin(p, size)
        put('malloc(%d) = %x' % (size, p), None, comment)
    elif kind < 0.6:
        old = random.choice(keys)
        a, b = end(old)
        p = place(size)
        begin(p, size)
        put('realloc(0x%x, %d) = 0x%x' % (old, size, p), a, b)
    else:
        p = random.choice(keys)
        put('free(%x)' % p, *end(p))
open('random', 'w').write('\n'.join(lines) + '\n')
for what in want:
    open('random.' + what, 'w').write('\n'.join(want[what]) + '\n')
END
    for what in lifetimes layout; do
        check "random, $what" "$malloc_trace" annotate $what random
        cp "$out" got
        check "random, $what: as another script has it" cmp got random.$what
    done
    check "a picture" "$malloc_trace" annotate layout --summary=svg random
    cp "$out" picture
    check "is XML" "$python" -c \
        'import xml.dom.minidom; xml.dom.minidom.parse("picture")'
    check "a picture of lifetimes" "$malloc_trace" annotate lifetimes \
        --summary=svg random
    cp "$out" picture
    check "is XML" "$python" -c \
        'import xml.dom.minidom; xml.dom.minidom.parse("picture")'
else
    skip "a random trace" "no python3"
fi

# --- Summaries ----------------------------------------------------------------

check "lifetimes as CSV" "$malloc_trace" annotate lifetimes --summary=csv trace
cp "$out" got
check "as by hand" diff - got <<'END'
size_from,size_to,lines_from,lines_to,blocks
8,15,2,3,1
16,31,1,1,1
64,127,1,1,1
4096,8191,2,3,1
END
check "layout as CSV" "$malloc_trace" annotate layout --summary=csv trace
is "pages by event" "$(cut -d , -f 2 "$out" | tr '\n' ' ')" \
    "pages 1 2 2 1 3 4 2 3 2 3 2 "
check "layout as a table" "$malloc_trace" annotate layout --summary=table trace
like "pages at most" "$out" "pages at most +4\$"
like "blocks at the end" "$out" "blocks at the end +3\$"
check "lifetimes as a table" "$malloc_trace" annotate lifetimes \
    --summary=table trace
like "alive at the end" "$out" "alive at the end +3\$"

# --- Other formats, damage ----------------------------------------------------

check "Android's" "$malloc_trace" annotate lifetimes \
    "$top_srcdir/tests/data/formats/android"
like "an Android line" "$out" \
    "^202: free 0xb4827400 +# 1024 bytes, allocated 1 lines ago\$"
fails_with "a line that cannot be read" 3 "$malloc_trace" annotate lifetimes \
    "$top_srcdir/tests/data/formats/cmt-text.odd"
like "says which" "$err" "cmt-text.odd: line 8: cannot be read"
like "and prints it" "$out" "^malloc \\(7\\) = 1c\$"
fails_with "no such trace" 1 "$malloc_trace" annotate layout \
    "$top_srcdir/tests/data/processed-v1"
fails_with "a trace with numbers" 1 "$malloc_trace" annotate layout \
    "$top_srcdir/tests/data/formats/rep"
printf ' 1 c#  USER  0x2010 = malloc(8)\n 2 c#  USER  0x1010 = malloc(8)\n' >two
check "two processes" "$malloc_trace" annotate layout two
like "the line is whole, and there is no neighbour of another" "$out" \
    "^ 2 c#  USER  0x1010 = malloc\\(8\\) +# prev 0, gap -1, next 0, gap -1, pages \\[1, 1\\]"
printf '1 1 malloc(8)=#1\n1 1 free(#1)\n' >munged
check "lifetimes of numbers" "$malloc_trace" annotate lifetimes munged
like "the line is whole" "$out" "^1 1 free\\(#1\\) +# 8 bytes, allocated 1 "
fails_with "layout of numbers" 1 "$malloc_trace" annotate layout munged
like "says why" "$err" "munged: is a munged log, whose blocks have no addresses"
is "prints nothing" "$(cat "$out")" ""
fails_with "nothing to do" 2 "$malloc_trace" annotate
fails_with "an unknown thing to do" 2 "$malloc_trace" annotate gaps trace
fails_with "an unknown summary" 2 "$malloc_trace" annotate layout \
    --summary=png trace
[ ! -e /dev/full ] ||
    fails_with "a full disk" 1 sh -c "'$malloc_trace' annotate layout trace >/dev/full"
tap_end
