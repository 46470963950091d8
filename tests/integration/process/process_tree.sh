#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Trees of processes with %p: each process a whole trace, and who began whom.
# And what of a tree is not recorded: the children of a recording by call.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/process/process_target" "$built/recorder/control_target" "$postprocess" \
    "$malloc_trace"
need_python
target=$built/process/process_target
cd "$work" || exit 99

# names: the traces in folder t, also those that are a spool alone.
names() { find t -name 'r.*' | sed 's/\.spool$//' | LC_ALL=C sort -u; }

cat >tree.py <<'PY'
# Checks the tree that "malloc-trace info" makes of the files of one run.
# Arguments: its JSON, its text, the least number of processes, and least
# numbers of events by executable ("cc1=100").
import itertools, json, sys
files = json.load(open(sys.argv[1]))["files"]
rec = [f["recording"] for f in files]
known = {r["random"] for r in rec}
pids = {r["pid"] for r in rec}
def has_parent(r):
    if int(r["parent_random"], 16) != 0:
        return r["parent_random"] in known
    return r["parent_pid"] in pids or any(
        x["pid"] == r["pid"] and x["wall_ns"] < r["wall_ns"] for x in rec)
problems = []
roots = [r for r in rec if not has_parent(r)]
if len(roots) != 1:
    problems.append("roots: %s" % [(r["executable"], r["pid"], r["parent_pid"])
                                   for r in roots])
text = open(sys.argv[2]).read().split("process tree\n")[1].splitlines()
text = list(itertools.takewhile(lambda line: line.startswith("  "), text))
if len(text) != len(files):
    problems.append("%d files, %d lines" % (len(files), len(text)))
if sum(line.startswith("  ") and line[2] != " " for line in text) != 1:
    problems.append("the text has not one root")
if len(pids) < int(sys.argv[3]):
    problems.append("%d processes" % len(pids))
for want in sys.argv[4:]:
    name, least = want.rsplit("=", 1)
    got = sum(f["events"] for f in files
              if name in f["recording"]["executable"])
    if got < int(least):
        problems.append("%s: %d events" % (name, got))
print("\n".join(problems) or "good")
PY

# tree NAME PROCESSES EVENTS... -- CMD...
tree() {
    tree_name=$1
    tree_least=$2
    shift 2
    tree_events=
    while [ "$1" != -- ]; do
        tree_events="$tree_events $1"
        shift
    done
    shift
    rm -rf t
    mkdir t
    # The last process may outlive the first (Python's resource tracker does):
    # all of them have stderr.
    {
        record "$work/t/r.%p.$suffix" "$@" 2>&1 >out
        echo $? >status
    } | cat >err
    is "$tree_name: exit status" "$(cat status)" 0
    diag 5 <err
    tree_bad=
    for f in $(names); do
        "$postprocess" --quiet --json json "$f" p 2>err || \
            tree_bad="$tree_bad $f"
        [ "$(json json complete dropped_events unmatched_frees)" = \
            "true 0 0" ] || tree_bad="$tree_bad $f"
    done
    is "$tree_name: every trace is whole" "$tree_bad" ""
    # shellcheck disable=SC2046
    "$malloc_trace" info --json info.json $(names) >info.out 2>err
    is "$tree_name: info" $? 0
    diag 5 <err
    # shellcheck disable=SC2086
    is "$tree_name: the tree" "$("$python" tree.py info.json info.out \
        "$tree_least" $tree_events 2>&1)" good
    is "$tree_name: nothing hidden is left" "$(find t -name '.*' -type f)" ""
}

cat >script.sh <<'SH'
target=$1
"$target" after_exec
"$target" plain | "$target" after_exec | cat
("$target" after_exec; ("$target" after_exec; :); :)
"$target" after_exec &
"$target" fork 50 &
x=$("$target" after_exec; echo done)
wait
[ "$x" = done ]
SH
tree "a shell script" 11 process_target=2000 -- sh script.sh "$target"

if have make && have cc; then
    mkdir project
    for n in a b c; do
        echo "int $n(int x); int $n(int x) { return x + 1; }" >project/$n.c
    done
    echo 'int a(int); int main(void) { return a(-1); }' >project/main.c
    cat >project/Makefile <<'MAKE'
objects = a.o b.o c.o main.o
prog: $(objects)
	cc -o $@ $(objects)
%.o: %.c
	cc -c -o $@ $<
MAKE
    tree "make -j2" 5 make=500 -- make -s -C project -j2
    check "make -j2: what it made runs" project/prog
else
    skip "make -j2" "no make or cc"
fi

cat >pool.py <<'PY'
import multiprocessing, sys
def work(n):
    return sum(len(bytes(i * 1000)) for i in range(n))
if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    with multiprocessing.Pool(2) as pool:
        print(sum(pool.map(work, [10, 20, 30])))
        pool.close()
        pool.join()
PY
for how in fork spawn; do
    if "$python" -c 'import multiprocessing.synchronize' 2>/dev/null; then
        tree "a pool, $how" 3 python=3000 -- "$python" pool.py $how
        is "a pool, $how: its result" "$(cat out)" 670000
    else
        skip "a pool, $how" "no multiprocessing"
    fi
done

# malloc-trace record names the files of a tree, and says how many more.
rm -rf t
mkdir t
# shellcheck disable=SC2016
"$malloc_trace" record -o "t/r.%p.$suffix" -- \
    sh -c 'for i in 1 2 3 4 5 6 7; do "$1" fork 1; done' sh "$target" 2>err
is "record: exit status" $? 0
all=0 told=0
for f in $(names); do
    all=$((all + 1))
    ! grep -q "$f" err || told=$((told + 1))
done
more=$(sed -n 's/^  and \([0-9]*\) more.*/\1/p' err)
is "record: tells of all" $((told + ${more:-0})) $all
at_least "record: of many processes" "$(names | wc -l)" 28

# A child can be asked as soon as it has recorded something.
rm -rf t
mkdir t
mkfifo in pids
env LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT="t/r.%p" \
    TCMALLOC_TRACE_CONTROL=1 \
    "$target" child_waits 10 <in >pids &
parent=$!
exec 7>in
read -r child <pids
n=0
until "$malloc_trace" ctl "$child" status >out 2>err || [ $n = 300 ]; do
    sleep 0.02
    n=$((n + 1))
done
check "a child with few events answers" grep -q "recording to .*/t/r.$child" out
[ ! -e "t/r.$child" ]
is "it has its spool alone until then" $? 0
"$malloc_trace" ctl "$child" flush >out 2>err
is "flush" $? 0
at_least "the child's calls are in its file" \
    "$("$python" "$test_lib/rawdump.py" "t/r.$child" | grep -c ' malloc 70002 ')" 10
exec 7>&-
wait $parent
is "the exit status is the program's" $? 0
is "all of the child" \
    "$("$python" "$test_lib/rawdump.py" "t/r.$child" | grep -c ' malloc 70002 ')" 20

# By call: the process that calls, and no other.
for from in "t/e.%p" t/e; do
    rm -rf t
    mkdir t
    TCMALLOC_TRACE_START=0 record "$from" "$built/recorder/control_target" \
        forks t/by_call
    is "by call, environment $from: exit status" $? 0
    is "by call, environment $from: one file" \
        "$(find t -type f | tr '\n' ' ')" "t/by_call "
    "$python" "$test_lib/rawdump.py" t/by_call >list
    is "by call, environment $from: the parent's calls alone" \
        "$(grep -c ' malloc 60002 ' list) $(grep -c ' malloc 60005 ' list)" \
        "20 0"
done
tap_end
