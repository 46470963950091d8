#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace report: its sums are the trace's, its places are those that
# valgrind's DHAT and memcheck see, for stripped programs and closed libraries
# too, and what it writes for other programs holds the same figures.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$built/sites/sites_target" "$postprocess" "$malloc_trace"
need_python
: "${CC:=cc}"
names=${TCM_HAVE_LIBDW:-no}

sited() { TCMALLOC_TRACE_SITES=caller record "$@"; }
report() { "$malloc_trace" report "$@"; }
# sums JSON FIELD...: of its first object, the total.
sums() {
    "$python" -c 'import json, sys
d = json.load(open(sys.argv[1]))
print(*(d["total"][x] for x in sys.argv[2:]))' "$@"
}
# rows JSON: "blocks bytes place" by place.
rows() {
    "$python" -c 'import json, sys
for r in sorted(json.load(open(sys.argv[1]))["rows"],
                key=lambda r: r["location"]):
    print(r["calls"], r["bytes"], r["location"])' "$@"
}

$CC -g -O1 -fno-builtin -o app "$here/report/report_target.c" 2>err ||
    skip_all "no compiler for a program"

# Sums.
sited t ./app
"$postprocess" -q --json post.json t p
for by in site function line file module lang stack size thread; do
    check "by $by" report -q --by=$by --to=json -o r.json p
    is "by $by: the sums are the trace's" \
        "$(sums r.json bytes live_blocks failed)" \
        "$(json post.json requested_bytes live_at_end failed_allocations)"
    is "by $by: at the peak, too" "$(sums r.json peak_bytes)" \
        "$(json post.json peak_live_bytes)"
done
is "calls" "$(sums r.json calls)" "$(json post.json mallocs)"
report --columns --by=line t >raw
report --columns --by=line p >processed
check "a raw trace, put in order on the way" cmp raw processed
cat p | report --columns --by=line - >piped
check "a pipe" cmp piped processed

if [ "$names" = yes ]; then
    report -q --by=function --to=json -o r.json t
    is "each function has its blocks" "$(rows r.json | grep _)" "9 693 calloced_9
30 1935 freed_30
12 1200 kept_12"
    report -q --by=line --to=json -o r.json t
    line=$(grep -n 'malloc(50' "$here/report/report_target.c" | cut -d: -f1)
    rows r.json >lines
    like "and each line" lines "^30 1935 .*report_target.c:$line\$"
    printf '# none of ours\nleak:kept\n' >supp
    report --by=function --columns --suppressions supp t >left
    is "a suppression" "$(grep -c kept left)" 0
    is "leaves the others" "$(grep -c calloced left)" 1
    report --filter '^freed' --by=function --columns t >filtered
    is "a filter" "$(awk '{ print $1, $2, $3 }' filtered)" "1935 30 freed_30"
    report --to=folded t >folded
    is "folded stacks" "$(grep freed_30 folded)" "freed_30 1935"
    report -q --to=pprof -o prof t
    "$python" "$here/report/report_pprof.py" prof >got
    report -q --to=json -o r.json t
    is "a profile's types" "$(sed -n 1p got)" \
        "alloc_objects alloc_space inuse_objects inuse_space"
    is "and sums" "$(sed -n 2p got)" \
        "$(sums r.json calls bytes live_blocks live_bytes)"
    like "and functions" got '^12 kept_12$'
else
    skip "names" "built without elfutils"
fi
report --top 1 --sort=calls --to=csv t >csv
is "the first row of all" "$(sed 1d csv | cut -d, -f2,3)" "1935,30"
report --to=objects t | grep -v place >objects
is "a line for each block" "$(wc -l <objects)" "$(json post.json mallocs)"
is "blocks that stay have no end" "$(cut -d, -f2 objects | grep -cx '')" \
    "$(json post.json live_at_end)"

# A process that is still being recorded.
mkfifo hold
sited running ./app wait <hold &
child=$!
exec 3>hold
calls() {
    report -q --to=json -o r.json running && [ "$(sums r.json calls)" = 51 ]
}
check "a running process" eventually 20 calls
report running >got
like "is told" got '^still being recorded: what follows is up to now$'
like "in JSON, too" r.json '"still_being_recorded": true'
exec 3>&-
wait $child
report running >got
is "until it ends" "$(grep -c 'still being' got)" 0

# Two traces.
sited before "$built/sites/sites_target" all
sited after "$built/sites/sites_target" threads
report -q --by=function --diff before --to=json -o d.json after
"$python" -c 'import json, sys
rows = [r for r in json.load(open("d.json"))["rows"] if "at_" in r["location"]]
print(all(r["calls"] == 4 * r["old_calls"] for r in rows), len(rows) > 5)' >got
[ "$names" = yes ] && is "a difference" "$(cat got)" "True True"
"$python" -c 'import json
d = json.load(open("d.json"))
for r in sorted(d["rows"], key=lambda r: r["location"]):
    print(r["bytes"] - r["old_bytes"], r["calls"] - r["old_calls"],
          r["location"])
print(*(sum(r[k] for r in d["rows"]) == d["total"][k]
        for k in ("old_bytes", "old_calls", "old_live_bytes")))' >want
report --by=function --diff before --columns after |
    sed 's/^ *//; s/  */ /' >got
is "as columns" "$(LC_ALL=C sort got)" "$(sed '$d' want | LC_ALL=C sort)"
report --by=function --diff after --columns before |
    sed 's/^ *//; s/  */ /' >got
like "of less" got '^-[0-9]+ -[0-9]+ '
is "of all" "$(tail -n 1 want)" "True True True"
fails_with "of profiles" 2 report --diff before --to=pprof -o x after

# Moments.
report -q --live-at peak --to=json -o r.json before
is "at the peak" "$(sums r.json live_bytes)" "$(sums r.json peak_bytes)"
fails_with "behind the end" 1 report --live-at 1h before
fails_with "a tree by age, which has no sums" 2 report --tree --sort=age before
fails_with "nor has a flame graph" 2 report --to=folded --sort=age before
fails_with "a mark that is not there" 1 report --live-at nothing before

# Programs that are not as they were.
if have objcopy && have strip && [ "$names" = yes ]; then
    mkdir debug
    cp app debug/whole
    objcopy --only-keep-debug debug/whole debug/app.debug
    strip -o debug/app debug/whole
    objcopy --add-gnu-debuglink=debug/app.debug debug/app
    sited s ./debug/app
    report --by=function --columns s >got
    like "stripped, with a debug file beside it" got '1935 *30 freed_30$'
    rm debug/app.debug
    report --by=function --columns s >got
    like "stripped, without: module and offset" got ' 30 app\+0x[0-9a-f]+$'
    mkdir elsewhere
    mv debug/app elsewhere
    cp debug/whole elsewhere/app
    report --by=function --columns --modules elsewhere s >got
    like "the same build elsewhere" got ' 30 freed_30$'
    $CC -g -O0 -fno-builtin -o elsewhere/app "$here/report/report_target.c"
    report --by=function --columns --modules elsewhere s >got 2>err
    like "another build is not used" got ' 30 app\+0x[0-9a-f]+$'
    like "and told" err 'app is another build'
else
    skip "stripped programs" "no objcopy, or built without elfutils"
fi

# Frames that valgrind sees.
if [ "$names" = yes ] && has_valgrind_frames; then
    no_frees='--run-libc-freeres=no --run-cxx-freeres=no'
    dhat() { # WHAT COMMAND...
        dhat_name=$1
        shift
        # shellcheck disable=SC2086
        valgrind -q --tool=dhat $no_frees --dhat-out-file=dhat.json "$@" \
            >/dev/null 2>err
        rm -f v*
        sited v "$@" >/dev/null
        report -q --no-skip --to=json -o v.json v
        check "as DHAT: $dhat_name" \
            "$python" "$here/report/report_dhat.py" dhat.json v.json 1
        sed 's/^/# /' "$out"
    }
    dhat "a C program" ./app
    dhat "a C++ program" "$built/sites/sites_target" all
    if ${CXX:-c++} -g -O2 -fomit-frame-pointer -o cxx "$here/report/report_cxx.cc" \
        2>err; then
        dhat "templates and inlined functions" ./cxx
        report --by=stack --columns v >got
        like "functions inlined into each other are frames" got \
            ' [a-z_:]*new_allocator<int>::allocate.* < .*::_M_realloc_(insert|append)'
    else
        skip "templates and inlined functions" "no compiler for a program"
    fi
    ! have sort || dhat "sort" sort "$here/report/report.sh"
    ! have sqlite3 || dhat "sqlite3" sqlite3 :memory: \
        'create table a(x); insert into a values (1), (2); select * from a;'
    # shellcheck disable=SC2086
    valgrind $no_frees --leak-check=full --show-leak-kinds=all ./app 2>err
    report -q --to=json -o r.json t
    is "as memcheck: what is alive at the end" \
        "$(sums r.json live_bytes live_blocks)" \
        "$(sed -n 's/,//g; s/.*in use at exit: \([0-9]*\) bytes in \([0-9]*\) .*/\1 \2/p' err)"
else
    skip "as valgrind" "no valgrind 3.17, or built without elfutils"
fi

# Closed libraries at one place.
if for size in 1000 2000; do
    $CC -shared -fPIC -g -O2 -fno-builtin -DSIZE=$size -Wl,--build-id \
        -o "$work/plugin$size.so" "$here/sites/sites_plugin.c" || exit 1
done >err 2>&1; then
    sited plugins "$built/sites/sites_target" plugins "$work/plugin1000.so" \
        "$work/plugin2000.so" "$work/plugin1000.so" >where
    report --by=module --columns plugins | grep plugin >got
    is "closed libraries" "$(awk '{ print $1, $2, $3 }' got | sort)" \
        "4000 2 $work/plugin2000.so
4000 4 $work/plugin1000.so"
    # By names relative to the folder in which it runs, or runs at first.
    sited relative "$built/sites/sites_target" plugins ./plugin1000.so \
        ./plugin2000.so ./plugin1000.so >where
    (cd / && report --by=function --columns "$work/relative") >got
    is "closed libraries, by relative names" \
        "$(sed -n 's/.* \(plugin_block\).*/\1/p' got | sort -u)" plugin_block
else
    skip "closed libraries" "no compiler for a library"
fi

# Files that are no trace, are cut, or have no sites.
fails_with "no trace" 1 report "$here/report/report.sh"
# From pipes, too.
cat t | report --columns - >piped
is "a recording on standard input" "$(cat piped)" "$(report --columns t)"
cat t | report --columns /dev/stdin >piped
is "a recording in a pipe" "$(cat piped)" "$(report --columns t)"
report --columns - <t >piped
is "a recording that is standard input" "$(cat piped)" "$(report --columns t)"
fails_with "nothing there" 1 report nothing
report nothing 2>err
is "and says who says so" "$(cat err)" \
    "malloc-trace report: nothing: No such file or directory"
fails_with "no operand" 2 report
fails_with "an unknown order" 2 report --sort=x t
fails_with "an expression that is none" 2 report --filter '(' t
fails_with "an output that is the trace" 2 report --to=csv -o t t
"$postprocess" -q before whole
size=$(wc -c <whole)
head -c "$((size - size / 3))" whole >cut
fails_with "a trace that was cut" 3 report -q --to=json -o r.json cut
check "what is there is reported" grep -q '"total"' r.json
record u ./app
report --columns u >got 2>err
like "without sites: says so" err 'has no call sites'
is "and has the sums" "$(awk '{ print $1, $2 }' got)" \
    "$(report -q --by=size --to=json -o r.json u; sums r.json bytes calls)"
check "by size needs none" report -q --by=size --to=csv -o /dev/null u
tap_end
