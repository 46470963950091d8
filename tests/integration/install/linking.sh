#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs linked with the libraries, shared and static, instead of preloading.
. "$top_srcdir/tests/lib/harness.sh"
need "$minimal" "$tracing"
: "${CC:=cc}" "${CXX:=c++}"
$CC --version >/dev/null 2>&1 || skip_all "no compiler"
cat >"$work/a.c" <<'C'
#include <pthread.h>
#include <stdlib.h>
#include <stdbool.h>
#include <gperftools/thread_cache_switch.h>
static void *thread(void *arg) { free(arg); return malloc(80001); }
int main(void) {
    pthread_t id;
    void *p = malloc(80000), *q;
    struct ThreadCacheState *s;
    if (pthread_create(&id, 0, thread, p) || pthread_join(id, &q))
        return 2;
    free(q);
    return release_malloc_thread_cache(&s) && set_malloc_thread_cache(s) ? 21 : 1;
}
C
cat >"$work/a.cc" <<'C'
#include <new>
#include <string>
#include <vector>
int main() {
    std::vector<std::string> v(1000, std::string(100, 'x'));
    volatile size_t huge = (size_t)1 << 62;
    try {
        delete[] new char[huge];
    } catch (const std::bad_alloc &) {
        return v.size() == 1000 ? 22 : 1;
    }
    return 2;
}
C
dir=$(dirname "$minimal")
cd "$work" || exit 99

# build NAME COMMAND...
build() {
    build_name=$1
    shift
    check "$build_name: links" "$@"
}

for name in minimal minimal_tracing; do
    build "$name, shared" $CC -o shared a.c -I"$top_srcdir/src" \
        -L"$dir" -ltcmalloc_$name -Wl,-rpath,"$dir" -pthread
    timeout 60 ./shared
    is "$name, shared: runs" $? 21
    soname=$(readelf -Wd "$dir/libtcmalloc_$name.so" |
        sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    is "$name, shared: by its name" \
        "$(ldd ./shared | grep -c "^[[:blank:]]*$soname => $dir/")" 1
    build "$name, shared, C++" $CXX -o sharedxx a.cc \
        -L"$dir" -ltcmalloc_$name -Wl,-rpath,"$dir" -pthread
    timeout 60 ./sharedxx
    is "$name, shared, C++: runs" $? 22
    archive=$dir/libtcmalloc_$name.a
    if [ -e "$archive" ]; then
        # The archive of the tracing library needs liblz4 of the system. Before
        # 2.34 glibc has dlsym in a library of its own.
        libraries=-ldl
        if [ $name = minimal_tracing ] && [ "${TCM_HAVE_LZ4:-yes}" != no ]; then
            libraries="-llz4 -ldl"
        fi
        # shellcheck disable=SC2086
        build "$name, archive" $CC -o static a.c -I"$top_srcdir/src" \
            "$archive" $libraries -pthread
        timeout 60 ./static
        is "$name, archive: runs" $? 21
        # shellcheck disable=SC2086
        build "$name, archive, C++" $CXX -o staticxx a.cc "$archive" \
            $libraries -pthread
        timeout 60 ./staticxx
        is "$name, archive, C++: runs" $? 22
    else
        skip "$name, archive" "not built"
    fi
done

# recorded NAME PROGRAM STATUS LEAST: linked or preloaded, what is recorded is
# whole.
recorded() {
    [ -x "$postprocess" ] && [ -n "$python" ] || return
    rm -f json trace.*
    TCMALLOC_TRACE_OUTPUT=$work/trace.$suffix timeout 60 "$2" >/dev/null
    is "$1, recording: runs" $? "$3"
    "$postprocess" --quiet --json json "$work/trace.$suffix" p 2>err
    is "$1, recording: whole" "$(json json complete clean_end \
        unmatched_frees)" "true true 0"
    at_least "$1, recording: events" "$(json json events)" "$4"
    diag <err
}
for how in shared static; do
    [ -x $how ] && recorded $how ./$how 21 4
done
# record preloads no second recorder into a program that has one.
if [ -x static ] && [ -x "$malloc_trace" ]; then
    run "$malloc_trace" record -o one.$suffix ./static
    is "an archive, by record: runs" "$status" 21
    is "one trace, and no warning" "$(echo one.*) $(grep -c warning "$err")" \
        "one.$suffix 0"
    run "$malloc_trace" record -o 'each.%p' sh -c './static; ./shared; exit 3'
    is "processes of each kind, by record: run" "$status" 3
    like "and are recorded" "$err" "record: 3 traces, "
fi

# ---------------------------------------------------------------------------
# With what pkg-config says.

# A file with gperftools' name belongs to gperftools alone.
pc_file() {
    case $1 in
    minimal) echo "$top_builddir/libtcmalloc_minimal-malloc-trace.pc" ;;
    *) echo "$top_builddir/libtcmalloc_$1.pc" ;;
    esac
}

# flags NAME [--static]
flags() {
    if have pkg-config; then
        PKG_CONFIG_PATH=$top_builddir pkg-config \
            --define-variable=preloaddir="$dir" ${2:-} \
            --libs "$(basename "$(pc_file "$1")" .pc)"
    else
        sed -n -e 's/^Libs: //p' ${2:+-e 's/^Libs.private: //p'} \
            "$(pc_file "$1")" |
            sed "s,\${preloaddir},$dir," | tr '\n' ' '
    fi
}

# All that asks for memory is the C library. No other malloc knows a heap limit.
cat >none.c <<'C'
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char text[32 << 20], line[] = "a line";
/* Some compilers take a strdup whose result is not kept to succeed. */
static char *volatile copy;
int main(int argc, char **argv) {
    char *got = 0;
    size_t room = 0;
    int status = 1;
    memset(text, 'x', sizeof text - 1);
    FILE *f = fopen(argv[argc - 1], "r");
    ssize_t n = getdelim(&got, &room, 0, f);
    fclose(f);
    if (n < 4 || !(copy = strdup(line)))
        return 2;
    if (!fork())
        _exit((copy = strdup(line)) ? 5 : 6);
    wait(&status);
    if (WEXITSTATUS(status) != 5)
        return 3;
    return (copy = strdup(text)) ? 1 : 23;
}
C
# The exception is not named, and no standard class is used.
cat >any.cc <<'C'
int main() {
    volatile unsigned long huge = 1UL << 62;
    try {
        delete[] new char[huge];
    } catch (...) {
        return 24;
    }
    return 2;
}
C
echo 'int main(void) { return 25; }' >empty.c
# A child asks for the lock that a thread of the parent has held most of the
# time.
cat >forks.c <<'C'
#include <gperftools/malloc_extension_c.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *verify(void *arg) {
    for (;;)
        MallocExtension_VerifyAllMemory();
    return arg;
}
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 20000; i++)
        if (malloc(1 + i % 300) == NULL)
            return 1;
    if (pthread_create(&thread, NULL, verify, NULL) != 0)
        return 2;
    for (int i = 0; i < 20; i++) {
        int status;
        usleep(1000);
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            _exit(MallocExtension_VerifyAllMemory() ? 0 : 1);
        }
        if (waitpid(child, &status, 0) != child || status != 0)
            _exit(3);
    }
    _exit(26);
}
C
TCMALLOC_HEAP_LIMIT_MB=16
export TCMALLOC_HEAP_LIMIT_MB
programs="a:21 none:23 empty:25 forks:26"
for p in a none empty forks; do
    check "$p.c compiles" $CC -fPIE -O1 -c $p.c -I"$top_srcdir/src"
done
check "malloc_abi.c compiles" $CC -fPIE -O1 -fno-builtin -c -D_GNU_SOURCE \
    -I"$top_srcdir/tests/lib" "$here/allocator/malloc_abi.c"
if $CXX --version >/dev/null 2>&1; then
    programs="$programs axx:22 any:24"
    check "a.cc compiles" $CXX -fPIE -O0 -c a.cc -o axx.o
    check "any.cc compiles" $CXX -fPIE -O0 -c any.cc
fi

for name in minimal minimal_tracing; do
    # shellcheck disable=SC2046
    build "$name, as needed" $CC -o shared none.o -Wl,--as-needed \
        $(flags $name) -Wl,-rpath,"$dir"
    timeout 60 ./shared
    is "$name, as needed: runs with it" $? 23
done

# Without a library first, in case that the system has no static ones.
linked() { $CXX $how axx.o -o plain -pthread >/dev/null 2>&1 && ./plain; }

sed -e '/^global:/d' -e '/^local:/,$d' -e 's/[{}]//g' \
    "$top_srcdir/src/exports/malloc.sym" | tr ';' '\n' | tr -d ' \t' |
    grep . | grep -vx -e dlopen -e fflush -e mlockall | sort >family
at_least "exported names are known" "$(wc -l <family)" 60

# static_program NAME PROGRAM.o STATUS: is built in both orders, has one malloc
# and all of the family, and runs.
static_program() {
    compiler=$CC
    case $2 in axx.o | any.o) compiler=$CXX ;; esac
    for order in before after; do
        link="$2 $flags"
        [ $order = after ] || link="$flags $2"
        rm -f program names
        # shellcheck disable=SC2086
        $compiler $how -o program $link >out 2>&1
        timeout 60 ./program >>out 2>&1
        got="status $?"
        if have nm; then
            nm --defined-only program 2>>out | awk '{ print $3 }' |
                sort >names
            got="$got$(grep -x _int_malloc names)"
            case $how in
            *gc-sections*) ;; # takes out again what is not used
            *) got="$got$(comm -23 family names | tr '\n' ' ')" ;;
            esac
        fi
        is "$1, $2, library $order" "$got" "status $3"
        [ "$got" = "status $3" ] || diag <out
    done
}

for how in "-static" "-static-pie" "-static -fuse-ld=gold" \
    "-static -fuse-ld=lld" "-static -Wl,--gc-sections"; do
    [ -e axx.o ] && linked
    [ $? = 22 ] || {
        skip "$how" "does not work here"
        continue
    }
    for name in minimal minimal_tracing; do
        [ -e "$dir/libtcmalloc_$name.a" ] || {
            skip "$name, $how" "not built"
            continue
        }
        is "$name: dlopen is the C library's" "$(nm --defined-only \
            "$dir/libtcmalloc_$name.a" 2>&1 | awk '$3 == "dlopen"')" ""
        flags=$(flags $name --static)
        for p in $programs; do
            static_program "$name, $how" "${p%:*}.o" "${p#*:}"
            if [ $name = minimal_tracing ]; then
                case $p in
                a:* | none:*) recorded "$how, $p" ./program "${p#*:}" 4 ;;
                axx:*) recorded "$how, $p" ./program "${p#*:}" 1000 ;;
                esac
            fi
        done
    done
done

# Not with pkg-config's help: still no malloc beside ours.
how=-static
if [ -e axx.o ] && linked; [ $? = 22 ] && [ -e "$dir/libtcmalloc_minimal.a" ]; then
    build "-static, no flags" $CC -static a.o -o program \
        "$dir/libtcmalloc_minimal.a" -pthread -ldl
    timeout 60 ./program
    is "-static, no flags: runs" $? 21
fi
unset TCMALLOC_HEAP_LIMIT_MB

# A long recording of a static program.
flags=$(flags minimal_tracing --static)
# shellcheck disable=SC2086
if [ -e "$dir/libtcmalloc_minimal_tracing.a" ] &&
    $CC -static empty.o -o plain >/dev/null 2>&1; then
    build "static malloc_abi" $CC -static malloc_abi.o -o abi $flags
    TCMALLOC_TRACE_OUTPUT=$work/abi.$suffix timeout 100 ./abi >tap 2>err
    is "static malloc_abi: succeeds" $? 0
    grep '^not ok' tap | diag
    diag <err
    [ ! -x "$postprocess" ] || [ -z "$python" ] ||
        check_trace "static malloc_abi" "$work/abi.$suffix" 1000000
fi
tap_end
