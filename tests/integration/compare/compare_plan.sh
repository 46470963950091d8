#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace compare --plan and --merge: jobs that any engine runs, results
# that are missing or damaged told by name, plans merged, unlike machines told.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need_python

make=$top_builddir/tests/unit/tools/replay_make
"$make" python p.p 3000 >"$out" || exit 99
get() { "$python" "$here/compare/compare_check.py" get j "$@" 2>&1; }
plan() {
    plan_dir=$1
    shift
    "$malloc_trace" compare -q -a glibc -a tcmalloc-mt --plan "$plan_dir" "$@"
}
# verdict DIR...: merges; leaves j, c, $out, $err and $status.
verdict() {
    rm -f j c
    run timeout 300 "$malloc_trace" compare --json j --csv c --merge "$@"
}
# what a verdict is made of, without its numbers
structure() {
    "$python" -c '
import json
c = json.load(open("j"))
print(c["baseline"], c["rounds"],
      [(w["name"], w["ok"], w["runs"]) for w in c["contestants"]],
      [(v["contestant"], v["metric"], v["samples"], v["lo"] is None)
       for v in c["verdicts"]])'
}

# --- Engines ------------------------------------------------------------------

dir="a plan's folder"
check "a plan" plan "$dir" -n 10 p.p
is "a job for each run and for the warm-up" "$(wc -l <"$dir/jobs.txt")" 22
fails_with "a folder that has a plan" 1 plan "$dir" -n 10 p.p
verdict "$dir"
is "no result yet" "$status" 3
like "a job that is missing is named" "$err" "job 1.0.0 has no result"
check "one after the other" sh "$dir/jobs.txt"
verdict "$dir"
is "a verdict" "$status" 0
structure >want
cp j whole
is "from the figures of its runs" "$("$python" "$here/compare/compare_check.py" \
    figures j c 2>&1)" same
grep -q '"glibc", True, 10' want || grep -q "'glibc', True, 10" want
result "with all runs" $?

# engine NAME COMMAND...: in a folder of its own, from which $jobs is run.
engine() {
    what=$1
    shift
    check "$what: a plan" plan "$what's plan" -n 10 p.p
    jobs=$work/$what\'s\ plan/jobs.txt
    check "$what runs it" "$@"
    verdict "$what's plan"
    is "$what: status" "$status" 0
    is "$what: the same verdict" "$(structure)" "$(cat want)"
}
with_xargs() { tr '\n' '\0' <"$jobs" | xargs -0 -P 2 -I '{}' sh -c '{}'; }
with_plain_xargs() { xargs -P 2 -d '\n' -n 1 sh -c <"$jobs"; }
with_make() {
    awk '{ gsub(/\$/, "$$"); all = all " j" NR
        rules = rules "j" NR ":\n\t@" $0 "\n" }
        END { print "all:" all "\n" rules }' "$jobs" >jobs.mk &&
        env -u MAKEFLAGS -u MAKELEVEL make -j2 -f jobs.mk
}
with_parallel() { parallel --will-cite -j 2 <"$jobs"; }
engine xargs with_xargs
engine make with_make
if have parallel && parallel --version 2>&1 | grep -q GNU; then
    engine parallel with_parallel
else
    skip "parallel" "not installed"
fi

# --- What is missing ----------------------------------------------------------

results=$dir/results
rm "$results/3.0.1.json"
half=$(($(wc -c <"$results/5.0.0.json") / 2))
head -c $half "$results/5.0.0.json" >x && mv x "$results/5.0.0.json"
verdict "$dir"
is "a result deleted, one cut" "$status" 3
like "the deleted one is named" "$err" "job 3.0.1 has no result"
like "so is the other one" "$err" "job 5.0.0 has a bad result"
like "there is a verdict of the others" "$out" "^processor time an operation"
is "with as many runs" "$(get glibc.runs tcmalloc-mt.runs)" "9|9"
ls -l --time-style=full-iso "$results" >before
check "the jobs again" sh "$dir/jobs.txt"
ls -l --time-style=full-iso "$results" >all
grep -v '[35]\.0\.[01]\.json' all >after
grep -v '[35]\.0\.[01]\.json' before | grep -v ^total >x
grep -v ^total after >y
cmp -s x y
result "do only what is missing" $?
verdict "$dir"
is "also what was cut" "$status" 0
is "and the verdict is whole" "$(structure)" "$(cat want)"
printf '{}' >"$results/2.0.0.json"
cp "$results/4.0.0.json" "$results/4.0.1.json"
verdict "$dir"
is "results that are not of their jobs" "$status" 3
like "one that is empty" "$err" "job 2.0.0 has a bad result"
like "another job's" "$err" "job 4.0.1 has a bad result"
fails_with "a job that is not in the plan" 2 "$malloc_trace" compare \
    --job 99.0.0 "$dir"
fails_with "a job that is none" 2 "$malloc_trace" compare --job x "$dir"
fails_with "a folder without a plan" 1 "$malloc_trace" compare --merge .
like "is named" "$err" "plan.json"

# --- Killed jobs --------------------------------------------------------------

"$make" python long.p 200000 >"$out" || exit 99
check "a plan of longer jobs" plan killed -n 9 long.p
for wait in 0.02 0.05 0.1 0.2; do
    for signal in KILL TERM; do
        head -n 1 killed/jobs.txt >job
        timeout -s $signal "$wait" sh job >"$out" 2>"$err"
    done
done
ls killed/results >left
is "killed jobs leave no half result" "$(for f in killed/results/*.json; do
    [ ! -e "$f" ] || "$python" -m json.tool "$f" >x || echo "$f"
done)" ""

# --- Share of malloc ----------------------------------------------------------

# share RECORDED GLIBC OWN: of results with these nanoseconds.
share() {
    "$python" - "$dir" "$@" <<'END'
import json, os, sys
results, recorded = sys.argv[1] + "/results/", int(sys.argv[2])
for name in os.listdir(results):
    run = json.load(open(results + name))
    r, own = run["replay"], run["contestant"] != "glibc"
    r["cpu_ns_per_op"] = int(sys.argv[4 if own else 3]) / r["ops"]
    r["replayer_cpu_ns"] = 0
    r["recorded_cpu_ns"] = recorded
    json.dump(run, open(results + name, "w"))
END
    verdict "$dir"
    "$python" -c '
import json
print(json.load(open("j"))["traces"][0]["malloc_percent"])'
}
check "the jobs again" sh "$dir/jobs.txt"
rm "$results/4.0.1.json" "$results/2.0.0.json"
check "and those with bad results" sh "$dir/jobs.txt"
is "half of the recorded run, and twice that" \
    "$(share 1000000 1000000 500000 | cut -c 1-6)" 66.666
like "in words" "$out" "malloc takes about 66.7 % of the program's"
like "of which the other one takes half" "$out" \
    "processor time, with tcmalloc-mt 0\.50 times as much\."
is "which is recommended first" "$(head -n 1 "$out" | sed 's/glibc, .*/glibc,/')" \
    "Take tcmalloc-mt: the program takes about 33 % less time than with glibc,"
is "and is the only saving of the words" "$(sed '/^$/q' "$out" |
    grep -oE '[0-9.]+ % less( time)?' | sort -u | grep -v memory)" \
    "33 % less time"
is "with its gain" "$("$python" -c '
import json
g = json.load(open("j"))["recommendation"]["time"]
print("%.3f %.3f %.3f" % (g["lo"], g["gain"], g["hi"]))')" "0.333 0.333 0.333"
is "more than the recorded run" "$(share 1000000 1680000 500000 |
    cut -c 1-6)" 77.064
is "a replay that took longer than all of it tells nothing" \
    "$(share 1000000 1680000 1100000)" None
cp -r "$dir" other
sed -i 's/(tcmalloc-mt /(another /' other/results/*.json
verdict other
grep -q "of the program.s processor time" "$out"
is "nor do replays of other libraries" $? 1

# --- Figures that no run has --------------------------------------------------

# with KEY VALUE: the verdict of results in which the value stands for figures
# of that name, with its page.
with() {
    rm -rf other page.html
    cp -r "$dir" other
    "$python" - "$@" <<'END'
import json, os, sys
def put(o):
    for k, v in o.items() if isinstance(o, dict) else enumerate(o):
        if k == sys.argv[1]:
            o[k] = json.loads(sys.argv[2])
        elif isinstance(v, (dict, list)):
            put(v)
for name in os.listdir("other/results"):
    run = json.load(open("other/results/" + name))
    put(run)
    json.dump(run, open("other/results/" + name, "w"))
END
    run timeout -k 5 60 "$malloc_trace" compare --json j --html page.html \
        --merge other
    ! grep -iE '[^a-z](nan|inf)[^a-z]' "$out" page.html >odd
    result "$1 of $2: nothing that is no number" $?
    diag 3 <odd
}
for value in 1e308 -1 2.1e19; do
    for key in cpu_ns_per_op peak_rss_bytes p999_ns; do
        with $key $value
        is "$key of $value: refused" "$status" 3
        like "by its name" "$err" "has a bad result: its $key is "
    done
done
with rss_bytes 1e308
is "in the course of a run: refused" "$status" 3
like "by its name" "$err" "has a bad result: its rss_bytes is "
for value in 2e19 1e-300 0; do
    for key in cpu_ns_per_op peak_rss_bytes p999_ns rss_bytes recorded_ns; do
        with $key $value
        is "$key of $value: there is a verdict" "$status" 0
    done
done
with max_ns null
is "a quantile that is missing" "$status" 0
grep -q '<h2>Latency' page.html
is "no latency without it" $? 1
"$malloc_trace" compare -q --save-baseline counts p.p
sed -i '/"calls": {/,/}/s/\("least": \)[0-9]*/\11e308/' counts
run timeout 60 "$malloc_trace" compare --against counts p.p
is "a saved count" "$status" 1
like "is refused, too" "$err" "counts: calls is not a spread of counts"

# --- Plans of others ----------------------------------------------------------

nl='
'
for name in "new${nl}line" "tab	" "$(printf 'car\rriage')"; do
    fails_with "a folder that breaks lines" 1 plan "$name" -n 1 p.p
    like "why" "$err" "breaks the lines of jobs.txt"
    is "and is not made" "$(ls -d "$name" 2>/dev/null)" ""
done
mkdir "in${nl}it"
fails_with "below one" 1 plan "in${nl}it/plan" -n 1 p.p
cp p.p "new${nl}line.p"
check "a trace with such a name" plan named -n 1 "new${nl}line.p"
is "is in no line" "$(wc -l <named/jobs.txt)" 4

# places ROUNDS TRACES: KiB that a merge takes, with one result of the last.
places() {
    rm -rf other
    cp -r "$dir" other
    "$python" - "$malloc_trace" "$@" <<'END'
import json, os, resource, subprocess, sys
rounds, traces = int(sys.argv[2]), int(sys.argv[3])
p = json.load(open("other/plan.json"))
p["rounds"], p["traces"] = rounds, p["traces"] * traces
json.dump(p, open("other/plan.json", "w"))
if rounds < 1000000:
    os.rename("other/results/10.0.0.json",
              "other/results/%d.0.0.json" % rounds)
run = subprocess.run([sys.argv[1], "compare", "-q", "--merge", "other"],
                     timeout=60, capture_output=True)
print(run.returncode, file=open("status", "w"))
open("err", "wb").write(run.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
END
}
at_least "30,000,000 rounds take no memory" $((50000 - $(places 30000000 1))) 0
is "nor are they a plan" "$(cat status)" 1
at_least "100,000 rounds of 1,000 traces neither" \
    $((50000 - $(places 100000 1000))) 0
like "and why" err "results are too few for a plan of"
mkfifo other/results/3.0.0.json 2>/dev/null ||
    { rm other/results/3.0.0.json && mkfifo other/results/3.0.0.json; }
cp "$dir/plan.json" other
run timeout 60 "$malloc_trace" compare -q --merge other
is "a FIFO in place of a result" "$status" 3

# --- Several plans ------------------------------------------------------------

rm -r "$dir"
mv "xargs's plan" one
mv "make's plan" two
verdict one two
is "two plans merged" "$status" 0
is "have the runs of both" "$(get glibc.runs tcmalloc-mt.runs)" "20|20"
# as older versions wrote them
cp -r two old
sed -i 's/"tcmalloc-mt"/"malloc-trace"/; s/(tcmalloc-mt /(malloc-trace /' \
    old/plan.json old/results/*.json
is "the allocator's old name is in the plan and in half of the results" "$(
    grep -l '"malloc-trace"' old/plan.json old/results/*.json | wc -l)" 12
for plans in old "one old" "old one"; do
    verdict $plans
    is "$plans: status" "$status" 0
    is "$plans: runs" "$(get glibc.runs tcmalloc-mt.runs)" \
        "$(echo "$plans" | awk '{ print 10 * NF "|" 10 * NF }')"
done
dir=old
is "replays of its library tell malloc's share" \
    "$(share 1000000 1000000 500000 | cut -c 1-6)" 66.666
check "a plan of other contestants" "$malloc_trace" compare -q -a glibc \
    -a "other=$minimal" --plan three -n 1 p.p
verdict one three
is "is not merged" "$status" 1
like "and why" "$err" "three: contestant other is not in the other plans"
verdict one
is "one machine" "$(json j runs_of_unlike_machines)" 0
"$python" - two/results <<'END'
import json, os, sys
for name in os.listdir(sys.argv[1]):
    path = os.path.join(sys.argv[1], name)
    run = json.load(open(path))
    run["machine"]["processor"] = "Another One"
    if name == "1.0.1.json":
        run["replay"]["allocator"] += " of another version"
    json.dump(run, open(path, "w"))
END
verdict one two
is "an unlike library" "$status,$(json j runs_of_other_versions)" 0,1
like "is told too" "$out" "1 runs were made with other versions"
is "an unlike one" "$status,$(json j runs_of_unlike_machines)" 0,22
like "is told" "$out" "22 runs were made on machines unlike"

# --- A baseline that has none of something ------------------------------------

"$python" - one <<'END'
import json, sys
for who, pages in ((0, 0), (1, 6656)):
    for r in range(1, 11):
        name = "%s/results/%d.0.%d.json" % (sys.argv[1], r, who)
        run = json.load(open(name))
        run["replay"]["huge_bytes"] = 4096 * pages
        json.dump(run, open(name, "w"))
END
verdict one
like "how much it is stands there" "$out" " 26.0 MiB[?*]?$"
like "and in words" "$out" "^Huge pages differ,.* glibc none[,.]"
is "and no ratio" "$(tr -d ' \n' <j |
    grep -o '"metric":"huge_bytes",[^}]*"ratio":[^}]*"hi":[a-z]*' |
    sed 's/.*"ratio"/"ratio"/')" '"ratio":null,"lo":null,"hi":null'

# --- Many results -------------------------------------------------------------

rounds=500
[ "${LONG:-0}" = 1 ] && rounds=5000
"$python" - one $rounds <<'END'
import json, os, random, sys
plan, rounds = sys.argv[1], int(sys.argv[2])
p = json.load(open(plan + "/plan.json"))
p["rounds"] = rounds
json.dump(p, open(plan + "/plan.json", "w"))
random.seed(1)
for who in (0, 1):
    runs = [json.load(open("%s/results/%d.0.%d.json" % (plan, r, who)))
            for r in range(1, 11)]
    for r in range(11, rounds + 1):
        run = random.choice(runs)
        run["round"] = r
        json.dump(run, open("%s/results/%d.0.%d.json" % (plan, r, who), "w"))
END
verdict one
is "$((2 * rounds)) results are merged" "$status,$(get glibc.runs)" "0,$rounds"
seconds=$("$python" - "$malloc_trace" <<'END'
import resource, subprocess, sys
subprocess.run([sys.argv[1], "compare", "-q", "--json", "x", "--merge", "one"])
u = resource.getrusage(resource.RUSAGE_CHILDREN)
print(int(u.ru_utime + u.ru_stime), u.ru_maxrss)
END
)
note "seconds, KiB: $seconds"
at_least "in seconds" $((20 - ${seconds% *})) 0
at_least "in bounded memory" $((100000 - ${seconds#* })) 0
tap_end
