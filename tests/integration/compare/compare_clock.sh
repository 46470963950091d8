#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace compare over recorded time: memory that is given back while the
# program waits is in mean memory, in what is predicted of the program, and in
# saved counts; allocators with clocks of their own, and traces without times,
# are told; equals stay equal; system time is told.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need_python
source=$here/compare/compare_clock.c
# shellcheck disable=SC2086
$CC -O1 -fno-builtin -DDO_PROGRAM -o program "$source" 2>"$err" &&
    $CC -O1 -fno-builtin -fPIC -shared -o decay.so "$source" -pthread \
        2>"$err" || skip_all "no compiler here"
record t.lz4 ./program 3 || exit 99
"$top_builddir/tests/unit/tools/replay_make" python p.p 5000 >"$out" || exit 99

compare() {
    want=$1
    what=$2
    shift 2
    rm -f j c
    fails_with "$what" "$want" timeout 240 "$malloc_trace" compare --json j \
        --csv c "$@"
}
get() { "$python" "$here/compare/compare_check.py" get j "$@" 2>&1; }
same() {
    what=$1
    shift
    is "$what" "$("$python" "$here/compare/compare_check.py" "$@" 2>&1)" same
}
# holds WHAT EXPRESSION: of the verdicts v[NAME, METRIC], the contestants c[NAME],
# the traces t and the whole, j.
holds() {
    "$python" - "$2" >"$out.held" 2>&1 <<'PYTHON'
import json, sys
j = json.load(open("j"))
v = {(x["contestant"], x["metric"]): x for x in j["verdicts"]}
c = {x["name"]: x for x in j["contestants"]}
t = j["traces"]
p = {(x["contestant"], x["figure"]): x for x in j.get("program", [])}
assert eval("(" + sys.argv[1] + ")"), json.dumps([j["verdicts"], j["contestants"], t,
                                      j.get("program")], indent=1)
PYTHON
    result "$1" $?
    [ "$tap_failed" = 0 ] || diag 3 <"$out.held"
}
keeps=keeps=./decay.so
decays=decays=./decay.so,DECAY_MS=500
again=again=./decay.so,A=1

# --- Memory over recorded time ------------------------------------------------

compare 0 "one that gives memory back beside one that does not" --baseline keeps \
    -a $keeps -a $decays -n 10 t.lz4
cp "$out" table
same "its keys" keys j
same "its verdicts follow from the figures" figures j c
same "the table has these numbers" table j table
holds "recorded time passed" \
    't[0]["clock"] == "recorded" and t[0]["recorded_ns"] > 2.9e9'
holds "mean memory is far smaller" \
    'v["decays", "avg_rss_bytes"]["verdict"] == "smaller" and
     v["decays", "avg_rss_bytes"]["ratio"] < 0.5'
holds "so is memory after the peak" \
    'v["decays", "after_peak_rss_bytes"]["verdict"] == "smaller" and
     v["decays", "after_peak_rss_bytes"]["ratio"] < 0.5'
holds "the peak is not" '0.97 < v["decays", "peak_rss_bytes"]["ratio"] < 1.03'
holds "memory times time is its product" \
    'abs(c["decays"]["gb_hours"] / (v["decays", "avg_rss_bytes"]["value"] *
     t[0]["recorded_ns"] / 3.6e21) - 1) < 1e-6'
like "the table says over which time" table \
    "^mean resident memory over recorded time, beside keeps"
like "with memory times time" table "^ .* decays .* [0-9.e-]+ GB h  *0\.[0-4]"
like "so does the first line below" table "recorded time passed; 10 rounds"
is "no pause is missing" "$(grep -c 'without pauses' table)" 0
compare 0 "at full speed" --clock=real --baseline keeps -a $keeps -a $decays \
    -n 2 t.lz4
holds "there is no time to give memory back" \
    't[0]["clock"] == "real" and v["decays", "avg_rss_bytes"]["ratio"] > 0.8 and
     c["decays"]["gb_hours"] is None'
like "which is said" "$out" "^Replays ran without pauses"
compare 0 "the page" --baseline keeps -a $keeps -a $decays -n 2 --html h t.lz4
like "has memory times time" h "GB h</small>"
like "and its title" h "mean resident memory over recorded time"

compare 0 "equals over recorded time" --baseline keeps -a $keeps -a $again \
    -n 10 t.lz4
holds "are told to be equal" \
    'all(v["again", m]["verdict"] in ("no worse", "no difference shown")
         for m in ("peak_rss_bytes", "avg_rss_bytes", "rss_over_live"))'
holds "and none is recommended" 'j["recommendation"]["advice"] == "stay"'

# --- Plans --------------------------------------------------------------------

check "a plan" "$malloc_trace" compare -q --baseline keeps -a $keeps \
    -a $decays -n 3 --plan plan t.lz4
sh plan/jobs.txt >"$out" 2>"$err"
compare 0 "is merged" --merge plan
holds "its jobs had the recorded clock" \
    't[0]["clock"] == "recorded" and v["decays", "avg_rss_bytes"]["ratio"] < 0.5'

holds "and which clocks there are was examined" 'j["clocks_examined"]'
sed -i '/"clock_asks_kernel"/d' plan/results/*.json
compare 0 "where that could not be done" --merge plan
like "is told" "$out" "^It could not be examined here whether"
holds "in the JSON, too" 'not j["clocks_examined"]'

# --- Where recorded time does not pass ----------------------------------------

case $(uname -m) in
x86_64)
    compare 0 "one that reads the processor's counter" --baseline keeps \
        -a $keeps -a $decays -a tsc=./decay.so,TSC=1,DECAY_MS=500 -n 2 t.lz4
    like "is named" "$out" "^Recorded time did not pass for tsc: decay.so reads"
    holds "in the JSON, too" \
        'c["tsc"]["own_clock"] and c["keeps"]["own_clock"] is None'
    holds "nothing is said of its memory over time" \
        '("tsc", "avg_rss_bytes") not in v and c["tsc"]["gb_hours"] is None and
         ("decays", "avg_rss_bytes") in v and ("tsc", "peak_rss_bytes") in v'
    ;;
*) skip "a clock of an allocator's own" "the test library is for x86-64" ;;
esac
compare 0 "a trace without times" -a $keeps -a $again -n 1 p.p
holds "has the real clock" 't[0]["clock"] == "real"'
compare 0 "with the recorded clock" --clock=recorded -a $keeps -a $again -n 1 p.p
like "is warned of" "$err" "p.p: the trace has no times"
compare 0 "one with and one without" -a $keeps -a $again -n 1 p.p t.lz4
like "are told" "$out" "^1 of 2 traces have no times"
compare 2 "two paces" --clock=recorded --speed=1 t.lz4
like "are one too many" "$err" "--clock=recorded runs at full speed"
compare 2 "another clock" --clock=wall t.lz4

# --- Peaks of different moments -----------------------------------------------

# Memory beside malloc comes when one allocator has given its
# memory back: the heaps' peaks are equal, the program's are not.
compare 0 "a program with memory of its own" --run-program --baseline keeps \
    -a $keeps -a $decays -n 3 -- ./program 1.2 own </dev/null
holds "heaps have equal peaks" \
    '0.97 < v["decays", "peak_rss_bytes"]["ratio"] < 1.03'
holds "the program has not" 'p["decays", "peak_rss_bytes"]["true_ratio"] < 0.85'
holds "which is predicted" \
    'abs(p["decays", "peak_rss_bytes"]["predicted_ratio"] -
         p["decays", "peak_rss_bytes"]["true_ratio"]) < 0.1'
holds "its time has two parts" \
    'all(p["decays", "cpu_ns"][k + "_ns"] > 0 for k in ("true_user",
     "true_system", "baseline_user", "baseline_system"))'

# --- System time --------------------------------------------------------------

record many.lz4 ./program 0.1 own || exit 99
compare 0 "one that makes page faults" --baseline keeps -a $keeps \
    -a faults=./decay.so,FAULTS=1 -n 10 many.lz4
holds "differs by system time" \
    'c["faults"]["differs_by_system_time"] and
     c["faults"]["system_ns_per_op"] > c["keeps"]["system_ns_per_op"] and
     not c["keeps"]["differs_by_system_time"]'
like "which is said" "$out" "^faults's time differs from keeps's by system time"
like "in a table, too" "$out" "^processor time an operation, its parts"

# --- Saved counts -------------------------------------------------------------

gate() {
    want=$1
    what=$2
    shift 2
    fails_with "$what" "$want" timeout 240 "$malloc_trace" gate "$@"
}
changed=decays=./decay.so,DECAY_MS=2500
gate 0 "counts of memory over time are saved" --save-baseline counts -a $decays \
    t.lz4
for name in decays tcmalloc-mt; do
    for key in peak_rss_bytes avg_rss_bytes; do
        like "$name: $key" counts "\"$name.$key\": "
    done
done
gate 0 "the same keeps them" --against counts -a $decays t.lz4
gate 4 "memory that is kept for longer does not" --against counts -a $changed \
    t.lz4
like "and is named" "$out" "^decays.avg_rss_bytes .*, was .* MORE"
is "the peak is as it was" "$(grep -c '^decays.peak_rss' "$out")" 0
gate 3 "an allocator that is missing cannot be judged" --against counts t.lz4
like "which is said" "$out" "^decays.avg_rss_bytes: not judged"
gate 1 "one that is not there" --save-baseline none \
    -a gone="$work/gone.so" t.lz4
like "is named" "$err" "gone cannot be counted: there is no library"
"$python" - counts <<'PYTHON'
import json, sys
d = json.load(open(sys.argv[1]))
for name, share in ("nearly", 0.93), ("less", 0.85):
    spread = dict(d["counts"]["decays.avg_rss_bytes"])
    changed = {"least": spread["least"] * share, "most": spread["most"] * share}
    json.dump(dict(d, counts=dict(d["counts"], **{
        "decays.avg_rss_bytes": changed})), open(name, "w"))
d["counts"] = {"decays.avg_rss_bytes": {"least": 2, "most": 1}}
json.dump(d, open("wrong", "w"))
PYTHON
gate 0 "a mean that recording a busy machine changes" --against nearly \
    -a $decays t.lz4
gate 4 "a larger mean" --against less -a $decays t.lz4
like "is named" "$out" "^decays.avg_rss_bytes .*, was .* MORE"
gate 1 "a spread that is none" --against wrong -a $decays t.lz4
like "is named" "$err" "wrong: decays.avg_rss_bytes is not a spread"

# A thread that is stopped to have its call counted is not asleep: the clock
# waits until it has given everything back.
means=
for run in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    DECAY_MS=500 "$replay" -q -a ./decay.so --clock=recorded --count-returns \
        --json r t.lz4 2>"$err" || break
    means="$means $(json r avg_rss_bytes)"
done
is "all replays whose calls are counted have one mean, to a tenth" \
    "$(echo "$means" | "$python" -c \
        'v = sorted(map(int, input().split()))
print(len(v), v[-1] < 1.1 * v[0] or v)')" "20 True"
if grep -q madvise_calls r; then
    like "what is given back is counted" counts '"decays.madvise_bytes": '
    gate 4 "giving back more" --against counts -a "decays=./decay.so,\
DECAY_MS=500,FAULTS=1" t.lz4
    like "is named" "$out" "^decays.madvise_calls .* MORE"
else
    skip "what is given back is counted" "not to be counted here"
fi
tap_end
