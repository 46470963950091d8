#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace compare: its verdict follows from the figures of the runs, told
# the same in table, JSON and CSV; contestants in all their forms, sweeps,
# budgets, saved counts, and what becomes of wrong orders, full disks and
# interruptions.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need_python

make=$top_builddir/tests/unit/tools/replay_make
"$make" python p.p 5000 >"$out" || exit 99
"$make" python q.p 5050 >"$out" || exit 99
cat >alloc.c <<'END'
#include <stdlib.h>
int main(int argc, char **argv) {
    static void *p[100];
    (void)argv;
    for (int i = 0; i < 100000 * argc; i++) {
        free(p[i % 100]);
        p[i % 100] = malloc((size_t)(i * 7919 % 500));
    }
    return 0;
}
END
# shellcheck disable=SC2086
$CC -O1 -fno-builtin -o alloc alloc.c 2>"$err" || skip_all "no compiler here"
record raw.lz4 ./alloc || exit 99

# compare STATUS WHAT OPTION...: leaves j, c and $out.
compare() {
    want=$1
    what=$2
    shift 2
    rm -f j c
    fails_with "$what" "$want" timeout 120 "$malloc_trace" compare --json j \
        --csv c "$@"
}
# same WHAT HOW FILE...
same() {
    what=$1
    shift
    is "$what" "$("$python" "$here/compare/compare_check.py" "$@" 2>&1)" same
}
# get WHAT...: values of j
get() { "$python" "$here/compare/compare_check.py" get j "$@" 2>&1; }
own=tcmalloc-mt

# --- The verdict --------------------------------------------------------------

compare 0 "two allocators" -a glibc -a $own -n 14 p.p
cp "$out" table
same "the keys of the JSON" keys j
same "the verdicts follow from the figures" figures j c
same "the table has these numbers" table j table
is "a line of CSV for each run" "$(wc -l <c)" 29
is "what was run" "$(get baseline rounds interrupted glibc.runs)" \
    "glibc|14|false|14"
same "the recommendation follows from the verdicts" recommendation j
is "and is the first line" "$(head -n 1 table)" \
    "$("$python" -c 'import json
print(json.load(open("j"))["recommendation"]["text"])')"
like "the version of this library" j \
    '"version": "libtcmalloc_minimal.*\.so.* .tcmalloc-mt '
compare 0 "two rounds are too few, which is said" -a glibc -a $own -n 2 p.p
like "how many it takes" "$out" \
    "^No recommendation: too few rounds for a verdict, 9 are needed and 2 were"
is "no interval" "$(get $own/cpu_ns_per_op.lo $own/cpu_ns_per_op.verdict)" \
    "null|no difference shown"
same "ratios of two rounds" figures j c
compare 0 "raw and processed traces" -a glibc -a $own -a "twice=$minimal" -n 11 \
    raw.lz4 p.p
same "its keys" keys j
same "verdicts over two traces" figures j c
same "a recommendation over two traces" recommendation j
is "each run of both" "$(wc -l <c)" 67
for i in 1 2 3 4 5 6 7 8 9 10 11; do ln -s p.p $i.p; done
compare 0 "more traces than rounds" -a glibc -a $own -n 2 [0-9]*.p
same "the verdict is about traces" figures j c
is "an interval" "$(get $own/peak_rss_bytes.samples)" 11
compare 0 "another baseline" -a glibc -a $own --baseline $own -n 11 p.p
is "is the baseline" "$(get baseline)" $own
same "beside that one" figures j c
compare 0 "the allocator by its name in older scripts" -a glibc \
    -a malloc-trace --baseline malloc-trace -n 2 p.p
is "is called as it is now" "$(get baseline $own.runs)" "$own|2"
like "in the table, too" "$out" "^ +[12]  $own  "
compare 2 "it is one contestant" -a $own -a malloc-trace -n 1 p.p
compare 0 "but a library of the user's keeps the name that he gives" -a glibc \
    -a "malloc-trace=$minimal" -n 1 p.p
is "in the results" "$(get malloc-trace.runs)" 1

# --- Contestants --------------------------------------------------------------

compare 0 "a path, and settings with commas" -a glibc -n 2 \
    -a "mine=$minimal,TCMALLOC_AGGRESSIVE_DECOMMIT=0,X=a,b,c,Y=2" p.p
is "the environment" "$(get mine.environment mine.ok)" \
    '["TCMALLOC_AGGRESSIVE_DECOMMIT=0", "X=a,b,c", "Y=2"]|true'
mkdir "a b:c"
cp "$minimal" "a b:c/lib x.so"
compare 0 "a library with a blank and a colon in its path" -a glibc -n 2 \
    -a "odd=a b:c/lib x.so" p.p
is "takes part" "$(get odd.ok odd.runs)" "true|2"
like "with its path" j 'a b:c/lib x.so"'
compare 0 "a missing library" -a glibc -a $own -a "gone=$work/gone.so" -n 2 p.p
is "is a row that says so" "$(get gone.ok gone.runs gone.why)" \
    "false|0|there is no library $work/gone.so"
like "in the text, too" "$out" "^gone takes no part: there is no library"
is "the others run" "$(get $own.runs)" 2
compare 1 "a missing baseline" -a "gone=$work/gone.so" -a glibc \
    --baseline gone p.p
like "is named" "$err" "the baseline gone takes no part: there is no library"
compare 2 "an unknown name" -a glibc -a nobody p.p
like "is named, and what is installed" "$err" \
    "-a: \"nobody\" is not a known allocator \(installed are glibc, $own"
compare 2 "two of one name" -a glibc -a "x=$minimal" -a "x=$minimal" p.p
compare 2 "an unknown baseline" -a glibc -a $own --baseline nobody p.p
compare 2 "one contestant alone" -a glibc p.p
compare 2 "a setting of nothing" -a "glibc,=1" -a $own p.p
compare 2 "no name" -a "=$minimal" p.p
compare 2 "thread caches that the C library cannot switch" -a glibc -a $own \
    --threads=switch p.p
compare 0 "this library's can be switched" -a $own -a "two=$minimal" \
    --threads=switch -n 2 p.p
if have nproc && [ -e /usr/lib/"$(uname -m)"-linux-gnu/libjemalloc.so.2 ]; then
    compare 0 "a known name" -a glibc -a jemalloc -n 2 p.p
    is "is found" "$(get jemalloc.ok jemalloc.runs)" "true|2"
else
    skip "a known name" "no libjemalloc.so.2"
fi

# --- Orders that make no sense ------------------------------------------------

compare 2 "no rounds" -n 0 p.p
compare 2 "rounds that are no number" -n many p.p
for until in nonsense 0 0% -1% 200% 1%% "" nan inf; do
    compare 2 "--until '$until'" --until "$until" p.p
done
compare 2 "standard input" -
compare 2 "nothing to replay"
for option in --run-program --no-run-program --all-processes; do
    compare 2 "$option of a trace" $option p.p
    like "which needs a command" "$err" "^.*: $option needs a COMMAND"
done
compare 2 "both of them" --run-program --no-run-program -- ./alloc
compare 2 "an unknown mode" --threads=all p.p
for budget in time 'time<1' 'speed<=1' 'time<=0' 'time<=x' "time<=1," \
    'time<=1;wall<=1' '' ','; do
    compare 2 "--budget '$budget'" --budget "$budget" p.p
done
fails_with "output over a trace" 2 "$malloc_trace" compare --json p.p p.p
fails_with "two outputs in one file" 2 "$malloc_trace" compare --json x \
    --csv x p.p
compare 1 "a file that is not there" gone.p
like "is named" "$err" "gone.p"
compare 1 "a file that is no trace" alloc.c
like "is named" "$err" "alloc.c"
: >empty
compare 1 "an empty file" empty

# --- Full disks, closed pipes, damage -----------------------------------------

if [ -e /dev/full ]; then
    for kind in json csv; do
        fails_with "--$kind on a full disk" 1 "$malloc_trace" compare -n 1 \
            -a glibc -a $own --$kind /dev/full p.p
        "$malloc_trace" compare -q -n 1 -a glibc -a $own --$kind - p.p \
            >/dev/full 2>"$err"
        is "--$kind on standard output that is full" $? 1
    done
    "$malloc_trace" compare -n 1 -a glibc -a $own p.p >/dev/full 2>"$err"
    is "the table on a full disk" $? 1
    fails_with "counts on a full disk" 1 "$malloc_trace" compare \
        --save-baseline /dev/full p.p
fi
"$malloc_trace" compare -n 1 -a glibc -a $own --json - p.p >j 2>"$err"
same "JSON on standard output is JSON alone" keys j
like "the table is elsewhere" "$err" "^processor time an operation"
"$malloc_trace" compare -q -n 1 -a glibc -a $own p.p >"$out" 2>"$err"
is "quiet" "$?,$(cat "$out" "$err")" 0,
size=$(wc -c <raw.lz4)
head -c $((size * 2 / 3)) raw.lz4 >cut.lz4
"$make" python long.p 200000 >/dev/null || exit 99
size=$(wc -c <long.p)
head -c $((size * 2 / 3)) long.p >cut.p
compare 3 "a raw trace that is cut, and a processed one" -a glibc -a $own -n 2 \
    cut.lz4 cut.p
like "a warning names the first" "$err" "cut.lz4"
like "and the second" "$err" "cut.p"
is "they are replayed" "$(get $own.ok $own.runs)" "true|4"

# --- Budgets ------------------------------------------------------------------

# Memory: what the library takes of it is far from what a busy machine changes.
compare 0 "a budget that is kept" -a glibc -a $own -n 11 \
    --budget 'peak_rss<=100,after_peak<=100,time<=1000' p.p
like "is said to be" "$out" "^budget peak_rss<=100: kept by $own"
like "that of memory after the peak, too" "$out" \
    "^budget after_peak<=100: kept by $own"
compare 4 "a budget that is missed" -a glibc -a $own -n 11 \
    --budget 'time<=1000,peak_rss<=0.01' p.p
like "is said to be" "$out" "^budget peak_rss<=0.01: missed by $own"
like "and the other one kept" "$out" "^budget time<=1000: kept by $own"
is "the JSON is there" "$(get baseline)" glibc
compare 3 "a budget that three rounds cannot judge" -a glibc -a $own -n 3 \
    --budget 'peak_rss<=0.01' p.p
like "has no figure" "$out" "^budget peak_rss<=0.01: $own has no figure"
compare 3 "nor one of an allocator that takes no part" -a glibc -a $own \
    -a "gone=$work/gone.so" -n 12 --budget 'peak_rss<=100' p.p
compare 4 "one that is missed stays so" -a glibc -a $own \
    -a "gone=$work/gone.so" -n 12 --budget 'peak_rss<=0.01' p.p
# A limit within the interval: of wall time no two rounds are alike.
"$malloc_trace" compare -q -a glibc -a $own -n 11 --plan undecided p.p &&
    sh undecided/jobs.txt
"$malloc_trace" compare -q --json j --merge undecided
limit=$("$python" -c '
import sys
low, high = map(float, sys.argv[1].split("|"))
print("%.17g" % ((low + high) / 2))' "$(get $own/wall_ns_per_op.lo \
    $own/wall_ns_per_op.hi)")
check "a limit within the interval is no failure" "$malloc_trace" compare \
    --budget "wall<=$limit" --merge undecided
like "and not decided" "$out" "^budget wall<=.*: not decided by $own"
fails_with "which --budget-strict does not let pass" 4 "$malloc_trace" compare \
    --budget-strict --budget "wall<=$limit" --merge undecided
compare 2 "--budget-strict of nothing" --budget-strict p.p

# --- Saved counts -------------------------------------------------------------

check "counts are saved" "$malloc_trace" compare --save-baseline counts p.p
like "which a line says" "$out" \
    "^counts: [0-9]+ counts of p.p \([0-9,]+ calls\), [0-9]+ of memory over .* $own\$"
one_line "$out"
result "one line" $?
check "or none" "$malloc_trace" gate -q --save-baseline counts p.p
is "with -q" "$(cat "$out" "$err")" ""
for i in 1 2 3; do
    check "the same trace keeps them ($i)" "$malloc_trace" compare \
        --against counts p.p
done
fails_with "1 % more calls do not" 4 "$malloc_trace" compare --against counts \
    q.p
like "how many" "$out" "^calls .*5,0[0-9]*, was .*5,0[0-9]* .*MORE"
check "1 % fewer do" "$malloc_trace" compare --save-baseline counts2 q.p
check "they do" "$malloc_trace" compare --against counts2 --tolerance 5% p.p
check "a tolerance of 5 %" "$malloc_trace" compare --against counts \
    --tolerance 5% q.p
fails_with "counts that are none" 1 "$malloc_trace" compare --against j p.p
like "are named" "$err" "j: "
for trace in p.p raw.lz4; do
    fails_with "a trace $trace in place of counts" 1 "$malloc_trace" gate \
        --against $trace p.p
    like "a trace $trace in place of counts: is one" "$err" \
        "^malloc-trace gate: --against: $trace is a trace, not counts"
done
fails_with "counts that are no JSON" 1 "$malloc_trace" compare --against alloc.c \
    p.p
fails_with "counts that are not there" 1 "$malloc_trace" compare --against gone \
    p.p
for files in "--against gone" "--save-baseline none/counts"; do
    # shellcheck disable=SC2086
    fails_with "gate $files" 1 "$malloc_trace" gate $files -- sh -c '>ran'
    one_line "$err"
    result "is told in a line" $?
    [ ! -e ran ]
    result "before the program runs" $?
done
check "counts of an allocator that the file has none of" "$malloc_trace" \
    compare --against counts -a glibc p.p
fails_with "counts and plans" 2 "$malloc_trace" compare --against counts \
    --merge plan
fails_with "counts and a budget" 2 "$malloc_trace" compare --against counts \
    --budget 'time<=2' p.p
check "the same as a command" "$malloc_trace" gate --against counts p.p
fails_with "which fails, too" 4 "$malloc_trace" gate --against counts q.p
like "with its name" "$out" "^calls .*MORE"
fails_with "it judges budgets" 4 "$malloc_trace" gate -q -a glibc -a $own -n 11 \
    --budget 'peak_rss<=0.01' p.p
like "and says so" "$out" "^budget peak_rss<=0.01: missed by $own"
fails_with "it needs something to judge" 2 "$malloc_trace" gate p.p
like "which it names" "$err" "no --save-baseline, --against or --budget given"
fails_with "it makes no plans" 2 "$malloc_trace" gate --against counts --plan x \
    p.p
"$malloc_trace" compare --help >"$out"
is "compare's help leaves them to it" "$(grep -cE -- \
    '--(save-baseline|against|tolerance|budget) ' "$out")" 0
for how in killed failing; do
    case $how in
    killed) want="ended by signal 9 .*" code='kill -9 $$' ;;
    failing) want="exit status 3" code='exit 3' ;;
    esac
    fails_with "a baseline of a $how program" 1 "$malloc_trace" compare \
        --save-baseline none -- sh -c "./alloc; $code"
    like "is refused" "$err" "sh: $want; a gate needs a program that succeeds"
    [ ! -e none ]
    result "and not written" $?
    fails_with "a $how program beside a baseline" 1 "$malloc_trace" compare \
        --against counts --tolerance 99% -- sh -c "./alloc; $code"
    fails_with "a $how program with a budget" 1 "$malloc_trace" compare \
        -a glibc -a $own -n 1 --budget 'time<=1000' -- sh -c "./alloc; $code"
done
fails_with "counts of two traces beside those of one" 3 "$malloc_trace" \
    compare --against counts p.p p.p
like "are not judged" "$out" \
    "^not judged: the file has counts of 1 traces, and there are 2"
echo '{"format": "malloc-trace counts 2", "traces": 1, "counts": {}}' >none
fails_with "a file without counts" 3 "$malloc_trace" compare --against none p.p
like "judges nothing" "$out" "^not judged: the file has no counts"
"$malloc_trace" compare -q --save-baseline raw_counts raw.lz4
check "a raw trace is counted as it is" "$malloc_trace" compare \
    --against raw_counts raw.lz4
"$postprocess" -q raw.lz4 sorted.p
check "and has the counts of its sorted form" "$malloc_trace" compare \
    --against raw_counts sorted.p
"$make" python few.p 50 >"$out" || exit 99
"$malloc_trace" gate -q --save-baseline few_counts few.p
for trace in cut.lz4 cut.p; do
    fails_with "a baseline of $trace, which is incomplete" 3 "$malloc_trace" \
        compare --save-baseline cut_counts $trace
    like "is not written" "$err" "cut_counts is not written: "
    [ ! -e cut_counts ]
    result "at all" $?
    fails_with "$trace, beside a baseline that it is larger than" 3 \
        "$malloc_trace" gate --against few_counts $trace
    like "is not judged" "$out" \
        "^not judged: counts of an incomplete trace are no evidence"
    is "nor shown as more" "$(grep -c MORE "$out")" 0
done
"$python" - counts <<'PYTHON'
import json, sys
for name, change in (("with", 1), ("without", None)):
    d = json.load(open(sys.argv[1]))
    d["counts"].pop("replay.instructions", None)
    if change:
        d["counts"]["replay.instructions"] = {"least": 1e12, "most": 1e12}
    json.dump(d, open(name, "w"))
PYTHON
check "instructions that the file lacks are not judged" "$malloc_trace" compare \
    --against without p.p
if "$malloc_trace" compare -q --save-baseline x p.p && grep -q instructions x; then
    skip "instructions that this machine does not count" "it does"
else
    fails_with "instructions that this machine does not count" 3 \
        "$malloc_trace" compare --against with p.p
fi

# The functions that made the counts larger.
cat >grow.c <<'END'
#include <stdlib.h>
static void *volatile kept;
__attribute__((noinline)) void stays(void) { kept = malloc(1000); }
__attribute__((noinline)) void grows(void) { kept = malloc(3000); }
int main(int argc, char **argv) {
    (void)argv;
    for (int i = 0; i < 100; i++) {
        stays();
        free(kept);
    }
    for (int i = 0; i < 100 * argc; i++) {
        grows();
        free(kept);
    }
    return 0;
}
END
# shellcheck disable=SC2086
$CC -O1 -g -fno-builtin -o grow grow.c
for new in "" new; do
    "$malloc_trace" record -q --sites -o "sited${new:+.$new}" -- ./grow $new
done
"$malloc_trace" gate -q --save-baseline sited_counts sited
fails_with "a function that allocates more" 4 "$malloc_trace" gate \
    --against sited_counts sited.new
if [ "${TCM_HAVE_LIBDW:-no}" = yes ]; then
    like "is named" "$out" "(^|[^0-9,])\+?293 KiB .* grows"
    is "before those that do not" \
        "$(awk '$NF == "function" { getline; print $NF }' "$out")" grows
else
    like "is looked for" "$out" "^functions, .* since .*/sited first:"
fi
mv sited elsewhere
fails_with "without the earlier trace" 4 "$malloc_trace" gate \
    --against sited_counts sited.new
like "it is said how to find the function" "$out" \
    "^which functions grew: record both versions with malloc-trace record"

# --- Sweeps -------------------------------------------------------------------

compare 0 "a grid" -a $own -n 1 --sweep TCMALLOC_AGGRESSIVE_DECOMMIT=0,10 \
    --sweep 'ODD=a b,$HOME' p.p
is "names" "$("$python" -c '
import json
for c in json.load(open("j"))["contestants"]:
    print(c["name"], c["environment"])')" \
    "$own,TCMALLOC_AGGRESSIVE_DECOMMIT=0,ODD=a b ['TCMALLOC_AGGRESSIVE_DECOMMIT=0', 'ODD=a b']
$own,TCMALLOC_AGGRESSIVE_DECOMMIT=0,ODD=\$HOME ['TCMALLOC_AGGRESSIVE_DECOMMIT=0', 'ODD=\$HOME']
$own,TCMALLOC_AGGRESSIVE_DECOMMIT=10,ODD=a b ['TCMALLOC_AGGRESSIVE_DECOMMIT=10', 'ODD=a b']
$own,TCMALLOC_AGGRESSIVE_DECOMMIT=10,ODD=\$HOME ['TCMALLOC_AGGRESSIVE_DECOMMIT=10', 'ODD=\$HOME']
glibc []"
compare 0 "values of one tunable" -n 1 -a glibc \
    --sweep GLIBC_TUNABLES=glibc.malloc.tcache_count=0,32 p.p
is "each has its name" "$(get 'glibc,tcache_count=0.environment' \
    'glibc,tcache_count=32.environment')" \
    '["GLIBC_TUNABLES=glibc.malloc.tcache_count=0"]|["GLIBC_TUNABLES=glibc.malloc.tcache_count=32"]'
compare 2 "a sweep of nobody's variable" --sweep A=1,2 p.p
compare 2 "a sweep without values" -a $own --sweep A= p.p
# frontier: each line pasted into a shell runs a program with these settings.
frontier() {
    sed -n 's/^  time [0-9.]*, memory [0-9.]*: //p' "$1" >lines
    at_least "the frontier has lines" "$(wc -l <lines)" 1
    while read -r line; do
        case $line in
        "nothing to set"*) line= ;;
        esac
        echo "$line \"$python\" -c 'import os; print(\"it ran\")'" >paste.sh
        [ "$(sh paste.sh 2>&1)" = "it ran" ] || {
            note "$line"
            return 1
        }
    done <lines
}
compare 0 "settings with blanks on the frontier" -a glibc -n 1 \
    --baseline "glibc,X=it's a b" --sweep "X=it's a b,\$HOME c" p.p
frontier "$out"
result "can be pasted" $?
same "the verdicts follow from the figures" figures j c

# --- Interruption -------------------------------------------------------------

# Whoever starts this in the background has SIGINT ignored; timeout's is not.
rm -f j c
timeout --foreground --preserve-status -s INT 6 "$malloc_trace" compare -n 2000 \
    -a glibc -a $own --json j --csv c p.p >"$out" 2>"$err"
is "interrupted" "$?,$(get interrupted)" 3,true
like "with the verdict so far" "$out" "^processor time an operation"
same "which follows from the figures" figures j c
same "its keys" keys j
tap_end
