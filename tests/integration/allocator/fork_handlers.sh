#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Other code around fork: handlers of libraries, in every order in which they
# and ours are loaded; streams; signals; children that make threads first.
. "$top_srcdir/tests/lib/harness.sh"
: "${CC:=cc}"
need "$minimal"
$CC --version >/dev/null 2>&1 || skip_all "no compiler"
target=$built/allocator/fork_handlers
need "$target"
cd "$work" || exit 99

# runs NAME COMMAND...: ends by itself, with status 0.
runs() {
    runs_name=$1
    shift
    timeout -k 5 60 "$@" >out 2>&1
    runs_status=$?
    is "$runs_name" $runs_status 0
    [ $runs_status -eq 0 ] || diag <out
}

# --- Handlers of a library --------------------------------------------------

# Registered before or after its first malloc; that allocate, free what another
# thread made, and have a worker that ends and begins around each fork.
cat >handlers.c <<'C'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void *mine[64], *theirs[64];
static pthread_t worker;
static int works;
static void *work(void *unused) {
    for (int i = 0; i < 64; i++) {
        free(mine[i]);
        mine[i] = malloc(i * 300 + 1);
    }
    return unused;
}
static void begin(void) {
    works = pthread_create(&worker, NULL, work, NULL) == 0;
}
static void end(void) {
    if (works)
        pthread_join(worker, NULL);
    works = 0;
}
static void heap(void) {
    for (int i = 0; i < 64; i++) {
        void *p = malloc(70 * i + 1);
        memset(p, 1, 70 * i + 1);
        free(theirs[i]);
        theirs[i] = p;
        free(mine[i]);
        mine[i] = NULL;
    }
    free(malloc(400000));
}
static void prepare(void) { end(); begin(); end(); heap(); }
static void around(void) { heap(); begin(); end(); begin(); }
__attribute__((constructor)) static void init(void) {
#ifdef FIRST_MALLOC
    free(malloc(10));
#endif
    pthread_atfork(prepare, around, around);
    begin();
}
int handlers_are_here(void) { return works; }
C
cat >app.c <<'C'
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int handlers_are_here(void);
int main(void) {
    int failed = handlers_are_here() < 0;
    for (int i = 0; i < 10; i++) {
        int status = 1;
        pid_t pid = fork();
        if (pid == 0) {
            free(malloc(1000));
            if (i % 2)
                exit(0);
            _exit(0);
        }
        waitpid(pid, &status, 0);
        failed += status != 0;
    }
    return failed;
}
C
libs=$(dirname "$minimal")
lz4=-llz4
[ "${TCM_HAVE_LZ4:-yes}" != no ] || lz4=
check "the library with handlers" $CC -O1 -fPIC -shared -o libhandlers.so \
    handlers.c -pthread
check "and with a malloc before them" $CC -O1 -fPIC -shared -DFIRST_MALLOC \
    -o libhandlers_m.so handlers.c -pthread
for kind in handlers handlers_m; do
    $CC -O1 -o "app_$kind" app.c -L. -l$kind -Wl,-rpath,"$work" -pthread
    runs "$kind: the C library's malloc" "./app_$kind"
    for library in "$minimal" "$tracing"; do
        [ -e "$library" ] || continue
        name=$(basename "$library" .so)
        name=${name#lib}
        runs "$kind: $name preloaded" env LD_PRELOAD="$library" "./app_$kind"
        runs "$kind: $name preloaded before it" \
            env LD_PRELOAD="$library $work/lib$kind.so" "./app_$kind"
        runs "$kind: $name preloaded after it" \
            env LD_PRELOAD="$work/lib$kind.so $library" "./app_$kind"
        $CC -O1 -o first app.c -L"$libs" -l$name -L. -l$kind \
            -Wl,--no-as-needed,-rpath,"$work:$libs" -pthread
        runs "$kind: linked, $name first" ./first
        $CC -O1 -o last app.c -L. -l$kind -Wl,--no-as-needed -L"$libs" -l$name \
            -Wl,-rpath,"$work:$libs" -pthread
        runs "$kind: linked, $name last" ./last
        for over in "$minimal" "$tracing"; do
            [ -e "$over" ] || continue
            runs "$kind: linked, $name last, $(basename "$over" .so) preloaded" \
                env LD_PRELOAD="$over" ./last
        done
        if [ -e "$libs/lib$name.a" ]; then
            # A main program whose malloc the library finds.
            if $CC -O1 -rdynamic -o archive app.c -L. -l$kind \
                "$libs/lib$name.a" -Wl,-rpath,"$work" -pthread -ldl \
                ${lz4:+"$lz4"} >cc.log 2>&1
            then
                runs "$kind: linked with the archive of $name" ./archive
            else
                fail "$kind: links with the archive of $name"
                diag <cc.log
            fi
        fi
    done
    [ -e "$tracing" ] || continue
    runs "$kind: recorded" env LD_PRELOAD="$tracing" \
        TCMALLOC_TRACE_OUTPUT="$kind.$suffix" "./app_$kind"
    runs "$kind: recorded with its children" env LD_PRELOAD="$tracing" \
        TCMALLOC_TRACE_OUTPUT="$kind.%p.$suffix" "./app_$kind"
    [ -x "$postprocess" ] || continue
    whole=0 lost=0
    # A child that ends by _exit leaves a spool. Without __libc_single_threaded
    # the program loses events of the thread that was made before set-up.
    for file in $(ls | sed -n "s/^\($kind\.[0-9]*\.$suffix\).*/\1/p" |
        sort -u); do
        if "$postprocess" -q "$file" p >/dev/null 2>err; then
            whole=$((whole + 1))
        elif ! libc_has __libc_single_threaded &&
            grep -q 'events were dropped while recording' err; then
            lost=1
        fi
    done
    is "$kind: the program's trace and its children's are whole" \
        $((whole + lost)) 11
done

# A numerical library stops its threads before a fork and makes them anew.
numpy=
for candidate in "$python" /usr/bin/python3; do
    [ -x "$candidate" ] && "$candidate" -c 'import numpy' 2>/dev/null &&
        numpy=$candidate && break
done
if [ -n "$numpy" ]; then
    cat >matrix.py <<'PY'
import os, numpy
a = numpy.ones((300, 300))
for i in range(5):
    a.dot(a)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if a.dot(a)[0, 0] == 300 else 1)
    if os.waitpid(pid, 0)[1] != 0:
        raise SystemExit(1)
PY
    for library in "$minimal" "$tracing"; do
        [ ! -e "$library" ] ||
            runs "numpy under $(basename "$library" .so)" \
                env OPENBLAS_NUM_THREADS=3 LD_PRELOAD="$library" "$numpy" \
                matrix.py
    done
else
    skip "numpy" "not installed"
fi

# --- Streams, signals, threads ----------------------------------------------

for library in "$minimal" "$tracing"; do
    [ -e "$library" ] || continue
    name=$(basename "$library" .so)
    runs "$name: getline, fflush(NULL) and fork" env LD_PRELOAD="$library" \
        "$target" stdio lines
    runs "$name: fork in a signal handler" env LD_PRELOAD="$library" \
        "$target" signal
    runs "$name: a child that makes a thread first" \
        env LD_PRELOAD="$library" "$target" thread
done
if [ -e "$tracing" ]; then
    for output in r.$suffix "r.%p.$suffix"; do
        rm -f r.*
        runs "recorded to $output: getline, fflush(NULL) and fork" \
            env LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT="$output" \
            "$target" stdio lines
    done
    for how in thread thread-Fork first-Fork first-clone; do
        rm -f r.*
        runs "$how: recorded" env LD_PRELOAD="$tracing" \
            TCMALLOC_TRACE_OUTPUT="r.%p.$suffix" "$target" $how
        [ -x "$postprocess" ] && [ -n "$python" ] || continue
        whole=0 events=0
        for file in r.*."$suffix"; do
            "$postprocess" -q --json j "$file" p >/dev/null 2>err || diag <err
            [ "$(json j complete)" = true ] && whole=$((whole + 1))
            events=$((events + $(json j mallocs)))
        done
        # There are 8 children; each of their 3 threads allocates 20,000 times, or once.
        case $how in
        first*) is "$how: the children's traces" "$whole $events" "8 8" ;;
        *)
            is "$how: all traces are whole" $whole 9
            at_least "$how: all events of all threads" $events 480000
            ;;
        esac
    done
fi

# --- Waiting ----------------------------------------------------------------

if [ -e "$tracing" ]; then
    rm -f r.*
    runs "vfork: recorded" env LD_PRELOAD="$tracing" \
        TCMALLOC_TRACE_OUTPUT="r.%p.$suffix" "$target" vfork
    for file in r.*; do
        check_trace "vfork" "$file" 800000
    done
    # The reader takes nothing until the program has forked.
    mkfifo fifo
    (
        exec 3<fifo
        while [ ! -e forked ] && [ ! -e over ]; do sleep 0.1; done
        cat <&3 >late.trace
    ) &
    runs "fork beside a thread past its end that waits for the trace's reader" \
        env LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT=fifo \
        TCMALLOC_TRACE_BUFFER_MB=1 TCMALLOC_TRACE_UNCOMPRESSED=1 \
        "$target" late forked
    : >over
    wait
    [ ! -x "$postprocess" ] || [ -z "$python" ] ||
        check_trace "its trace" late.trace 6000000
fi
tap_end
