#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Constructors of other libraries that run before the recorder's: they allocate
# much, make threads, fork. All of it is recorded.
. "$top_srcdir/tests/lib/harness.sh"
need "$tracing" "$postprocess" "$malloc_trace"
need_python
: "${CC:=cc}"
cd "$work" || exit 99
mkdir t
echo 'int main(void) { return 0; }' >main.c
if ! $CC -shared -fPIC -o plugin.so "$here/process/constructors_plugin.c" -pthread \
    >err 2>&1 ||
    ! $CC -o main main.c -Wl,--no-as-needed "$work/plugin.so" >>err 2>&1; then
    skip_all "no compiler for a library"
fi

# The blocks that setenv makes, which the C library's version decides.
cat >setenv.c <<'END'
#include <stdio.h>
#include <stdlib.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
static int made;
void *malloc(size_t n) { made++; return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { made++; return __libc_calloc(n, m); }
int main(void) {
    made = 0;
    if (setenv("CHANGED", "new", 1) != 0)
        return 1;
    int of_setenv = made;
    printf("%d\n", of_setenv);
    return 0;
}
END
$CC -fno-builtin -o setenv setenv.c >err 2>&1 && of_setenv=$(./setenv) ||
    of_setenv=2

# counts FILE: calls, what is missing, and whether it is complete.
counts() {
    "$postprocess" -q --json j "$1" /dev/null 2>err || {
        sed 's/[0-9][0-9,]* events/events/' err
        return
    }
    json j mallocs frees untraced_frees complete
}
# A new thread has a block of the C library's.
# Without __libc_single_threaded the first thread's buffer goes on until it
# allocates again; events of other threads until then are dropped, and counted.
of_thread="20001 20000 0 true"
libc_has __libc_single_threaded || of_thread="postprocess: warning: \
incomplete: events were dropped while recording"
DO=
export DO
for DO in much thread fork "fork first" "fork both" environment; do
    record t/one.lz4 ./main
    is "$DO: runs to its end" "$?" 0
    want="20000 20000 0 true"
    case $DO in
    thread) want=$of_thread ;;
    environment) want="$((20000 + of_setenv)) 20000 0 true" ;;
    esac
    is "$DO: all is recorded" "$(counts t/one.lz4)" "$want"
    is "$DO: the child is not" "$(find t -name 'one.lz4.[0-9]*')" ""
    record 't/tree.%p' ./main
    is "$DO, %p: runs to its end" "$?" 0
    find t -name 'tree.*' | sed 's/\.spool$//' | sort -u >names
    found=$(while read -r name; do counts "$name"; done <names | sort -n |
        tr '\n' ',')
    case $DO in
    fork*)
        child="300 0"
        [ "$DO" != "fork both" ] || child="20000 20000"
        is "$DO, %p: so is its child" "$found" \
            "$child 0 true,20000 20000 0 true,"
        ;;
    *) is "$DO, %p: all is recorded" "$found" "$want," ;;
    esac
    rm -f t/*
done

# Calls of one kind, as many as the first buffer would not take.
row() { # KIND FIGURES
    DO="row $1"
    record t/one.lz4 ./main
    is "$1 in a row: runs to its end" "$?" 0
    "$postprocess" -q --json j t/one.lz4 /dev/null 2>err
    is "$1 in a row: all are recorded" \
        "$(json j mallocs reallocs frees failed_allocations complete)" "$2 true"
    rm -f t/*
}
row pairs "2500 0 2500 0"
row frees "2500 0 2500 0"
row reallocs "1 2500 1 0"
row failures "0 0 0 2500"
DO="row then no environment"
for sites in none caller; do
    TCMALLOC_TRACE_SITES=$sites record t/one.lz4 ./main
    is "without an environment, sites=$sites: runs to its end" "$?" 0
done
rm -f t/*

# The child of a vfork is its parent's thread.
DO="vfork first"
record t/one.lz4 ./main
is "$DO: runs to its end" "$?" 0
"$postprocess" -q --json j t/one.lz4 /dev/null 2>err
is "$DO: both are recorded" \
    "$?: $(json j mallocs frees complete)" "0: 20001 20000 true"
rm -f t/*

# The loader, called by hand, is the program: so says the kernel.
loader=$(ldd /bin/true | sed -n 's/.*[[:blank:]]\(\/[^ ]*ld-[^ ]*\) .*/\1/p')
if [ -x "$loader" ]; then
    DO=thread
    record t/one.lz4 "$loader" ./main
    is "by the loader: all is recorded" "$(counts t/one.lz4)" "$of_thread"
else
    skip "by the loader" "it was not found"
fi

# Set-up comes with the first of them where sites are asked for, and allocates
# itself.
export TCMALLOC_TRACE_SITES=caller
DO=much
record t/sites.lz4 ./main
check "with sites" "$malloc_trace" report -q --by=module --columns t/sites.lz4
like "each has that of its caller" "$out" ' 20000 .*plugin\.so$'
for DO in environment "fork both" "vfork first"; do
    record t/sites.lz4 ./main
    is "$DO, with sites: runs to its end" "$?" 0
done
unset TCMALLOC_TRACE_SITES
DO=

# Calls that others stand before.
if $CC -shared -fPIC -o front.so "$here/process/constructors_interposer.c" -ldl \
    >err 2>&1 && $CC -o behind main.c -Wl,--no-as-needed "$work/front.so"; then
    LD_PRELOAD=$tracing ./behind
    is "behind a library that is not ready: not recorded" "$?" 0
    # Before glibc 2.34 that library's dlsym allocates one block more.
    counts_of_behind() { counts "$1" | sed 's/^\( *\)20001/\120000/'; }
    for sites in none caller stack; do
        TCMALLOC_TRACE_SITES=$sites record t/one.lz4 ./behind
        is "sites=$sites: recorded" "$?, $(counts_of_behind t/one.lz4)" \
            "0, 20000 20000 0 true"
        TCMALLOC_TRACE_SITES=$sites record t/tree.%p ./behind
        is "sites=$sites: with %p" \
            "$?, $(counts_of_behind t/tree.[0-9]*[0-9])" \
            "0, 20000 20000 0 true"
        rm -f t/*
    done
else
    skip "behind a library that is not ready" "it does not compile"
fi

# Before the environment can be read: what has no place is known to be missing.
cat >early.c <<'END'
#include <stdlib.h>
static void begin(int argc, char **argv, char **env) {
    (void)argc, (void)argv, (void)env;
    for (int i = 0; i < 20000; i++)
        free(malloc(10));
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(
    int, char **, char **) = begin;
int main(void) { return 0; }
END
if $CC -O0 -o early early.c >err 2>&1; then
    record t/one.lz4 ./early
    is "very early: runs to its end" "$?" 0
    "$postprocess" -q --json j t/one.lz4 /dev/null 2>err
    calls=$(json j mallocs complete)
    [ "$calls" = "20000 true" ] || calls=${calls#* }
    case $calls in "20000 true" | false) true ;; *) false ;; esac
    result "very early: all is recorded, or known to be missing" $?
else
    skip "very early" "it does not compile"
fi
tap_end
