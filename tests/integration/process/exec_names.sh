#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Recordings that a chain of exec leaves under one name: report, info, replay and
# leaks read the one with most events and say so; recordings of other runs and
# other processes beside it are never taken.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$malloc_trace" "$replay"
need_python
: "${CC:=cc}"

cat >app.c <<'END'
/* app N [COMMAND...]: makes N blocks of 10 bytes, then becomes COMMAND.
   app sessions: records 5 blocks, stops, and records 500. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *volatile sink;
static void make(int n) {
    for (int i = 0; i < n; i++) {
        sink = malloc(10);
        free(sink);
    }
}
static void record(int n) {
    bool (*start)(const char *) =
        (bool (*)(const char *))dlsym(RTLD_DEFAULT, "malloc_trace_start");
    bool (*stop)(void) = (bool (*)(void))dlsym(RTLD_DEFAULT, "malloc_trace_stop");
    if (start == NULL || stop == NULL || !start(NULL))
        exit(1);
    make(n);
    stop();
}
int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "sessions") == 0) {
        record(5);
        record(500);
        return 0;
    }
    make(argc > 1 ? atoi(argv[1]) : 0);
    if (argc > 2)
        execvp(argv[2], argv + 2);
    return argc > 2;
}
END
run $CC -O1 -fno-builtin -o app app.c -ldl || skip_all "no compiler here"
cp app other

# field JSON NAME: of the first file in info's JSON.
field() {
    "$python" -c 'import json, sys
f = json.load(open(sys.argv[1]))["files"][0]
print(f[sys.argv[2]] if sys.argv[2] != "executable"
      else f["recording"]["executable"])' "$@"
}
# info TRACE: sets $read, the file that was read, $program, and $said, the
# messages that name a choice.
info() {
    "$malloc_trace" info -q --json=i.json "$1" 2>"$err"
    read=$(field i.json file)
    program=$(field i.json executable)
    said=$(grep -c ' is read' "$err")
}
record_chain() { # NAME COMMAND...
    chain=$1
    shift
    "$malloc_trace" record -q --sites=stack -o "$chain" -- "$@"
}

# A shell that becomes env, which becomes the program.
check "a chain of exec" record_chain t sh -c 'exec env A=1 ./app 3000'
is "left three recordings" "$(find . -name 't*' |
    sed 's,^\./,,; s/\.spool$//' | sort -u | tr '\n' ' ')" "t t.1 t.2 "
info t
is "info reads the one with most events" "$read $program" "t.2 app"
is "says so in one line" "$said $(wc -l <"$err" | tr -d ' ')" "1 1"
calls=$(field i.json events)
at_least "it has those of the program" "$calls" 6000
count=$(echo "$calls" | sed 's/...$/,&/')
like "names it, and the others" "$err" \
    "^malloc-trace info: warning: t: its process ran 3 programs, of which t\.2 \
\(app, $count calls\) is read; 2 others with [0-9,]+ calls are left out: name \
t\.[01] \([a-z]+\) or t\.[01] \([a-z]+\) to read one of them\$"
run "$malloc_trace" report -q --to=json -o r.json t
is "report reads it, too" "$(json r.json file)" "t.2"
is "and says so" "$(grep -c 'of which t.2 (app, ' "$err")" 1
run "$malloc_trace" report --columns --by=size t
is "in all its forms" "$(awk '$1 == 30000 { print $2 }' "$out")" 3000
run "$malloc_trace" leaks -q --json l.json t
is "and so does leaks" "$(grep -c 'of which t.2 (app, ' "$err")" 1
check "replay" "$replay" --json=j t
is "replays it" "$(json j ops)" "$calls"
is "says so once" "$(grep -c 'replay: warning: .* of which t.2 (app, ' "$err")" 1
check "replay several times" "$replay" --repeat=2 --json=j t
is "says so once, too" "$(grep -c ' of which t.2 ' "$err")" 1
check "compare" "$malloc_trace" compare -n 1 --no-check -a glibc \
    -a ours="$minimal" --json=c.json t
is "compares it" "$(grep -o '"[^"]*t.2"' c.json | head -n 1) $(grep -c ' of which t.2 ' "$err")" \
    '"t.2" 1'
for name in t.2 t.1 t.0; do
    info $name
    is "$name alone is read without a word" "$said" 0
done
is "t.0 is the first program" "$read" t
[ "$program" != app ] && [ "$program" != env ]
result "the shell: $program" $?
info t.1
is "t.1 the second one" "$program" env
run "$malloc_trace" info t t.1 t.2
is "of several names each is read as it is" "$(grep -c '^t.*: raw trace' "$out") \
$(grep -c ' is read' "$err")" "3 0"
cp t.2 whole
for name in t t.2; do
    fails_with "an output $name" 2 "$malloc_trace" report -q --to=json -o $name t
done
check "is not written" cmp t.2 whole
(cd / && "$malloc_trace" info "$work/t") >"$out" 2>"$err"
like "with a folder" "$err" "of which $work/t\.2 \(app, .* name $work/t\.[01] "

# The first program has most.
record_chain m ./app 3000 ./other 20
info m
is "where the first has most, it is read without a word" "$read $program $said" \
    "m app 0"
info m.1
is "and the second by its name" "$program $said" "other 0"

# Another run, of one program, under the name of the chain.
record_chain t ./other 20
info t
is "recordings of an older run are not taken" "$read $program $said" "t other 0"
cp whole t.1
info t
is "nor a copy of another process's" "$read $said" "t 0"
cp app.c t.1
info t
is "nor what is no trace" "$read $said" "t 0"

# A shell that starts children: it alone is recorded under a plain name.
cp whole c.1
record_chain c sh -c './app 3000; ./app 3000; true'
info c
is "a shell's trace is its own" "$read $said" "c 0"
[ "$program" != app ]
result "and not a child's: $program" $?
record_chain 'd.%p' sh -c 'echo $$ >pid; ./app 4000; exec ./other 3000'
info "d.$(cat pid)"
is "with %p, too, a process's own programs alone count" "$read $program" \
    "d.$(cat pid).1 other"
for child in d.*; do
    info "$child"
    [ "$program" = app ] && break
done
is "a child's trace is read by its name" "$program $read $said" "app $child 0"

# In doubt the name itself is read, and the other one is named.
(
    TCMALLOC_TRACE_START=0
    export TCMALLOC_TRACE_START
    record s ./app sessions
)
result "two recordings of one program" $?
info s
is "the first one is read" "$read $program" "s app"
like "and the other named" "$err" "s is read; s\.1 may be of the same run"
info s.1
is "which is read by that name" "$program $said" "app 0"
mkfifo hold
env LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT=b sh -c 'read x <hold' &
child=$!
exec 3>hold
eventually 20 test -e b.spool
env LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT=b ./app 3000
exec 3>&-
wait $child
info b
is "a recording beside a living one is not taken" "$read" b
like "but named" "$err" "b is read; b\.1 may be of the same run"

# A process that goes on as a program which cannot be recorded.
if run $CC -O1 -static -fno-builtin -o static app.c; then
    for command in "./app 5" "sh -c 'exec \"\$0\"'" env; do
        eval "run \"$malloc_trace\" record -q -o e.%p -- $command ./static"
        is "$command: exit status" "$status" 0
        like "$command: what came by exec is said not to be recorded" "$err" \
            'process [0-9]+ ended as "static": if .*, it was not recorded'
    done
    for command in "./app 5 ./other 5" "env ./app 5" "sh -c ./app" "./app 5"; do
        # shellcheck disable=SC2086
        run "$malloc_trace" record -q -o e.%p -- $command
        is "$command: nothing is said" "$status $(cat "$err")" "0 "
    done
else
    skip "a static program" "no static C library"
fi
tap_end
