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
like "is named" "$err" "unknown command 'frobnicate' \("
for pair in leak:leaks recrod:record compre:compare; do
    run "$malloc_trace" ${pair%:*}
    like "${pair%:*} is answered by ${pair#*:}" "$err" \
        "unknown command '${pair%:*}': did you mean ${pair#*:}[?]"
done
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
# Jobs in the background ignore these two.
defaults="env --default-signal=INT,QUIT"
$defaults true 2>/dev/null || defaults=
for pair in TERM:143 KILL:137 SEGV:139 PIPE:141 INT:130 QUIT:131; do
    sig=${pair%:*}
    # shellcheck disable=SC2086
    run $defaults "$malloc_trace" record sh -c "kill -$sig \$\$"
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
like "of another name: the library can be preloaded" "$err" \
    "the library can be preloaded into its file"
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
    like "of which a line warns before it starts" "$err" \
        "warning: ./own has an allocator of its own \(malloc\), whose blocks"
    like "and says what to do" "$err" "; build it without that allocator, or link"
fi

# --- Before the start -----------------------------------------------------
# refused WHAT WHY [OPTION]... PROGRAM : is not started, for the reason WHY
refused() {
    refused_what=$1
    refused_why=$2
    shift 2
    fails_with "$refused_what is not started" 1 "$malloc_trace" record "$@"
    like "for its reason" "$err" "record: cannot .*$refused_why.*--anyway\$"
    is "in one line" "$(wc -l <"$err" | tr -d ' ') $(wc -c <"$out")" "1 0"
}

echo 'int puts(const char *); int main(void) { return puts("ran") < 0; }' \
    >static.c
for option in address thread leak; do
    if run ${CC:-cc} -fsanitize=$option -o sanitized static.c; then
        refused "a program with the $option sanitizer" \
            "Sanitizer, which replaces malloc.*without -fsanitize=$option" \
            ./sanitized
    else
        skip "the $option sanitizer" "the compiler lacks it"
    fi
done
if run ${CC:-cc} -static -o static static.c; then
    refused "a static program" "statically linked.*doc/extension" ./static
    fails_with "one that is found through PATH, too" 1 \
        env PATH="$work:$PATH" "$malloc_trace" record static
    like "is static" "$err" "cannot record static: its file is statically"
    check "--anyway starts it" "$malloc_trace" record --anyway ./static
    is "to its end" "$(cat "$out")" ran
    like "with the reason for no trace" "$err" \
        "no trace was written: ./static: its file is statically linked"
    printf '#!%s/static\n' "$here" >script && chmod +x script
    refused "a script with a static interpreter" \
        "which $here/static runs: its file is statically linked" ./script
    printf '#!/usr/bin/env -S X=1 ./static\n' >script
    refused "one that env starts" "statically linked" ./script
    cat >rust.c <<'END'
const char *volatile place = "/rustc/0123/library/core/src/panicking.rs";
int main(void) { return *place == 0; }
END
    run ${CC:-cc} -static -o rust rust.c
    refused "a static Rust program" "Rust program.*crate.*ends in -gnu" ./rust
    cat >linked.c <<'END'
const char *volatile variable = "TCMALLOC_TRACE_OUTPUT";
int main(void) { return *variable == 0; }
END
    run ${CC:-cc} -static -o linked linked.c
    check "one that is linked with the recorder starts" \
        "$malloc_trace" record ./linked
    cat >go.c <<'END'
__attribute__((section(".go.buildinfo"))) char info[16] = "\xff Go buildinf:";
int main(void) { return 0; }
END
    run ${CC:-cc} -static -o go go.c
    refused "a static Go program" "Go program.*pprof" ./go
else
    skip "a static program is not started" "no static C library"
fi
loader=$(find /lib64 /lib -maxdepth 1 -name 'ld-linux-*.so.*' 2>/dev/null |
    head -n 1)
if [ -n "$loader" ] && run "$loader" /bin/true; then
    check "the loader itself starts" "$malloc_trace" record "$loader" /bin/true
fi
# foreign NAME CLASS MACHINE : a header of ELF, class and machine in octal
foreign() {
    printf '\177ELF\'"$2"'\1\1\0\0\0\0\0\0\0\0\0\2\0\'"$3"'\0\1\0\0\0' >"$1"
    dd if=/dev/zero bs=100 count=1 2>/dev/null >>"$1"
    chmod +x "$1"
}
foreign foreign 002 363
refused "a program of another machine" "another architecture" ./foreign
foreign short 001 003
refused "one of 32 bits" "another architecture" ./short
cp "$(command -v cat)" setuid_cat && chmod u+s setuid_cat
check "a setuid program that gains no rights starts" \
    "$malloc_trace" record ./setuid_cat </dev/null
other=$(command -v su || echo none)
if [ "$(id -u)" = 0 ]; then
    chown 1 setuid_cat && chmod u+s setuid_cat
    other=./setuid_cat
fi
if [ -u "$other" ] && ! grep -q '^NoNewPrivs:.*1' /proc/self/status; then
    refused "one that gains rights" "setuid or setgid.*record a copy" "$other"
else
    skip "one that gains rights is not started" "no setuid program"
fi
for pair in je_malloc:jemalloc _rjem_malloc:jemalloc mallctl:jemalloc \
    mi_malloc:mimalloc _mi_malloc_generic:mimalloc sn_malloc:snmalloc \
    sn_rust_alloc:snmalloc tc_malloc:tcmalloc TCMallocInternalMalloc:tcmalloc; do
    name=${pair%:*}
    echo "int $name(void) { return 0; } int main(void) { return $name(); }" \
        >own.c
    run ${CC:-cc} -o "own_$name" own.c
    check "a program with $name starts" "$malloc_trace" record "./own_$name"
    like "after a warning that says what to do" "$err" \
        "warning: .*own \(${pair#*:}\).*; build it without .*doc/extension"
done
# stand_in NAME DEFINITION : a dynamic program of Rust, as its texts show it
stand_in() {
    cat >"$1.c" <<END
const char *volatile place = "/rustc/0123/library/std/src/panicking.rs";
$2
int main(void) { return *place == 0; }
END
    run ${CC:-cc} -o "$1" "$1.c"
}
stand_in rust_je 'void *_rjem_malloc(long n) { return (void *)n; }'
check "a Rust program with its own allocator starts" \
    "$malloc_trace" record ./rust_je
like "after a warning that names the crate" "$err" \
    "own \(jemalloc\), .*; build it with the crate malloc_trace .*, or with none"
stand_in rust_stripped 'const char *volatile text = "<jemalloc>: %s";'
run strip rust_stripped
check "one that was stripped" "$malloc_trace" record ./rust_stripped
like "has the same warning" "$err" "own \(jemalloc\), .*the crate malloc_trace"
stand_in rust_plain ''
check "one that calls malloc" "$malloc_trace" record ./rust_plain
is "has none" "$(grep -c 'of its own (' "$err")" 0
is "no other program has a warning of that kind" \
    "$("$malloc_trace" record -o %%p true 2>&1 | grep -c 'of its own (')" 0

# An output that cannot be made is not the fault of the command.
refused "to a folder that is not there: it" \
    "output: $work/none: No such file or directory; name another with -o" \
    -o "$work/none/t" sh -c 'echo ran'
is "nothing is guessed" "$(grep -c static "$err")" 0
check "--anyway starts it" "$malloc_trace" record --anyway -o "$work/none/t" true
like "with the reason for no trace" "$err" \
    "no trace was written: $work/none: No such file or directory\$"
refused "to a folder: it" "output: $work: Is a directory" -o "$work" true
check "a folder that depends on the process may be there" \
    "$malloc_trace" record -o "$work/%e/t" true
check "a device is no folder" "$malloc_trace" record -o /dev/null true
ln -s none/t dangling
check "nor is a link" "$malloc_trace" record -o dangling true
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod 555 locked
    refused "to a folder that cannot be written to: it" \
        "output: .*/locked: Permission denied" -o locked/t true
fi
is "nothing was written" "$(find . -name '*.lz4')" ""

# --- Runtimes -------------------------------------------------------------
# Programs with the functions by which a runtime is known, under other names.
# shown CONDITION COMMAND... : the lines about objects that the trace will lack
shown() {
    shown_in=$1
    shift
    # shellcheck disable=SC2086
    env -u PYTHONMALLOC -u USE_ZEND_ALLOC $shown_in "$@" 2>&1 >"$out" |
        grep 'will not be in the trace'
}
# runtime NAME FUNCTION [FLAG]...
runtime() {
    runtime_name=$1
    echo "void $2(void) { } int main(void) { return 0; }" >"$1.c"
    shift 2
    run ${CC:-cc} -o "$runtime_name" "$runtime_name.c" "$@"
}
runtime snake Py_BytesMain
ln -s snake boa
printf '#!/usr/bin/env -S %s/snake -u\n' "$here" >script
chmod +x script
for program in ./snake ./boa ./script; do
    shown X=1 "$malloc_trace" record $program >notes
    is "objects of Python that are not seen: $program" "$(wc -l <notes)" 1
    like "are those of pymalloc, but for a setting" notes \
        "record: $program: .*512 bytes.*pymalloc.*PYTHONMALLOC=malloc makes"
done
is "nothing is said where there is a setting" \
    "$(shown PYTHONMALLOC=debug "$malloc_trace" record ./snake)" ""
is "nor with --quiet" "$(shown X=1 "$malloc_trace" record -q ./snake)" ""
runtime python3.11 plain
is "a name makes no Python" \
    "$(shown X=1 "$malloc_trace" record ./python3.11)" ""
printf '#!/bin/sh\nexit 0\n' >python3 && chmod +x python3
shown X=1 "$malloc_trace" record ./python3 >notes
like "but of a script, which starts one of several" notes pymalloc
# Python 3.13 has mimalloc inside, unused with the lock.
cat >text.c <<'END'
const char *volatile text = "mimalloc: warning: ";
END
run ${CC:-cc} -o snake13 snake.c text.c
run "$malloc_trace" record ./snake13
is "an allocator that Python includes is not warned of" \
    "$(grep -c 'of its own (' "$err")" 0
cat >free.c <<'END'
void _Py_MergeZeroLocalRefcount(void) { }
void mi_malloc(void) { }
END
run ${CC:-cc} -o freed snake.c free.c
shown X=1 "$malloc_trace" record ./freed >notes
is "of a free-threaded Python one line tells all" "$(wc -l <notes)" 1
like "which offers no setting" notes "./freed: .*free-threaded.*mimalloc inside"
# A launcher without symbols, linked with its library.
echo 'int Py_BytesMain(int n, char **v) { return n == 0 && v != 0; }' >lib.c
echo 'int Py_BytesMain(int, char **);
int main(int n, char **v) { return Py_BytesMain(n, v); }' >launcher.c
for abi in 3.13 3.13t; do
    library=libpython$abi.so.1.0
    run ${CC:-cc} -shared -fPIC -Wl,-soname,$library -o $library lib.c
    run ${CC:-cc} -s -o "launcher$abi" launcher.c ./$library
    shown LD_LIBRARY_PATH=. "$malloc_trace" record "./launcher$abi" \
        >"notes$abi"
done
like "a launcher of Python is known by its library" notes3.13 pymalloc
like "as is that of a free-threaded one" notes3.13t free-threaded
runtime elephant _emalloc
shown X=1 "$malloc_trace" record ./elephant >notes
like "PHP's values have a setting, too" notes "USE_ZEND_ALLOC=0"
is "which silences the line" \
    "$(shown USE_ZEND_ALLOC=0 "$malloc_trace" record ./elephant)" ""
runtime gem ruby_run_node
shown X=1 "$malloc_trace" record ./gem >notes
like "Ruby's objects have none" notes "slots of pages from mmap"
runtime script_engine _ZN4node5StartEiPPc
shown X=1 "$malloc_trace" record ./script_engine >notes
like "of Node native code is seen" notes "V8.*unlike what Node's native"
runtime cup JLI_Launch
shown X=1 "$malloc_trace" record ./cup >notes
like "as it is of Java" notes "virtual machine.*unlike what its native"

# --- Sites ----------------------------------------------------------------
# shellcheck disable=SC2016
mode='echo "$TCMALLOC_TRACE_SITES"'
run "$malloc_trace" record --sites sh -c "$mode"
is "--sites alone is lang" "$(cat "$out")" lang
run "$malloc_trace" record --sites=stack:3 sh -c "$mode"
is "--sites with a mode" "$(cat "$out")" stack:3
for bad in '' x stack:0; do
    fails_with "--sites=$bad" 2 "$malloc_trace" record --sites="$bad" true
    like "lists the modes" "$err" "\"$bad\" is not caller, stack\[:DEPTH\], .*none"
done
fails_with "a mode behind a blank" 2 "$malloc_trace" record --sites stack true
like "needs an equals sign" "$err" "--sites=stack"

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
run "$malloc_trace" record --sites=caller -o 'a b' ../ask
sed -n '/^Next:/,$s/^  //p' "$err" >next.sh
is "with call sites a report is next" "$(sed 's,.*malloc-trace ,,' next.sh)" \
    "report 'a b'"
check "which runs" sh -e next.sh
like "too" "$out" "^a b: .* in [0-9,]+ calls; "
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
