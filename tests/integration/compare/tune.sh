#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace tune: finds settings whose effect is known, proves them by fresh
# runs and on the program, proposes nothing where nothing helps, goes on after a
# kill, ends with the best so far when it is interrupted; wrong command lines.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need_python

# Fills memory once, frees it all, and rests: an allocator that gives free pages
# back at once has a far smaller mean, and touches no page twice.
cat >idle.c <<'END'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    enum { BLOCKS = 600, SIZE = 40000 };
    static void *p[BLOCKS];
    (void)argv;
    for (int i = 0; i < BLOCKS; i++)
        memset(p[i] = malloc(SIZE), argc, SIZE);
    for (int i = 0; i < BLOCKS; i++)
        free(p[i]);
    usleep(300000);
    /* An event behind the rest, as recorded time ends with the last one. */
    p[0] = malloc(1);
    return p[0] == NULL;
}
END
# Frees nothing: no setting of the heap's pages matters.
cat >fill.c <<'END'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < 3000; i++) {
        memset(malloc(5000), 1, 5000);
        if (i % 1000 == 0)
            usleep(50000);
    }
    return 0;
}
END
# shellcheck disable=SC2086
for program in idle fill; do
    $CC -O1 -fno-builtin -o $program $program.c 2>"$err" ||
        skip_all "no compiler here"
    record $program.lz4 ./$program || exit 99
done

own=tcmalloc-mt
# tune STATUS WHAT OPTION...: leaves j and $out.
tune() {
    want=$1
    what=$2
    shift 2
    rm -f j
    fails_with "$what" "$want" timeout 250 "$malloc_trace" tune --json j "$@"
}
# get EXPRESSION: of j, as d
get() {
    "$python" -c 'import json, sys
d = json.load(open("j"))
def of(verdict, quantity):
    return [v for v in verdict if v["quantity"] == quantity][0]
best = (d["finalists"] or [None])[0]
print(eval("(" + sys.argv[1] + ")"))' "$1" 2>&1
}

# --- A gain that is known -----------------------------------------------------

tune 0 "memory of a program that rests" --default $own -a $own --runs 20 \
    --most-loss 90% \
    --html page.html idle.lz4
like "the first line proposes a setting" "$out" \
    "^Set $own,.*: [0-9.]* % less mean memory than $own "
is "memory is given back at once, or faster" "$(get '
any(e in ("TCMALLOC_AGGRESSIVE_DECOMMIT=1",) or
    e.startswith("TCMALLOC_RELEASE_") for e in
    [f for f in d["finalists"] if f["proposed"]][0]["environment"])')" True
is "the interval of the fresh runs is below 1" \
    "$(get 'of(best["fresh"], "memory")["hi"] < 1')" True
is "the ratio is that of the figures" "$(get '
abs(of(best["fresh"], "memory")["value"] /
    of(best["fresh"], "memory")["default_value"] -
    of(best["fresh"], "memory")["ratio"]) < 0.1')" True
is "keys of the JSON" "$(get '" ".join(sorted(d))')" \
    "allocators answer default disturbances elapsed_ns failures finalists format goal interrupted judged lines machine margin points replays rounds seed told_apart"
is "the budget is kept" "$(get 'sum(p["runs"] for p in d["points"]) <= 20')" \
    True
is "the default is a point, and its ratios are 1" "$(get '
[(p["memory"], p["peak"], p["time"]) for p in d["points"]
 if p["name"] == "'$own'"]')" "[(1, 1, 1)]"
is "the frontier is what none beats" "$(get '
[p["frontier"] for p in d["points"]] ==
[not any(q["memory"] <= p["memory"] and q["time"] <= p["time"] and
         (q["memory"] < p["memory"] or q["time"] < p["time"])
         for q in d["points"]) for p in d["points"]]')" True
like "a page" page.html "Which settings serve"
like "the lines to copy are on it" page.html "LD_PRELOAD="
is "no ratio of the page is beside a narrow screen" \
    "$(grep -cE 'pre class="wide"|class="scroll"><pre' page.html)" 0
like "the page has the ratios of fresh runs in a table" page.html \
    "<td>mean memory</td>(<td>[^<]*</td>){2}<td>[0-9.]+ \("
# The lines, pasted into a shell, run a program with the settings.
get 'd["lines"]' | sed -n 's/^    \(LD_PRELOAD=.*\)COMMAND$/\1/p' >paste
echo "$(cat paste) env" >paste.sh
sh paste.sh >pasted 2>&1
like "lines for the environment can be pasted" pasted "^TCMALLOC_"
get 'd["lines"]' >lines
like "calls of C" lines "    MallocExtension_Set"

tune 0 "the program itself" --default $own -a $own --runs 20 --run-program \
    --most-loss 90% -- ./idle </dev/null
is "runs of the program show it" "$(get '
of(d["program"], "memory")["hi"] < 1')" True
is "about as much as is predicted" "$(get '
abs(of(d["program"], "memory")["predicted_ratio"] -
    of(d["program"], "memory")["ratio"]) < 0.15')" True

# --- Nothing to gain ----------------------------------------------------------

tune 0 "a program that frees nothing" --default $own -a $own --runs 16 \
    --goal=peak fill.lz4
like "nothing is proposed" "$out" \
    "^Nothing beats $own by more than 2 %\\.\$"
is "no finalist is" "$(get '[f["proposed"] for f in d["finalists"]]')" \
    "[False, False]"
tune 0 "settings that fit one trace, judged on another" --default $own \
    -a $own --runs 20 --holdout fill.lz4 idle.lz4
like "the other trace shows no gain" "$out" "^There no gain is shown\\.\$"
is "by its own figures" "$(get '
0.9 < of(d["holdout"], "memory")["ratio"] < 1.1')" True

# --- Money --------------------------------------------------------------------

tune 0 "prices make cost the goal" --default $own -a $own --runs 12 \
    --price-gb-month 3 --price-cpu-hour 0.04 idle.lz4
is "cost follows from memory and time" "$(get '
(lambda v, c: (c["value"] > v["value"] / 2**30 * 3))(
    of(best["fresh"], "memory"), of(best["fresh"], "cost"))')" True
is "the goal" "$(get 'd["goal"]')" cost
tune 0 "without prices" --default $own -a $own --runs 12 idle.lz4
is "nothing is said of money" "$(grep -ciE 'cost|month' "$out")" 0

# --- Going on -----------------------------------------------------------------

runs_in() { grep -o '"round"' "$1" | wc -l; }
"$malloc_trace" tune -q --default $own -a $own --runs 4000 --resume state \
    idle.lz4 >"$out" 2>"$err" &
pid=$!
for _ in $(seq 200); do
    [ -e state ] && [ "$(runs_in state)" -gt 20 ] && break
    sleep 0.1
done
kill -9 $pid
wait $pid 2>/dev/null
before=$(runs_in state)
at_least "a search that was killed left its runs" "$before" 21
tune 0 "it goes on" --default $own -a $own --runs $((before + 20)) \
    --resume state idle.lz4
is "no run is made again" "$(get 'd["replays"] <= 20 + 12')" True
is "the runs from before count" "$(get '
sum(p["runs"] for p in d["points"]) >= '"$before"' / 2')" True
tune 0 "again, with as many runs" --default $own -a $own \
    --runs $((before + 20)) --resume state idle.lz4
is "nothing is run but the judgement" "$(get 'd["replays"]')" 0
tune 1 "the runs of another trace" --default $own -a $own --runs 10 \
    --resume state fill.lz4
like "are refused" "$err" "state: its runs are of other traces"
tune 1 "the runs beside another default" -a $own --runs 10 --resume state \
    idle.lz4
echo '{"format": "x"}' >odd
tune 1 "a file of something else" -a $own --resume odd idle.lz4
fails_with "runs that cannot be saved end the search with 1" 1 sh -c '
    ulimit -f 16
    exec "$@"' sh "$malloc_trace" tune -q --default $own -a $own --runs 60 \
    --resume full idle.lz4
like "runs that cannot be saved: the file is named" "$err" "full: File too"

rm -f j
timeout --foreground --preserve-status -s INT 8 "$malloc_trace" tune -a glibc \
    -a $own --runs 50000 --json j idle.lz4 >"$out" 2>"$err"
is "interrupted" "$?,$(get 'd["interrupted"], d["judged"]')" \
    "3,(True, False)"
like "with the best so far" "$out" "^The best of [0-9]* points is "
like "which is not proven, as is said" "$out" "no fresh runs were made"

# --- Wrong command lines ------------------------------------------------------

tune 2 "no trace"
tune 2 "a goal that is none" --goal=speed idle.lz4
tune 2 "cost without a price" --goal=cost idle.lz4
tune 2 "too few runs" --runs 3 idle.lz4
tune 2 "standard input" -
tune 2 "the program, without one" --run-program idle.lz4
tune 2 "all processes, without a program" --all-processes idle.lz4
tune 2 "a command cannot be resumed" --resume s -- ./idle
tune 2 "an allocator that is not known" -a nobody idle.lz4
tune 2 "outputs that collide" --html j idle.lz4
tune 1 "a trace that is missing" -a $own nothing.lz4
tap_end
