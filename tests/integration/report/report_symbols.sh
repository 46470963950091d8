#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Where malloc-trace report finds names: debug files by build id, in the user's
# folder and from a server, debug information of several compilers and forms, and
# maps of code that was made at run time.
. "$top_srcdir/tests/lib/harness.sh"
make=$top_builddir/tests/unit/tools/report_make
need "$make" "$malloc_trace"
: "${CC:=cc}" "${CXX:=c++}"
unset DEBUGINFOD_URLS
report() { "$malloc_trace" report "$@"; }

# Code of no file.
cat >jit.txt <<'E'
frame 1 0 0 0x7f0000001011
frame 2 1 0 0x7f0000002005
site 2
new 1 100
E
"$make" jit <jit.txt
mkdir maps
cat >maps/perf-4711.map <<'E'
7f0000001000 100 LazyCompile:~main app.js:1
this is no line
7f0000002000 10 old
7f0000002000 20 JS:*add app.js:7
E
report --by=stack --columns --modules maps jit >got
is "names of a compiler at run time" "$(sed 's/^ *//' got)" \
    "100            1 JS:*add app.js:7 [0x7f0000002004] < LazyCompile:~main app.js:1 [0x7f0000001010]"
report --by=stack --columns jit >got
is "without its map addresses" "$(sed 's/^ *//' got)" \
    "100            1 0x7f0000002004 < 0x7f0000001010"

# Names that are longer than a line.
cat >long.txt <<'E'
frame 1 0 0 0x7f0000001011
frame 2 1 0 0x7f0000002011
frame 3 1 0 0x7f0000003011
frame 4 1 0 0x7f0000004011
frame 5 1 0 0x7f0000005011
frame 6 1 0 0x7f0000006011
site 2
new 1 500
site 3
new 2 400
site 4
new 3 300
site 5
new 4 200
site 6
new 5 100
E
"$make" long <long.txt
scope=company::product
hidden="$scope::(anonymous namespace)"
of='<int, long, std::map<std::string, std::vector<double> > >'
with='(std::function<void (int)> const&, unsigned long, int)'
many=a::name::of::many::parts::that::is::longer::than::any::line
cat >maps/perf-4711.map <<E
7f0000001000 100 main
7f0000002000 100 $scope::Registry$of::registerHandler$with
7f0000003000 100 $scope::Registry$of::unregisterHandler$with const
7f0000004000 100 void $hidden::insert<std::string, int>$with
7f0000005000 100 std::vector$of $scope::operator<< <$scope::Registry$of >$with
7f0000006000 100 $scope::$many::add_a_handler_for_sessions$with
E
functions() { # those that rows name
    sed -n '/ < /!s/^.*\(company\)/\1/p'
}
report --by=function --modules maps long >text
is "rows leave out parameters, then arguments in <>" "$(functions <text)" \
    "$scope::Registry<>::registerHandler(...)
$scope::Registry<>::unregisterHandler(...) const
$hidden::insert<std::string, int>(...)
$scope::operator<< <>(...)
$scope::a::name::of::many::...:line::add_a_handler_for_sessions(...)"
"$malloc_trace" leaks --modules maps long >text
is "and so do leaks" "$(functions <text)" \
    "$scope::Registry<>::registerHandler(...)
$scope::Registry...unregisterHandler(...) const
$hidden::insert<>(...)
$scope::operator<< <>(...)
$scope::a::na...add_a_handler_for_sessions(...)"
like "stacks, too" text '::.anonymous namespace.::insert<>\(\) < main$'
is "no line exceeds 80 columns" "$(awk 'length > 80' text)" ""
report --by=function --columns --modules maps long >got
like "other forms have them whole" got \
    ' void .*insert<std::string, int>\(std::function<void \(int\)> const&, '

[ "${TCM_HAVE_LIBDW:-no}" = yes ] || {
    skip "names" "built without elfutils"
    tap_end
}
need_preload
need "$postprocess"
sited() { TCMALLOC_TRACE_SITES=caller record "$@"; }
names() { # WHAT OPTION...: of what app's functions made
    tap_names=$1
    shift
    report --by=line --columns "$@" >got 2>err
    like "$tap_names" got " 30 .*/report_target.c:$line\$"
}
line=$(grep -n 'malloc(50' "$here/report/report_target.c" | cut -d: -f1)

# Without debug information.
for path in /usr/lib/nowhere/draw.so /lib/draw.so /usr/local/lib/draw.so \
    /nowhere/draw.so; do
    "$make" bare <<E
module 1 0x1000 0x9000 $path
frame 1 0 1 0x1100
site 1
new 1 100
E
    report --by=function bare
done 2>err | sed -n 's/^no debug .* draw.so: //p' >got
is "what to do for debug information of a module" "$(cat got)" \
    "install its debug symbols (-dbgsym or -debuginfo)
install its debug symbols (-dbgsym or -debuginfo)
give the recorded build's folder with --modules
give the recorded build's folder with --modules"

# Compilers and forms.
forms() { # NAME COMPILER OPTION...
    name=$1
    shift
    # shellcheck disable=SC2068
    if $@ -O1 -fno-builtin -o app "$here/report/report_target.c" 2>err; then
        sited t ./app
        names "$name" t
    else
        skip "$name" "it does not compile"
    fi
}
forms "dwarf 4" "$CC" -gdwarf-4
forms "dwarf 5" "$CC" -gdwarf-5
forms "compressed debug information" "$CC" -g -gz
forms "functions in a file of their own" "$CC" -g -gsplit-dwarf
rm -f ./*.dwo

# A function without debug information is known by its symbol, though the lines
# in it are those of a header.
cat >split.cc <<'E'
#include <vector>
static void *volatile sink;
__attribute__((noinline)) void fill(int n) {
    for (int i = 0; i < n; i++)
        sink = new std::vector<int>(100);
}
int main() {
    fill(20);
    return 0;
}
E
# lacking REMEDY OPTION...: split.cc, compiled with OPTION.
lacking() {
    remedy=$1
    shift
    if ! $CXX -O2 "$@" -c split.cc 2>err ||
        ! $CXX "$@" -o split split.o 2>err; then
        skip "$*" "it does not compile"
        return
    fi
    rm -f split.dwo
    TCMALLOC_TRACE_SITES=stack record t ./split
    report --by=function t >got 2>err
    like "$*: what is missing" got \
        "^no debug information of split: $remedy\$"
    [ "$1" = -s ] ||
        like "$*: the function of each block" got ' 40 .* fill\(int\)$'
}
lacking 'split.dwo is missing: keep it where the compiler wrote it' \
    -g -gsplit-dwarf
lacking 'compile with -g' -g0
lacking 'compile with -g and do not strip' -s -g
forms "not at any address" "$CC" -g -no-pie
sited u ./app
report --by=line --columns t u >got 2>err
like "two processes of it" got " 60 .*/report_target.c:$line\$"
! have clang || forms "another compiler" clang -g

# A program whose segments have a gap between them: to the loader it is several.
cat >gap.c <<'E'
#include <stdlib.h>
void *volatile sink;
__attribute__((noinline)) void *inner(size_t n) {
    void *p = malloc(n);
    sink = p;
    return p;
}
__attribute__((noinline, section("far"))) void outer(void) {
    for (int i = 0; i < 5; i++)
        free(inner(1000));
}
int main(void) {
    outer();
    return 0;
}
E
if [ "$(uname -m)" = x86_64 ] &&
    $CC -O1 -g -no-pie -Wl,--section-start=far=0x2600000 \
        -Wl,--build-id -o gap gap.c 2>err; then
    TCMALLOC_TRACE_SITES=stack record t ./gap
    report -q --to=folded t >got
    like "a program with a gap" got ';main;outer;inner 5000$'
    $CC -O2 -g -no-pie -Wl,--section-start=far=0x2600000 \
        -Wl,--build-id -o gap gap.c
    report -q --to=folded t >got 2>err
    like "a program with a gap: another build is told" err \
        'gap is another build'
else
    skip "a program with a gap" "not linked, or no stacks here"
fi

# A function without a name behind the last one of the C compiler's own.
cat >nameless.c <<'E'
#include <stdlib.h>
void *volatile sink;
__attribute__((noinline)) void nameless(void) { sink = malloc(88); }
int main(void) { nameless(); return 0; }
E
if have objcopy && $CC -O1 -fno-builtin -o nameless nameless.c 2>err &&
    objcopy --strip-symbol=nameless nameless 2>err; then
    sited t ./nameless
    report --by=function --columns t >got
    like "a function without a name has none" got '^ *88 .* nameless[+]0x'
else
    skip "a function without a name has none" "no objcopy"
fi

# Names of Rust and D are no C++ names.
# mangled LANGUAGE SYMBOL PATTERN: how a function with that symbol is named.
mangled() {
    cat >mangled.c <<E
#include <stdlib.h>
void *volatile sink;
__attribute__((noinline)) void place(void) __asm__("$2");
void place(void) { sink = malloc(77); }
int main(void) { place(); return 0; }
E
    $CC -O1 -fno-builtin -rdynamic -o mangled mangled.c 2>err || return 0
    sited t ./mangled
    report --by=function --columns t >got
    report --by=function t | tail -n 1 >last
    if grep -q " 1 $2\$" got; then
        like "$1's names: the last line names what the build lacks" last \
            '^names stay mangled: this build lacks libiberty, .* Rust and D$'
    else
        is "$1's names: the build lacks nothing" "$(grep -c libiberty last)" 0
        like "$1's names" got " 1 $3\$"
    fi
}
mangled Rust _RNvC6_123foo3bar '123foo::bar'
mangled D _D3app5placeFZv 'app\.place\(\)'

# Debug files by build id.
if have objcopy && have strip && have readelf &&
    $CC -g -O1 -fno-builtin -Wl,--build-id -o whole "$here/report/report_target.c"; then
    id=$(readelf -n whole | sed -n 's/.*Build ID: //p')
    first=$(printf %.2s "$id")
    mkdir -p bin debug/.build-id/"$first" server/buildid/"$id"
    objcopy --only-keep-debug whole "debug/.build-id/$first/${id#??}.debug"
    strip -o bin/app whole
    cp "debug/.build-id/$first/${id#??}.debug" "server/buildid/$id/debuginfo"
    cp bin/app "server/buildid/$id/executable"
    sited t ./bin/app
    report --by=line --columns t >got
    like "stripped" got ' 30 app\+0x[0-9a-f]+$'
    names "a debug file by build id" --modules debug t
    # With the program gone.
    mv bin/app moved
    names "a debug file alone" --modules debug t
    report --by=line --columns t >got
    like "nothing of it" got ' 30 app\+0x[0-9a-f]+$'
    mkdir -p alone/.build-id/"$first"
    cp whole "alone/.build-id/$first/${id#??}"
    names "a program by build id" --modules alone t
    if ldconfig -p 2>/dev/null | grep -q libdebuginfod; then
        export DEBUGINFOD_CACHE_PATH="$work/cache" DEBUGINFOD_TIMEOUT=10
        url=file://$work/server
        if have python3; then
            (cd server && exec python3 -u -m http.server --bind 127.0.0.1 0) \
                >served 2>asked &
            server=$!
            while ! grep -q 'port [0-9]' served && kill -0 $server; do
                sleep 0.1
            done 2>/dev/null
            port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' served)
            url=${port:+http://127.0.0.1:$port}
        fi
        DEBUGINFOD_URLS=$url names "from a server" t
        ! have python3 || kill $server
        mv moved bin/app
        rm -rf cache
        DEBUGINFOD_URLS=file://$work/server names "debug file from a server" t
        rm -rf cache
        report --by=line --columns t >got
        like "which is not asked without being named" got ' 30 app\+0x'
        is "and leaves nothing" "$(ls -d cache 2>/dev/null)" ""
    else
        skip "from a server" "no libdebuginfod"
    fi
else
    skip "debug files by build id" "no compiler, objcopy, strip or readelf"
fi
tap_end
