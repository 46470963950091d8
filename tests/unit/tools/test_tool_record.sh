#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace record: how the command runs, and the summary. Tests of the
# command use a library that does nothing instead of the recorder; tests of the
# summary use the recorder.
. "$top_srcdir/tests/lib/harness.sh"

run ${CC:-cc} --version || skip_all "no compiler here"
echo 'int malloc_trace_test;' >fake.c
run ${CC:-cc} -shared -fPIC -o fake.so fake.c || skip_all "no shared libraries"
MALLOC_TRACE_LIBRARY=$work/fake.so
export MALLOC_TRACE_LIBRARY
ending=trace.lz4
[ "${TCM_HAVE_LZ4:-yes}" = yes ] || ending=trace

# --- Command line ---------------------------------------------------------
check "help" "$malloc_trace" --help
like "names the commands" "$out" "^  record "
check "help of record" "$malloc_trace" record --help
like "is its own" "$out" "^Usage: malloc-trace record"
check "version" "$malloc_trace" --version
fails_with "no command" 2 "$malloc_trace"
fails_with "an unknown command" 2 "$malloc_trace" frobnicate
like "is named" "$err" "unknown command 'frobnicate'"
fails_with "nothing to run" 2 "$malloc_trace" record
fails_with "nothing after the dashes" 2 "$malloc_trace" record --
fails_with "an unknown option" 2 "$malloc_trace" record --what -- true
is "a message of one line" "$(wc -l <"$err")" 1
fails_with "-o without a name" 2 "$malloc_trace" record -o
fails_with "-o with an empty name" 2 "$malloc_trace" record -o '' -- true
fails_with "a command that is not there" 127 "$malloc_trace" record ./none
like "a message" "$err" "^malloc-trace record: cannot run ./none: No such file"
fails_with "a command that cannot be run" 126 "$malloc_trace" record /
fails_with "a library that is not there" 1 \
    env MALLOC_TRACE_LIBRARY="$work/none.so" "$malloc_trace" record true
like "a message" "$err" "cannot read the library .*none.so"

# --- The environment ------------------------------------------------------
# shellcheck disable=SC2016
show='echo "$LD_PRELOAD|$TCMALLOC_TRACE_OUTPUT|${TCMALLOC_TRACE_OWNER-unset}"'
here=$(pwd -P)
run "$malloc_trace" record sh -c "$show"
is "library and default name" "$(cat "$out")" \
    "$here/fake.so|$here/sh.%p.$ending|unset"
run "$malloc_trace" record -o a%e.%p -- sh -c "$show"
is "the name of -o" "$(cat "$out")" "$here/fake.so|$here/a%e.%p|unset"
run "$malloc_trace" record -o/tmp/x sh -c "$show"
is "an absolute name" "$(cat "$out")" "$here/fake.so|/tmp/x|unset"
if [ "${TCM_SANITIZED:-no}" = no ]; then
    run env TCMALLOC_TRACE_OWNER=1:2:3 LD_PRELOAD="$here/fake.so" \
        "$malloc_trace" record /bin/sh -c "$show"
    is "what was preloaded stays, under a recorder of its own" "$(cat "$out")" \
        "$here/fake.so:$here/fake.so|$here/sh.%p.$ending|unset"
else
    skip "what was preloaded stays" "sanitizers want to be first"
fi
mkdir "50% of it" && cd "50% of it" || exit 99
run "$malloc_trace" record -o t.%p sh -c "$show"
is "a percent sign in the folder's name" "$(cat "$out")" \
    "$here/fake.so|$here/50%% of it/t.%p|unset"
cd ..
mkdir "sp ace" && cp fake.so "sp ace/fake.so"
run env MALLOC_TRACE_LIBRARY="$work/sp ace/fake.so" TMPDIR="$work" \
    "$malloc_trace" record sh -c "$show; readlink \"\$LD_PRELOAD\""
like "a library that LD_PRELOAD cannot name gets another name" "$out" \
    "^$here/malloc-trace-.*/fake.so\|"
is "that leads to it" "$(tail -n 1 "$out")" "$here/sp ace/fake.so"
is "and is gone in the end" "$(find . -name 'malloc-trace-*')" ""

# --- Status and signals ---------------------------------------------------
run "$malloc_trace" record -- sh -c 'echo out; exit 7'
is "status and output are the command's" "$status $(cat "$out")" "7 out"
run "$malloc_trace" record sh -c 'exit 255'
is "any status" "$status" 255
for pair in TERM:143 KILL:137 SEGV:139 PIPE:141 INT:130 QUIT:131; do
    sig=${pair%:*}
    run "$malloc_trace" record sh -c "kill -$sig \$\$"
    is "dies of SIG$sig as its command" "$status" "${pair#*:}"
done 2>/dev/null
run "$malloc_trace" record sh -c 'trap "exit 5" TERM; (kill -TERM $PPID)
    i=0; while [ $i -lt 200 ]; do sleep 0.05; i=$((i + 1)); done'
is "SIGTERM is passed on" "$status" 5
run "$malloc_trace" record sh -c '(kill -INT $PPID; kill -QUIT $PPID); exit 6'
is "SIGINT and SIGQUIT are the command's" "$status" 6
(
    trap '' HUP
    exec "$malloc_trace" record sh -c '(kill -HUP $PPID; kill -HUP $$); exit 4'
) 2>/dev/null
is "what was ignored stays ignored" "$?" 4
echo word | "$malloc_trace" record cat >got 2>/dev/null
is "stdin is the command's" "$(cat got)" word

# --- Reasons for no trace -------------------------------------------------
run "$malloc_trace" record true
like "no trace is a warning" "$err" "warning: no trace was written: true: "
like "of a name with %p: perhaps it made no request" "$err" \
    "it made no memory request, for which a name with %p gets no file"
run "$malloc_trace" record -o %%p true
like "of another name: the message above" "$err" "recorder or loader above"
echo 'int main(void) { return 0; }' >static.c
if run ${CC:-cc} -static -o static static.c; then
    run "$malloc_trace" record ./static
    like "a static program is recognised" "$err" "statically linked"
    run env PATH="$work:$PATH" "$malloc_trace" record static
    like "found through PATH too" "$err" "statically linked"
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
    like "a program with its own malloc" "$err" "has its own malloc"
fi
cp "$(command -v cat)" setuid_cat && chmod u+s setuid_cat
run "$malloc_trace" record ./setuid_cat </dev/null
like "so is a setuid one" "$err" "setuid or setgid"
is "nothing was written" "$(ls ./*.lz4 2>/dev/null)" ""

# An output that cannot be made is not the fault of the command.
run "$malloc_trace" record -o "$work/none/t" true
like "a folder that is not there" "$err" \
    "no trace was written: $work/none: No such file or directory$"
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod 555 locked
    run "$malloc_trace" record -o locked/t true
    like "one that cannot be written to" "$err" \
        "no trace was written: .*/locked: Permission denied$"
fi
is "nothing is guessed" "$(grep -c static "$err")" 0

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
is "a recorded run has the status of the program" "$status" 3
set -- ask.*."$ending"
is "one trace" "$#" 1
[ -f "$1" ]
result "by the default name" $?
like "the summary counts its events" "$err" \
    "^malloc-trace record: 1 trace, 2,[0-9]{3} events, "
like "the trace is listed" "$err" "^  $1  .* 2,[0-9]{3} events  ask\$"
z=" -z"
next=${1%."$ending"}.processed.lz4
[ "${TCM_HAVE_LZ4:-yes}" = yes ] || z="" next=${next%.lz4}
like "with the next commands" "$err" "^  .*postprocess$z $1 $next\$"
like "two of them" "$err" "^  .*replay $next\$"
# The commands that the summary prints.
sed -n '/^Next:/,$s/^  //p' "$err" >next.sh
check "they run" sh -e next.sh
like "to the end" "$out" "^operations "
rm -f ./*
run "$malloc_trace" record --quiet ../ask
is "--quiet: no summary" "$status $(wc -c <"$err" | tr -d ' ')" "3 0"
rm -f ./*
# shellcheck disable=SC2016
run "$malloc_trace" record -o 'm.%p' sh -c 'i=0; while [ $i -lt 25 ]; do
    ../ask; i=$((i + 1)); done'
like "many traces" "$err" ": 26 traces, "
is "are not all listed" "$(grep -c '^  m\.' "$err")" 20
like "the rest has a number" "$err" "^  and 6 more\$"
rm -f ./*
run "$malloc_trace" record -o 'it'\''s %e %p' -- ../ask child
is "the status again" "$status" 3
is "a child has its own trace" \
    "$(find . -name "it's ask [0-9]*" ! -name '*.spool' | wc -l)" 2
like "both are counted" "$err" "2 traces, 2,[0-9]{3} events"
rm -f ./*
run "$malloc_trace" record -o same -- ../ask
run "$malloc_trace" record -o same -- ../ask
like "a trace that is replaced counts" "$err" "1 trace, 2,[0-9]{3} events"
if run ${CC:-cc} -static -fno-builtin -o ../static ../ask.c; then
    rm -f ./*
    run "$malloc_trace" record sh -c '../static; exit 0'
    is "a static program under a dynamic one" "$status" 0
    like "leaves the dynamic one's trace" "$err" "trace.*events"
else
    skip "a static program under a dynamic one" "no static C library"
    skip "leaves the dynamic one's trace" "no static C library"
fi
run "$malloc_trace" record -o /dev/null -- ../ask
is "to a device" "$status" 3
like "a message" "$err" "which is not a regular file"
tap_end
