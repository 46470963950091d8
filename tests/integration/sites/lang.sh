#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Lines of interpreted programs: each line of a script that says what it
# allocates has just that, with the lines that called it, whatever goes on
# beside: threads, exceptions, generators, code that is made in the place of
# other code, finalisation. The script's own output and status are as without.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$malloc_trace" "$postprocess" "$built/sites/sites_target"
need_python

record_lines() { # SITES FILE COMMAND...
    how=$1 file=$2
    shift 2
    rm -f "$file" "$file".*
    TCMALLOC_TRACE_SITES=$how TCMALLOC_TRACE_UNCOMPRESSED=1 \
        TCMALLOC_TRACE_OUTPUT=$file LD_PRELOAD=$tracing "$@" >printed 2>said
    got=$?
}

# whole NAME SCRIPT INTERPRETER OPTION...: all of its lines, alone and with all
# else as it is without a recorder.
whole() {
    name=$1 script=$2
    shift 2
    "$@" "$script" >alone 2>alone.said
    want=$?
    record_lines lang t "$@" "$script"
    is "$name: status as without" "$got" "$want"
    check "$name: output as without" cmp printed alone
    is "$name: stderr as without" "$(sed 's/pid=[0-9]*//' said)" \
        "$(sed 's/pid=[0-9]*//' alone.said)"
    check "$name: each line has its blocks" \
        "$python" "$here/sites/lang.py" "$script" 1 t <printed
    "$malloc_trace" dump t >got
    "$python" "$test_lib/rawdump.py" --dump t >dumped
    check "$name: dump prints lines as the format's document says" \
        cmp got dumped
    "$malloc_trace" report --columns t >columns
    sort -k1,1rn columns >sorted
    check "$name: the columns of a report have them, too" \
        "$python" "$here/sites/lang.py" --columns "$script" <sorted
    check "$name: and sort by bytes" sort -c -k1,1rn sorted
}

# others NAME SCRIPT COMMAND...: further ways to run an interpreter.
others() {
    name=$1 script=$2
    shift 2
    record_lines lang t "$@" "$script"
    check "$name: each line has its blocks" \
        "$python" "$here/sites/lang.py" "$script" 1 t <printed
}

# Known with TWO lines of a stack, and with a mark where there are more.
cut() { # NAME COMMAND...
    name=$1
    shift
    record_lines lang:2 t "$@"
    "$python" - t "$test_lib" <<'EOF' >deepest
import sys
sys.path.insert(0, sys.argv[2])
import rawdump
trace = rawdump.load([sys.argv[1]])
for thread in list(trace.pieces):
    for e in trace.events(thread):
        pass
deepest = marks = 0
for site in trace.sites.lines:
    n = 0
    while site in trace.sites.lines:
        site = trace.sites.lines[site][0]
        n += 1
    deepest = max(deepest, n)
    marks += trace.sites.frames.get(site, ())[1:] == (0, 1)
print(deepest, marks > 0)
EOF
    is "$name: two lines of a stack, and a mark" "$(cat deepest)" "2 True"
}

# symbols_of SYMBOL PROGRAM: those of the file that has it, the program or one
# of its libraries, into symbols.
symbols_of() {
    readlink -f "$2" >files
    ldd "$2" | awk '$3 ~ "/" { print $3 }' >>files
    while read -r loops_in; do
        nm -DS "$loops_in" >symbols 2>/dev/null
        ! grep -q " T $1\$" symbols || return 0
    done <files
    return 1
}

# native NAME SCRIPT LOOP SYMBOL COMMAND...: native code below the lines, up to
# the function LOOP of the interpreter, which may have no symbol; SYMBOL is in
# its file. What is said of the lines is as without it.
native() {
    name=$1 script=$2 loop=$3 symbol=$4
    shift 4
    if ! have nm || ! have ldd || ! symbols_of "$symbol" "$1"; then
        skip "$name: native code below lines" "no nm here, or no $symbol in $1"
        return
    fi
    "$@" "$script" >alone 2>&1
    TCMALLOC_TRACE_CHECK_STACKS=1 record_lines lang t "$@" "$script"
    check "$name: output as without" cmp printed alone
    check "$name: each line has its blocks" \
        "$python" "$here/sites/lang.py" "$script" 1 t <printed
    check "$name: and native code up to what runs it" \
        "$python" "$here/sites/lang.py" --below "$script" t symbols "$loop"
    "$malloc_trace" info --json - t | tr -d ' ' |
        awk -F '[:,]' '/"stacks_checked"/ { n = $2 }
            /"stacks_different"/ { bad = $2 }
            END { print (n > 1000), bad }' >checks
    is "$name: walks in the debug mode" "$(cat checks)" "1 0"
    "$malloc_trace" report --to=folded -q t >folded
    like "$name: folded stacks have it, too" folded \
        ';compressed;.*;(deflate|libz\.so|Base64\.so|XS_)'
    "$malloc_trace" report --columns t |
        awk '{ n += $1 } END { printf "%d\n", n }' >sum
    is "$name: and all bytes" \
        "$(awk '{ n += $NF } END { printf "%d\n", n }' folded)" "$(cat sum)"
    "$malloc_trace" report --by=module --columns t >modules
    like "$name: the module is that which asked for memory" modules \
        "$(basename "$loops_in")"
}

# --- Python -------------------------------------------------------------------

# Its small objects come from mmap unless it is told otherwise.
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }
# Before 3.11 the names of functions are not qualified.
with_names_of() { # VERSION COMMAND...
    unset PLAIN
    case $1 in
    3.9 | 3.10) export PLAIN=1 ;;
    esac
    shift
    "$@"
    unset PLAIN
}
# Before 3.12 the C library's variable of a thread has the state of the main
# interpreter alone.
cat >within.py <<'E'
import _xxsubinterpreters
_xxsubinterpreters.run_string(_xxsubinterpreters.create(), """
kept = []
for i in range(200):
    kept.append(bytes(5000))
""")
E
sub_interpreter() { # VERSION PYTHON
    "$2" -c 'import _xxsubinterpreters' 2>/dev/null || return 0
    record_lines lang t "$2" -S within.py
    "$malloc_trace" report --by=line --columns t >columns
    if [ "$1" = 3.9 ]; then
        like "python 3.9: no lines of sub-interpreters, which is said" said \
            "no lines of this Python's sub-interpreters"
    else
        like "python $1: lines of a sub-interpreter" columns ' 20[0-9] <string>:4$'
    fi
}
version=$(version_of "$python")
sub_interpreter "$version" "$python"
case $version in
3.9 | 3.1[0-5])
    with_names_of "$version" whole python "$here/sites/lang_target.py" "$python"
    export PYTHONMALLOC=malloc
    with_names_of "$version" others "python, all from malloc" \
        "$here/sites/lang_target.py" "$python"
    unset PYTHONMALLOC
    cut python "$python" "$here/sites/lang_target.py"

    cat >below.py <<'EOF'
import zlib

def compressed(text):
    made = zlib.compressobj()  #< 65536 libz.so
    return made.compress(text)

def blank(n):
    return bytes(n)  #= 30 70033 blank 12

for i in range(30):
    compressed(b"text")
    blank(70000)
EOF
    if "$python" -c 'import zlib'; then
        native python "$work/below.py" _PyEval_EvalFrameDefault \
            _PyEval_EvalFrameDefault "$python"
        export PYTHONMALLOC=malloc
        native "python, all from malloc" "$work/below.py" \
            _PyEval_EvalFrameDefault _PyEval_EvalFrameDefault "$python"
        unset PYTHONMALLOC
    else
        skip "python: native code below lines" "it has no zlib"
    fi

    cat >fork.py <<'EOF'
import os, sys
for i in range(3):
    pid = os.fork()
    if pid == 0:
        for k in range(10):
            bytes(70000)  #= 10 70033 <module>
        os._exit(0)
    os.waitpid(pid, 0)
EOF
    record_lines lang 'f.%p' "$python" "$work/fork.py"
    is "python: children are recorded" "$(find . -name 'f.*' | wc -l)" 4
    good=0
    for one in f.*; do
        if "$python" "$here/sites/lang.py" "$work/fork.py" 1 "$one" </dev/null >/dev/null; then
            good=$((good + 1))
        fi
    done
    is "python: each child has its lines" "$good" 3

    # In the middle of a script, once more, and in a part that is kept.
    TCMALLOC_TRACE_KEEP_MB=1 record_lines lang t "$python" - <<'EOF'
for i in range(60000):
    bytearray(1000 + i % 7)
for i in range(25000):
    bytearray(70000)
EOF
    "$postprocess" -q --json json t p
    "$malloc_trace" report --columns p >columns
    like "python: a flight recording knows its lines" columns '<stdin>:4'
    # The definitions of sites are larger than an eighth of a MiB here.
    at_least "python: and has more than definitions" "$(json json events)" 5000
    ;;
*)
    skip "python" "lines of Python $version are not known"
    record_lines lang t "$python" -c 'print(1)'
    ;;
esac

# Further versions that are here. One that is newer than those that are known is
# read by the offsets that it publishes, or said to be unknown.
for other in python3.9 python3.10 python3.11 python3.12 python3.13 python3.14 \
    python3.15 python3.16 python3.17; do
    other=$("$other" -c 'import os, sys
print(os.path.realpath(sys.executable))' 2>/dev/null) || continue
    other_version=$(version_of "$other")
    [ "$other_version" != "$version" ] || continue
    case $other_version in
    3.9 | 3.1[0-5]) ;;
    *)
        record_lines lang t "$other" -c 'pass'
        if grep -q 'no lines of this Python' said; then
            skip "python $other_version" "its lines are not known"
            continue
        fi
        ;;
    esac
    sub_interpreter "$other_version" "$other"
    with_names_of "$other_version" whole "python $other_version" \
        "$here/sites/lang_target.py" "$other"
    export PYTHONMALLOC=malloc
    with_names_of "$other_version" others \
        "python $other_version, all from malloc" \
        "$here/sites/lang_target.py" "$other"
    unset PYTHONMALLOC
done

# --- Perl ---------------------------------------------------------------------

if have perl && perl -MConfig -e 'exit !($Config{usethreads} and
    $Config{api_versionstring} =~ /^5\.(32|36|38|40|42)\./)' && perl -Mthreads -e 1; then
    whole perl "$here/sites/lang_target.pl" perl
    cut perl perl "$here/sites/lang_target.pl"
    cat >below.pl <<'EOF'
use MIME::Base64;
my $text = "x" x 30000;
sub compressed {
    my $made = encode_base64( $_[0] );    #< 40529 Base64.so
    return;
}
sub blank {
    my %new;
    vec( $new{s}, 69999, 8 ) = 1;    #= 30 70008 blank 14
    return;
}
for ( 1 .. 30 ) {
    compressed($text);
    blank();
}
EOF
    if perl -MMIME::Base64 -e 1; then
        native perl "$work/below.pl" Perl_runops_standard \
            Perl_runops_standard "$(command -v perl)"
    else
        skip "perl: native code below lines" "it has no MIME::Base64"
    fi
    # The parser folds constants with a statement of its own, on the stack.
    cat >fold.pl <<'EOF'
my @x = map { $_ * 2 } 1 .. 100000;
my @y = map { $_ * 2 } 1 .. 100000;
EOF
    record_lines lang t perl fold.pl
    "$malloc_trace" report --columns t | awk '
        / fold\.pl:[12]$/ { in_lines += $1 } { all += $1 }
        END { print (in_lines > all * 0.9) }' >share
    is "perl: what the parser allocates has its line" "$(cat share)" 1
else
    skip "perl" "no perl of a known version with threads"
fi

# --- Ruby ---------------------------------------------------------------------

if have ruby && ruby -e 'exit RUBY_VERSION.start_with?("3.1.", "3.2.", "3.3.", "3.4.")'; then
    whole ruby "$here/sites/lang_target.rb" ruby
    for how in "--yjit --yjit-call-threshold=1" \
        "--mjit --mjit-min-calls=2 --mjit-wait"; do
        # shellcheck disable=SC2086
        if ruby $how -e 1 >/dev/null 2>&1; then
            # shellcheck disable=SC2086
            others "ruby $how" "$here/sites/lang_target.rb" ruby $how
        else
            skip "ruby $how" "it has no such compiler"
        fi
    done
    cut ruby ruby "$here/sites/lang_target.rb"
    cat >below.rb <<'EOF'
require "zlib"

def compressed(text)
  Zlib::Deflate.deflate(text)  #< 65536 libz.so zlib.so libruby
end

def blank(n)
  "x" * n  #= 30 70001 blank 13 11
end

30.times do
  compressed("text")
  blank(70_000)
end
EOF
    if ruby -rzlib -e 1; then
        native ruby "$work/below.rb" rb_vm_exec rb_iseq_line_no \
            "$(command -v ruby)"
    else
        skip "ruby: native code below lines" "it has no zlib"
    fi
else
    skip "ruby" "no ruby 3.1 to 3.4"
fi

# --- Without an interpreter, and with one that is not known -------------------

record_lines lang t "$built/sites/sites_target" all
is "a program without interpreter runs as ever" "$got" 0
is "and says nothing of lines" "$(cat said)" ""
if have nm; then
    target=$built/sites/sites_target
    [ -x "$built/sites/.libs/sites_target" ] && target=$built/sites/.libs/sites_target
    nm -S "$target" >nm
    check "each place has its blocks" "$python" "$here/sites/sites.py" nm 1 t
else
    skip "each place has its blocks" "no nm here"
fi

cat >odd.c <<'EOF'
#include <stdlib.h>
const unsigned long Py_Version = 0x03630000;
char _PyRuntime[4096] = "nothing that anyone knows";
char PyCode_Type[64], PyUnicode_Type[64], PyBytes_Type[64];
void *PyGILState_GetThisThreadState(void) { abort(); }
void *PyThreadState_GetUnchecked(void) { abort(); }
int main(void) { return malloc(10) == NULL; }
EOF
if have cc && cc -rdynamic -o odd odd.c 2>/dev/null; then
    record_lines lang t ./odd
    is "an unknown version is left alone" "$got" 0
    is "and said once" "$(cat said)" \
        "tcmalloc: the sites have no lines of this Python, whose version is not known"
    "$malloc_trace" info -v t >got
    like "and in the trace" got 'an interpreter is not known: .*Python'
else
    skip "an unknown version" "no compiler"
fi

# One of a known version, whose thread state leads nowhere.
cat >liar.c <<'EOF'
#include <stdint.h>
#include <stdlib.h>
const unsigned long Py_Version = 0x030B0700;
char _PyRuntime[64];
uintptr_t PyCode_Type[8] = {[4] = 184}, PyUnicode_Type[8] = {[4] = 80},
          PyBytes_Type[8] = {[4] = 33};
static uintptr_t state[16] = {[7] = 8};
void *PyGILState_GetThisThreadState(void) { return state; }
void *_PyThreadState_UncheckedGet(void) { return state; }
int main(void) {
    for (int i = 0; i < 3; i++) {
        void *p = malloc(70000);
        __asm__ volatile("" : : "r"(p) : "memory");
        free(p);
    }
    return 0;
}
EOF
if have cc && cc -rdynamic -o liar liar.c 2>/dev/null; then
    record_lines lang t ./liar
    is "another structure is left alone" "$got" 0
    is "and said once, too" "$(cat said)" \
        "tcmalloc: the sites have no lines of this Python, whose structures are not those of its version"
    "$malloc_trace" report --columns t >columns
    like "its allocations have their callers" columns ' 3 main '
else
    skip "another structure" "no compiler"
fi

# A recording that ends, and another that begins, while lines are looked for.
if have cc && cc -O2 -I "$top_srcdir/src" -rdynamic -o restart \
    "$here/sites/lang_restart.c" -lpthread -L "$(dirname "$tracing")" \
    -ltcmalloc_minimal_tracing 2>said; then
    for call in 1 2; do
        rm -f second
        LD_LIBRARY_PATH=$(dirname "$tracing") \
            record_lines lang t ./restart $call "$work/second"
        is "a restart in the middle of a walk ($call)" \
            "$got $(cat printed said)" "0 restarted"
        for one in t second; do
            check "it is whole: $one" "$postprocess" -q --json json $one p
            "$malloc_trace" report --columns $one >columns
            like "its lines are known: $one" columns 'name:5'
        done
    done
else
    skip "a restart in the middle of a walk" "not built: $(tail -n 1 said)"
fi

for bad in lang: lang:0 lang:257 lang:x langs; do
    record_lines $bad t "$built/sites/sites_target" all
    like "TCMALLOC_TRACE_SITES=$bad is told" said "TCMALLOC_TRACE_SITES is $bad"
    fails_with "record --sites=$bad" 2 "$malloc_trace" record --sites=$bad true
done
tap_end
