#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# libmalloc_trace_ctl.so: records programs that are linked with the library.
. "$top_srcdir/tests/lib/harness.sh"
ctl_lib=$top_builddir/.libs/libmalloc_trace_ctl.so
need "$tracing" "$postprocess" "$ctl_lib"
need_python
cd "$work" || exit 99

dump() { "$python" "$test_lib/rawdump.py" "$@"; }
: "${CC:=cc}"
cat >linked.c <<'C'
#include <stdlib.h>
#include <unistd.h>
static void *volatile keep;
__attribute__((constructor)) static void early(void) { keep = malloc(60002); }
int main(int argc, char **argv) {
    for (int i = 0; i < 1000; i++) {
        free(keep);
        keep = malloc(60003);
    }
    if (argc > 1)
        return fork() == 0 ? 0 : 7;
    return 7 + !argv;
}
C
$CC -o linked linked.c "$tracing" -Wl,-rpath,"$(dirname "$tracing")" 2>err ||
    skip_all "no compiler here"
$CC -o plain linked.c

MTRACE_CTL_FILE=t LD_PRELOAD=$ctl_lib ./linked 2>err
is "linked: exit status" $? 7
is "linked: silent" "$(cat err)" ""
dump t >list
is "linked: calls of main" "$(grep -c 'malloc 60003 ' list)" 1000
is "linked: and of its constructors" "$(grep -c 'malloc 60002 ' list)" 1
check_trace "linked" t 2000
mkdir "100%p"
TMPDIR=$work/100%p LD_PRELOAD=$ctl_lib ./linked fork 2>err &
pid=$!
wait $pid
is "temporary folder: exit status" $? 7
diag <err
is "temporary folder: one file" "$(ls "100%p" | sed 's/\.[0-9a-f]*$//')" \
    "mtrace.out.$pid"
check_trace "temporary folder" "100%p/$(ls "100%p")" 1900
# The name cannot be taken before.
for i in 1 2 3; do
    TMPDIR=$work/100%p LD_PRELOAD=$ctl_lib ./linked 2>err
done
is "temporary folder: every name ends in another way" \
    "$(ls "100%p" | sed -En 's/mtrace.out.[0-9]+.([0-9a-f]{10,})$/\1/p' |
        sort -u | wc -l)" 4
TCMALLOC_TRACE_OUTPUT=both MTRACE_CTL_FILE=none LD_PRELOAD=$ctl_lib ./linked 2>err
is "on already: exit status" $? 7
check "on already: one line" one_line err
check_trace "on already: the environment's file" both 2000
MTRACE_CTL_FILE=none LD_PRELOAD=$ctl_lib ./plain 2>err
is "not linked: exit status" $? 7
check "not linked: one line" one_line err
[ ! -e none ]
is "no file in either case" $? 0
TCMALLOC_TRACE_UNCOMPRESSED=1 MTRACE_CTL_FILE=u LD_PRELOAD="$ctl_lib $tracing" \
    ./plain 2>err
is "preloaded both: exit status" $? 7
check_trace "preloaded both" u 2000
if have setpriv && [ "$(id -u)" = 0 ]; then
    MTRACE_CTL_FILE=/proc/none LD_PRELOAD=$ctl_lib ./linked 2>err
    is "no such folder: exit status" $? 7
fi
tap_end
