#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Blocks that the recorded program had not touched, as its samples of resident
# memory show: every command that replays them, or shows live bytes over time,
# says so in one line; and nothing is said where the samples leave room for all.
. "$top_srcdir/tests/lib/harness.sh"
need "$malloc_trace" "$postprocess" "$replay"
[ "${TCM_SANITIZED:-no}" = no ] ||
    skip_all "the sanitizers' runtime replaces malloc"
cd "$work" || exit 99

# trace NAME MIB...: 320 blocks of 64 KiB (20 MiB), live from 0 to 0.45 s; a
# sample each 0.1 s says that the process had MIB resident.
trace() {
    trace_name=$1
    shift
    echo "$@" | awk '{
        print "malloc-trace text 1\nthread 1"
        for (i = 0; i < 320; i++)
            print "slot " i " = malloc(65536)"
        for (i = 1; i <= NF; i++)
            print "time " i "00000000 ns\nsample " i "00000000 8=24000000 9=0" \
                " 16=" $i * 1048576
        print "time 450000000 ns"
        for (i = 0; i < 320; i++)
            print "free(slot " i ")"
        print "end: 640 operations, 0 live"
    }' >"$trace_name.txt"
    "$malloc_trace" convert -q --to=processed "$trace_name.txt" "$trace_name.p"
}

pattern='replay has written 20.0 MiB of live blocks, and the recorded process had 5.00 MiB resident; at least 15.0 MiB were untouched'

trace barely 5 5 5 5
trace all 21 21 21 21
trace slowly 5 10 15 20
trace soon 5 21 21 21
is "the traces are made" "$?" 0

"$replay" barely.p >out 2>err
is "replay: says it once" "$(grep -c "^memory is .*$pattern" out)" 1
"$replay" -q --json=j barely.p
is "replay: as JSON" "$(json j untouched | grep -c "$pattern")" 1
"$replay" --touch=first barely.p >out 2>err
is "replay --touch=first: writes less, and says nothing" \
    "$(grep -c untouched out)" 0
"$replay" all.p >out 2>err
is "replay: room for all blocks" "$(grep -c untouched out)" 0
"$replay" soon.p >out 2>err
is "replay: blocks that are written soon" "$(grep -c untouched out)" 0
"$replay" slowly.p >out 2>err
is "replay: written slowly, the peak is right" \
    "$(grep -c "^memory over time is .*at least 10.0 MiB were untouched" out)" 1

"$malloc_trace" memory -a glibc -a tcmalloc-mt --json=j barely.p >out 2>err
"$malloc_trace" memory -q -a glibc --html=memory.html barely.p
is "memory: once for all allocators" "$(grep -c "^barely.p: .*$pattern" out)" 1
"$malloc_trace" memory -a glibc --json=- barely.p >j 2>err
is "memory: as JSON and page" \
    "$(json j untouched | grep -c "$pattern") $(grep -c "$pattern" memory.html)" \
    "1 1"
"$malloc_trace" compare -n 3 -a glibc -a tcmalloc-mt --json=j --html=c.html \
    barely.p >out 2>err
is "compare: text" "$(grep -c "^barely.p: .*$pattern" out)" 1
like "compare: page" c.html ">barely.p: .*$pattern"
is "compare: as JSON" "$(grep -c "\"untouched\": \".*$pattern" j)" 1
"$malloc_trace" tune --runs 20 -a glibc -a tcmalloc-mt --html=t.html barely.p \
    >out 2>err
is "tune: text" "$(grep -c "^barely.p: .*$pattern" out)" 1
like "tune: page" t.html "^barely.p: .*$pattern"
"$malloc_trace" gate --save-baseline=base.json -a glibc barely.p >out 2>err
is "gate: where it counts memory" \
    "$(grep -c "^barely.p: .*$pattern" out)" 1
"$malloc_trace" gate --against=base.json -a glibc barely.p >out 2>err
is "gate: and judges it" "$(grep -c "^barely.p: .*$pattern" out)" 1

shown='20.0 MiB were live, and the recorded process had 5.00 MiB resident: it had not touched at least 15.0 MiB'
"$malloc_trace" info --timeline barely.p >out
like "info --timeline: says it" out "$shown"
"$malloc_trace" info --timeline all.p >out
is "info --timeline: room for all blocks" "$(grep -c touched out)" 0
"$malloc_trace" report -q --to=html -o r.html barely.p
like "report: at its plot of memory over time" r.html "$shown"

# of_each KEY: the values of KEY of all traces in the file j.
of_each() {
    sed -n "s/^ *\"$1\": //p" j | tr -d ',' | xargs
}

# A forked child frees what it inherited, which is in no replay of its trace.
cat >forked.c <<'END'
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char *before[500], *after[500];
int main(void) {
    for (int i = 0; i < 500; i++)
        memset(before[i] = malloc(4000), 1, 4000);
    if (fork() != 0)
        return wait(NULL) < 0;
    for (int i = 0; i < 500; i++)
        memset(after[i] = malloc(4000), 1, 4000);
    for (int i = 0; i < 500; i++)
        free(before[i]);
    return 0;
}
END
lacks="memory lacks what was allocated before the recording, .*: 500 such blocks"
# shellcheck disable=SC2086
if $CC -O1 -fno-builtin -o forked forked.c 2>err &&
    "$malloc_trace" record -q -o 'f.%p' -- ./forked 2>err; then
    for one in f.*[0-9]; do
        "$replay" -q --json=j "$one"
        [ "$(json j untraced_frees)" = 0 ] && parent=$one || child=$one
    done
    "$replay" "$child" >out
    like "replay: a forked child lacks what it inherited" out "^$lacks were freed"
    "$replay" "$parent" >out
    is "replay: its parent lacks nothing" "$(grep -c "^$lacks" out)" 0
    mkdir alone && cp "$child" alone
    "$malloc_trace" compare -n 3 -a glibc -a tcmalloc-mt "alone/$child" >out \
        2>err
    like "compare: a forked child lacks what it inherited" out "^alone/.*: $lacks"
    "$malloc_trace" compare -n 3 -a glibc -a tcmalloc-mt --json=j "$child" \
        >out 2>err
    is "compare: beside its parent's trace it lacks nothing" \
        "$(of_each untraced_frees) $(of_each ops) $(grep -c "$lacks" out)" \
        "0 1000 0"
else
    skip "replay: a forked child lacks what it inherited" "not recorded here"
    skip "replay: its parent lacks nothing" "not recorded here"
    skip "compare: a forked child lacks what it inherited" "not recorded here"
    skip "compare: beside its parent's trace it lacks nothing" \
        "not recorded here"
fi

# A child of a child, blocks that another thread made, and blocks that children
# resize.
cat >generations.c <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char *plain[300], *aligned[300], *resized[300], *other[300];
static void *make_others(void *p) {
    for (int i = 0; i < 300; i++)
        memset(other[i] = malloc(5000), 1, 5000);
    return p;
}
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 300; i++) {
        free(malloc(1000));
        memset(plain[i] = calloc(1, 2000), 1, 2000);
        memset(aligned[i] = aligned_alloc(4096, 8192), 1, 8192);
        memset(resized[i] = malloc(100000), 1, 100000);
    }
    pthread_create(&thread, NULL, make_others, NULL);
    pthread_join(thread, NULL);
    if (fork() != 0)
        return wait(NULL) < 0;
    for (int i = 0; i < 300; i++) {
        resized[i] = realloc(resized[i], i % 2 == 0 ? 200000 : 50);
        free(aligned[i]);
    }
    if (fork() != 0)
        return wait(NULL) < 0;
    for (int i = 0; i < 300; i++) {
        free(plain[i]);
        free(resized[i]);
        free(other[i]);
    }
    return 0;
}
END
what="compare: a child of a child has what all before it made"
# shellcheck disable=SC2086
if $CC -O1 -fno-builtin -pthread -o generations generations.c 2>err &&
    "$malloc_trace" record -q -o 'g.%p' -- ./generations 2>err; then
    "$malloc_trace" compare -n 3 -a glibc -a tcmalloc-mt --json=j g.*[0-9] \
        >out 2>err
    is "$what" "$(of_each untraced_frees)" "0 0 0"
else
    skip "$what" "not recorded here"
fi
tap_end
