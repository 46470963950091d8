#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Statistics of allocators after a replay agree with the trace.
. "$top_srcdir/tests/lib/harness.sh"
if [ "${TCM_SANITIZED:-no}" != no ]; then
    skip_all "the sanitizers' runtime replaces malloc"
fi

make=$top_builddir/tests/unit/tools/replay_make
"$make" sizes p.p 20000 >p.truth || exit 99
"$make" nothing n.p >n.truth || exit 99
check "a dump" "$malloc_trace" dump p.p
cp "$out" p.text

# told LIBRARY PATTERN: it says something of itself on standard error, and the
# same kind of thing in a file.
told() {
    name=${1##*/}
    name=${name:-glibc}
    env ${1:+LD_PRELOAD="$1"} "$replay" --allocator-stats p.p >"$out" 2>"$err"
    is "$name on standard error" $? 0
    like "$name: in its words" "$err" "$2"
    like "$name: with the report" "$out" "^resident memory"
    env ${1:+LD_PRELOAD="$1"} "$replay" --allocator-stats=stats p.p >"$out" \
        2>"$err"
    is "$name in a file" "$?,$(grep -Ec "$2" "$err")" 0,0
    like "$name: in its words" stats "$2"
}
# there LIBRARY: whether the loader has it.
there() {
    LD_PRELOAD=$1 "$replay" --version 2>&1 >/dev/null | grep -q . && {
        skip "$1" "not installed"
        return 1
    }
    return 0
}

told "" '<malloc version='
told "$minimal" '^MALLOC: .*in use by application'
! there libtcmalloc_minimal.so.4 ||
    told libtcmalloc_minimal.so.4 '^MALLOC: .*in use by application'
! there libmimalloc.so.2 || told libmimalloc.so.2 '^ *reserved:'

# agrees KIND LIBRARY SUFFIX SETTING
agrees() {
    for trace in n p; do
        env ${2:+LD_PRELOAD="$2"} "$4" "$replay" -q \
            --allocator-stats=$trace.$3 $trace.p
    done
    is "$1 agrees with the trace" "$("$python" "$here/replay/replay_stats.py" "$1" \
        p.text n.$3 p.$3 2>&1)" same
}
if [ -n "$python" ]; then
    # Blocks in a thread's cache count as in use.
    agrees glibc "" xml GLIBC_TUNABLES=glibc.malloc.tcache_count=0
else
    skip "glibc agrees with the trace" "no python3"
fi
# mallinfo2 as the process ends: the blocks that are left, each with its head and
# rounded up to 16 bytes, or to pages if it has a mapping of its own.
cat >info.c <<'END'
#include <malloc.h>
#include <stdio.h>
__attribute__((destructor)) static void tell(void) {
    struct mallinfo2 m = mallinfo2();
    FILE *f = fopen("info", "w");
    fprintf(f, "%zu %zu\n", m.uordblks + m.hblkhd, m.hblks);
    fclose(f);
}
END
if $CC -shared -fPIC -o info.so info.c 2>"$err"; then
    for trace in n p; do
        rm -f info
        GLIBC_TUNABLES=glibc.malloc.tcache_count=0 LD_PRELOAD=$work/info.so \
            "$replay" -q --json j.$trace $trace.p
        mv info info.$trace
    done
    read -r before _ <info.n
    read -r after mapped <info.p
    live=$(json j.p end_live_bytes)
    used=$((after - before))
    most=$((live + 32 * $(json j.p end_live_objects) + 4112 * mapped))
    note "live $live, in use $used, at most $most"
    [ "$live" -gt 0 ] && [ "$used" -ge "$live" ] && [ "$used" -le "$most" ]
    result "mallinfo2 has the live bytes, within its rounding" $?
else
    skip "mallinfo2 has the live bytes" "it is not in this C library"
fi
if there libjemalloc.so.2; then
    told libjemalloc.so.2 'Begin jemalloc statistics'
    [ -z "$python" ] ||
        agrees jemalloc libjemalloc.so.2 json MALLOC_CONF=narenas:1
fi

# One that has nothing to say.
if echo '#include <stddef.h>
extern void *__libc_malloc(size_t);
void *malloc(size_t n) { return __libc_malloc(n); }' >silent.c &&
    $CC -O1 -fno-builtin -fPIC -shared -o silent.so silent.c 2>"$err"; then
    LD_PRELOAD=./silent.so "$replay" --allocator-stats p.p >"$out" 2>"$err"
    is "an allocator without such a function" $? 0
    like "is said to have none" "$err" "silent.so.* has no statistics"
fi

fails_with "a file that cannot be written" 1 "$replay" \
    --allocator-stats=none/x p.p
fails_with "the trace itself" 2 "$replay" --allocator-stats=p.p p.p
fails_with "the JSON file" 2 "$replay" --json j --allocator-stats=j p.p
tap_end
