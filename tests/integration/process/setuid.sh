#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Setuid and setgid programs ignore the environment. They are linked with the
# library, since nothing is preloaded into them.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal"
: "${CC:=cc}"
others_can || skip_all "$why_no_others"
cat >"$work/t.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
/* Prints whether it is a secure program, and how many of 100 MiB it gets. */
int main(void) {
    static void *volatile p;
    int n = 0;
    while (n < 100 && (p = malloc(1 << 20)) != NULL)
        n++;
    printf("%d %d\n", getauxval(AT_SECURE) != 0, n);
    return 0;
}
C
chmod 755 "$work"
mkdir "$work/open"
chmod 777 "$work/open"
for library in "$minimal" "$tracing"; do
    [ -e "$library" ] || continue
    name=$(basename "$library")
    program=$work/$name.suid
    $CC -O1 -fno-builtin -o "$program" "$work/t.c" "$library" -pthread \
        -Wl,-rpath,"$(dirname "$library")" 2>"$work/err" ||
        skip_all "no compiler"
    # started COMMAND...: with an environment that asks for a limit and a trace
    started() {
        env TCMALLOC_HEAP_LIMIT_MB=20 \
            TCMALLOC_TRACE_OUTPUT="$work/open/t" "$@" 2>"$work/err"
    }
    rm -f "$work"/open/*
    got=$(started "$program")
    if knows_limit=$(grep -c TCMALLOC_HEAP_LIMIT_MB "$library") &&
        [ "$knows_limit" -gt 0 ]; then
        at_least "$name: the limit is heeded" 20 "${got#0 }"
    fi
    case $name in
    *tracing*) is "$name: is recorded" "$(ls "$work/open")" t ;;
    esac
    for mode in 4755 2755; do
        rm -f "$work"/open/*
        chmod $mode "$program"
        got=$(started setpriv --reuid 65534 --regid 65534 --clear-groups "$program")
        if [ "${got%% *}" = 0 ]; then
            skip "$name, mode $mode" "such files have no effect here"
            continue
        fi
        is "$name, mode $mode: no limit" "$got" "1 100"
        is "$name, mode $mode: not recorded" "$(ls "$work/open")" ""
    done
done
tap_end
