#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Text of others, in traces, results and names, neither commands the terminal
# nor turns the text around it, whichever command prints it.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need_python

# ESC, BEL, a C1 control, a turn of direction, a byte that is no UTF-8, newline.
cat >names.py <<'END'
NAME = b"a\x1b[31m\x07\xc2\x9b32m\xe2\x80\xaegpj\x9b\nb"
END
cat >look.py <<'END'
# Says what in the files named may not go to a terminal.
import re, sys
for name in sys.argv[1:]:
    data = open(name, "rb").read()
    text = data.decode("utf-8", "surrogateescape")
    for m in re.finditer("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f"
                         "\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text):
        line = text[:m.start()].count("\n") + 1
        print("%s:%d: %r" % (name, line, text[m.start() - 20:m.start() + 9]))
END
evil=$("$python" -c '
import sys
from names import NAME
sys.stdout.buffer.write(NAME)')
cat >program.c <<'END'
#include <stdlib.h>
#include <sys/prctl.h>
int main(int argc, char **argv) {
    prctl(PR_SET_NAME, argv[argc - 1]);
    for (int i = 0; i < 2000; i++)
        free(malloc((size_t)(i * 7919 % 500)));
    return malloc(100) == NULL;
}
END
mkdir "$evil"
# shellcheck disable=SC2086
$CC -O1 -fno-builtin -o "$evil/$evil" program.c 2>"$err" ||
    skip_all "no compiler here"

# quiet WHAT: neither $out nor $err nor a file named commands a terminal; and
# they have the name. Carriage returns of progress are none of a pipe.
quiet() {
    what=$1
    shift
    "$python" look.py "$out" "$err" "$@" >odd
    is "$what: commands no terminal" "$(cat odd)" ""
}
named() {
    like "$1: has the name" "$2" '(a\\x1b|a\\033|a\\u001b|a\?)\[31m'
}

run "$malloc_trace" record --sites=stack -o "raw$evil" "$evil/$evil" "$evil"
is "record: status" "$status" 0
quiet record
named record "$err"
mv "raw$evil" raw
run "$malloc_trace" record -o "$evil/none/t" "$evil/$evil"
quiet "record to a folder that is not there"
run "$malloc_trace" record "./$evil"
quiet "record of no program"
"$postprocess" -q raw p 2>"$err"
for command in "info" "info --all" "dump" "report" "report --by=function" \
    "report --by=thread" "report --tree" "report --columns" \
    "report --stacks 5 --threads" "report --to=folded"; do
    for file in raw p; do
        # shellcheck disable=SC2086
        run "$malloc_trace" $command $file
        quiet "$command of $file ($status)"
    done
done
run "$malloc_trace" info p
named info "$out"
run "$malloc_trace" info --json - p
quiet "JSON"
named JSON "$out"
run "$malloc_trace" report p
named report "$out"
cp p "p$evil"
run "$malloc_trace" info "p$evil" "p$evil"
quiet "the name of a trace"
named "the name of a trace" "$out"
run "$malloc_trace" report --to=html -o page.html "p$evil"
quiet "a page" page.html
run "$malloc_trace" report --to=csv "p$evil"
quiet "CSV"
run "$postprocess" raw "again$evil"
quiet postprocess
run "$replay" p
quiet replay
named replay "$out"
cp "$minimal" "lib$evil.so"
run env LD_PRELOAD="$work/lib$evil.so" "$replay" -n 2 p
quiet "replay under a library"
run "$malloc_trace" convert --to=text p -
quiet convert

run "$malloc_trace" compare -a glibc -a "n$evil" p
quiet "a contestant's name that is no UTF-8"
evil=$("$python" -c '
import sys
from names import NAME
sys.stdout.buffer.write(NAME[:-3] + NAME[-2:])')
cp p "p$evil"
cp "$minimal" "lib$evil.so"
run "$malloc_trace" compare -n 1 -a glibc -a "n$evil=$work/lib$evil.so" \
    --sweep "X=$evil" --html page.html --budget 'time<=1' "p$evil"
quiet compare page.html
named compare "$out"
run "$malloc_trace" compare -n 1 -a glibc -a "n$evil=$work/gone$evil.so" \
    -a tcmalloc-mt --html page.html p
quiet "compare with a library that is gone" page.html
named "compare with a library that is gone" "$out"
run "$malloc_trace" compare -n 1 -a glibc -a "n$evil=$work/gone" -a tcmalloc-mt \
    --json - p
quiet "compare to JSON"
"$malloc_trace" compare -q -n 9 -a glibc -a tcmalloc-mt --plan plan p
sh plan/jobs.txt
"$python" - <<'END'
import json, os
from names import NAME
evil = NAME.decode("utf-8", "ignore")
def put(o):
    for k, v in o.items():
        if isinstance(v, dict):
            put(v)
        elif isinstance(v, str) and k in ("host", "processor", "kernel",
                "c_library", "huge_pages", "governor", "allocator", "why"):
            o[k] = evil
for name in os.listdir("plan/results"):
    path = "plan/results/" + name
    run = json.load(open(path))
    put(run)
    if run["contestant"] != "glibc":
        run["contestant"] = evil
        if run["round"] == 3:
            run["ok"], run["why"] = False, evil
    json.dump(run, open(path, "w"))
plan = json.load(open("plan/plan.json"))
plan["contestants"] = [dict(c, name=evil) if c["name"] != "glibc" else c
                       for c in plan["contestants"]]
plan["command"] = plan["traces"][0]["name"] = evil
json.dump(plan, open("plan/plan.json", "w"))
END
run "$malloc_trace" compare --html page.html --json v.json --merge plan
quiet "merge" page.html v.json
named merge "$out"
rm plan/results/4.*
run "$malloc_trace" compare --merge plan
quiet "merge with results that are missing"
"$malloc_trace" compare -q --save-baseline counts p
"$python" - <<'END'
import json
from names import NAME
counts = json.load(open("counts"))
counts["counts"][NAME.decode("utf-8", "ignore")] = {"least": 9, "most": 9}
json.dump(counts, open("counts", "w"))
END
run "$malloc_trace" compare --against counts p
quiet "saved counts"
named "saved counts" "$out"
tap_end
