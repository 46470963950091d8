#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Start, stop, flush and marks by call.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$built/recorder/control_target" "$postprocess"
need_python
target=$built/recorder/control_target
cd "$work" || exit 99

dump() { "$python" "$test_lib/rawdump.py" "$@"; }
plain() { TCMALLOC_TRACE_UNCOMPRESSED=1 record "$@"; }

LD_PRELOAD=$tracing "$target" untraced 2>/dev/null
[ $? != 3 ] || skip_all "the library has no calls for it"

# own_account NAME FILE: the footer counts what this recording has.
own_account() {
    "$malloc_trace" info --json info "$2" >/dev/null
    is "$1: the footer counts this recording's events" "$("$python" - info \
        "$("$malloc_trace" dump "$2" | grep -c ' barrier [0-9]')" <<'PY'
import json, sys
f = json.load(open(sys.argv[1]))["files"][0]
n, k = f["footer"], f["kinds"]
has = {
    "mallocs": k["alloc"],
    "memaligns": k["aligned"],
    "reallocs": k["realloc"] + k["realloc_new"] + k["realloc_end"],
    "frees": k["free"] + k["free_size"],
    "failed_allocations": k["failed"],
    "untraced_frees": k["untraced"],
}
has["events"] = sum(has.values()) - has["untraced_frees"]
has["rounds"] = int(sys.argv[2])
print([(name, n[name], has[name]) for name in has if n[name] != has[name]])
PY
    )" "[]"
}

# Off, on, off, on.
TCMALLOC_TRACE_STATS=1 TCMALLOC_TRACE_START=0 plain t "$target" toggle 2>said
is "toggle: exit status" $? 0
is "toggle: two files" "$(find . -name 't*' | sort | tr '\n' ' ')" "./t ./t.1 "
dump t >list1 2>err && dump t.1 >list2 2>>err
is "toggle: both can be read" $? 0
diag <err
is "toggle: calls of the first recording" "$(grep -c 'malloc 60002 ' list1)" 101
is "toggle: calls of the second" "$(grep -c 'malloc 60002 ' list2)" 50
is "toggle: none of those between" "$(cat list1 list2 | grep -c ' 60001')" 0
is "toggle: a mark each" \
    "$(grep -h -o 'mark .*' list1 list2 | tr '\n' ' ')" \
    "mark text=first mark text=second "
is "toggle: realloc of an unknown block" \
    "$(grep -c 'realloc unknown 60003' list1)" 1
for n in 1 2; do
    f=t
    [ $n = 2 ] && f=t.1
    "$postprocess" --quiet --json json $f p
    is "toggle, recording $n: postprocess" $? 0
    is "toggle, recording $n: whole" \
        "$(json json complete clean_end unmatched_frees)" "true true 0"
    eval "untraced$n=\$(json json untraced_frees)"
    own_account "toggle, recording $n" $f
done
is "toggle: the last of the summaries is the last recording's" \
    "$(sed -n 's/^tcmalloc: recorded \([0-9]*\) events.*/\1/p' said | tail -n 1)" \
    "$(json json events)"
# shellcheck disable=SC2154
is "toggle: frees of blocks made while off" "$untraced1 $untraced2" "1 3"

# To a path of the program's own.
LD_PRELOAD=$tracing timeout 60 "$target" path a.trace b.trace c.trace >files \
    2>err
is "start to a path: exit status" $? 0
is "and what the files are called" "$(cat files)" \
    "$(printf '%s\n' "$PWD/a.trace" "$PWD/b.trace" "$PWD/c.trace")"
head -n 1 err | diag
for f in a.trace b.trace c.trace; do
    check_trace "start to a path: $f" $f 400
    own_account "start to a path: $f" $f
done

# The untraced library has the calls and refuses.
if [ -e "$minimal" ]; then
    LD_PRELOAD=$minimal TCMALLOC_TRACE_OUTPUT=no.trace timeout 60 "$target" \
        untraced
    is "untraced library: exit status" $? 0
    [ ! -e no.trace ]
    is "untraced library: no file" $? 0
fi

# Flush: all events so far are in the file.
rm -f t* flushed
mkfifo flushed
LD_PRELOAD=$tracing TCMALLOC_TRACE_OUTPUT=t TCMALLOC_TRACE_UNCOMPRESSED=1 \
    "$target" flush >flushed &
pid=$!
read -r line <flushed
kill -9 $pid
wait $pid 2>/dev/null
is "flush: returns" "$line" flushed
dump t >list 2>err
is "flush: the file alone can be read" $? 0
is "flush: and has all calls before it" "$(grep -c 'malloc 60002 ' list)" 1000
is "flush: and the mark" "$(grep -c 'before flush' list)" 1

# Switching while threads work.
rm -f t*
for how in 0 1; do
    TCMALLOC_TRACE_START=0 TCMALLOC_TRACE_UNCOMPRESSED=$how \
        record "t$how" "$target" threads 4 2>err
    is "switching under load $how: exit status" $? 0
    diag <err
    n=0
    bad=0
    for f in t$how*; do
        case $f in *.spool) bad=$((bad + 1)); continue ;; esac
        n=$((n + 1))
        "$postprocess" --quiet --json json "$f" p 2>err &&
            [ "$(json json complete clean_end unmatched_frees \
                order_conflicts)" = "true true 0 0" ] ||
            { bad=$((bad + 1)); (echo "$f"; cat err json) | diag; }
    done
    is "switching under load $how: a file each" $n 20
    is "switching under load $how: each is whole" $bad 0
done

# Requests by several threads at any time.
rm -f t*
plain t "$target" all 3 2>err
is "all at once: exit status" $? 0
diag <err
n=0
bad=0
for f in t*; do
    case $f in *.spool) bad=$((bad + 1)); continue ;; esac
    n=$((n + 1))
    "$postprocess" --quiet --json json "$f" p 2>err &&
        [ "$(json json complete clean_end unmatched_frees order_conflicts)" = \
            "true true 0 0" ] || { bad=$((bad + 1)); cat err json | diag; }
done
at_least "all at once: traces" $n 2
is "all at once: each is whole" $bad 0

# Forked children: the name of the environment is their parent's.
rm -f t*
plain t "$target" child c.trace 2>err
is "child: exit status" $? 0
diag <err
is "child: two files" "$(echo t* c.trace*)" "t c.trace"
dump c.trace >list && dump t >list1
is "child: its calls are its own" \
    "$(grep -c 'malloc 60005 ' list) $(cat list1 list | grep -c ' 60002')" \
    "100 20"
own_account "child: the parent" t
own_account "child: the child" c.trace
# With %p a child is as its parent was.
rm -f t*
TCMALLOC_TRACE_START=0 plain t.%p "$built/process/process_target" fork 2>err
is "START=0 with %p: nothing of the children" "$(find . -name 't.*')" ""

# START=0 goes on in what is exec'd in place; the name is not used up.
rm -f t*
TCMALLOC_TRACE_START=0 plain t env nice "$target" toggle 2>err
is "START=0 through env and nice: exit status" $? 0
diag <err
is "START=0 through env and nice: the names" "$(echo t*)" "t t.1"
TCMALLOC_TRACE_START=0 plain t sh -c "$target toggle; exit 7" 2>err
is "START=0 in a shell: the child is not the first process" $? 7
check "START=0 in a shell: it cannot start" grep -q 'target: start' err

# The numbers go on; a file older than the process is replaced. A process knows
# when it began to a hundredth of a second.
echo old >t.1
rm -f t
sleep 0.1
TCMALLOC_TRACE_START=0 plain t "$target" toggle 2>err
dump t.1 >list
is "a file of an earlier run is replaced" "$(grep -c 'malloc 60002 ' list)" 50

# A FIFO, and a file after it.
mkfifo pipe
timeout 20 cat pipe >one &
LD_PRELOAD=$tracing TCMALLOC_TRACE_UNCOMPRESSED=1 timeout 60 "$target" \
    path pipe d.trace 2>err
is "start to a FIFO: exit status" $? 0
wait $!
is "start to a FIFO: calls" "$(dump one | grep -c 'malloc 60002 ')" 200
is "start to a FIFO: and to a file" "$(dump d.trace | grep -c 'malloc 60002 ')" \
    201

# A limit: what was stopped at its size can be begun again.
if knows TCMALLOC_TRACE_LIMIT_MB; then
    rm -f t*
    # Events that wait to be saved when the limit is seen are saved, too.
    TCMALLOC_TRACE_LIMIT_MB=1 TCMALLOC_TRACE_BUFFER_MB=1 \
        record t "$target" limit 8 2>err
    is "limit, compressed: exit status" $? 51
    "$postprocess" --quiet --json json t p
    is "limit, compressed: whole" \
        "$(json json complete clean_end unmatched_frees)" "true true 0"
    at_least "limit, compressed: size" "$(wc -c <t)" 700000
    at_least "limit, compressed: not much more" 2300000 "$(wc -c <t)"
    check "limit: the trace says so" sh -c \
        '"$0" info t | grep -i "limit\|size"' "$malloc_trace"
fi

# Set up and off, malloc and free are those of a process that is not recorded:
# as many instructions, and no memory more.
cat >off.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *volatile keep;
int main(int argc, char **argv) {
    char line[200];
    for (int i = 0; i < 100000; i++) {
        keep = malloc((size_t)i % 500);
        free(keep);
    }
    FILE *f = argc > 1 && argv[1] ? fopen("/proc/self/status", "r") : NULL;
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, "RssAnon:", 8) == 0)
            printf("%d\n", atoi(line + 8));
    return 0;
}
C
if ${CC:-cc} -O1 -o off off.c 2>/dev/null; then
    anon() { LD_PRELOAD=$tracing "$@" ./off rss; }
    none=$(anon env)
    off=$(anon env TCMALLOC_TRACE_START=0 TCMALLOC_TRACE_OUTPUT=off.trace)
    at_least "off: no memory but the name of the output (KiB)" \
        $((none + 32)) "$off"
    if have valgrind && valgrind --tool=callgrind --version >/dev/null 2>&1; then
        none=$(LD_PRELOAD=$tracing valgrind --tool=callgrind \
            --callgrind-out-file=/dev/null ./off 2>&1 |
            sed -n 's/.*Collected : //p')
        off=$(TCMALLOC_TRACE_START=0 TCMALLOC_TRACE_OUTPUT=off.trace \
            LD_PRELOAD=$tracing valgrind --tool=callgrind \
            --callgrind-out-file=/dev/null ./off 2>&1 |
            sed -n 's/.*Collected : //p')
        # A tenth of an instruction a call would show.
        at_least "off: as many instructions ($off, $none)" \
            $((none + 40000)) "$off"
    else
        skip "off: as many instructions" "no valgrind"
    fi
fi

tap_end
