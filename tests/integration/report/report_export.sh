#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Exports of malloc-trace report for other programs: stacks of several frames
# in the formats of pprof, speedscope, DHAT's viewer, gperftools and flame
# graphs have the report's figures, and those programs read them. The viewers
# are opened with LONG=1.
. "$top_srcdir/tests/lib/harness.sh"
. "$top_srcdir/tests/lib/browser.sh"
need_preload
need "$malloc_trace"
need_python
: "${CC:=cc}"

make_trace() { "$top_builddir/tests/unit/tools/report_make" "$1"; }
export_all() { # TRACE NAME
    "$malloc_trace" report -q --to=json -o "$2.r" --to=speedscope -o "$2.json" \
        --to=dhat -o "$2.dhat" --to=heap-profile -o "$2.heap" \
        --to=folded -o "$2.folded" --to=pprof -o "$2.pprof" "$1"
}
figures() { # NAME
    "$python" "$here/report/report_export.py" "$1.r" "$1.json" "$1.dhat" "$1.heap" \
        "$1.folded" >tap 2>"$err" || diag <"$err"
    pass_on tap
}

# Stacks, of which one is another's beginning; a closed library's place that
# another took; lines of a script with names that formats take for their own
# signs; a stack that could not be followed; no site at all.
make_trace stacks.p <"$here/report/report_odd.txt"
check "stacks are written" export_all stacks.p stacks
figures stacks

# Whole sites are left out of them as of the table: sums are the same.
sums() { # OPTION...: bytes and calls of the table, folded stacks, heap profile
    "$malloc_trace" report -q --columns --to=folded -o f.folded \
        --to=heap-profile -o f.heap --to=pprof -o f.pprof --to=dhat -o f.dhat \
        --to=speedscope -o f.json "$@" stacks.p >f.rows
    awk '{ b += $1; n += $2 } END { print b + 0, n + 0 }' f.rows
    awk '{ b += $NF } END { print b + 0 }' f.folded
    sed -n '1s/.*\[ *\([0-9]*\): *\([0-9]*\)\].*/\2 \1/p' f.heap
    "$python" - f.dhat f.json <<'END'
import json
import sys
with open(sys.argv[1]) as f:
    pps = json.load(f)["pps"]
print(sum(p["tb"] for p in pps), sum(p["tbk"] for p in pps))
with open(sys.argv[2]) as f:
    print(sum(json.load(f)["profiles"][0]["weights"]))
END
}
for how in "--filter=libx --by=module" --filter=0xfff --filter=nothing \
    --suppressions=leaks.supp; do
    echo "leak:liby" >leaks.supp
    # shellcheck disable=SC2086
    sums $how >got
    bytes=$(head -n 1 got | cut -d ' ' -f 1)
    is "$how: exports have the sums of the table" "$(tr '\n' ' ' <got)" \
        "$(head -n 1 got) $bytes $(head -n 1 got) $(head -n 1 got) $bytes "
done
"$malloc_trace" report --columns --by=module stacks.p >all.rows
sums --filter=libx --by=module >got
is "a filter leaves sites out" "$(head -n 1 got)" \
    "$(awk '/libx/ && !/liby/ { b += $1; n += $2 } END { print b, n }' all.rows)"
cat >want <<'END'
(not known) 11
(not known);libx.so.2+0xfff 7
app+0xfff;libx.so.2+0xfff 200
app+0xfff;libx.so.2+0xfff;libx.so.2+0x2fff 1000
app+0xfff;liby.so+0xfff 50
run:1 2</script><script>alert("1&2")//'";/srv/a:b.py:14;app+0xfff;libx.so.2+0xfff;libx.so.2+0x2fff 40
run:1 2</script><script>alert("1&2")//'";<!--;app+0xfff;libx.so.2+0xfff;libx.so.2+0x2fff 30
END
LC_ALL=C sort stacks.folded | LC_ALL=C grep -v quo >got
check "folded stacks" cmp want got
is "and a name of any bytes" "$(LC_ALL=C grep -c \
    '^run:1 2.*"quo\\te.*abc;app.0xfff;.* 300$' stacks.folded)" 1
"$malloc_trace" report --sort=live --to=folded stacks.p |
    LC_ALL=C grep -v quo >got
is "of live bytes" "$(LC_ALL=C sort got | sed 's/.* //' | tr '\n' ' ')" \
    "11 7 200 40 30 "
is "lifetimes, those alive at the end included" "$("$python" -c '
import json, sys
d = json.load(open("stacks.dhat"))
print(sorted(p["tl"] for p in d["pps"]), d["te"], d["tg"])')" \
    "[0, 4000, 12000, 16000, 16000, 16000, 16000, 40000] 21000 5000"
"$malloc_trace" report -q --live-at peak --to=json -o peak.r \
    --to=speedscope -o peak.json --to=dhat -o peak.dhat \
    --to=heap-profile -o peak.heap --to=folded -o peak.folded stacks.p
figures peak
is "live is at the moment asked for" "$(grep -c '1:     1000 \[' peak.heap)" 1
check "what is asked for stands first" "$malloc_trace" report -q --sort=calls \
    --to=speedscope -o calls.json stacks.p
is "in speedscope" "$(json calls.json activeProfileIndex)" 4

# A program of known sites.
if $CC -g -O1 -fno-builtin -o app "$here/report/report_target.c" 2>"$err"; then
    TCMALLOC_TRACE_SITES=caller record t ./app
    check "a recording" export_all t app
    figures app
    TCMALLOC_TRACE_SITES=stack record s ./app
    check "a recording of stacks" export_all s app_stacks
    figures app_stacks
    if [ "${TCM_HAVE_LIBDW:-no}" = yes ]; then
        is "main calls them all" "$(sed -n 's/.*;main;\([a-z_0-9]*\) / \1 /p' \
            app_stacks.folded | sort | tr '\n' ' ')" \
            " calloced_9 693  freed_30 1935  kept_12 1200 "
    fi
    if ! have google-pprof; then
        skip "google-pprof" "it is not here"
    else
        for type in alloc_space alloc_objects inuse_space inuse_objects; do
            google-pprof --text --show_bytes --$type ./app app.heap 2>"$err" |
                awk '$6 ~ /_/ { print $1, $6 }' | sort -n >$type
        done
        is "google-pprof: bytes" "$(cat alloc_space)" "693 calloced_9
1200 kept_12
1935 freed_30"
        is "calls" "$(cat alloc_objects)" "9 calloced_9
12 kept_12
30 freed_30"
        is "live bytes" "$(cat inuse_space)" "693 calloced_9
1200 kept_12"
        is "live blocks" "$(cat inuse_objects)" "9 calloced_9
12 kept_12"
        line=$(grep -n 'malloc(50' "$here/report/report_target.c" | cut -d: -f1)
        google-pprof --text --lines --show_bytes --alloc_space ./app app.heap \
            >got 2>"$err"
        like "and lines" got "1935 .*freed_30 .*report_target.c:$line\$"
        google-pprof --text --cum --show_bytes --alloc_space ./app \
            app_stacks.heap >got 2>"$err"
        like "and stacks" got '^ *0 .* 3828 +[0-9.]+% main$'
    fi
    if [ "${TCM_HAVE_LIBDW:-no}" != yes ]; then
        skip "inlined functions, Go's pprof" "built without elfutils"
    elif cat >inlined.c <<END && $CC -g -O2 -fno-builtin -o inlined inlined.c; then
#include <stdlib.h>
static void *volatile sink;
static inline __attribute__((always_inline)) void inner(void) {
    sink = malloc(10);
    sink = NULL;
}
__attribute__((noinline)) void outer(void);
void outer(void) { inner(); }
int main(void) { outer(); return 0; }
END
        TCMALLOC_TRACE_SITES=caller record i ./inlined
        check "an inlined function" export_all i inlined
        figures inlined
        is "is a frame" "$(grep inner inlined.folded)" "outer;inner 10"
    fi
    if [ "${TCM_HAVE_LIBDW:-no}" != yes ]; then
        :
    elif ! go tool pprof -h >"$out" 2>&1 && ! grep -q Usage "$out"; then
        skip "Go's pprof" "it is not here"
    else
        go tool pprof -top -unit=b -sample_index=alloc_space app.pprof \
            2>"$err" | awk '$6 ~ /_/ { print $1, $6 }' >got
        is "Go's pprof" "$(cat got)" "1935B freed_30
1200B kept_12
693B calloced_9"
        go tool pprof -traces -sample_index=alloc_space inlined.pprof 2>"$err" |
            grep -A1 inner >got
        is "and inlined functions" "$(awk '{ print $NF }' got | tr '\n' ' ')" \
            "(inline) outer "
        go tool pprof -top -cum -unit=b -sample_index=inuse_space stacks.pprof \
            2>"$err" | awk '{ print $4, $6 }' >got
        like "stacks: what a frame calls counts" got '^570B app\+0xfff$'
        go tool pprof -top -unit=b -sample_index=inuse_space app.heap \
            >got 2>"$err"
        like "the heap profile, too" got 'of 1893B total'
    fi
else
    skip "a program" "no compiler"
fi

# Viewers.
viewer=/usr/libexec/valgrind
if [ -z "$browser" ]; then
    skip "in viewers" "$why_no_browser"
else
    if [ ! -e $viewer/dh_view.js ]; then
        skip "dh_view" "it is not here"
    else
        cp $viewer/dh_view.* .
        # A file is chosen as a hand would do it.
        cat >>dh_view.html <<END
<script type="text/plain" id="file">$(sed 's/<\/script/<\\\/script/g' stacks.dhat)</script>
<script>
addEventListener("load", function () {
  var chosen = new DataTransfer();
  chosen.items.add(new File([document.getElementById("file").textContent],
                            "stacks.dhat"));
  gInput.files = chosen.files;
  gInput.onchange();
});
</script>
END
        browse dh_view.html --dump-dom
        browsed_text >got
        like "dh_view opens it" got 'Mode: *malloc-trace'
        is "its total" "$(grep -A1 -x 'Total:' got | sed -n 2p)" \
            "1,638 bytes (100%, 78,000/s) in"
    fi
    if ! have npm ||
        ! timeout 200 npm install --prefix "$work" --no-audit --no-fund \
            --no-update-notifier --ignore-scripts speedscope >npm.out 2>&1; then
        skip "speedscope" "npm cannot install it"
    else
        printf 'speedscope.loadFileFromBase64("stacks.json", "%s")' \
            "$(base64 -w 0 stacks.json)" >load.js
        browse "file://$work/node_modules/speedscope/dist/release/index.html#localProfilePath=$work/load.js&view=sandwich" \
            --allow-file-access-from-files --dump-dom
        browsed_text >got
        for want in "allocated:1.60 KB" "live:588 B" "at the peak:1.54 KB" \
            "temporary blocks:1" "calls:9"; do
            is "speedscope: ${want%:*}" \
                "$(grep -A1 -x "${want%:*}" got | tail -n 1)" "${want#*:}"
        done
        is "and what a function calls" \
            "$(grep -B2 -x 'app+0xfff' got | tr '\n' ' ')" \
            "1.58 KB (99%) 0 B (&lt;0.01%) app+0xfff "
    fi
fi

# Circles of sites.
{
    i=1
    while [ $i -le 100 ]; do
        echo "frame $i $((i % 100 + 1)) 0 $((i * 16 + 4096))"
        i=$((i + 1))
    done
    printf 'site 7\nnew 1 100\nsite 50\nnew 2 1\n'
} | make_trace circle.p
check "sites in a circle" export_all circle.p circle
figures circle

fails_with "threads have no stacks" 2 "$malloc_trace" report --by=thread \
    --to=speedscope -o x stacks.p
fails_with "one file for two" 2 "$malloc_trace" report --to=speedscope -o x \
    --to=dhat -o x stacks.p
fails_with "the trace's name" 2 "$malloc_trace" report --to=heap-profile \
    -o stacks.p stacks.p
fails_with "a folder that is not there" 1 "$malloc_trace" report -q \
    --to=dhat -o none/x stacks.p

# Each format alone, in a file and on standard output.
formats="csv json html objects folded pprof speedscope dhat heap-profile"
report() { "$malloc_trace" report "$@"; }
all=
for format in $formats; do
    check "$format: to a file" report --to=$format -o one.$format stacks.p
    is "$format: beside the text" "$(grep -c ' calls; ' "$out")" 1
    check "$format: to standard output" report --to $format stacks.p
    cp "$out" printed
    check "$format: in place of the text" cmp printed one.$format
    all="$all --to=$format -o all.$format"
done
is "no two formats are the same" \
    "$(for format in $formats; do cksum <one.$format; done | sort -u | wc -l)" 9
# shellcheck disable=SC2086
check "all at once" report -q $all stacks.p
for format in $formats; do
    cmp all.$format one.$format
    result "$format: among all" $?
done
check "files before formats" report -q -o b.json -o b.csv --to=json --to=csv \
    stacks.p
cmp b.json one.json && cmp b.csv one.csv
result "go to them in the same order" $?
fails_with "an unknown format" 2 report --to=xml -o x stacks.p
like "is named, and those there are" "$err" \
    "--to: \"xml\" is not one of $(echo $formats | sed 's/ /, /g')( |\$)"
fails_with "a file without a format" 2 report -o x stacks.p
like "is named" "$err" '-o: "x": no --to=FORMAT'
fails_with "two formats and one file" 2 report --to=csv --to=json -o x stacks.p
fails_with "two formats on standard output" 2 report --to=csv --to=json stacks.p
fails_with "a format twice" 2 report --to=csv -o x --to=csv -o y stacks.p
[ ! -e x ] && [ ! -e y ]
result "then nothing is written" $?
if have script; then
    script -qec "'$malloc_trace' report --to=pprof stacks.p" /dev/null \
        </dev/null >printed 2>&1
    is "a profile of bytes on a terminal" "$?" 2
    like "is refused" printed 'standard output is a terminal: --to=pprof '
else
    skip "a profile of bytes on a terminal" "no script here"
fi
"$malloc_trace" report --help-all >got
is "the help has no such options" \
    "$(grep -cE -- "--($(echo $formats | tr ' ' '|'))([^-]|\$)" got)" 0
tap_end
