#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The page of malloc-trace compare: well-formed whatever names hold, with the
# figures of JSON and CSV, and nothing that is fetched. With LONG=1 it is opened
# by a browser, if there is one.
. "$top_srcdir/tests/lib/harness.sh"
. "$top_srcdir/tests/lib/browser.sh"
need_preload
need_python
"$malloc_trace" compare --merge none 2>&1 | grep -q 'was built without' &&
    skip_all "compare is not built in"

"$top_builddir/tests/unit/tools/replay_make" sizes p.p 2000 >p.truth || exit 99
bad=$(printf 'x<i>&"\047 \377\001.p')
cp p.p "$bad" || exit 99
evil='</script><script>alert("1&2")//'\'

check "a page is written" "$malloc_trace" compare -q -n 11 --html c.html \
    --json c.json --csv c.csv -a glibc -a "$evil=$minimal" \
    -a "gone<b>=/nowhere/none.so" "$bad"
"$python" "$here/compare/compare_page.py" c.html c.json c.csv "$evil" \
    "gone<b> takes no part: " "x<i>&\"' " "--html c.html" >tap 2>"$err" ||
    diag <"$err"
pass_on tap

like "it has the command that explains the memory" c.html \
    'malloc-trace memory --html=memory.html -a glibc -a .*x&lt;i&gt;'
check "one of several traces" "$malloc_trace" compare -q -n 1 --html m.html \
    -a glibc -a "own=$minimal" "$bad" p.p
like "has a dot a trace" m.html 'Every trace: '
check "on standard output" "$malloc_trace" compare -n 1 --html - -a glibc \
    -a "own=$minimal" p.p
is "alone" "$(head -n 1 "$out"),$(tail -n 1 "$out")" "<!DOCTYPE html>,</html>"
fails_with "a page in the JSON's place" 2 "$malloc_trace" compare -n 1 \
    --html same --json same -a glibc -a "own=$minimal" p.p
fails_with "in the trace's" 2 "$malloc_trace" compare -n 1 --html p.p \
    -a glibc -a "own=$minimal" p.p
fails_with "in a folder that is not there" 1 "$malloc_trace" compare -q -n 1 \
    --html none/c.html -a glibc -a "own=$minimal" p.p

if [ -z "$browser" ]; then
    skip "in a browser" "$why_no_browser"
else
    for page in c m; do draw_both $page; done
fi
tap_end
