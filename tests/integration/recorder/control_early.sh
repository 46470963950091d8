#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Recordings that are started by call in a program that allocated before the
# library's constructor ran, as every C++ program does.
. "$top_srcdir/tests/lib/harness.sh"
: "${CC:=cc}" "${CXX:=c++}"
need "$tracing"
need_python
$CXX --version >/dev/null 2>&1 || skip_all "no compiler"
cd "$work" || exit 99
cat >early.c <<'C'
#include <stdlib.h>
void *early_block;
__attribute__((constructor)) static void init(void) {
    for (int i = 0; i < 10; i++)
        free(malloc(100));
    early_block = malloc(1000);
}
C
cat >app.cc <<'C'
#include <stdlib.h>
#include <stdio.h>
#include <dlfcn.h>
extern "C" void *early_block;
static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;
int main(int, char **argv) {
    void *p[20];
    auto start = (bool (*)(const char *))dlsym(RTLD_DEFAULT, "malloc_trace_start");
    auto stop = (bool (*)())dlsym(RTLD_DEFAULT, "malloc_trace_stop");
    for (int k = 0; k < 3; k++) {
        char name[500];
        snprintf(name, sizeof(name), "%s%d", argv[1], k);
        if (!start(name))
            return 1;
        for (int i = 0; i < 20; i++)
            p[i] = take(10 * i);
        for (int i = 0; i < 20; i++)
            give(p[i]);
        if (!stop())
            return 2;
    }
    free(early_block);
    return 0;
}
C
$CC -O1 -fPIC -shared -o libearly.so early.c
check "builds" $CXX -O1 -fno-builtin -o app app.cc -L. -learly \
    -Wl,-rpath,"$work" -ldl
for start in 0 none; do
    unset TCMALLOC_TRACE_START TCMALLOC_TRACE_OUTPUT
    [ $start = none ] || {
        TCMALLOC_TRACE_START=0
        TCMALLOC_TRACE_OUTPUT=$work/unused
        export TCMALLOC_TRACE_START TCMALLOC_TRACE_OUTPUT
    }
    LD_PRELOAD=$tracing timeout 60 ./app "$work/t$start." 2>err
    is "START $start: the program ends well" $? 0
    unset TCMALLOC_TRACE_START TCMALLOC_TRACE_OUTPUT
    for k in 0 1 2; do
        "$postprocess" -q --json j "t$start.$k" p 2>err || diag <err
        is "START $start, recording $k: what was called, exactly" \
            "$(json j complete mallocs frees untraced_frees)" "true 20 20 0"
    done
done
tap_end
