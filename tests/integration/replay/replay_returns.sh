#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# replay --count-returns: the allocator's calls that give memory back to the
# system and take it, from any code, as an allocator counts them itself; and the
# numbers of real allocators, which do not vary under the recorded clock.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$replay"
[ "${TCM_SANITIZED:-no}" = no ] ||
    skip_all "the sanitizers' runtimes ask for memory, too"
[ "$(uname -m)" = x86_64 ] || skip_all "the test allocator is for x86-64"
make=$top_builddir/tests/unit/tools/replay_make
need "$make"
source=$here/replay/replay_returns.c
$CC -O1 -D_GNU_SOURCE -fPIC -shared -fno-builtin -o own.so "$source" -pthread \
    2>"$err" || skip_all "no library can be made here"
$CC -O1 -D_GNU_SOURCE -DDO_DENY -o deny "$source" 2>"$err" ||
    skip_all "no program can be made here"
$CC -O1 -D_GNU_SOURCE -DDO_PROGRAM -fno-builtin -o program \
    "$here/replay/replay_clock.c" -pthread 2>"$err" ||
    skip_all "no program can be made here"

keys="madvise_calls madvise_bytes munmap_calls munmap_bytes mmap_calls mmap_bytes"

# numbers JSON: a line for each key.
numbers() { for key in $keys; do json "$1" "$key"; done; }
# differences A B: line by line.
differences() { paste "$1" "$2" | awk '{ print $2 - $1 }'; }

# --- As the allocator counts --------------------------------------------------

# The loader and the C library ask for the same in both traces.
"$make" pairs few.p 3000 >few.truth || exit 99
"$make" pairs many.p 9000 >many.truth || exit 99
for mode in none real; do
    for trace in few many; do
        LD_PRELOAD=$work/own.so RETURNS_OUT=$trace.own "$replay" \
            --threads=$mode --count-returns --json $trace.j $trace.p \
            >"$out" 2>"$err"
        is "$mode: exit status" $? 0
        if grep -q 'cannot be counted' "$err"; then
            skip_all "system calls cannot be counted here"
        fi
        numbers $trace.j >$trace.told
        for way in madvise munmap; do
            json $trace.j ${way}_resident_bytes
        done >>$trace.told
    done
    differences few.own many.own >own
    differences few.told many.told >told
    check "$mode: each call, its bytes, and those resident" diff own told
    at_least "$mode: calls of all kinds, and resident bytes of both" \
        "$(awk '(NR % 2 == 1 || NR == 8) && $1 > 100' told | wc -l)" 5
    at_least "$mode: of the bytes given back, not all were resident" \
        "$(sed -n 4p told)" "$(($(sed -n 8p told) + 1))"
    at_least "$mode: not more than it made" "$(sed -n 1p many.own)" \
        "$(sed -n 1p many.told)"
done
LD_PRELOAD=$work/own.so "$replay" --count-returns few.p >"$out" 2>"$err"
like "the report, given back" "$out" \
    '^given back +[0-9.]+ [KMG]iB by [0-9,]+ madvise, [0-9.]+ [KMG]iB by [0-9,]+ munmap$'
like "the report, resident" "$out" \
    '^of that +[0-9.]+ [KMG]iB and [0-9.]+ [KMG]iB were resident$'
like "the report, taken" "$out" '^taken +[0-9.]+ [KMG]iB by [0-9,]+ mmap$'

LD_PRELOAD=$work/own.so "$replay" --json j many.p >"$out" 2>"$err"
is "without the option there are no counts" "$(json j madvise_calls)" missing

# Memory of the replayer's own is not the allocator's: tables for a million
# blocks come and go while a malloc that never asks the kernel runs.
"$make" pairs big.p 2000000 >big.truth || exit 99
"$replay" --count-returns --json j big.p >"$out" 2>"$err"
grown=$(($(json j peak_rss_bytes) - $(json j start_rss_bytes)))
taken=$(($(json j mmap_bytes) - $(json j munmap_bytes)))
note "the C library: taken $(json j mmap_bytes), resident memory grew by $grown"
[ "$(json j mmap_bytes)" -ge $((grown - 1000000)) ] &&
    [ "$(json j mmap_bytes)" -le $((grown + 4000000)) ] &&
    [ "$taken" -le "$(json j mmap_bytes)" ]
result "the C library's heap, and no table of the replayer's" $?

# --- Recorded time ------------------------------------------------------------

record t.lz4 ./program 2.5
LD_PRELOAD=$work/own.so RETURNS_THREAD=1 "$replay" --clock=recorded \
    --count-returns --json j t.lz4 >"$out" 2>"$err"
is "a thread that takes no signals: exit status" $? 0
numbers j >first
LD_PRELOAD=$work/own.so "$replay" --clock=recorded --count-returns --json j \
    t.lz4 >"$out" 2>"$err"
numbers j >without
at_least "it gives back in recorded time" \
    "$(differences without first | sed -n 1p)" 24
LD_PRELOAD=$work/own.so RETURNS_THREAD=1 "$replay" --clock=recorded \
    --count-returns --json j t.lz4 >"$out" 2>"$err"
numbers j >second
check "as often the second time" diff first second
is "nobody is late" "$(json j clock_stragglers)" 0

# Real allocators: numbers of two runs are equal, and peaks to 1 %, since the
# kernel counts pages for each processor.
for library in "" "$minimal" libjemalloc.so.2 libmimalloc.so.2 \
    libtcmalloc_minimal.so.4; do
    [ -z "$(LD_PRELOAD=$library true 2>&1)" ] || continue
    for run in 1 2; do
        LD_PRELOAD=$library MALLOC_CONF=dirty_decay_ms:1000 "$replay" \
            --clock=recorded --count-returns --json j$run t.lz4 \
            >"$out" 2>"$err"
        is "${library##*/}: exit status" $? 0
        numbers j$run >n$run
    done
    check "${library##*/}: two runs, the same numbers" diff n1 n2
    a=$(json j1 peak_rss_bytes)
    b=$(json j2 peak_rss_bytes)
    note "peaks $a and $b"
    # The kernel's count lags by up to 32 pages a processor.
    [ $((a > b ? a - b : b - a)) -le $((a / 100 + 524288)) ]
    result "${library##*/}: two runs, the same peak" $?
done

# --- Where it is impossible ---------------------------------------------------

./deny true
if [ $? = 77 ]; then
    skip "without filters" "they are not possible here, or not forbidden"
else
    check "without filters: replays" ./deny "$replay" --count-returns \
        --json j few.p
    like "without filters: said" "$err" \
        'count-returns: calls for memory cannot be counted: '
    is "without filters: no counts" "$(json j mmap_calls)" missing
    is "without filters: none in the report" "$(grep -c '^taken' "$out")" 0
fi
tap_end
