#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace record: how the command runs, and what is said about it. The
# tests of what a command does when it is recorded take a do-nothing library
# in place of the recorder; those of the summary take the real one.
. "$top_srcdir/tests/lib/preload.sh"

run ${CC:-cc} --version || skip_all "no compiler here"
echo 'int malloc_trace_test;' >fake.c
run ${CC:-cc} -shared -fPIC -o fake.so fake.c || skip_all "no shared libraries"
MALLOC_TRACE_LIBRARY=$work/fake.so
export MALLOC_TRACE_LIBRARY

# --- Command line ---------------------------------------------------------
ok "help" "$malloc_trace" --help
like "$out" "^  record " "names the commands"
ok "help of record" "$malloc_trace" record --help
like "$out" "^Usage: malloc-trace record" "is its own"
ok "version" "$malloc_trace" --version
fails_with 2 "no command" "$malloc_trace"
fails_with 2 "an unknown command" "$malloc_trace" frobnicate
like "$err" "unknown command 'frobnicate'" "is named"
fails_with 2 "nothing to run" "$malloc_trace" record
fails_with 2 "nothing after the dashes" "$malloc_trace" record --
fails_with 2 "an unknown option" "$malloc_trace" record --what -- true
is "$(wc -l <"$err")" 1 "is told in one line"
fails_with 2 "-o without a name" "$malloc_trace" record -o
fails_with 2 "-o with an empty name" "$malloc_trace" record -o '' -- true
fails_with 127 "a command that is not there" "$malloc_trace" record ./none
like "$err" "^malloc-trace record: cannot run ./none: No such file" "is told"
fails_with 126 "a command that cannot be run" "$malloc_trace" record /
fails_with 1 "a library that is not there" \
    env MALLOC_TRACE_LIBRARY="$work/none.so" "$malloc_trace" record true
like "$err" "cannot read the library .*none.so" "is told"

# --- The environment ------------------------------------------------------
# shellcheck disable=SC2016
show='echo "$LD_PRELOAD|$TCMALLOC_TRACE_OUTPUT|${TCMALLOC_TRACE_OWNER-unset}"'
here=$(pwd -P)
run "$malloc_trace" record sh -c "$show"
is "$(cat "$out")" "$here/fake.so|$here/sh.%p.trace.lz4|unset" \
    "library and default name"
run "$malloc_trace" record -o a%e.%p -- sh -c "$show"
is "$(cat "$out")" "$here/fake.so|$here/a%e.%p|unset" "the name of -o"
run "$malloc_trace" record -o/tmp/x sh -c "$show"
is "$(cat "$out")" "$here/fake.so|/tmp/x|unset" "an absolute name"
if [ "${TCM_SANITIZED:-no}" = no ]; then
    run env TCMALLOC_TRACE_OWNER=1:2:3 LD_PRELOAD="$here/fake.so" \
        "$malloc_trace" record /bin/sh -c "$show"
    is "$(cat "$out")" \
        "$here/fake.so:$here/fake.so|$here/sh.%p.trace.lz4|unset" \
        "what was preloaded stays, under a recorder of its own"
else
    skip "what was preloaded stays" "sanitizers want to be first"
fi
mkdir "50% of it" && cd "50% of it" || exit 99
run "$malloc_trace" record -o t.%p sh -c "$show"
is "$(cat "$out")" "$here/fake.so|$here/50%% of it/t.%p|unset" \
    "a percent sign in the folder's name"
cd ..
mkdir "sp ace" && cp fake.so "sp ace/fake.so"
run env MALLOC_TRACE_LIBRARY="$work/sp ace/fake.so" TMPDIR="$work" \
    "$malloc_trace" record sh -c "$show; readlink \"\$LD_PRELOAD\""
like "$out" "^$here/malloc-trace-.*/libtcmalloc_minimal_tracing.so\|" \
    "a library that LD_PRELOAD cannot name gets another name"
is "$(tail -n 1 "$out")" "$here/sp ace/fake.so" "that leads to it"
is "$(find . -name 'malloc-trace-*')" "" "and is gone in the end"

# --- Status and signals ---------------------------------------------------
run "$malloc_trace" record -- sh -c 'echo out; exit 7'
is "$status $(cat "$out")" "7 out" "status and output are the command's"
run "$malloc_trace" record sh -c 'exit 255'
is "$status" 255 "any status"
for pair in TERM:143 KILL:137 SEGV:139 PIPE:141 INT:130 QUIT:131; do
    sig=${pair%:*}
    run "$malloc_trace" record sh -c "kill -$sig \$\$"
    is "$status" "${pair#*:}" "dies of SIG$sig as its command"
done 2>/dev/null
run "$malloc_trace" record sh -c 'trap "exit 5" TERM; (kill -TERM $PPID)
    i=0; while [ $i -lt 200 ]; do sleep 0.05; i=$((i + 1)); done'
is "$status" 5 "SIGTERM is passed on"
run "$malloc_trace" record sh -c '(kill -INT $PPID; kill -QUIT $PPID); exit 6'
is "$status" 6 "SIGINT and SIGQUIT are the command's"
(
    trap '' HUP
    exec "$malloc_trace" record sh -c '(kill -HUP $PPID; kill -HUP $$); exit 4'
) 2>/dev/null
is "$?" 4 "what was ignored stays ignored"
echo word | "$malloc_trace" record cat >got 2>/dev/null
is "$(cat got)" word "stdin is the command's"

# --- Why there is nothing -------------------------------------------------
run "$malloc_trace" record true
like "$err" "warning: no trace was written: true: " "no trace is a warning"
echo 'int main(void) { return 0; }' >static.c
if run ${CC:-cc} -static -o static static.c; then
    run "$malloc_trace" record ./static
    like "$err" "statically linked" "a static program is recognised"
    run env PATH="$work:$PATH" "$malloc_trace" record static
    like "$err" "statically linked" "found through PATH too"
else
    skip "a static program is recognised" "no static C library"
    skip "found through PATH too" "no static C library"
fi
cat >own.c <<'END'
#include <stddef.h>
static char heap[1 << 16];
static size_t used;
void *malloc(size_t n) { return heap + (used += (n + 15) & ~(size_t)15); }
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) { (void)p; return malloc(n); }
int main(void) { return malloc(10) == NULL; }
END
if run ${CC:-cc} -w -fno-builtin -o own own.c; then
    run "$malloc_trace" record ./own
    like "$err" "malloc of its own" "a program with its own malloc"
fi
cp "$(command -v cat)" setuid_cat && chmod u+s setuid_cat
run "$malloc_trace" record ./setuid_cat </dev/null
like "$err" "setuid or setgid" "so is a setuid one"
is "$(ls ./*.lz4 2>/dev/null)" "" "nothing was written"

# Where there can be none it is not the command's fault.
run "$malloc_trace" record -o "$work/none/t" true
like "$err" "no trace was written: $work/none: No such file or directory$" \
    "a folder that is not there"
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod 555 locked
    run "$malloc_trace" record -o locked/t true
    like "$err" "no trace was written: .*/locked: Permission denied$" \
        "one that cannot be written to"
fi
is "$(grep -c static "$err")" 0 "nothing is guessed"

# --- The summary ----------------------------------------------------------
unset MALLOC_TRACE_LIBRARY
if [ "${TCM_SANITIZED:-no}" != no ] || [ ! -e "$tracing" ]; then
    skip "the summary" "no recorder in this build"
    tap_end
fi
cat >ask.c <<'END'
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile keep;
int main(int argc, char **argv) {
    for (int i = 0; i < 1000; i++) {
        keep = malloc((size_t)i);
        free(keep);
    }
    if (argc > 1) {
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 10; i++)
                keep = malloc(10);
            exit(0);
        }
        waitpid(child, NULL, 0);
    }
    return 3;
}
END
run ${CC:-cc} -fno-builtin -o ask ask.c
mkdir run && cd run || exit 99
run "$malloc_trace" record ../ask
is "$status" 3 "a recorded run has the status of the program"
set -- ask.*.trace.lz4
is "$#" 1 "one trace"
[ -f "$1" ]
result $? "by the default name"
like "$err" "^malloc-trace record: 1 trace, 2,[0-9]{3} events, " \
    "the summary counts its events"
like "$err" "^  $1  .* 2,[0-9]{3} events  ask\$" "the trace is listed"
z=" -z"
next=${1%.trace.lz4}.processed.lz4
[ "${TCM_HAVE_LZ4:-yes}" = yes ] || z="" next=${next%.lz4}
like "$err" "^  .*postprocess$z $1 $next\$" "with the next commands"
like "$err" "^  .*replay $next\$" "two of them"
# The commands as they stand there.
sed -n '/^Next:/,$s/^  //p' "$err" >next.sh
ok "they run" sh -e next.sh
like "$out" "^operations " "to the end"
rm -f ./*
run "$malloc_trace" record --quiet ../ask
is "$status $(wc -c <"$err" | tr -d ' ')" "3 0" "--quiet: no summary"
rm -f ./*
# shellcheck disable=SC2016
run "$malloc_trace" record -o 'm.%p' sh -c 'i=0; while [ $i -lt 25 ]; do
    ../ask; i=$((i + 1)); done'
like "$err" ": 26 traces, " "many traces"
is "$(grep -c '^  m\.' "$err")" 20 "are not all listed"
like "$err" "^  and 6 more\$" "the rest has a number"
rm -f ./*
run "$malloc_trace" record -o 'it'\''s %e %p' -- ../ask child
is "$status" 3 "the status again"
is "$(find . -name "it's ask [0-9]*" ! -name '*.spool' | wc -l)" 2 \
    "a child has its own trace"
like "$err" "2 traces, 2,[0-9]{3} events" "both are counted"
rm -f ./*
run "$malloc_trace" record -o same -- ../ask
run "$malloc_trace" record -o same -- ../ask
like "$err" "1 trace, 2,[0-9]{3} events" "a trace that is replaced counts"
if run ${CC:-cc} -static -fno-builtin -o ../static ../ask.c; then
    rm -f ./*
    run "$malloc_trace" record sh -c '../static; exit 0'
    is "$status" 0 "a static program under a dynamic one"
    like "$err" "trace.*events" "leaves the dynamic one's trace"
else
    skip "a static program under a dynamic one" "no static C library"
    skip "leaves the dynamic one's trace" "no static C library"
fi
run "$malloc_trace" record -o /dev/null -- ../ask
is "$status" 3 "to a device"
like "$err" "which is no regular file" "is told"
tap_end
