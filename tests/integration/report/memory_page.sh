#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The page of malloc-trace memory: well-formed, with the figures of the JSON, and
# small however much memory it is of. With LONG=1 it is opened by a browser, if
# there is one.
. "$top_srcdir/tests/lib/harness.sh"
. "$top_srcdir/tests/lib/browser.sh"
need_preload
need_python
mix=$built/report/memory_mix
make_page=$top_builddir/tests/unit/tools/memory_page_make
need "$mix" "$make_page"

"$malloc_trace" record -q --sites=stack -o "t.$suffix" -- "$mix" page keep \
    >said || exit 99
check "a page is written" "$malloc_trace" memory -q --html=real.html \
    --json=m.json -a glibc -a "own=$minimal" "t.$suffix"
fails_with "not in the trace's place" 2 "$malloc_trace" memory -q \
    "--html=t.$suffix" "t.$suffix"

# checks NAME [REPORT]
checks() {
    "$python" "$here/report/memory_page.py" "$1.html" ${2:+"$2"} >tap \
        2>"$err" || diag <"$err"
    pass_on tap
}
checks real m.json
# A terabyte of addresses, very many holes, and names of any bytes.
for name in terabyte scattered odd; do
    check "$name: is written" "$make_page" $name $name.html
    checks $name
    [ "$(wc -c <$name.html)" -lt 2500000 ]
    result "$name: stays small" $?
done
like "a name of any bytes is text" odd.html 'cache::insert_0&lt;/script&gt;'

if [ -z "$browser" ]; then
    skip "in a browser" "$why_no_browser"
else
    for name in real terabyte scattered odd; do draw_both $name; done
    drive_page "$here/report/memory_page.py" real
    is "Enter shows the pages of a square" "$(cat found)" \
        '{"hidden":true,"pages":512,"says":true,"tip":true}'
fi
tap_end
