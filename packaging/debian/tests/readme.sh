#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The commands of README's sections "One command" and "Three commands", with what
# the package installed.
set -eu
awk '/^## / { wanted = /^## (One command|Three commands)$/ }
    /^```/ { inside = wanted && /^```sh$/; next } inside && NF' README.md \
    >"$AUTOPKGTEST_TMP/commands"
cd "$AUTOPKGTEST_TMP"
cat >app.c <<'C'
#include <stdlib.h>
static void *volatile keep[100];
int main(void) {
    for (int i = 0; i < 100000; i++) {
        free(keep[i % 100]);
        keep[i % 100] = malloc((size_t)(i % 500));
    }
    return 0;
}
C
gcc -fno-builtin -o app app.c
while read -r command; do
    echo "\$ $command"
    sh -c "$command" </dev/null >said 2>&1 || { cat said; exit 1; }
    cat said
    # The loader goes on without a library that it does not find.
    if grep 'cannot be preloaded' said; then
        exit 1
    fi
    case $command in
    *compare*) grep -q tcmalloc-mt said ;;
    *tcmalloc-mt*) grep -q '^allocator.*tcmalloc' said ;;
    *jemalloc*) grep -q '^allocator.*jemalloc' said ;;
    *replay*) grep -q '^allocator.*glibc' said ;;
    esac
done <commands
[ "$(wc -l <commands)" -ge 4 ]
malloc-trace info t.lz4 | grep -q '100,[0-9]* mallocs'
