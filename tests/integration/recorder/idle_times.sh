#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Times after idleness: an event that comes when nothing was recorded for a
# while has the time at which it came.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$malloc_trace"
: "${CC:=cc}"
cat >nap.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static long nap_ms;
static unsigned long now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long)t.tv_sec * 1000000 + (unsigned long)t.tv_nsec / 1000;
}
static void *nap(void *unused) {
    struct timespec t = {nap_ms / 1000, nap_ms % 1000 * 1000000};
    unsigned long began = now_us();
    void *volatile p = malloc(500);
    nanosleep(&t, NULL);
    free(p);
    fprintf(stderr, "%lu\n", now_us() - began);
    return unused;
}
int main(int argc, char **argv) {
    pthread_t thread[3];
    nap_ms = atol(argv[1]);
    if (argc == 2) {
        nap(NULL);
        return 0;
    }
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, nap, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
C
$CC -O1 -o nap nap.c -pthread 2>err || skip_all "no compiler here"

# life FILE: the shortest and the longest life of nap's blocks in us.
life() {
    "$malloc_trace" report --quiet --to=objects -o objects.csv "$1" &&
        awk -F , '
            NR == 1 {
                for (i = 1; i <= NF; i++)
                    column[$i] = i
                next
            }
            $column["size"] == 500 {
                life = ($column["death_ns"] - $column["birth_ns"]) / 1000
                if (!n++ || life < least)
                    least = life
                if (life > most)
                    most = life
            }
            END { printf "%d %d\n", least, most }' objects.csv
}

# A round takes 10 ms; a busy machine may put it off.
for ms in 300 700; do
    for threads in "" threads; do
        # shellcheck disable=SC2086
        TCMALLOC_TRACE_SITES=caller record "t.$suffix" ./nap $ms $threads 2>naps
        is "$ms ms $threads: status" $? 0
        life "t.$suffix" >lives
        diag <lives
        longest=$(sort -n naps | tail -n 1)
        at_least "$ms ms $threads: not too short" "$(cut -d' ' -f1 lives)" \
            $((ms * 1000 - 45000))
        at_least "$ms ms $threads: not too long" \
            $((longest + 50000 - $(cut -d' ' -f2 lives))) 0
    done
done
tap_end
