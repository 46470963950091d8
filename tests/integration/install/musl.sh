#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A build for musl, with Debian's musl-gcc: both libraries preloaded, under the
# loader as a command, and linked; recordings of threads and processes, with
# control and call sites; the tools; Lua; the tests of the parts. The build
# takes minutes: LONG=1. Before it, programs of musl that inherit the preload of
# a library that was built for glibc.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
have musl-gcc || skip_all "no musl-gcc (Debian: musl-tools)"
need "$malloc_trace" "$postprocess"
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES DESTDIR
loader=/lib/ld-musl-$machine.so.1

# --- The libraries of this build ---------------------------------------------

glibc_libraries() {
    check "a program that forks" musl-gcc -O1 -o target \
        "$here/install/musl_target.c"
    run env LD_PRELOAD="$minimal" ./target forks 400
    is "libtcmalloc_minimal, built for glibc" "$status $(wc -c <"$err")" "21 0"
    run env LD_PRELOAD="$tracing" TCMALLOC_TRACE_OUTPUT=h.%p ./target forks 50
    is "libtcmalloc_minimal_tracing, built for glibc" \
        "$status $(wc -c <"$err")" "21 0"
    is "forks beside threads are recorded" "$(ls h.* | sed 's/\.spool$//' |
        sort -u | wc -l)" 51
    for file in $(ls h.* | sed 's/\.spool$//' | sort -u); do
        "$postprocess" --quiet "$file" /dev/null || echo "$file"
    done >incomplete 2>&1
    is "each recording is complete" "$(cat incomplete)" ""
    rm -f h.*
}
[ -n "$emulator" ] || glibc_libraries
[ "${LONG:-0}" != 0 ] || {
    skip "a build for musl" "it takes minutes: LONG=1"
    tap_end
}

# --- The build ---------------------------------------------------------------

# musl-gcc finds neither the kernel's headers nor liblz4. The archive of liblz4
# that is made for glibc calls functions of ISO C alone.
mkdir include lib
for folder in linux asm asm-generic; do
    for place in /usr/include "/usr/include/$(gcc -print-multiarch)"; do
        [ ! -e "$place/$folder" ] || ln -sf "$place/$folder" include/
    done
done
lz4=$(gcc -print-file-name=liblz4.a)
case $lz4 in
/*)
    ln -s "$lz4" lib/
    ln -s /usr/include/lz4.h /usr/include/lz4hc.h /usr/include/lz4frame.h include/
    ;;
*) lz4= ;;
esac
b=$work/build
mkdir "$b"
configure() {
    (cd "$b" && "$top_srcdir/configure" -q --enable-werror CC=musl-gcc \
        CPPFLAGS="-idirafter $work/include" LDFLAGS="-L$work/lib")
}
check "configure CC=musl-gcc" configure
check "libraries and tools are built, without a warning" \
    make -s -j2 -C "$b"
m=$b/.libs/libtcmalloc_minimal.so
t=$b/.libs/libtcmalloc_minimal_tracing.so
[ -e "$t" ] && [ -e "$b/malloc-trace-replay/replay" ] || {
    tap_end
    exit 0
}
like "the library is linked with musl" "$t" 'libc[.]so'
musl() {
    musl_program=$b/malloc-trace-replay/$1
    shift
    "$musl_program" "$@"
}

flags="-O2 -g -Wl,--eh-frame-hdr $here/install/musl_target.c"
# shellcheck disable=SC2086
check "a program" musl-gcc $flags -o target
cat >plugin.c <<'C'
#include <stdlib.h>
void *in_plugin(size_t size);
void *in_plugin(size_t size) {
    void *p = malloc(size);
    __asm__ __volatile__("" ::"r"(p) : "memory");
    return p;
}
C
check "a library" musl-gcc -O2 -g -Wl,--eh-frame-hdr -shared -fPIC \
    -o plugin.so plugin.c

# --- Preloaded ---------------------------------------------------------------

# calls FUNCTION TRACE...: prints the calls that FUNCTION made, by the tools of
# the host, which know debug information.
calls() {
    calls_of=$1
    shift
    "$malloc_trace" report --by=function --top=1000 --to=csv "$@" 2>/dev/null |
        awk -F, -v f="$calls_of" '
            NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
            index($0, f) { n += $column["calls"] }
            END { print n + 0 }'
}

run env LD_PRELOAD="$m" ./target "$work/plugin.so"
is "libtcmalloc_minimal preloaded" "$status" 21
run env LD_PRELOAD="$m" "$b/malloc-trace-replay/malloc-trace-allocator"
like "it serves malloc" "$out" 'libtcmalloc_minimal'

run env LD_PRELOAD="$t" TCMALLOC_TRACE_OUTPUT=t.%p ./target "$work/plugin.so"
is "libtcmalloc_minimal_tracing preloaded" "$status" 21
is "a recording for each of two processes" "$(ls t.* | wc -l)" 2
for file in t.*; do
    run musl postprocess --quiet --json p.json "$file" musl.p
    is "$file: complete" "$status $(json p.json complete unmatched_frees \
        dropped_events)" "0 true 0 0"
    check "the host's postprocess" "$postprocess" --quiet "$file" host.p
    check "the same bytes" cmp musl.p host.p
    run musl replay --quiet --threads=real --check musl.p
    is "replay" "$status" 0
    run env LD_PRELOAD="$m" "$b/malloc-trace-replay/replay" --check musl.p
    is "replay with libtcmalloc_minimal" "$status" 0
done
run musl malloc-trace compare -n 2 --json c.json -a musl -a tcmalloc-mt musl.p
is "compare runs" "$status" 0
is "compare names the allocators" \
    "$(sed -n 's/^ *"name": "\(musl\|glibc\|tcm[^"]*\)",*$/\1/p' c.json |
        sort -u | tr '\n' ' ')" "musl tcmalloc-mt "
like "and the C library" c.json '"c_library": "musl"'
for what in "tune --list" "compare --help" "tune --help" \
    "gate --help" "memory --help" "replay --help"; do
    # shellcheck disable=SC2086
    run musl malloc-trace $what
    is "$what: nothing of glibc's" "$status $(grep -ci glibc "$out")" "0 0"
done

for sites in caller stack; do
    rm -f s.*
    run env LD_PRELOAD="$t" TCMALLOC_TRACE_OUTPUT=s.%p \
        TCMALLOC_TRACE_SITES=$sites TCMALLOC_TRACE_CHECK_STACKS=1 \
        ./target "$work/plugin.so"
    is "sites by $sites" "$status $(wc -c <"$err")" "21 0"
    is "$sites: calls of leaf, by names" "$(calls leaf s.*)" 4500
    is "$sites: calls of a library that dlopen loaded" \
        "$(calls in_plugin s.*)" 300
done
"$malloc_trace" report --tree s.* >tree 2>/dev/null
is "a stack names all functions of the program" \
    "$(grep -oE 'run_thread|middle|leaf' tree | head -n 3 | tr '\n' ' ')" \
    "run_thread middle leaf "
# Sites of the musl build's own tools, which have no names.
is "report of the musl build" "$(musl malloc-trace report s.* 2>/dev/null |
    grep -c ' 4,500 .*target+0x')" 1

# The smallest that glibc allows; musl allows less.
for sites in none caller stack; do
    rm -f k
    run env LD_PRELOAD="$t" TCMALLOC_TRACE_OUTPUT=k \
        TCMALLOC_TRACE_SITES=$sites ./target stack 16384
    is "threads with stacks of 16 KiB, sites by $sites" "$status" 0
    [ $sites = none ] || is "$sites: their calls" "$(calls leaf k)" 4000
done

run "$loader" --preload "$t" ./target
is "the loader as a command" "$status" 21
rm -f t.*
run env TCMALLOC_TRACE_OUTPUT=t.%p "$loader" --preload "$t" ./target
is "it records" "$status $(ls t.* | wc -l)" "21 2"

check "a program with streams" musl-gcc -O2 -o streams \
    "$here/install/musl_streams.c"
for how in flush exit; do
    for library in "$m" "$t"; do
        run timeout -k 5 60 "$loader" --preload "$library" ./streams $how
        is "fork while all streams wait for one: $how, $(basename "$library")" \
            "$status" 0
    done
done

run musl malloc-trace record -o r.%p -- ./target
is "malloc-trace record" "$status $(ls r.* | wc -l)" "21 2"

# --- Control -----------------------------------------------------------------

mkfifo input
env LD_PRELOAD="$t" TCMALLOC_TRACE_OUTPUT=c TCMALLOC_TRACE_START=0 \
    TCMALLOC_TRACE_CONTROL=1 ./target wait <input &
pid=$!
exec 3>input
is_there() { musl malloc-trace ctl $pid status >said 2>/dev/null; }
check "a process answers" eventually 20 is_there
check "ctl start" musl malloc-trace ctl $pid start
echo >&3
have_run() {
    musl malloc-trace ctl $pid flush >/dev/null &&
        "$malloc_trace" info --json now c >/dev/null 2>&1
    at_least_calls=$(sed -n 's/.*"alloc": *\([0-9]*\).*/\1/p' now | head -n 1)
    [ "${at_least_calls:-0}" -ge 4000 ]
}
check "its calls are recorded" eventually 20 have_run
check "ctl stop" musl malloc-trace ctl $pid stop
echo >&3
wait $pid
is "the process ends" $? 0
exec 3>&-

# --- Linked ------------------------------------------------------------------

for name in minimal minimal_tracing; do
    library=$b/.libs/libtcmalloc_$name
    # shellcheck disable=SC2086
    check "$name: static" musl-gcc $flags -static -o static.$name \
        "$library.a" $lz4
    run env TCMALLOC_TRACE_OUTPUT=l.%p TCMALLOC_TRACE_SITES=caller \
        ./static.$name
    is "$name: static, runs" "$status" 21
    # shellcheck disable=SC2086
    check "$name: shared" musl-gcc $flags -o shared.$name "$library.so" \
        -Wl,-rpath,"$b/.libs"
    run ./shared.$name
    is "$name: shared, runs" "$status" 21
done
is "recordings of the static program" "$(ls l.* | wc -l)" 2
is "its sites" "$(calls leaf l.*)" 4500

# --- Lua ---------------------------------------------------------------------

# Unpacks Debian's source package, which apt-get fetches without a change of the
# system.
lua_source() (
    set -e
    mkdir -p apt/lists/partial apt/cache/archives/partial apt/sources
    list=/etc/apt/sources.list.d/debian.sources
    [ ! -e $list ] ||
        sed 's/^Types:.*/Types: deb-src/' $list >apt/sources/a.sources
    [ ! -e /etc/apt/sources.list ] ||
        sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >apt/sources/a.list
    for action in update "source --download-only lua5.4"; do
        # shellcheck disable=SC2086
        timeout -k 5 120 apt-get -q -o Dir::Etc::sourcelist=/dev/null \
            -o "Dir::Etc::sourceparts=$work/apt/sources" \
            -o "Dir::State::lists=$work/apt/lists" \
            -o "Dir::Cache=$work/apt/cache" -o APT::Sandbox::User= $action
    done
    mkdir lua
    tar -xf lua5.4_*.orig.tar.* -C lua --strip-components=1
)

# Counts calls, and passes them to the library behind it.
cat >counter.c <<'C'
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static unsigned long allocations, reallocations, frees;
#define NEXT(f)                                                                \
    static __typeof__(&f) next;                                                \
    if (next == NULL)                                                          \
        *(void **)&next = dlsym(RTLD_NEXT, #f)
void *malloc(size_t bytes) {
    NEXT(malloc);
    allocations++;
    return next(bytes);
}
void *calloc(size_t n, size_t bytes) {
    NEXT(calloc);
    allocations++;
    return next(n, bytes);
}
void *realloc(void *p, size_t bytes) {
    NEXT(realloc);
    reallocations++;
    return next(p, bytes);
}
void free(void *p) {
    NEXT(free);
    frees += p != NULL;
    next(p);
}
__attribute__((destructor)) static void tell(void) {
    dprintf(open("counts", O_CREAT | O_TRUNC | O_WRONLY, 0600), "%lu %lu %lu\n",
            allocations, reallocations, frees);
}
C
cat >work.lua <<'L'
local kept = {}
for i = 1, 20000 do
    kept[i % 1000 + 1] = {name = "n" .. i, list = {i, i + 1, i + 2}}
end
local texts = coroutine.wrap(function()
    for i = 1, 1000 do coroutine.yield(("y"):rep(i)) end
end)
local n, lines = 0, 0
for i = 1, 1000 do n = n + #texts() end
for line in io.lines("work.lua") do lines = lines + 1 end
print(n, lines)
L
want=$(printf '500500\t%d' "$(wc -l <work.lua)")
if ! lua_source >lua.log 2>&1; then
    skip "Lua" "apt-get has no source of lua5.4"
elif check "Lua" make -s -j2 -C lua/src generic CC=musl-gcc \
    MYCFLAGS="-g -fno-optimize-sibling-calls" \
    MYLDFLAGS=-Wl,--eh-frame-hdr; then
    check "a counter" musl-gcc -O1 -shared -fPIC -o counter.so counter.c
    run "$loader" --preload "$m" lua/src/lua work.lua
    is "Lua with libtcmalloc_minimal" "$status $(cat "$out")" "0 $want"
    run env TCMALLOC_TRACE_OUTPUT=w TCMALLOC_TRACE_SITES=stack \
        "$loader" --preload "$work/counter.so $t" lua/src/lua work.lua
    is "Lua recorded" "$status $(cat "$out")" "0 $want"
    run musl postprocess --quiet --json w.json w w.p
    is "all calls are in the trace" \
        "$status $(json w.json complete mallocs reallocs frees)" \
        "0 true $(cat counts)"
    run musl replay --quiet --json r.json w.p
    is "replay" "$status $(json r.json ops peak_live_bytes)" \
        "0 $(json w.json ops peak_live_bytes)"
    run env TCMALLOC_TRACE_OUTPUT=v TCMALLOC_TRACE_SITES=stack \
        "$loader" --preload "$t" lua/src/lua work.lua
    run musl postprocess --quiet --json v.json v v.p
    is "l_alloc makes all calls of realloc" "$(calls l_alloc --no-skip v)" \
        "$(json v.json reallocs)"
    run musl malloc-trace compare -n 1 --quiet -a musl -a tcmalloc-mt w.p
    is "compare" "$status" 0
fi

# --- make check --------------------------------------------------------------

# The tests that need no other program, in their usual length. musl-gcc links
# them with the unwinder of glibc's compiler, and without a table of frames.
check "a function for the unwinder" musl-gcc -D_GNU_SOURCE -O2 -Wall -Wextra \
    -Werror -c -o find_object.o "$here/install/musl_find_object.c"
parts=$(printf 'include Makefile\nprint-tests:\n\t@echo $(TESTS)\n' |
    (cd "$b" && make -s -f - print-tests) | tr ' ' '\n' | sed 's/\.log$//' |
    grep -E '^tests/(unit|fuzz|stress)/' | grep -v '\.sh$' | tr '\n' ' ')
unset LONG
(cd "$b" && make -k -j2 check "TESTS=$parts" "check_PROGRAMS=$parts" \
    check_DATA= LDFLAGS="-L$work/lib -Wl,--eh-frame-hdr" \
    LIBS="$work/find_object.o") >parts.log 2>&1
result "make check: the programs of unit, fuzz and stress tests" $?
note "$(sed -n 's/^# \([A-Z]*: *[1-9]\)/\1/p' parts.log | tr -s '\n ' ' ')"
grep -E '^(FAIL|ERROR|XPASS): |(error|warning): |[*][*][*]' parts.log | diag 60
at_least "they are there" "$(sed -n 's/^# PASS: *//p' parts.log)" 3000
tap_end
