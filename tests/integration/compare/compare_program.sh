#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace compare -- COMMAND: the program behaves as ever, whatever it does,
# and its trace is used, or it is said why not; nothing is left behind.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need_python
# A program whose input is a pipe is not run again.
exec </dev/null

cat >does.c <<'END'
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void work(void) {
    static void *p[100];
    for (int i = 0; i < 20000; i++) {
        free(p[i % 100]);
        p[i % 100] = malloc((size_t)(i * 7919 % 500));
    }
}
static void nothing(int sig) {
    (void)sig;
}
int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    char line[100];
    work();
    if (strcmp(what, "fork") == 0) {
        if (fork() == 0) {
            work();
            puts("child");
            return 0;
        }
        wait(NULL);
        puts("parent");
    } else if (strcmp(what, "daemon") == 0) {
        if (fork() == 0) {
            setsid();
            work();
            sleep(3);
            return 0;
        }
        usleep(500000);
    } else if (strcmp(what, "killed") == 0) {
        puts("dying");
        fflush(stdout);
        raise(SIGKILL);
    } else if (strcmp(what, "status") == 0) {
        return 7;
    } else if (strcmp(what, "read") == 0) {
        while (fgets(line, sizeof(line), stdin) != NULL)
            printf("got %s", line);
    } else if (strcmp(what, "tty") == 0) {
        printf("terminal %d%d%d\n", isatty(0), isatty(1), isatty(2));
    } else if (strcmp(what, "wait") == 0) {
        sleep(30);
    } else if (strcmp(what, "serve") == 0) {
        signal(SIGINT, nothing);
        puts("serving");
        fflush(stdout);
        pause();
    } else {
        puts("out");
        fflush(stdout);
        fputs("err\n", stderr);
    }
    return 0;
}
END
echo 'int main(void) { return 0; }' >idle.c
# shellcheck disable=SC2086
$CC -O1 -fno-builtin -o does does.c 2>"$err" &&
    $CC -O1 -o idle idle.c 2>"$err" || skip_all "no compiler here"

get() { "$python" "$here/compare/compare_check.py" get j "$@" 2>&1; }
mkdir tmp
TMPDIR=$work/tmp
export TMPDIR
# compare COMMAND...: leaves j, $out, $err and $status.
compare() {
    rm -f j
    run timeout 120 "$malloc_trace" compare -a glibc -a tcmalloc-mt -n 2 \
        --json j "$@"
}
# clean WHAT: no temporary file is left.
clean() { is "$1: nothing is left behind" "$(ls -A tmp)" ""; }

compare -- ./does
is "a program: status and output" "$status,$(cat "$out")" "0,out"
is "its own message, once" "$(grep -c '^err$' "$err")" 1
like "the verdict is on standard error" "$err" "^processor time an operation"
is "its trace is used" "$(get glibc.runs tcmalloc-mt.runs)" "2|2"
clean "a program"
compare -n 3 -- ./does
is "three rounds: status, and output of one run" "$status,$(cat "$out")" "0,out"
like "three rounds: the cost of further recordings is told" "$err" \
    "./does is recorded 2 times more, which takes about [0-9.]+ "
is "three rounds: three recordings are the samples" "$(sed -n \
    's/^ *"recordings": \([0-9]*\).*/\1/p' j)" 3
is "three rounds: memory is not that of one recording" \
    "$(grep -c 'in this recording' "$err")" 0
clean "three rounds"
compare -n 3 --no-run-program -- ./does
is "--no-run-program records once" "$(grep -c 'times more' "$err")" 0
like "--no-run-program: memory is that of one recording" "$err" \
    "^peak resident memory, beside glibc, in this recording"
compare --all-processes -- ./does fork
is "one that forks: status and output" "$status,$(cat "$out")" "0,child
parent"
is "both processes are replayed" "$(get tcmalloc-mt.runs)" 4
clean "one that forks"
compare -- sh -c './does; ./does fork; exit 0'
is "a shell that starts others" "$status" 0
is "the largest process alone is replayed" "$(get tcmalloc-mt.runs)" 2
like "and named, as are the others with their calls" "$err" \
    "does\.[0-9]+ .[0-9,]+ calls. is compared; 3 of 4 recorded processes are left out: does\.[0-9]+ .[0-9,]+ calls.*, (sh|dash|bash)\.[0-9]+ "
like "and the option that adds them" "$err" "--all-processes adds"
compare -- ./does daemon
is "one that goes on in the background: status" "$status" 0
like "which is told" "$err" "does\.[0-9]+ still runs, and what it does from now"
is "and nothing of its events" "$(grep -c 'holds no events' "$err")" 0
ln -s does linked
compare -- ./linked
is "a link to a program" "$status" 0
like "is called by the link's name" "$err" "^linked\.[0-9]+: "
compare -- ./does killed
is "one that is killed: status and output" "$status,$(cat "$out")" "0,dying"
like "which is told" "$err" "does: ended by signal 9 "
is "what it did is compared" "$(get tcmalloc-mt.runs)" 2
clean "one that is killed"
compare -- ./does status
is "one that fails" "$status" 0
like "which is told" "$err" "does: exit status 7; what it did until then is"
run sh -c 'printf "a\nb\n" | "$0" compare -a glibc -a tcmalloc-mt -n 1 --json j \
    -- ./does read' "$malloc_trace"
is "one that reads from a pipe" "$status,$(cat "$out")" "0,got a
got b"
compare -- sh -c 'yes 0123456789 | head -c 200000000'
is "200 MB of output: status" "$status" 0
is "and all of it" "$(cksum <"$out")" "$(yes 0123456789 |
    head -c 200000000 | cksum)"
: >"$out"
compare -- ./idle
is "one that allocates nothing is not judged" "$status" 3
like "one that allocates nothing: why" "$err" "no call of malloc was recorded"
clean "one that allocates nothing"
compare -- ./gone
is "one that does not exist" "$status" 1
like "is named" "$err" "gone"
clean "one that does not exist"
if have script; then
    script -qec "\"$malloc_trace\" compare -a glibc -a tcmalloc-mt -n 1 \
        --json j -- ./does tty" typescript >"$out" 2>"$err" </dev/null
    is "on a terminal" $? 0
    like "it has the terminal" "$out" "terminal [01]11"
else
    skip "on a terminal" "no script"
fi

for kind in json csv html; do
    "$malloc_trace" compare -q -a glibc -a tcmalloc-mt -n 1 --$kind - -- ./does \
        >"$out" 2>"$err"
    is "--$kind to standard output: status" $? 0
    is "has none of the program's output" "$(grep -c '^out$' "$out")" 0
    is "which is on standard error" "$(grep -c '^out$' "$err")" 1
    [ $kind != json ] || cp "$out" j
done
is "which is JSON alone" "$(get glibc.runs)" 1

# --- The program under each ---------------------------------------------------

# program JSON: its figures are whole
program() {
    "$python" -c '
import json
p = json.load(open("j"))["program"]
assert {(x["contestant"], x["figure"]) for x in p} == {
    ("tcmalloc-mt", "cpu_ns"), ("tcmalloc-mt", "peak_rss_bytes")}, p
assert all(x["true_ratio"] > 0 and x["opinion"] for x in p), p' 2>"$err"
    result "$1: in the JSON" $?
    diag 5 <"$err"
}
compare --run-program -- ./does </dev/null
is "run itself, too: status and output" "$status,$(cat "$out")" "0,out"
like "prediction beside truth" "$err" "^The program itself, processor time"
like "and which of them the first line has" "$err" \
    "^The recommendation goes by what is predicted"
like "of memory, too" "$err" "^The program itself, peak memory"
like "with both figures" "$err" "^  tcmalloc-mt  *[0-9.]+ +[0-9.]+ "
is "of two rounds nothing is said to be even" \
    "$(grep -c '^  tcmalloc-mt .* not known: too few rounds$' "$err"),$(
        grep -c 'about even' "$err")" 2,0
program "run itself"
clean "run itself"
compare -n 8 -- ./does </dev/null
like "so it is without an option" "$err" "^The program itself, processor time"
is "which is not left out" "$(get program_skipped)" null
program "without an option"
compare --no-run-program -- ./does </dev/null
is "but not against the user's will" "$status,$(grep -c '^The program itself' \
    "$err"),$(get program program_skipped)" "0,0,null|null"
printf x | "$malloc_trace" compare --run-program -- ./does >"$out" 2>"$err"
is "input that cannot be read again" $? 2
like "which is said" "$err" "--run-program: standard input cannot be read again"

# The peak of a small program is its own, though the process that runs it is
# larger. The program tells what the kernel knows of its memory alone.
cat >small.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    char line[200];
    char *block = malloc(100000);
    FILE *status = fopen("/proc/self/status", "r"), *out = fopen("told", "a");
    for (int i = 0; i < 20000; i++)
        free(malloc(100));
    memset(block, 1, 100000);
    while (fgets(line, sizeof(line), status) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0)
            fputs(line, out);
    free(block);
    return 0;
}
END
check "a small program" $CC -O1 -o small small.c
"$malloc_trace" compare -q -a glibc -a jemalloc -n 3 --json j --run-program \
    -- ./small </dev/null >"$out" 2>"$err"
is "is compared" $? 0
"$python" -c '
import json
peak = [x["baseline"] for x in json.load(open("j"))["program"]
        if x["figure"] == "peak_rss_bytes"][0]
told = sorted(int(x.split()[1]) * 1024 for x in open("told"))
# the first ones are of the baseline, glibc, which needs least
assert abs(peak - told[1]) < 0.2 * told[1], (peak, told)' 2>"$err"
result "and its peak memory is what it says itself" $?
diag 5 <"$err"

# skipped WHAT WHY: the program was recorded alone.
skipped() {
    is "$1: status" "$status" 0
    get program_skipped >got
    like "$1: why the program is not run again" got "$2"
    like "$1: in the report" "$err" "^The program itself was not run .*: $2"
}
rm -f j
run sh -c 'printf x | "$0" compare -a glibc -a tcmalloc-mt -n 4 --json j -- \
    ./does' "$malloc_trace"
skipped "a pipe" "its standard input cannot be read again"
compare -- ./does status </dev/null
skipped "one that fails" "it failed when it was recorded"
compare -n 3 -- sh -c './does; sleep 8' </dev/null
skipped "one that takes long" "three rounds of it would take too long"
cat >only.sh <<'END'
case ${LD_PRELOAD-} in *libtcmalloc_minimal[-.]*) exit 3 ;; esac
exec ./does
END
compare --run-program -- sh only.sh </dev/null
is "one that fails under an allocator: status" "$status" 0
like "is told" "$err" "^tcmalloc-mt failed in 1 run: the program itself: exit"
is "and nothing is recommended" \
    "$("$python" -c 'import json
print(json.load(open("j"))["recommendation"]["advice"])')" none

# A server that its client ended when it was recorded does not end by itself: the
# replays' verdict stays.
cat >server.sh <<'END'
./does
[ -e "$1" ] || exec sleep 300
rm "$1"
END
touch once
compare -n 3 -- sh server.sh once </dev/null
is "a server: status" "$status" 0
like "a server: a line says before that it is run again" "$err" \
    "^malloc-trace compare: sh is recorded 2 times more, which takes about"
get program_skipped >got
like "is not run again" got "it did not end by itself"
is "and no contestant fails of it" "$(get glibc.failed tcmalloc-mt.failed)" \
    "$(get glibc.failed glibc.failed)"

# --- A program that is not seen -----------------------------------------------

# not_judged PROGRAM WHY : no command judges it, nor starts it
not_judged() {
    for command in leaks compare tune memory 'gate --save-baseline unseen'; do
        fails_with "$command does not judge $1" 3 \
            "$malloc_trace" $command -- ./$1
        like "$command says first why $1 is not judged" "$err" \
            "^malloc-trace ${command%% *}: not judged: ./$1: its file $2"
        is "$command prints nothing else of $1" \
            "$(cat "$out" "$err" | grep -c .)" 1
    done
    is "no counts of $1 are saved" "$(ls unseen 2>&-)" ""
}
{
    echo 'void *_rjem_malloc(long n) { return (void *)n; }'
    cat does.c
} >rjem.c
if run $CC -o rjem rjem.c; then
    not_judged rjem "has an allocator of its own \(jemalloc\).*; build it"
fi
if run $CC -static -o static_does does.c; then
    not_judged static_does "is statically linked.*; link it with"
else
    skip "a static one" "no static C library"
fi
for command in leaks compare tune memory 'gate --save-baseline unseen'; do
    fails_with "$command of a program in place of a trace" 1 \
        "$malloc_trace" $command ./does
    like "$command says how to run a program" "$err" \
        "ELF file .*; to run it: malloc-trace ${command%% *} -- ./does\$"
done
printf 'void *malloc(unsigned long n) { return (char *)n; }\n%s\n' \
    'int main(void) { return malloc(9) == 0; }' >own.c
run $CC -w -fno-builtin -o own own.c
run "$malloc_trace" record -q -o own.lz4 -- ./own
for command in leaks report compare tune memory 'gate --save-baseline unseen'; do
    fails_with "$command does not judge a trace without calls" 3 \
        "$malloc_trace" $command own.lz4
    like "$command says first that no call was recorded" "$err" \
        "^malloc-trace ${command%% *}: not judged: own.lz4: no call of malloc"
done

# A trace of few calls, of a program whose file has an allocator, is not judged;
# one of a program that is linked with an allocator's library is.
for command in leaks compare tune memory 'gate --save-baseline unseen'; do
    [ -e rjem ] || continue
    "$malloc_trace" record -q -o rjem.lz4 -- ./rjem 2>"$err"
    fails_with "$command does not judge a trace of rjem" 3 \
        "$malloc_trace" $command rjem.lz4
    like "$command says first whose blocks it lacks" "$err" \
        "^malloc-trace ${command%% *}: not judged: rjem.lz4: .*own \\(jemalloc\\)"
    is "$command says nothing else of it" "$(cat "$out" "$err" | grep -c .)" 1
done
is "no counts of rjem.lz4 are saved" "$(ls unseen 2>&-)" ""
run "$malloc_trace" record -q -o script.lz4 -- \
    env TCMALLOC_TRACE_ALLOCATOR=jemalloc/other ./does
check "a program of another name is judged" "$malloc_trace" gate \
    --save-baseline counts.other script.lz4
{
    echo 'int mallctl(const char *n, void *a, void *b, void *c, long d);'
    echo '__attribute__((constructor)) static void ask(void) {'
    echo '    mallctl("thread.tcache.flush", 0, 0, 0, 0);'
    echo '}'
    cat does.c
} >linked.c
if run $CC -o linked linked.c -l:libjemalloc.so.2; then
    run "$malloc_trace" record -q -o linked.lz4 -- ./linked
    is "one that is linked with jemalloc: no warning" \
        "$(grep -c 'allocator of its' "$err")" 0
    check "one that is linked with jemalloc is judged" "$malloc_trace" gate \
        --save-baseline counts.linked linked.lz4
else
    skip "one that is linked with jemalloc" "it cannot be linked"
fi

# --- Gate ---------------------------------------------------------------------

for output in json csv html; do
    fails_with "counts have no --$output" 2 \
        "$malloc_trace" gate --save-baseline counts --$output - -- ./does
    like "which is said" "$err" "^malloc-trace gate: --save-baseline prints"
done
# A program with a function by which Python is known.
echo 'void Py_BytesMain(void) { }' >python.c
run $CC -O1 -fno-builtin -o python does.c python.c
run env -u PYTHONMALLOC "$malloc_trace" gate --save-baseline counts -- ./python
is "a gate for Python: status" "$status" 0
is "it says once what is not counted" \
    "$(grep -c 'gate: ./python: .*Python.*will not be in the trace' "$err")" 1
run env PYTHONMALLOC=malloc "$malloc_trace" gate --against counts -- ./python
is "with all of them nothing is said" "$(grep -c 'will not be' "$err")" 0

# Threads that take turns as they like, and a figure of which none decides.
cat >threads.c <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *work(void *count) {
    for (long i = 0; i < (long)count; i++) {
        void *volatile block = malloc(3000 + (size_t)i % 100);
        if (i % 64 == 0)
            usleep(100);
        free(block);
    }
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t thread[3];
    unsigned char *blocks[400], chance;
    int random = getentropy(&chance, 1);
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, work, (void *)1000);
    /* chance decides up to 2 MB of the peak, as threads may */
    for (int i = 0; random == 0 && i < chance % 50; i++)
        blocks[i] = malloc(40000);
    for (int i = 0; random == 0 && i < chance % 50; i++)
        free(blocks[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 300 + argc * 3; i++)
        blocks[0] = malloc(10);
    return argv[0] == NULL;
}
END
if run $CC -O1 -fno-builtin -pthread -o threads threads.c; then
    run "$malloc_trace" gate --save-baseline counts -- ./threads
    like "a baseline says how often its command is recorded" "$err" \
        "is recorded 5 times in all"
    like "a baseline says how many counts differ between recordings" "$err" \
        "in 5 recordings, of which [1-9]"
    for run in 1 2 3 4 5; do
        fails_with "what chance decides fails no gate ($run)" 0 \
            "$malloc_trace" gate --against counts -- ./threads
    done
    fails_with "1 % of a count that repeats fails it" 4 \
        "$malloc_trace" gate --against counts -- ./threads more
    like "1 % of a count that repeats is named" "$err" \
        "^calls_of_size_to.15 .*MORE"
    "$malloc_trace" record -q -o threads.lz4 -- ./threads
    run "$malloc_trace" gate --save-baseline counts threads.lz4
    fails_with "beside one recording, threads are not judged" 0 \
        "$malloc_trace" gate --against counts -- ./threads
    like "beside one recording, what to do is said" "$err" \
        "^[0-9]+ counts are not judged: threads .*; save it from the command"
else
    skip "a gate of threads" "no threads here"
fi
# A program that leaves a file for its next run.
cat >leaves.c <<'END'
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    void *volatile block;
    int first = access("left", F_OK) != 0;
    for (int i = 0; i < 100 + 100 * first; i++)
        block = malloc(10);
    return close(open("left", O_CREAT | O_WRONLY, 0666));
}
END
run $CC -O1 -fno-builtin -o leaves leaves.c
run "$malloc_trace" gate --save-baseline counts -- ./leaves
like "files for the next run are named where they change counts" "$err" \
    "the first recording has 20[0-9] calls, the others 10[0-9]: files that"
printf 'a\n' | "$malloc_trace" gate --save-baseline counts -- ./does read \
    >"$out" 2>"$err"
like "input that cannot be read again: one recording" "$err" \
    "standard input cannot be read again: there is one recording"
run "$malloc_trace" gate --save-baseline counts -- ./does read <leaves.c
is "a file is each recording's input" "$(grep -c 'got .*<fcntl' "$out")" 5
rm counts python

# --- Interruption -------------------------------------------------------------

rm -f j
timeout --foreground --preserve-status -s INT 5 "$malloc_trace" compare -n 2000 \
    -a glibc -a tcmalloc-mt --json j -- ./does >"$out" 2>"$err"
is "interrupted" "$?,$(cat "$out"),$(get interrupted)" 3,out,true
clean "interrupted"

# --- A server, which a signal ends --------------------------------------------

for how in INT TERM; do
    rm -f j
    # the process that timeout signals, not its group, as for a terminal
    timeout --foreground --preserve-status -s $how 2 "$malloc_trace" compare \
        -n 2 -a glibc -a tcmalloc-mt --json j -- ./does wait >"$out" 2>"$err"
    is "one that SIG$how ends is compared" "$?,$(get interrupted glibc.runs)" \
        "0,false|2"
    like "which is told" "$err" "the program is asked to end; what it did until"
    clean "one that SIG$how ends"
done
timeout --foreground --preserve-status -s INT 2 "$malloc_trace" compare \
    --save-baseline served -- ./does wait >"$out" 2>"$err"
is "nor does a gate take it for a failure" "$?,$(ls served)" "0,served"
if have setsid; then
    # in the background of a script, where an interrupt is ignored
    rm -f j
    # shellcheck disable=SC2016
    setsid sh -c 'trap "" INT
exec "$0" compare -n 1 -a glibc -a tcmalloc-mt --json j -- ./does serve' \
        "$malloc_trace" >"$out" 2>"$err" &
    eventually 100 grep -q serving "$out"
    kill -INT -- -$!
    wait $!
    is "one that ends by an ignored interrupt is compared" \
        "$?,$(get interrupted glibc.runs)" "0,false|1"
    get program_skipped >got
    like "and is not run again" got "a signal ended it when it was recorded"
else
    skip "an ignored interrupt" "no setsid"
fi
if have setsid && have script; then
    # a terminal sends its interrupt to all of the group
    { sleep 2 && printf '\003' && sleep 30; } |
        timeout 60 script -qec "\"$malloc_trace\" compare -n 1 -a glibc \
        -a tcmalloc-mt --json j -- ./does wait" typescript >"$out" 2>"$err"
    is "one that Ctrl-C ends is compared" "$(get interrupted glibc.runs)" \
        "false|1"
else
    skip "Ctrl-C" "no script"
fi

# --- Killed: the next one removes what stays ----------------------------------

recording() { set -- tmp/*/does.*.raw.spool && [ -e "$1" ]; }
replaying() { set -- tmp/*/0.trace.lz4 && [ -e "$1" ]; }
# killed WHEN COMMAND...: kills a comparison of the command at that moment.
killed() {
    when=$1
    shift
    "$malloc_trace" compare -q -n 2000 -a glibc -a tcmalloc-mt -- "$@" \
        >"$out" 2>&1 &
    eventually 100 "$when"
    result "it is $when" $?
    kill -KILL $!
    wait $! 2>"$work/.wait"
}
killed recording ./does wait
compare -- ./does
recording
result "what a program is recorded to stays" $?
program=$(basename tmp/*/does.*.raw.spool .raw.spool)
kill "${program#does.}"
eventually 10 sh -c "! kill -0 ${program#does.}"
compare -- ./does
clean "a killed comparison whose program has ended"
killed replaying ./does
at_least "folders that it left" "$(find tmp -mindepth 1 -type d | wc -l)" 1
"$malloc_trace" compare -q -n 2000 --no-run-program -a glibc -a tcmalloc-mt \
    -- ./does >"$out" 2>&1 &
other=$!
eventually 100 replaying
compare -- ./does
is "folders of one that runs meanwhile stay" \
    "$(find tmp -mindepth 1 -maxdepth 1 -type d | wc -l)" 1
kill $other
wait $other
is "it is not disturbed" $? 3
clean "one that was killed while it replayed"
tap_end
