#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Settings of malloc-trace tune: an allocator's are found by the contestant's
# name, the file's, or the library's functions; the library is asked for its
# defaults; each value of the table is one that an installed library takes. And
# the allocator that the program has itself, which its trace names.
. "$top_srcdir/tests/lib/harness.sh"
need_preload

# Functions by which allocators are known, and what they say of settings.
cat >signs.c <<'END'
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef JEMALLOC
int mallctl(const char *name, void *old, size_t *n, void *new, size_t bytes) {
    (void)new, (void)bytes;
    const char *text = "5.4.0-0-gabcdef";
    if (strcmp(name, "version") == 0)
        return memcpy(old, &text, sizeof(text)), 0;
    text = "always";
    if (strcmp(name, "opt.thp") == 0 && *n == sizeof(text))
        return memcpy(old, &text, sizeof(text)), 0;
    if (strcmp(name, "opt.dirty_decay_ms") == 0)
        return *n != 8 ? EINVAL : (memcpy(old, &(int64_t){77}, 8), 0);
    if (strcmp(name, "opt.narenas") == 0)
        return *n != 4 ? EINVAL : (memcpy(old, &(int32_t){6}, 4), 0);
    if (strcmp(name, "opt.background_thread") == 0)
        return *n != 1 ? EINVAL : (memcpy(old, "\1", 1), 0);
    return ENOENT;
}
#endif
#ifdef MIMALLOC
static void (*print)(const char *, void *);
void mi_register_output(void (*out)(const char *, void *), void *arg) {
    (void)arg;
    print = out;
    if (out != NULL)
        out("option 'eager_commit': 1\n", NULL); /* printed before */
}
void mi_options_print(void) {
    print("mimalloc: ", NULL);
    print("option 'purge_delay': 1000 \n", NULL);
    print("option 'deprecated_eager_commit': 1 \n", NULL);
    print("option 'minimal_purge_size': 64 KiB\n", NULL);
}
int mi_version(void) {
    return MIMALLOC;
}
#endif
#ifdef SIGN
void SIGN(void) {
}
#endif
END
# build NAME OPTION...: NAME.so, an allocator with these signs
build() {
    library=$1
    shift
    # shellcheck disable=SC2086
    $CC -O1 -fno-builtin -fPIC -shared "$@" -o "$library.so" signs.c \
        "$here/compare/compare_odd.c" 2>"$err" ||
        skip_all "no library can be made here"
}
build je -DJEMALLOC
for version in 30403 3206 316 217 10911; do
    build mi$version -DMIMALLOC=$version
done
build google -DSIGN=MallocExtension_Internal_GetNumericProperty
build sn -DSIGN=sn_malloc
build rp -DSIGN=rpmalloc
build plain
cp plain.so libmimalloc-secure.so.9
cp plain.so libtcmalloc.so.9

# lists WHAT TEXT CONTESTANT: its settings match TEXT; leaves list.
lists() {
    "$malloc_trace" tune --list -a "$3" >all 2>"$err"
    sed -n "/^${3%%=*}/,\$p" all | grep -v '^      ' >list
    like "$1" list "$2"
}
# told SETTING: default and values
told() { sed -n "s/^  $1 *//p" list | tr -s ' ' | sed 's/ $//'; }

# --- Whose settings they are --------------------------------------------------

lists "settings are chosen by the contestant's name" MALLOC_CONF= \
    jemalloc=./plain.so
lists "which may have more in it" MIMALLOC_PURGE_DELAY= mimalloc-3=./plain.so
lists "then by the file's name" MIMALLOC_PURGE_DELAY= \
    mine=./libmimalloc-secure.so.9
lists "where tcmalloc means gperftools" TCMALLOC_TRANSFER_NUM_OBJ= \
    mine=./libtcmalloc.so.9
lists "then by the library's functions" MALLOC_CONF= mine=./je.so
lists "which tell google/tcmalloc apart" TCMALLOC_HPAA_CONTROL= \
    mine=./google.so
for library in plain sn rp; do
    "$malloc_trace" tune --list -a nobody=./$library.so >all 2>"$err"
    is "$library: no settings are made up" "$(grep -c nobody all)" 0
    is "$library: no settings known is said once" \
        "$(grep -c "no settings known for nobody" "$err")" 1
done

# --- What libraries say -------------------------------------------------------

lists "jemalloc's version is its own" '^mine \(jemalloc 5\.4\.0\)' mine=./je.so
is "a default is asked of jemalloc, and the table's is worth a try" \
    "$(told MALLOC_CONF=dirty_decay_ms:)" "77 0 1000 -1 10000"
is "a word" "$(told MALLOC_CONF=thp:)" "always never default"
is "a switch" "$(told MALLOC_CONF=background_thread:)" "true false"
is "a number of the machine" "$(told MALLOC_CONF=narenas:)" "6 1 2 8"
is "what jemalloc does not have is not tried" "$(told MALLOC_CONF=hpa:)" ""
for version in 30403:3.4.3 3206:3.2.6 316:3.1.6 217:2.1.7 10911:1.9.11; do
    lists "mi_version ${version%:*} is ${version#*:}" \
        "^mine \\(mimalloc ${version#*:}\\)" "mine=./mi${version%:*}.so"
done
lists "mimalloc 3 has a longer delay" "PURGE_DELAY= *1000 " mine=./mi30403.so
is "sizes that mimalloc prints in KiB are bytes" \
    "$(told MIMALLOC_MINIMAL_PURGE_SIZE=)" "65536 16384 262144 2097152 0"
is "deprecated settings are not tried" "$(told MIMALLOC_EAGER_COMMIT=)" ""

# --- The program's own allocator ----------------------------------------------

cat >app.c <<'END'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    static void *p[600];
    for (int i = 0; i < 600; i++)
        memset(p[i] = malloc(40000), 1, 40000);
    usleep(50000);
    p[0] = malloc(1);
    return p[0] == NULL;
}
END
# shellcheck disable=SC2086
$CC -O1 -fno-builtin -o app app.c && $CC -O1 -fno-builtin -o linked app.c \
    ./je.so && $CC -O1 -fno-builtin -o static app.c \
    "$here/compare/compare_odd.c" 2>"$err" || exit 99
record app.t ./app && record linked.t ./linked || exit 99
env LD_PRELOAD="$tracing:./mi30403.so" TCMALLOC_TRACE_OUTPUT=preloaded.t ./app
env LD_PRELOAD="$tracing:./plain.so" TCMALLOC_TRACE_OUTPUT=plain.t ./app
record static.t ./static
"$postprocess" --quiet linked.t linked.p
# allocator TRACE: as its header has it
allocator() {
    "$malloc_trace" info --json - "$1" |
        sed -n 's/.*"allocator": "\(.*\)".*/\1/p'
}
is "a trace has no allocator but the C library's" "$(allocator app.t)" ""
is "it has the one that the program is linked with" \
    "$(allocator linked.t)" "linked jemalloc"
is "sorting keeps that" "$(allocator linked.p)" "linked jemalloc"
is "it has one that is preloaded" "$(allocator preloaded.t)" \
    "preloaded mimalloc"
is "one of an unknown kind has its file's name" "$(allocator plain.t)" \
    "preloaded plain.so"
[ ! -e static.t ] ||
    is "it has one of the program's file" "$(allocator static.t)" \
        "static malloc"

for trace in linked.t linked.p; do
    check "compare takes it as the baseline: $trace" "$malloc_trace" compare \
        -n 1 -a glibc -a jemalloc=./je.so $trace
    like "which the tables say" "$out" "beside jemalloc"
    like "and a line" "$err" "the program has jemalloc \\(linked; .*--baseline="
done
check "compare without it" "$malloc_trace" compare -n 1 -a glibc \
    -a tcmalloc-mt linked.p
like "says how it is compared" "$err" "-a jemalloc=LIBRARY --baseline=jemalloc"
check "a baseline that is named" "$malloc_trace" compare -n 1 -a glibc \
    -a jemalloc=./je.so --baseline=glibc linked.p
is "says nothing of it" "$(cat "$err")" ""
check "tune takes it as the default" timeout 200 "$malloc_trace" tune \
    --runs 8 -a glibc -a jemalloc=./je.so,ODD=fat --most-loss 90% linked.p
like "and says how another is the default" "$err" "--default=glibc"
like "what beats it" "$out" "^Set glibc.* than jemalloc "
like "reaches a linked program before it" "$out" \
    "^    LD_PRELOAD=libc.so.6 .*COMMAND"
like "as a line says" "$out" "^The program has jemalloc linked: LD_PRELOAD"
check "tune where the program's own is best" timeout 200 "$malloc_trace" tune \
    --runs 8 -a jemalloc=./je.so -a fat=./plain.so,ODD=fat --default=fat \
    --most-loss 90% linked.p
like "proposes that" "$out" "^Set jemalloc.* than fat "
is "names no library that is there already" "$(grep -c LD_PRELOAD "$out")" 0

# --- The table and installed libraries ----------------------------------------

# Each value in the environment is what the library says of itself afterwards.
for name in jemalloc mimalloc gperftools tcmalloc-mt; do
    "$malloc_trace" tune --list -a "$name" 2>"$err" |
        sed -n "/^$name /,\$p" >list
    path=$(sed -n "s/^$name (.*) //p" list)
    [ -n "$path" ] || {
        skip "$name takes each value of its settings" "it is not installed"
        continue
    }
    wrong=0
    grep '^  [A-Z]' list >rows
    while read -r setting _ values; do
        for value in $values; do
            env "LD_PRELOAD=$path" "$setting$value" \
                "$tools/malloc-trace-allocator" --json j >"$out" 2>"$err"
            # a library that says nothing of a setting is not asked for it
            if grep -q "\"$setting" j && ! grep -q "\"$setting$value\"" j; then
                note "$setting$value: $(grep "\"$setting" j)"
                wrong=$((wrong + 1))
            fi
        done
    done <rows
    is "$name takes each value of its settings" "$wrong" 0
done
tap_end
