#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace memory: the parts of resident memory add up to what the kernel
# counts, under all installed allocators; a planted site is named as the one that
# holds the pages; empty pages; marks and times; each way of asking the kernel;
# its files; wrong command lines.
. "$top_srcdir/tests/lib/harness.sh"
need_preload
need "$replay" "$malloc_trace"
need_python

# keep: one block of 32 bytes among 127 of pass, which are all freed. Then 4 MiB
# in blocks of 64 KiB, freed too.
cat >pin.c <<'END'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern void malloc_trace_mark(const char *text) __attribute__((weak));
enum { GROUPS = 1500, OTHERS = 127 };
static void *kept[GROUPS], *passing[GROUPS][OTHERS], *large[64];
__attribute__((noinline)) static void *keep(void) {
    void *p = malloc(32);
    memset(p, 1, 32);
    return p;
}
__attribute__((noinline)) static void *pass(void) {
    void *p = malloc(32);
    memset(p, 2, 32);
    return p;
}
int main(void) {
    for (int i = 0; i < GROUPS; i++) {
        kept[i] = keep();
        for (int k = 0; k < OTHERS; k++)
            passing[i][k] = pass();
    }
    for (int i = 0; i < 64; i++)
        memset(large[i] = malloc(65536), 3, 65536);
    usleep(50000);
    for (int i = 0; i < 64; i++)
        free(large[i]);
    for (int i = 0; i < GROUPS; i++)
        for (int k = 0; k < OTHERS; k++)
            free(passing[i][k]);
    if (malloc_trace_mark != NULL)
        malloc_trace_mark("all freed");
    usleep(50000);
    return kept[5] == NULL;
}
END
cat >threads.c <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void *work(void *arg) {
    void *p[64] = {0};
    unsigned r = (unsigned)(size_t)arg;
    for (int i = 0; i < 20000; i++) {
        r = r * 1103515245 + 12345;
        free(p[r >> 16 & 63]);
        size_t n = r >> 20 & 4095;
        memset(p[r >> 16 & 63] = malloc(n), 1, n);
    }
    return NULL;
}
int main(void) {
    pthread_t t[4];
    for (size_t i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    return 0;
}
END
# Each of two threads keeps 1,000 blocks of its own size among those of churn.
cat >sites.c <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void *kept[2000];
__attribute__((noinline)) static void *churn(size_t n) {
    void *p = malloc(n);
    memset(p, 1, n);
    return p;
}
__attribute__((noinline)) static void *keep_one(void) {
    char *p = malloc(100);
    *p = 1;
    return p;
}
__attribute__((noinline)) static void *keep_two(void) {
    char *p = malloc(200);
    *p = 2;
    return p;
}
static void *work(void *arg) {
    size_t which = (size_t)arg;
    for (size_t i = 0; i < 1000; i++) {
        void *p[20];
        for (int k = 0; k < 20; k++)
            p[k] = churn(150 + 10 * (unsigned)k);
        kept[which * 1000 + i] = which == 0 ? keep_one() : keep_two();
        for (int k = 0; k < 20; k++)
            free(p[k]);
    }
    return NULL;
}
int main(void) {
    pthread_t t[2];
    for (size_t i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, work, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    return kept[7] == NULL;
}
END
# A burst leaves a block of pass in each hundred for a moment; then, after a
# smaller one, those of stay remain for most of the time.
cat >burst.c <<'END'
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
extern void malloc_trace_mark(const char *text) __attribute__((weak));
enum { PINS = 2000, EACH = 100 };
static char *pin[PINS], *other[PINS * EACH];
__attribute__((noinline)) static char *make(void) {
    return memset(malloc(200), 1, 200);
}
__attribute__((noinline)) static char *pass(void) {
    char *p = malloc(100);
    *p = 1;
    return p;
}
__attribute__((noinline)) static char *stay(void) {
    char *p = malloc(100);
    *p = 2;
    return p;
}
static void burst(int pins, char *(*pin_of)(void)) {
    for (int i = 0; i < pins; i++) {
        for (int k = 0; k < EACH; k++)
            other[i * EACH + k] = make();
        pin[i] = pin_of();
    }
    for (int i = 0; i < pins * EACH; i++)
        free(other[i]);
}
int main(void) {
    burst(PINS, pass);
    if (malloc_trace_mark != NULL)
        malloc_trace_mark("burst");
    for (int i = 0; i < PINS; i++)
        free(pin[i]);
    malloc_trim(0);
    burst(PINS / 4, stay);
    return nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
}
END
# 26 MiB are alive for a moment; seven of eight blocks go, and some larger ones
# come, so that a little more is resident.
cat >short.c <<'END'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *small[6656], *large[60];
int main(void) {
    for (int i = 0; i < 6656; i++)
        memset(small[i] = malloc(4000), 1, 4000);
    for (int i = 0; i < 6656; i++)
        if (i % 8 != 0)
            free(small[i]);
    for (int i = 0; i < 60; i++)
        memset(large[i] = malloc(9000), 1, 9000);
    return usleep(100000);
}
END
# Two threads. 32 MiB in one block stay for a while in which nothing is called.
cat >few.c <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static char *kept[5000];
static void wait_ms(long ms) {
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}
static void churn(int n) {
    for (int i = 0; i < n; i++) {
        char *volatile p = malloc(40);
        *p = 1;
        free(p);
    }
}
static void *other(void *arg) {
    churn(10);
    wait_ms(200);
    churn(10);
    return arg;
}
int main(void) {
    pthread_t t;
    pthread_create(&t, NULL, other, NULL);
    wait_ms(30);
    for (int i = 0; i < 5000; i++)
        *(kept[i] = malloc(60)) = 1;
    wait_ms(30);
    char *volatile large = malloc(32 << 20);
    memset(large, 1, 32 << 20);
    wait_ms(60);
    free(large);
    wait_ms(30);
    churn(20000);
    return pthread_join(t, NULL);
}
END
# shellcheck disable=SC2086
$CC -g -O1 -fno-builtin -o burst burst.c 2>"$err" &&
    $CC -O1 -fno-builtin -o short short.c 2>"$err" &&
    $CC -g -O1 -fno-builtin -o pin pin.c 2>"$err" ||
    skip_all "no compiler for a program"
# shellcheck disable=SC2086
$CC -O1 -fno-builtin -pthread -o threads threads.c 2>"$err" &&
    $CC -O1 -fno-builtin -pthread -o few few.c 2>"$err" &&
    $CC -g -O1 -fno-builtin -pthread -o sites sites.c 2>"$err" ||
    skip_all "no threads"

memory() { timeout 200 "$malloc_trace" memory "$@"; }
# get PYTHON: an expression on the document d, its allocators a and the first
# one's moments m by name.
get() {
    "$python" -c 'import json, sys
d = json.load(open("j"))
a = [x for x in d["allocators"] if "failure" not in x]
m = {r: y for y in a[0]["moments"] for r in y["roles"]}
print(eval(sys.argv[1]))' "$1" 2>&1
}
# adds_up NAME: in all moments of j, for all allocators, within 2 % or 128 KiB.
adds_up() {
    is "$1: parts add up to what the kernel counts" "$(get '[
    (x["name"], y["label"], y["rss_bytes"], y["unexplained_bytes"])
    for x in a for y in x["moments"]
    if abs(y["unexplained_bytes"]) > max(y["rss_bytes"] / 50, 131072)
    or not y["is_known"] or y["resident_bytes"] != sum(y[k + "_bytes"]
    for k in ("requested", "rounding", "free", "empty", "never"))]')" "[]"
}

# --- A planted site -----------------------------------------------------------

TCMALLOC_TRACE_SITES=stack record pin.lz4 ./pin || exit 99
check "under all allocators" memory -q --all --json j --at 10ms pin.lz4
at_least "which are some" "$(get 'len(a)')" 2
adds_up pin
is "all of them have an end, a mark and the time" "$(get '[x["name"] for x in a
    if {"peak", "waste", "mark", "at", "end"} - {r for y in x["moments"]
    for r in y["roles"]}]')" "[]"
is "1,500 blocks live at the mark" "$(get 'sorted({y["live_blocks"] // 100
    for x in a for y in x["moments"] if "mark" in y["roles"]})')" "[15]"
is "keep holds most at the mark" "$(get '[x["name"] for x in a
    for y in x["moments"] if "mark" in y["roles"]
    and "keep" not in y["pinners"]["site"][0]["label"]]')" "[]"
is "what is held is what is free" "$(get '[x["name"] for x in a
    for y in x["moments"] for by in y["pinners"].values()
    if abs(sum(r["held_bytes"] for r in by) - y["free_bytes"]) > 1000]')" "[]"
is "the blocks are those alive, by each" "$(get '[x["name"] for x in a
    for y in x["moments"] for by in y["pinners"].values()
    if sum(r["blocks"] for r in by) != y["live_blocks"]]')" "[]"
is "maps have all resident pages" "$(get '[x["name"] for x in a
    for y in x["moments"] if sum(sum(c[2:6]) for c in y["map"])
    * x["page_bytes"] != y["resident_bytes"]]')" "[]"

check "as text" memory -a glibc --moment mark --held-by keep pin.lz4
like "a sentence" "$out" \
    "^glibc, .*all freed: of .* resident .* are alive; .* lie free on pages that"
like "and the row of keep" "$out" "^ +[0-9.]+ [KM]iB +1,[0-9]+ .* keep"
like "which was alive for some time" "$out" "^ .* (1|10) ms to (10|100) ms$"
check "by size" memory -a glibc --moment mark --by size --top 1 pin.lz4
like "of one size" "$out" "^ +[0-9.]+ [KM]iB +1,5[0-9]+ .* (32|40) B$"

check "free bytes by stacks" memory -q -a glibc --moment mark --folded f \
    pin.lz4
like "has the stack of keep" f "main;keep [0-9]+$"
check "as CSV" memory -a glibc --moment mark --csv - pin.lz4
like "with a head" "$out" "^allocator,moment,operation,recorded_ns,site,blocks,"
like "and the row" "$out" '^"glibc","(.*, )?all freed.*keep.*",15[0-9]+,48'

# --- What lasts -----------------------------------------------------------------

TCMALLOC_TRACE_SITES=stack record burst.lz4 ./burst || exit 99
check "a burst" memory -q -a glibc --json j burst.lz4
is "the most waste is what lasts" "$(get '[
    x in m["waste"]["pinners"]["site"][0]["label"] for x in ("stay", "pass")]')" \
    "[True, False]"
is "and the sentence says that there was more" "$(get '(
    a[0]["sentence"].split("; ")[-1].split(":")[0], m["waste"]["rss_bytes"]
    < m["mark"]["rss_bytes"])')" "('more waste did not last as long', True)"

# --- The peak, and what to do ----------------------------------------------------

record short.lz4 ./short || exit 99
check "a short peak" memory -a glibc -a tcmalloc-mt --json j short.lz4
is "the peak is that of live bytes" "$(get '[x["name"] for x in a
    for y in x["moments"] if "peak" in y["roles"]
    and (y["live_blocks"] < 6656 or y["requested_bytes"] < 6656 * 4000)]')" "[]"
is "what to do, the largest part first" "$(get '[r["text"].split(",")[0]
    for r in a[0]["remedies"]]')" "['empty pages: malloc_trim(0) gives them \
back', 'free']"
like "the text ends with it" "$out" \
    "^ +[0-9.]+ MiB  empty pages: malloc_trim\\(0\\) gives them back"
check "what to do about a site" memory -a glibc -a tcmalloc-mt --moment mark \
    pin.lz4
like "names it" "$out" \
    "^ +[0-9.]+ [KM]iB  free, held by blocks: make those of keep .* apart from"
cat >alive.c <<'END'
#include <stdlib.h>
#include <string.h>
int main(void) { return memset(malloc(4 << 20), 1, 4 << 20) == NULL; }
END
# shellcheck disable=SC2086
$CC -O1 -fno-builtin -o alive alive.c 2>"$err"
record alive.lz4 ./alive || exit 99
check "all is alive" memory -a glibc alive.lz4
like "nothing to do" "$out" "what to do: nothing, little is not alive"

# --- Ways of asking the kernel --------------------------------------------------

"$postprocess" -q pin.lz4 pin.p || exit 99
for way in pagemap_scan pagemap mincore; do
    check "$way" "$replay" -q --threads=none --memory $way.j \
        --memory-by=$way pin.p
    "$python" -c 'import json, sys
d = json.load(open(sys.argv[1]))
m = d["moments"][-1]
print(*(m[k + "_bytes"] >> 18 for k in ("free", "empty", "requested")))
assert d["residency"] in sys.argv[1]' $way.j >$way
done
is "by pagemap it is the same" "$(cat pagemap)" "$(cat pagemap_scan)"
is "by mincore, too" "$(cat mincore)" "$(cat pagemap)"
like "which lacks something" mincore.j "pagemap cannot be read: by mincore"
check "no way at all" "$replay" -q --threads=none --memory j --memory-by=none \
    pin.p
like "which is said" j "nothing is known of pages"

# --- Programs and threads -------------------------------------------------------

record threads.lz4 ./threads || exit 99
check "threads of their own" memory -q -a glibc -a tcmalloc-mt --json j \
    threads.lz4
is "run apart" "$(get '{x["threads"] for x in a}')" "{'real'}"
adds_up threads
check "and on one" memory -q -a tcmalloc-mt --threads none --json j threads.lz4
adds_up "threads on one"
check "by thread" memory -a glibc --by thread threads.lz4
like "which names them" "$out" " hold +blocks +alive  thread$"
like "and how sites are recorded" "$out" "no call sites: record it with"

record few.lz4 ./few || exit 99
for clock in recorded real; do
    check "few calls, $clock clock" memory -q -a glibc --clock $clock --json j \
        few.lz4
    is "$clock: the peak has what they made" "$(get '(
    a[0]["threads"], m["peak"]["rss_bytes"] >> 25,
    max(a[0]["curve"]["rss_bytes"]) >> 25)')" "('real', 1, 1)"
done
check "the recorded clock again" memory -q -a glibc --json j few.lz4
is "the curve falls when they free it" "$(get 'any(
    r < 1 << 23 and 0 < o - m["peak"]["operation"] < 100 for o, r in
    zip(a[0]["curve"]["operation"], a[0]["curve"]["rss_bytes"]))')" True

TCMALLOC_TRACE_SITES=stack record sites.lz4 ./sites || exit 99
for mode in real none switch; do
    check "sites of threads, $mode" memory -q -a tcmalloc-mt --threads $mode \
        --json j sites.lz4
    is "$mode: each site has its blocks" "$(get '[(r["blocks"],
    r["requested_bytes"]) for k in ("keep_one", "keep_two")
    for r in m["end"]["pinners"]["site"] if k in r["label"]]')" \
        "[(1000, 100000), (1000, 200000)]"
    is "$mode: each thread, too" "$(get 'sorted(r["blocks"] for r in
    m["end"]["pinners"]["thread"])[-2:]')" "[1000, 1000]"
done

# shellcheck disable=SC2016
check "a command" memory -q --json j -a glibc -a tcmalloc-mt -- "$python" -c '
x = [bytes(n % 9000) for n in range(20000)]
del x[::2]'
adds_up "a command"
is "has sites" "$(get 'd["has_sites"]')" True
# Lines as record --sites has them, where it reads those of this Python.
"$malloc_trace" record -q --sites -o py.lz4 -- "$python" -c 'x = bytes(9000)'
if "$malloc_trace" report --by=line py.lz4 2>&1 | grep -q "<string>:1"; then
    at_least "the lines of Python that hold memory" "$(get 'sum(
    r["blocks"] for r in m["peak"]["pinners"]["site"]
    if "<string>:2" in r["label"])')" 9000
else
    skip "the lines of Python that hold memory" "no lines of $python are recorded"
fi

# --- Wrong command lines --------------------------------------------------------

for way in csv=- html=-; do
    { memory -q -a glibc --$way pin.lz4 2>"$err"; } | :
    is "a pipe that nobody reads, $way: told once" "$(cat "$err")" \
        "malloc-trace memory: cannot write to standard output: Broken pipe"
done
fails_with "no trace" 2 memory
fails_with "two traces" 2 memory pin.lz4 threads.lz4
fails_with "a wrong time" 2 memory --at soon pin.lz4
fails_with "a moment without its time" 2 memory --moment=at pin.lz4
check "a moment that was asked for" memory -a glibc --at 1us --moment=at pin.lz4
like "has a column" "$out" "^  +.* at 1us"
fails_with "-o without a COMMAND" 2 memory -o x pin.lz4
fails_with "folded stacks of two" 2 memory --folded f pin.lz4
check "-o FILE of a COMMAND" memory -q -a glibc -o kept.lz4 -- ./alive
check "the recording of -o stays and can be read" memory -q -a glibc kept.lz4
fails_with "an output that is the trace" 2 memory --json pin.lz4 pin.lz4
fails_with "no such trace" 1 memory nothing.lz4
fails_with "no trace at all" 1 memory pin.c
fails_with "replay: --memory-at alone" 2 "$replay" --memory-at=5 pin.p
fails_with "replay: operations out of order" 2 "$replay" --memory=j \
    --memory-at=5,5 pin.p
fails_with "replay: with --check" 2 "$replay" --memory=j --check pin.p
tap_end
