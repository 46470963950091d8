#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Lines of interpreters that a program loads with dlopen: as those of programs
# that have one from the start. The library may be closed while other threads
# allocate, and come back elsewhere.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$malloc_trace"
need_python
: "${CC:=cc}"
need_command "$CC"
case $(uname -m) in
x86_64) ;;
*) skip_all "interpreters that come late are tested on x86-64 only" ;;
esac
$CC -O1 -rdynamic -o late "$here/sites/lang_late_target.c" -ldl -lpthread || exit 1

# The libraries of the interpreters that are here.
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
python_so=libpython$version.so.1.0
# Before 3.11 the names of functions are not qualified.
case $version in
3.9 | 3.10) export PLAIN=1 ;;
esac
version=$(! have perl || perl -MConfig -e 'print "$Config{PERL_REVISION}.$Config{PERL_VERSION}"')
perl_so=libperl.so.${version:-5.36}
version=$(! have ruby || ruby -e 'print RUBY_VERSION[/\d+\.\d+/]')
ruby_so=libruby-${version:-3.1}.so.${version:-3.1}

record_lines() { # FILE COMMAND...
    file=$1
    shift
    rm -f "$file" "$file".*
    TCMALLOC_TRACE_SITES=lang TCMALLOC_TRACE_UNCOMPRESSED=1 record "$file" "$@"
}

no_difference() { # WHAT FILE
    "$malloc_trace" info --json - "$2" | tr -d ' ' |
        awk -F '[:,]' '/"stacks_checked"/ { n = $2 }
            /"stacks_different"/ { bad = $2 }
            END { print (n > 1000), bad }' >checks
    is "$1: walks in the debug mode" "$(cat checks)" "1 0"
}

# loaded WHICH LIBRARY SCRIPT LINES: LINES are those that lang.py looks for.
loaded() {
    which=$1 library=$2 script=$3
    if ! ./late "$which" "$library" "$script" >alone 2>alone.said; then
        [ "$(tail -n 1 alone | cut -c 1-4)" = "done" ] || {
            skip "$which" "$library does not run it: $(tail -n 1 alone.said)"
            return
        }
    fi
    ./late "$which" "$library" "$script" >alone 2>alone.said
    want=$?
    for checked in $checks; do
        TCMALLOC_TRACE_CHECK_STACKS=$checked record_lines t \
            ./late "$which" "$library" "$script" >printed 2>said
        is "$which: status as without" "$?" "$want"
        check "$which: output as without" cmp printed alone
        is "$which: stderr as without" "$(sed 's/pid=[0-9]*//' said)" \
            "$(sed 's/pid=[0-9]*//' alone.said)"
        check "$which: each line has its blocks" \
            "$python" "$here/sites/lang.py" "$script" 1 t <printed
    done
    no_difference "$which" t
}

checks="0 1"
loaded python "$python_so" "$here/sites/lang_target.py"
# Ten times as many calls: without the checks in a long run only.
[ "${LONG:-0}" = 1 ] || checks=1
export PYTHONMALLOC=malloc
loaded python "$python_so" "$here/sites/lang_target.py"
unset PYTHONMALLOC
checks="0 1"
loaded perl "$perl_so" "$here/sites/lang_target.pl"
# It is not known which function of Ruby 3.3 and later runs its code.
ruby_lines=1
case $ruby_so in
*3.[12])
    loaded ruby "$ruby_so" "$here/sites/lang_target.rb"
    ;;
*)
    ruby_lines=0
    ./late ruby "$ruby_so" "$here/sites/lang_target.rb" >alone 2>said
    want=$?
    if [ "$(tail -n 1 alone | cut -c 1-4)" = "done" ]; then
        record_lines t ./late ruby "$ruby_so" "$here/sites/lang_target.rb" \
            >printed 2>said
        is "ruby: status as without" "$?" "$want"
        check "ruby: output as without" cmp printed alone
        like "ruby: that there are no lines is said" said 'no lines of this Ruby'
    else
        skip "ruby" "$ruby_so does not run it: $(tail -n 1 said)"
    fi
    ;;
esac

# --- Two in one program -------------------------------------------------------

cat >both.py <<'EOF'
import ctypes, sys
def plain(n):
    return bytes(n)  #= 20 70033 plain 6
def loop():
    for i in range(10):
        plain(70000)
loop()
perl = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
perl.perl_alloc.restype = perl.Perl_eval_pv.restype = ctypes.c_void_p
argv = (ctypes.c_char_p * 4)(b"perl", b"-e", b"0", None)
perl.Perl_sys_init3(ctypes.byref(ctypes.c_int(3)),
                    ctypes.byref(ctypes.pointer(argv)),
                    ctypes.byref(ctypes.c_void_p(0)))
my = ctypes.c_void_p(perl.perl_alloc())
perl.perl_construct(my)
perl.perl_parse(my, None, 3, argv, None)
perl.Perl_eval_pv(my, b'\n#line 7 "in.pl"\nvec(my $s, 89999, 8) = 1;', 1)
loop()
print("both")
EOF
if [ "$("$python" both.py "$perl_so")" = both ]; then
    record_lines t "$python" "$work/both.py" "$perl_so" >printed
    is "perl in python: output" "$(cat printed)" both
    check "perl in python: lines of python" \
        "$python" "$here/sites/lang.py" "$work/both.py" 1 t <printed
    "$malloc_trace" report --columns t >columns
    # ctypes gives the lock back around calls.
    like "perl in python: lines of perl" columns ' 9[0-9]{4} .*in\.pl:7'
else
    skip "perl in python" "no ctypes, or no libperl"
fi

# --- Linked --------------------------------------------------------------------

cat >linked.c <<'EOF'
#include <stdlib.h>
extern char **environ;
void Py_Initialize(void), Py_Finalize(void), PyRun_SimpleString(const char *);
void Perl_sys_init3(int *, char ***, char ***), perl_construct(void *);
void perl_parse(void *, void *, int, char **, char **), perl_run(void *);
void *perl_alloc(void), Perl_eval_pv(void *, const char *, int);
void ruby_init_stack(void *), ruby_init(void), rb_eval_string(const char *);
static __attribute__((noinline)) void native(size_t n) {
    for (int i = 0; i < 20; i++) {
        void *p = malloc(n);
        __asm__ volatile("" : : "r"(p) : "memory");
        free(p);
    }
}
int main(void) {
    void *base = NULL;
#ifdef PERL
    char *args[] = {"perl", "-e", "0", NULL}, **argv = args;
    int argc = 3;
    Perl_sys_init3(&argc, &argv, &environ);
    void *perl = perl_alloc();
    perl_construct(perl);
    perl_parse(perl, NULL, 3, args, NULL);
    perl_run(perl);
#endif
    native(60000);
#ifdef PYTHON
    Py_Initialize();
    PyRun_SimpleString("x = [bytearray(70000) for i in range(20)]");
#endif
#ifdef RUBY
    ruby_init_stack(&base);
    ruby_init();
    rb_eval_string("$x = (1..20).map { 'x' * 80000 }");
#endif
#ifdef PERL
    Perl_eval_pv(perl, "\n#line 7 \"in.pl\"\n"
                       "$x[$_] = 'x' x (90000 + $_) for 1..20", 1);
#endif
    native(60000);
    return 0;
}
EOF
linked() { # WHICH PERL RUBY OPTION...: whether there are lines of these
    which=$1 of_perl=$2 of_ruby=$3
    shift 3
    if $CC -O1 -w -o linked linked.c "$@" 2>said && ./linked; then
        record_lines t ./linked
        "$malloc_trace" report --by=line --to=csv -q t >lines
        is "$which: native code has no line of theirs" \
            "$(awk -F, '$2 == 2400000 { print $3 }' lines)" 40
        is "$which: lines of ruby" \
            "$(awk -F, '/^eval:1,/ && $2 > 1600000' lines | wc -l)" "$of_ruby"
        is "$which: lines of perl" \
            "$(awk -F, '/^in.pl:7,/ && $2 > 1800000' lines | wc -l)" "$of_perl"
        is "$which: no line with a number that is none" \
            "$(grep -c ':4294967295,' lines)" 0
    else
        skip "$which" "not linked: $(tail -n 1 said)"
    fi
}
perl=-l:$perl_so ruby=-l:$ruby_so
linked "perl linked" 1 0 -DPERL "$perl"
case $ruby_so in
*3.[1-4]) linked_ruby=1 ;;
*) linked_ruby=0 ;;
esac
linked "ruby linked" 0 $linked_ruby -DRUBY "$ruby"
linked "all linked" 1 $ruby_lines -DPERL -DRUBY -DPYTHON "$perl" "$ruby" \
    "-l:$python_so"

# --- Opened and closed --------------------------------------------------------

cat >rounds.py <<'EOF'
def plain(n):
    return bytes(n)  #= 1 70033 plain 5
def loop():
    for i in range(1):
        plain(70000)
loop()
EOF
rounds=1000
[ "${LONG:-0}" = 0 ] || rounds=5000
if ./late rounds "$python_so" libz.so.1 1 "$work/rounds.py" \
    >alone 2>said; then
    for checked in 0 1; do
        [ "${LONG:-0}$checked" != 01 ] || rounds=200
        TCMALLOC_TRACE_CHECK_STACKS=$checked record_lines t \
            ./late rounds "$python_so" libz.so.1 $rounds \
            "$work/rounds.py" >printed
        is "$rounds rounds: the program ends well" "$?" 0
        is "$rounds rounds: its output" "$(cat printed)" \
            "gone $rounds runs $((rounds / 50)) status 0"
        check "$rounds rounds: each line has its blocks" "$python" \
            "$here/sites/lang.py" "$work/rounds.py" $((rounds / 50)) t </dev/null
    done
    no_difference "$rounds rounds" t
else
    skip "opened and closed" "$(tail -n 1 said)"
fi

# --- One that is not known ----------------------------------------------------

cat >odd.c <<'EOF'
#include <stdlib.h>
const unsigned long Py_Version = 0x03630000;
char _PyRuntime[4096] = "nothing that anyone knows";
char PyCode_Type[64], PyUnicode_Type[64], PyBytes_Type[64];
void *PyGILState_GetThisThreadState(void) { abort(); }
void *PyThreadState_GetUnchecked(void) { abort(); }
void _PyEval_EvalFrameDefault(void) { abort(); }
int Py_BytesMain(int argc, char **argv) {
    for (int i = 0; i < 3; i++) {
        void *p = malloc((size_t)argc);
        __asm__ volatile("" : : "r"(p) : "memory");
        free(p);
    }
    return argv == NULL;
}
EOF
$CC -O1 -shared -fPIC -o odd.so odd.c
record_lines t ./late python ./odd.so x 2>said
is "an unknown version is left alone" "$?" 0
is "and said once" "$(cat said)" \
    "tcmalloc: the sites have no lines of this Python, whose version is not known"
tap_end
