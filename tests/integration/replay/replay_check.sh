#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# replay --check finds an allocator's faults and says where they are, in all
# modes of threads, and none in an allocator that is right. replay --latency
# times as many calls as it was told, by kind and size.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$postprocess" "$replay"
if [ "${TCM_SANITIZED:-no}" != no ]; then
    skip_all "the sanitizers' runtime replaces malloc"
fi
# shellcheck disable=SC2086
if ! $CC -O1 -fno-builtin -o program \
    "$top_srcdir/tests/integration/replay/replay_real.c" -pthread 2>"$err" ||
    ! $CC -O1 -fPIC -shared -fno-builtin -o faulty.so \
        "$top_srcdir/tests/integration/replay/replay_faulty.c" 2>"$err" ||
    ! $CC -O1 -fPIC -shared -fno-builtin -DODD_FORWARDS -o wrapper.so \
        "$top_srcdir/tests/integration/compare/compare_odd.c" 2>"$err"; then
    skip_all "no program can be made here"
fi
record hand.lz4 ./program hand
check "a trace" "$postprocess" -q hand.lz4 hand.p
record born.lz4 ./program born 200
check "another" "$postprocess" -q born.lz4 born.p

# --- Allocators that are right ------------------------------------------------

for library in "" libjemalloc.so.2 libmimalloc.so.2 libtcmalloc_minimal.so.4 \
    "$minimal" ./faulty.so; do
    name=${library:-C library}
    name=${name##*/}
    if [ -n "$(LD_PRELOAD=$library true 2>&1)" ]; then
        note "$name is not here"
        continue
    fi
    for mode in none real; do
        LD_PRELOAD=$library "$replay" --check --threads=$mode --json j \
            hand.p >"$out" 2>"$err"
        is "$name, $mode: no fault" "$?,$(json j failed_allocations)" 0,0
        grep -v warning "$err" | diag
        like "$name, $mode: in the JSON" j '"faults": 0,'
    done
done
LD_PRELOAD=$minimal "$replay" --check --threads=switch -q hand.p 2>"$err"
is "caches that are switched: no fault" $? 0

# --- Allocators that are not --------------------------------------------------

# faulty FAULT TEXT TRACE...: it is found and named.
faulty() {
    fault=$1
    text=$2
    shift 2
    MALLOC_FAULT=$fault LD_PRELOAD=$work/faulty.so "$replay" -q --check "$@" \
        2>"$err"
    is "$fault $*: status" $? 5
    like "$fault $*: what and where" "$err" "$text"
}
at='operation [0-9]* .[a-z]* of [0-9]* bytes, slot [0-9]*, thread [0-9]*.'
for mode in none real; do
    set -- --threads=$mode hand.p
    faulty overlap "$at: the block of [0-9]* bytes at 0x[0-9a-f]* overlaps \
the one of [0-9]* bytes at 0x[0-9a-f]*, made by .*operation [0-9]*" "$@"
    faulty zeros "$at: byte [0-9]* of the block at 0x[0-9a-f]* is not zero" "$@"
    faulty misalign "$at: the block at 0x[0-9a-f]* is not at a multiple of" "$@"
    faulty scribble "$at: byte 0 of the block of [0-9]* bytes at 0x[0-9a-f]*, \
made by .*operation [0-9]*, has changed while it lived" "$@"
    faulty move "$at: byte [0-9]* of .* has changed when it was resized" "$@"
    faulty small "$at: the usable size of .* is [0-9]*, below its size" "$@"
    faulty crash "the allocator failed with signal 6 .ABRT., .*operation" "$@"
done
# The place in the trace is exact where operations stand in its order.
MALLOC_FAULT=zeros LD_PRELOAD=$work/faulty.so "$replay" -q --check \
    --threads=none --json j hand.p 2>"$err"
like "the first fault is in the JSON" j \
    '"operation [0-9]* .calloc of 5 bytes, slot [0-9]*'
make=$top_builddir/tests/unit/tools/replay_make
"$make" python many.p 400000 >/dev/null || exit 99
# How much comes back depends on the program: threads may keep to their arenas.
MALLOC_FAULT=never LD_PRELOAD=$work/faulty.so "$replay" -q --check many.p \
    2>"$err"
is "an allocator that uses no memory again is not at fault" $? 0
# Nor is one whose blocks glibc's malloc_usable_size would misread.
cat >plain.c <<'END'
#include <string.h>
static char memory[64 << 20] __attribute__((aligned(16)));
static size_t used;
void *malloc(size_t n) {
    size_t at = __atomic_fetch_add(&used, (n + 31) / 16 * 16, __ATOMIC_RELAXED);
    if (at + n + 16 > sizeof(memory))
        return NULL;
    *(size_t *)(memory + at) = n;
    return memory + at + 16;
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t size) { return malloc(n * size); }
void *realloc(void *old, size_t n) {
    void *p = malloc(n);
    if (old != NULL && p != NULL) {
        size_t had = ((size_t *)old)[-2];
        memcpy(p, old, had < n ? had : n);
    }
    return p;
}
END
check "an allocator without a malloc_usable_size" $CC -O1 -fPIC -shared \
    -fno-builtin -o plain.so plain.c
"$make" pairs few.p 40000 >/dev/null || exit 99
LD_PRELOAD=$work/plain.so "$replay" -q --check few.p 2>"$err"
is "an allocator without a malloc_usable_size is not at fault" $? 0
# A check does not write what the program never wrote of large blocks.
cat >large.c <<'END'
#include <stdlib.h>
#include <string.h>
#define GIB ((size_t)1 << 30)
int main(void) {
    char *p = malloc(3 * GIB), *q;
    memset(p, 1, 5 << 20);
    p = realloc(p, 4 * GIB);
    q = calloc(1, 2 * GIB);
    q[100] = 1;
    free(p);
    free(q);
    return 0;
}
END
if $CC -O0 -o large large.c 2>"$err" && record large.lz4 ./large; then
    "$replay" --check --json j large.lz4 >"$out" 2>"$err"
    is "large blocks that the program hardly wrote: exit status" $? 0
    at_least "they take little memory" \
        $((64 << 20)) "$(json j peak_rss_bytes)"
else
    skip "large blocks" "no program can be made, or recorded, here"
fi

# --- Allocators that are wrong from the first call on ------------------------

# The replayer itself takes nothing of them: it has all figures, and tells the
# fault.
"$make" large large.p 2000 >/dev/null || exit 99
"$make" threads threads.p 20000 >/dev/null || exit 99
large_ops=$("$replay" -q --json j large.p 2>"$err" && json j ops)
threads_ops=$("$replay" -q --json j threads.p 2>"$err" && json j ops)
# early FAULT MODE TRACE OPERATIONS [LIBRARY]: all figures.
early() {
    timeout 60 env MALLOC_FAULT="$1" MALLOC_FAULT_FROM=0 ODD="$1" \
        LD_PRELOAD="$work/${5:-faulty.so}" "$replay" --threads="$2" --json j \
        "$3" >"$out" 2>"$err"
    is "$1 at once, $2, $3: all operations" "$?,$(json j ops)" "0,$4"
    like "$1 at once, $2, $3: its name" "$out" "^allocator +${5:-faulty.so}"
    like "$1 at once, $2, $3: its memory" "$out" "^resident memory +start [0-9]"
}
for mode in none real; do
    for fault in zeros misalign scribble move small third poison; do
        early $fault $mode large.p "$large_ops"
        early $fault $mode threads.p "$threads_ops"
    done
    early dirty $mode large.p "$large_ops" wrapper.so
    early dirty $mode threads.p "$threads_ops" wrapper.so
    MALLOC_FAULT_FROM=0
    export MALLOC_FAULT_FROM
    set -- --threads=$mode large.p
    faulty zeros "^replay: .*$at: byte 0 of the block at 0x[0-9a-f]* is not \
zero" "$@"
    faulty misalign "$at: the block at 0x[0-9a-f]* is not at a multiple of" "$@"
    faulty overlap "$at: the block of [0-9]* bytes at 0x[0-9a-f]* overlaps" "$@"
    faulty scribble "$at: byte 0 of the block of .* has changed while" "$@"
    faulty move "$at: byte [0-9]* of .* has changed when it was resized" "$@"
    faulty small "$at: the usable size of .* is [0-9]*, below its size" "$@"
    faulty abort "failed with signal 6 .ABRT., .*operation [0-9]* .calloc" "$@"
    unset MALLOC_FAULT_FROM
    ODD=dirty LD_PRELOAD=$work/wrapper.so "$replay" -q --check "$@" 2>"$err"
    is "dirty, $mode: status" $? 5
    like "dirty, $mode: what and where" "$err" \
        "^replay: .*$at: byte 0 of the block at 0x[0-9a-f]* is not zero"
    for fault in poison none; do
        timeout 60 env MALLOC_FAULT=$fault MALLOC_FAULT_FROM=0 \
            LD_PRELOAD="$work/faulty.so" "$replay" -q --check \
            --threads=$mode threads.p 2>"$err"
        is "$fault, $mode: no fault" $? 0
    done
done

# No block is asked for but those of the trace.
"$malloc_trace" info -q --json i large.p || exit 99
want=$(tr -d ' ",' <i | awk -F: '
    /^(malloc|calloc|realloc):/ && !seen[$1]++ { n += $2 } END { print n }')
asked() {
    rm -f count
    asked_what=$1
    asked_want=$2
    shift 2
    COUNT=count LD_PRELOAD=$work/wrapper.so "$replay" "$@" >"$out" 2>"$err"
    is "$asked_what: asked for" "$(cat count)" "$asked_want"
}
asked "a plain run" "$want" --threads=none large.p
asked "a run with everything" "$want" --threads=none --check --latency \
    --timeline t.csv --json j --log log large.p
asked "a run from standard input" "$want" - <large.p
asked "a trace that is none" 0 faulty.so
asked "the process that makes several runs" 0 --repeat=3 --json j large.p
# Each thread has a table of the C library's.
asked "threads, one of which deals" $((want + 1)) --threads=real large.p

# --- Latency ------------------------------------------------------------------

ops=$("$replay" -q --json j hand.p 2>"$err" && json j ops)
counts() {
    tr -d ' ,' <"$1" | awk -F: '
        /"latency"/ { on = 1 }
        on && /"sizes"/ { skip = 1 }
        on && /^\]/ { skip = 0 }
        on && !skip && /"count"/ && first++ == 0 { all = $2; next }
        on && !skip && /"count"/ { n += $2 }
        /"worst"/ { on = 0 }
        END { print all + 0 "," n + 0 }'
}
for mode in none real; do
    "$replay" -q --latency=1/1 --threads=$mode --json j hand.p 2>"$err"
    is "every call is timed ($mode)" "$?,$(counts j)" "0,$ops,$ops"
    "$replay" --latency=1/64 --threads=$mode --json j hand.p >"$out" \
        2>"$err"
    is "a part of them ($mode)" $? 0
    at_least "some are ($mode)" "$(counts j | cut -d, -f2)" 1
    [ "$(counts j | cut -d, -f2)" -lt $((ops / 10)) ]
    result "most are not ($mode)" $?
    like "a table ($mode)" "$out" "^malloc .* ns"
    like "the worst, with its place ($mode)" "$out" "^worst .*operation [0-9]"
done
# An allocator that waits 200 ns in each call shows it in every quantile.
# shellcheck disable=SC2086
$CC -O1 -fPIC -shared -fno-builtin -o slow.so \
    "$top_srcdir/tests/integration/replay/replay_real_malloc.c" 2>"$err" || exit 99
LD_PRELOAD=$work/slow.so "$replay" -q --latency=1/1 --threads=none --json j \
    hand.p 2>"$err"
p50=$(tr -d ' ,' <j | sed -n '/"malloc":{/,/p50/s/"p50_ns":\([0-9]*\).*/\1/p')
at_least "200 ns in the allocator are 200 ns" "$p50" 180
tap_end
