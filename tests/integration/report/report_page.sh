#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The page of malloc-trace report: well-formed whatever names hold, with the
# figures of its JSON, and nothing that is fetched; usable with very many sites.
# With LONG=1 a browser opens and uses it, if there is one.
. "$top_srcdir/tests/lib/harness.sh"
. "$top_srcdir/tests/lib/browser.sh"
need_preload
need "$malloc_trace"
need_python

make_trace() { "$top_builddir/tests/unit/tools/report_make" "$1"; }
page() { # NAME OPTION...
    page_name=$1
    shift
    "$malloc_trace" report -q --to=html -o "$page_name.html" \
        --to=json -o "$page_name.r" \
        "$@" "$page_name.p"
}
look() { # NAME TEXT...
    look_name=$1
    shift
    "$python" "$here/report/report_page.py" "$look_name.html" "$look_name.r" "$@" \
        >tap 2>"$err" || diag <"$err"
    pass_on tap
}

make_trace odd.p <"$here/report/report_odd.txt"
check "a page is written" page odd
look odd "run;1 2</script><script>alert(\"1&2\")//'\"" "<!--" "app+0xfff"
like "the one who turns text does not" odd.html 'te&#39;&quot;.*abc'
is "not even in the table" "$(LC_ALL=C grep -c "<td.*$(printf '\342\200\256')" odd.html)" 0
is "the code that asks for most memory comes first" \
    "$(sed -n '/id="lead"/{n;s/ is .*//;p;}' odd.html)" \
    "<p>The place that asks for most memory"
for by in thread size module stack; do
    check "by $by" page odd --by=$by --live-at=peak
    look odd
done
page odd
check "on standard output" "$malloc_trace" report --to=html odd.p
is "alone" "$(head -n 1 "$out"),$(tail -n 1 "$out")" "<!DOCTYPE html>,</html>"
make_trace empty.p </dev/null
fails_with "a trace without events" 3 page empty
look empty
fails_with "a page in the JSON's place" 2 "$malloc_trace" report \
    --to=html -o same --to=json -o same odd.p
fails_with "in the trace's" 2 "$malloc_trace" report --to=html -o odd.p odd.p
fails_with "in a folder that is not there" 1 "$malloc_trace" report -q \
    --to=html -o none/x odd.p
fails_with "of a difference" 2 "$malloc_trace" report --to=html -o x \
    --diff odd.p odd.p

# The table that the script draws has the figures that the page came with.
if have node; then
    awk 'BEGIN {
        print "module 1 0x1000000 0x9000000 /opt/app"
        n = split("1 999 1000 1023 1024 1029 10234 10235 102348 102349 979970" \
            " 1048063 1048064 1048575 1048576 1073217535 1073217536", size)
        m = split("0 999 1000 9995 12345 999499 999500 999700 999999 1000000" \
            " 999499999 999500000 59949999999 59950000000 185500000000" \
            " 3599499999999 3599500000000 7620000000000", life)
        for (i = 1; i < 50; i++) {
            printf "frame %d 0 1 %d\n", i, 16777216 + 16 * i
            printf "site %d\nnew %d %s\n", i, i, size[1 + i % n]
            printf "time %.0f\nfree %d\n", now += life[1 + i % m], i
            for (k = i % 23; k > 0; k--)
                printf "new %d 0\n", 1000 * k + i
        }
    }' | make_trace figures.p
    page figures --live-at=peak
    check "the script rounds figures as the text does" \
        node "$here/report/report_figures.js" figures.html
    diag 3 <"$out"
else
    skip "the script rounds figures as the text does" "no node"
fi

# Very many sites, each of its own stack.
awk 'BEGIN {
    print "module 1 0x1000000 0x9000000 /opt/app"
    for (i = 1; i <= 100000; i++)
        printf "frame %d %d 1 %d\n", i, int(i / 8), 16777216 + 16 * i
    for (i = 1; i <= 100000; i++)
        printf "time %d\nsite %d\nnew %d %d\n", i * 100000, i, i, i % 5000
}' | make_trace many.p
check "100,000 sites" page many
look many
like "what is left out is said" many.html '[0-9]+,[0-9]{3} more, with less of'
[ "$(wc -c <many.html)" -lt 8000000 ]
result "the page stays small" $?

# One stack that no program has, as a damaged trace may.
awk 'BEGIN {
    print "module 1 0x1000000 0x9000000 /opt/app"
    for (i = 1; i <= 100000; i++)
        printf "frame %d %d 1 %d\nsite %d\nnew %d 8\n", i, i - 1,
            16777216 + 16 * i, i, i
}' | make_trace deep.p
check "a stack of 100,000 frames" page deep
look deep
[ "$(wc -c <deep.html)" -lt 1000000 ]
result "this page stays small, too" $?

if [ -z "$browser" ]; then
    skip "in a browser" "$why_no_browser"
else
    for name in odd many deep; do draw_both $name; done
    drive_page "$here/report/report_page.py" odd
    diag 3 <found
    found() { # NAME KEY WANT
        is "$1" "$("$python" -c 'import json, sys
print(json.dumps(json.load(open("found"))[sys.argv[1]], ensure_ascii=False))' \
            "$2")" "$3"
    }
    found "frames" frames 20
    found "rows, and the total" rows 8
    found "all of it" all '"all: 1.60 KiB, 100.0 %, 0 B by itself"'
    found "each frame's width" widths '[76, 73, 61]'
    found "live bytes" live '"all: 588 B, 100.0 %, 0 B by itself"'
    found "temporary blocks" temporary \
        '"all: 1 block, 100.0 %, 0 blocks by itself"'
    found "a search: its rows" searched '["liby.so+0xfff"]'
    found "and frames" lit 1
    found "and their share" share '"in 50 B, 3.1 %"'
    found "a click makes a frame wide" zoomed_width 100
    found "and says what it is" zoomed \
        '"libx.so.2+0xfff: 1.17 KiB, 73.3 %, 200 B by itself"'
    found "keys go down" below '"libx.so.2+0x2fff"'
    found "and up" above '"app+0xfff"'
    found "and back to the whole" whole 20
    found "and to the search" focus '"words"'
    found "a head sorts" by_calls '"libx.so.2+0xfff"'
    found "and the other way round" up '"ascending"'
    found "the head of a narrow column is one word" head true
fi
tap_end
