#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Rows of malloc-trace report name the user's function, whatever library it
# allocates through: wrappers and the C library, containers of C++ and Rust,
# modules of Python.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$malloc_trace"
need_python
: "${CC:=cc}" "${CXX:=c++}"
[ "${TCM_HAVE_LIBDW:-no}" = yes ] || skip_all "built without elfutils"
"$malloc_trace" record -q --sites=stack -o probe true 2>/dev/null ||
    skip_all "no stacks are recorded here"

report() { "$malloc_trace" report "$@"; }
stacked() { TCMALLOC_TRACE_SITES=stack:64 record "$@"; }
# bytes TRACE OPTION...: "BYTES FUNCTION" of rows whose name has a number.
bytes() {
    report --by=function --columns "$@" |
        sed -n 's/^ *\([0-9]*\) .*[^a-z_]\([a-z_]*_[0-9][0-9]*\).*/\1 \2/p' |
        sort -k2
}

# C.
if $CC -g -O1 -fno-builtin -o app "$here/report/report_user.c" 2>err; then
    stacked t ./app
    is "wrappers and strdup" "$(bytes t)" "80 copy_name_80
3000 grow_table_3000
500 make_table_500"
    is "with --no-skip, too, are named" \
        "$(report --by=function --no-skip --columns t | awk '{ print $1, $3 }' |
            grep -w 'xmalloc\|xrealloc')" "3000 xrealloc
500 xmalloc"
    is "more to pass over" "$(report --by=function --columns \
        --skip '^grow_' --skip '^make_' t | awk '$3 == "main" { print $1 }')" \
        3500
    is "also by file" "$(report --by=function --columns \
        --skip 'report_user\.c$' t | grep -c _3000)" 0
    report --by=line --columns t >lines
    line=$(grep -n 'xrealloc(NULL' "$here/report/report_user.c" | cut -d: -f1)
    like "lines are the user's" lines "^ *1000 *1 .*report_user.c:$line\$"
    report -q --to=objects -o objects t
    like "those of blocks, too" objects ",1000,.*report_user.c:$line\$"
    report --by=function t >text
    like "stacks have all frames" text ' xrealloc < grow_table_3000 < main'
    report -q --to=folded t >folded
    like "and so have exports" folded 'main;grow_table_3000;xrealloc 3000$'
    is "a filter for a frame inside" \
        "$(report --by=function --columns --filter '^xrealloc$' t |
            awk '{ print $1, $3 }')" "3000 grow_table_3000"
    is "and outside" "$(report --by=function --columns --filter '^main$' t |
        awk '{ print $1 }' | paste -sd+ | sed 's/$/ /' | tr + ' ')" \
        "3000 500 80 "
    report -q --to=html -o page t
    like "a page has them" page 'grow_table_3000'
    is "a difference" "$(bytes --diff t t)" "0 copy_name_80
0 grow_table_3000
0 make_table_500"
    for by in site function line file module stack size thread; do
        report --by=$by t
    done >text
    report --tree t >>text
    report --diff t t >same
    cat same >>text
    is "a difference leaves out rows without one" \
        "$(grep -c '_80\|_500\|_3000' same)" 0
    like "and says so" same '^[0-9]+ rows without a difference$'
    is "no line exceeds 80 columns" "$(awk 'length > 80' text)" ""
    report --by=line t | grep -v '%  *[a-z]* <' >text
    like "shortened names have their ends" text "^/.*report_user.c:$line\$"
    "$python" - "$malloc_trace" t >text <<'END'
import fcntl, os, pty, struct, subprocess, sys, termios
ours, theirs = pty.openpty()
fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 40, 132, 0, 0))
p = subprocess.Popen([sys.argv[1], "report", "--by=stack", sys.argv[2]],
                     stdout=theirs)
os.close(theirs)
text = b""
try:
    while part := os.read(ours, 4096):
        text += part
except OSError:
    pass
widths = [len(line) for line in text.decode().splitlines()]
print("wide" if 80 < max(widths) <= 132 else widths)
END
    is "on a wider terminal lines are longer" "$(cat text)" wide
    report --by=function t >text
    is "with debug information nothing is said of it" \
        "$(grep -c 'debug information' text)" 0
    like "the sums are in one line" text \
        '^t: [0-9.]+ KiB in [0-9]+ calls; peak [0-9.]+ KiB; .* live at the end$'
    is "and in the first one" "$(grep -n '^t: ' text | cut -d: -f1)" 1
    $CC -O2 -fno-builtin -o bare "$here/report/report_user.c" 2>err
    stacked b ./bare
    report --by=function b >text
    like "without it the report says so, and what to do" text \
        '^no debug information of bare: compile with -g$'
    TCMALLOC_TRACE_SITES=caller record one ./app
    report --by=function one >text
    like "callers alone: what is known is named" text ' xrealloc$'
    like "and how to get more is told" text \
        'named by library functions: record with --sites=stack'
else
    skip "C" "no compiler for a program"
fi

# C++, with functions inlined and not.
for how in -O2 "-O1 -fno-inline" "-O2 -fomit-frame-pointer"; do
    # shellcheck disable=SC2086
    $CXX -g $how -o cxx "$here/report/report_user.cc" 2>err || {
        skip "C++ $how" "no compiler for a program"
        continue
    }
    stacked t ./cxx
    is "C++ $how" "$(bytes t)" "64 keep_64
4000 open_session_4000"
    report --by=function --columns t >got
    for name in '701 .*anonymous namespace.::first::make' \
        '702 .*anonymous namespace.::second::make' '703 .* alloc::make\(' \
        '704 .* with_lambda.*::.*operator\(\)' \
        '705 .* with_class\(int\)::inner::make'; do
        like "C++ $how: the scope of a local function" got "^ *$name"
    done
    report --by=function t >text
    like "C++ $how: a name that is cut" text '^collect<'
    for by in site function stack; do report --no-skip --by=$by t; done >text
    is "C++ $how: no line exceeds 80 columns" "$(awk 'length > 80' text)" ""
done
report --by=function --no-skip --columns t >got
like "with --no-skip containers" got 'std::'

# Rust.
rustc=$(command -v rustc || command -v "${HOME:-}/.cargo/bin/rustc")
if [ -n "$rustc" ] && "$rustc" -g -O -o rust "$here/report/report_user.rs" 2>err
then
    stacked t ./rust
    is "Rust" "$(bytes t)" "8000 open_session_8000"
else
    skip "Rust" "no rustc"
fi
cat >local.c <<'END'
#include <stdlib.h>
void *volatile sink;
__attribute__((noinline)) void grow(size_t n) __asm__(
    "_ZN5alloc7raw_vec11finish_grow17he8604d6a5ddb91f0E.llvm.98905663694029");
void grow(size_t n) {
    sink = malloc(n);
}
__attribute__((noinline)) void call_grow_600(void) {
    grow(600);
    sink = NULL;
}
int main(void) {
    call_grow_600();
    return 0;
}
END
if $CC -O1 -fno-builtin -o local local.c 2>err; then
    stacked t ./local
    is "a name that LLVM made local" "$(bytes t)" "600 call_grow_600"
    report --by=function --no-skip --columns t >got
    like "as people write it" got ' alloc::raw_vec::finish_grow$'
else
    skip "a local name" "no compiler for a program"
fi

# Python.
cp "$here/report/report_user.py" script.py
PYTHONMALLOC=malloc TCMALLOC_TRACE_SITES=lang record t "$python" script.py
report --by=function --columns t >got
if grep -q 'Cache.put' got; then
    check "Python: the user's function" \
        awk '/ Cache.put$/ && $1 > 100000 { found = 1 } END { exit !found }' got
    is "not that of a module" "$(grep -c JSONDecoder got)" 0
    like "code of a file is told with the file" got \
        ' <module> \(script.py\)$'
    check "with its own bytes" awk \
        '/ <module> .script.py.$/ && $1 > 300000 { found = 1 }
        END { exit !found }' got
    report --by=function --columns --no-skip t >got
    like "with --no-skip that of a module" got JSONDecoder
    report --by=function --filter Cache t |
        sed -e ':a' -e N -e 's/\n \{14\}</ </' -e ta -e P -e D >text
    like "stacks have the user's functions" text \
        '< \.\.\. < Cache.put < load < <module> .script.py.$'
else
    skip "Python" "no lines of $python are recorded"
fi

# An interpreter whose lines are not recorded: who calls its malloc.
if command -v perl >/dev/null; then
    stacked t perl -e 'my @a = map { "$_" x 100 } 1 .. 2000;'
    report --by=function --columns --top=1000 --no-skip t >got
    like "Perl: --no-skip names its malloc" got ' Perl_safesysmalloc$'
    report --by=function --columns --top=1000 t >got
    is "rows name who calls it" "$(grep -c ' Perl_safesysmalloc$' got)" 0
else
    skip "Perl" "not installed"
fi
tap_end
