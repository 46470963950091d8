#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs that are linked by pkg-config, beside gperftools and its development
# files, which keep their places.
set -eu
cd "$AUTOPKGTEST_TMP"
cat >a.c <<'C'
#include <gperftools/tcmalloc.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    void *p = malloc(100), *q = tc_malloc(100);
    puts(tc_version(NULL, NULL, NULL));
    free(q);
    free(p);
    return 0;
}
C

# loads PROGRAM LIBRARY: the loader takes LIBRARY, and the program runs with it.
loads() {
    ldd "./$1" | grep -q "^[[:blank:]]*$2 => /"
    echo "$1: $("./$1")"
}

gcc -o theirs a.c -ltcmalloc_minimal
loads theirs libtcmalloc_minimal.so.4
mine=libtcmalloc_minimal-malloc-trace
# shellcheck disable=SC2046
gcc -o ours a.c $(pkg-config --cflags --libs $mine)
loads ours $mine.so.4
# shellcheck disable=SC2046
gcc -o recorded a.c \
    $(pkg-config --cflags --libs libtcmalloc_minimal_tracing)
loads recorded libtcmalloc_minimal_tracing.so.4
[ "$(./ours)" != "$(./theirs)" ]
# shellcheck disable=SC2046
gcc -static -o static a.c \
    $(pkg-config --static --cflags --libs libtcmalloc_minimal_tracing)
for program in recorded static; do
    TCMALLOC_TRACE_OUTPUT=$program.lz4 ./$program
    malloc-trace info $program.lz4 | grep mallocs
done
LD_PRELOAD=libmalloc_trace_ctl.so MTRACE_CTL_FILE=called.lz4 ./recorded
malloc-trace info called.lz4 | grep mallocs
for library in $mine.so.4 libtcmalloc_minimal_tracing.so; do
    [ -z "$(LD_PRELOAD=$library /bin/true 2>&1)" ]
done
