#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Other preloaded libraries, which stand before functions of the C library: the
# recorder calls none of them, in whatever order the two are named.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$postprocess" "$replay"
: "${CC:=cc}"
for lib in rough kind; do
    flags=
    [ $lib = kind ] || flags=-DROUGH
    # shellcheck disable=SC2086
    $CC -shared -fPIC -O1 -fno-builtin $flags -o $lib.so \
        "$here/process/other_preload.c" -ldl -pthread 2>err ||
        skip_all "no compiler here"
done
$CC -O1 -fno-builtin -o target "$here/process/other_preload_target.c" -ldl -pthread \
    2>err || skip_all "no compiler here"

# beside NAME PRELOAD [SETTING...]: the program's output and status are its own,
# and the trace is complete.
beside() {
    name=$1
    preload=$2
    shift 2
    rm -f t.*
    timeout -k 5 100 env "$@" TCMALLOC_TRACE_OUTPUT="t.$suffix" \
        LD_PRELOAD="$preload" ./target >out.txt 2>err.txt
    is "$name: status" $? 7
    is "$name: output" "$(cat out.txt)" "4
end
end"
    is "$name: nothing on stderr" "$(cat err.txt)" ""
    check_trace "$name" "t.$suffix" 160000
}

for lib in ./rough.so ./kind.so; do
    beside "$lib in front" "$lib:$tracing"
    beside "$lib behind" "$tracing:$lib"
done
beside "callers" "$tracing:./rough.so" TCMALLOC_TRACE_SITES=caller
beside "stacks" "./rough.so:$tracing" TCMALLOC_TRACE_SITES=stack
beside "control socket" "./rough.so:$tracing" TCMALLOC_TRACE_CONTROL=1
beside "no compression" "./rough.so:$tracing" TCMALLOC_TRACE_UNCOMPRESSED=1
for lib in ./rough.so ./kind.so; do
    rm -f p.*
    timeout -k 5 100 env TCMALLOC_TRACE_OUTPUT="p.%p.$suffix" \
        LD_PRELOAD="$lib:$tracing" ./target >out.txt 2>err.txt
    is "a file a process, $lib: status" $? 7
    is "a file a process, $lib: files" "$(find . -name "p.*.$suffix" | wc -l)" 2
    for file in p.*; do
        check_trace "$file" "$file" 10000
    done
    timeout -k 5 100 env LD_PRELOAD="$lib:$minimal" ./target >out.txt 2>err.txt
    is "not recording, $lib: status" $? 7
done

# A malloc family with a lock of its own, from which the loader takes the memory
# of threads.
cat >locked.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define LOCKED(name, ...)                                                      \
    static void *(*next)();                                                    \
    pthread_mutex_lock(&lock);                                                 \
    if (next == NULL)                                                          \
        next = (void *(*)())dlsym(RTLD_NEXT, name);                            \
    void *result = next(__VA_ARGS__);                                          \
    pthread_mutex_unlock(&lock);                                               \
    return result
void *malloc(size_t n) { LOCKED("malloc", n); }
void *calloc(size_t n, size_t size) { LOCKED("calloc", n, size); }
void *realloc(void *p, size_t n) { LOCKED("realloc", p, n); }
void free(void *p) {
    static void (*next)(void *);
    pthread_mutex_lock(&lock);
    if (next == NULL)
        next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next(p);
    pthread_mutex_unlock(&lock);
}
END
cat >loop.c <<'END'
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void loop(void) {
    for (int i = 0; i < 100000; i++)
        free(malloc(5000));
}
int main(void) {
    int status;
    loop();
    if (fork() == 0) {
        loop();
        exit(3);
    }
    wait(&status);
    return WEXITSTATUS(status);
}
END
if $CC -shared -fPIC -O1 -fno-builtin -o locked.so locked.c -ldl -pthread 2>err &&
    $CC -O1 -fno-builtin -o loop loop.c 2>err; then
    rm -f p.*
    timeout -s KILL 60 env TCMALLOC_TRACE_OUTPUT="p.%p.$suffix" \
        LD_PRELOAD="./locked.so:$tracing" ./loop >out.txt 2>err.txt
    is "a malloc with a lock: status" "$? $(cat err.txt)" "3 "
    is "a malloc with a lock: files" "$(find . -name "p.*.$suffix" | wc -l)" 2
    for file in p.*; do
        check_trace "a malloc with a lock" "$file" 200000
    done
    # the fork handler must not create a thread with that calloc
    timeout -s KILL 60 env TCMALLOC_TRACE_CONTROL=1 \
        LD_PRELOAD="./locked.so:$tracing" ./loop >out.txt 2>err.txt
    is "a malloc with a lock, control socket: status" "$? $(cat err.txt)" "3 "
else
    skip "a malloc with a lock" "no compiler here"
fi

# A malloc that the user preloads gets no calls: record says so.
cat >own.c <<'END'
#include <stddef.h>
extern void *__libc_malloc(size_t n);
void *malloc(size_t n) { return __libc_malloc(n); }
END
echo 'int plain;' >plain.c
$CC -shared -fPIC -o plain.so plain.c
if $CC -shared -fPIC -O1 -fno-builtin -o own.so own.c 2>err &&
    LD_PRELOAD=./own.so sh -c : 2>err && [ ! -s err ]; then
    for lib in own plain; do
        LD_PRELOAD="./$lib.so" "$malloc_trace" record -q -o "r.$suffix" -- \
            ./target >out.txt 2>err
        is "record beside $lib.so: status" $? 7
        is "record: of $lib.so's malloc is warned, if it has one" \
            "$(grep -c "LD_PRELOAD has ./$lib.so, whose malloc gets no" err)" \
            "$([ $lib = own ] && echo 1 || echo 0)"
    done
else
    skip "record beside a preloaded malloc" "no __libc_malloc"
fi

# Such libraries as are in use, where they are installed.
for lib in libuid_wrapper.so faketime/libfaketime.so.1; do
    found=$(find /usr/lib /usr/lib64 -path "*/$lib" 2>/dev/null | head -n 1)
    [ -n "$found" ] || {
        skip "$lib" "not installed"
        continue
    }
    for preload in "$tracing:$found" "$found:$tracing"; do
        beside "$lib" "$preload" UID_WRAPPER=1 \
            FAKETIME="@2020-01-01 00:00:00 i2.0"
    done
done
tap_end
