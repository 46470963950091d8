#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The benchmark harness, at a tiny length: every workload runs, tables and CSV
# say the same, memory over time is seen, counters are read, mistakes are told.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need_command python3
bench=$top_srcdir/bench
run=$bench/run.sh
build=$top_builddir
programs=perl,ruby,sqlite,gcc,redis
programs=$programs,replay-perl,replay-ruby,replay-sqlite,replay-gcc,replay-redis

# --- Every workload, two allocators ------------------------------------------

check "all workloads run" "$run" --build "$build" --rounds 1 --scale 0.002 \
    --allocators ours,glibc --without "$programs" --csv runs.csv \
    --table-csv table.csv
cp "$out" text
run "$run" --build "$build" --list
cut -f1 "$out" >names
"$bench/run.sh" --build "$build" --help >help
cat >check.py <<'PY'
import csv
import sys

names = [line.strip() for line in open("names")]
left_out = set(sys.argv[1].split(","))
expected = [n for n in names if n not in left_out]
what = sys.argv[2]
runs = list(csv.DictReader(open("runs.csv")))
table = list(csv.DictReader(open("table.csv")))
text = open("text").read()
if what == "names":
    assert len(names) > 50 and len(set(names)) == len(names), names
    assert left_out < set(names), left_out
    shown = open("help").read()
    assert all("\n  %s " % n in shown for n in names)
elif what == "runs":
    # Each workload once under each of both, in the order of the list.
    got = [r["workload"] for r in runs if r["allocator"] == "ours"]
    assert sorted(got) == sorted(expected), set(expected) ^ set(got)
    assert len(runs) == 2 * len(expected), len(runs)
    for r in runs:
        peak, average = int(r["peak_rss_kib"]), int(r["average_rss_kib"])
        # replay's figures are its own, less its tables
        if not r["workload"].startswith("replay-"):
            assert 500 < peak and 0 < average <= peak, r
        if r["loop_ns"]:
            assert int(r["ops"]) > 0 and int(r["loop_ns"]) > 0, r
    same = {}
    for r in runs:
        same.setdefault(r["workload"], set()).add(r["ops"])
    assert all(len(x) == 1 for x in same.values()), same
elif what == "table":
    assert {r["measure"] for r in table} == {"time", "peak RSS", "average RSS"}
    lines = [[c.strip() for c in line.split("|")[1:-1]]
             for line in text.splitlines() if line.startswith("| ")]
    rows = {line[0].split(" (")[0]: line for line in reversed(lines)}
    for n in expected:
        assert len(rows[n]) == 3, rows[n]
        float(rows[n][1])
    for r in table:
        assert r["median"] and float(r["median"]) >= 0, r
        if r["measure"] == "time" and r["allocator"] == "glibc":
            cell = rows[r["workload"]][2]
            assert cell.startswith("%.2f" % float(r["median"])), (r, cell)
            if r["ratio"]:
                assert "(%.2f+-" % float(r["ratio"]) in cell, (r, cell)
elif what == "summary":
    assert "geometric means" in text
    for m in ("time", "peak RSS", "average RSS"):
        assert "\n%s: worst row against the best peer" % m in text, m
        factors = [float(r["ratio"]) for r in table
                   if r["measure"] == m and r["allocator"] == "glibc"
                   and r["ratio"]]
        late = sum(1 / f > 1.05 for f in factors)
        assert "\n%s: rows more than 5 %% behind the best peer: %d of %d" % (
            m, late, len(factors)) in text, (m, late, len(factors))
else:
    raise SystemExit("what?")
PY
for part in names runs table summary; do
    check "what is printed and written: $part" \
        python3 check.py "$programs" "$part"
done

missing=
while read -r name; do
    grep -qE "(^|[^a-z0-9-])$name([^a-z0-9-]|\$)" \
        "$top_srcdir/doc/benchmarks.md" || missing="$missing $name"
done <names
is "doc/benchmarks.md names every workload" "$missing" ""

# --- A program that is installed, and the replay of its trace ----------------

program=perl
command -v perl >/dev/null 2>&1 || program=python
mkdir "a b"
check "$program and its replay, in a folder with a blank" \
    env TMPDIR="$work/a b" "$run" --build "$build" --rounds 1 --scale 0.1 \
    --cpu --allocators ours,glibc --only "$program,replay-$program" \
    --csv runs.csv
is "the replay told its operations" \
    "$(grep -c "^replay-$program,[a-z]*,0,[1-9]" runs.csv)" 2
is "nothing is left behind" "$(ls "a b")" ""

# --- Memory over time --------------------------------------------------------

cat >hold.c <<'END'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    size_t n = (size_t)48 << 20;
    char *volatile p = malloc(n);
    memset(p, 1, n);
    usleep(50000);
    return p[n - 1] != 1;
}
END
# shellcheck disable=SC2086
if ${CC:-cc} -o hold hold.c 2>"$err"; then
    "$build/bench/bench_run" ./hold 3>note
    read -r _ _ _ peak state average <note
    note "peak $peak KiB, average $average KiB"
    is "bench_run tells the status" "$state" 0
    [ "$peak" -gt 49000 ]
    result "the peak of a block of 48 MiB" $?
    [ "$average" -gt 4900 ] && [ "$average" -lt "$peak" ]
    result "an average below the peak, well above the start" $?
else
    skip "memory over time" "no compiler"
fi

# --- Allocators from a folder of sources --------------------------------------

# Stand-ins, which build only in the way that the real ones need.
faulty=$(cd "$top_srcdir" && pwd)/tests/integration/replay/replay_faulty.c
mkdir -p peers/rpmalloc-1.4/rpmalloc peers/rpmalloc-2.0/rpmalloc \
    peers/mimalloc-3.2/include peers/snmalloc/src/snmalloc
echo '#error "an older version"' >peers/rpmalloc-1.4/rpmalloc/rpmalloc.c
cat >peers/rpmalloc-2.0/rpmalloc/rpmalloc.c <<END
#if !ENABLE_OVERRIDE || !ENABLE_PRELOAD || !defined(NDEBUG)
#error "not to be preloaded"
#endif
#include "$faulty"
END
echo '#define MI_MALLOC_VERSION 30203' >peers/mimalloc-3.2/include/mimalloc.h
echo "#include \"$faulty\"" >peers/mimalloc-3.2/static.c
cat >peers/mimalloc-3.2/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.10)
project(mimalloc C)
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release" OR MI_BUILD_TESTS)
    message(FATAL_ERROR "not as peers.sh wants it")
endif()
add_library(mimalloc SHARED static.c)
END
echo '// nothing to build' >peers/snmalloc/src/snmalloc/snmalloc.h
"$bench/peers.sh" peers >options 2>said
is "peers.sh builds what it can" $? 0
like "says what it cannot" said "^peers.sh: .*/peers/snmalloc does not build: see "
expected="--extra rpmalloc=$PWD/peers/built/rpmalloc/librpmalloc.so"
if command -v cmake >/dev/null; then
    expected="$expected
--extra mimalloc3=$PWD/peers/built/mimalloc3/libmimalloc.so"
fi
is "prints options of run.sh" "$(cat options)" "$expected"
# shellcheck disable=SC2046
check "run.sh takes them" "$run" --build "$build" --rounds 1 --scale 0.002 \
    --allocators ours --only pairs,random $(cat options)
is "and has their columns" \
    "$(sed -n 's/^| workload *| *//p' "$out" | tr -d '| ' | head -n 1)" \
    "ours$(sed 's/^--extra //; s/=.*//' options | tr -d '\n')"
mkdir none
fails_with "a folder without sources" 1 "$bench/peers.sh" none
like "says what is missing" "$err" "^peers.sh: no .*/none/rpmalloc\*/"
fails_with "no folder" 2 "$bench/peers.sh" nowhere

# --- Counters, contention, switches ------------------------------------------

check "counters" "$run" --build "$build" --counters --scale 0.01 --only \
    pairs,frag
like "a column for each" "$out" \
    '^\| workload +\| +thread cache misses .* system bytes returned \|$'
pairs=$(sed -n 's/^| pairs *| *\([0-9]*\) .*/\1/p' "$out")
frag=$(sed -n 's/^| frag *| *\([0-9]*\) .*/\1/p' "$out")
[ "$frag" -gt 100 ] && [ "$pairs" -lt 100 ]
result "one loop misses the thread's cache, one does not" $?

check "replays beside programs" "$bench/fidelity.py" -b "$build" -n 1 single
like "a row an allocator" "$out" "^. tcmalloc-mt . [0-9.]* MiB, "
if have perl; then
    check "replays of real programs" "$bench/fidelity_programs.py" -b "$build" \
        -n 1 perl
    like "the counters' deviations in two modes" "$out" "^. perl, switch . [1-9]"
    like "a row an allocator of what is missed" "$out" \
        "^. perl, tcmalloc-mt . [0-9.]* s, [0-9.]* MiB . "
else
    skip "replays of real programs" "no perl here"
fi
check "contention" "$bench/contention.sh" --build "$build" --rounds 1 \
    --scale 0.002 --threads 1,3 --allocators ours,glibc --csv contention.csv
is "each level with each number of threads" \
    "$(grep -cE '^(own|central|transfer|pages),[13],(ours|glibc),0,[1-9]' \
    contention.csv)" 16

check "switches of thread caches" env LD_PRELOAD="$minimal" \
    "$build/bench/bench_switch" 0.001
like "what one takes" "$out" '^switch among 1,000 caches +[0-9.]+ ns$'
fails_with "without a library that can" 77 "$build/bench/bench_switch" 0.001

# --- Mistakes ----------------------------------------------------------------

fails_with "an unknown workload" 2 "$run" --build "$build" --only nosuch
like "is named" "$err" 'nosuch'
fails_with "an unknown allocator" 2 "$run" --build "$build" --allocators nosuch
fails_with "a folder without the programs" 1 "$run" --build "$work"
cat >broken.c <<'END'
#include <stddef.h>
void *malloc(size_t n) {
    (void)n;
    return NULL;
}
END
# shellcheck disable=SC2086
if ${CC:-cc} -shared -fPIC -fno-builtin -o broken.so broken.c 2>"$err"; then
    fails_with "an allocator that fails" 1 "$run" --build "$build" --rounds 1 \
        --scale 0.001 --allocators ours --extra "broken=$work/broken.so" \
        --only fifo,lifo
    like "is left out of the row" "$out" '^\| fifo .*\| +- \|$'
fi
tap_end
