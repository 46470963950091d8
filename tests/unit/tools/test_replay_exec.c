/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measured loop against an allocator that writes down what it is asked:
 * every call of the family goes where it should with what it should, blocks are
 * written as --touch says and never beyond their size, refused blocks are left
 * alone, thread caches are switched as the public header says.
 */
#include "cmd/replay/run/exec.h"
#include "tap.h"
#include "traceformat/trace_event.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- The allocator -------------------------------------------------------- */

struct asked {
    const char *call;
    void *p;
    size_t size, align, n;
} asked[64];
static unsigned asked_count;
static bool refuse;
/* Blocks end where memory ends. */
static char *end_of_memory;
static void *moves_to; /* what realloc returns */

static void note(const char *call, void *p, size_t size, size_t align,
                 size_t n) {
    if (asked_count < TCM_ARRAY_SIZE(asked))
        asked[asked_count++] = (struct asked){call, p, size, align, n};
}

static void *block(size_t size) {
    return refuse ? NULL : end_of_memory - size;
}

static void *a_malloc(size_t size) {
    note("malloc", NULL, size, 0, 0);
    return block(size);
}
static void a_free(void *p) {
    note("free", p, 0, 0, 0);
}
static void *a_calloc(size_t n, size_t size) {
    note("calloc", NULL, size, 0, n);
    return block(n * size);
}
static void *a_realloc(void *p, size_t size) {
    note("realloc", p, size, 0, 0);
    return refuse ? NULL : moves_to;
}
static void *a_reallocarray(void *p, size_t n, size_t size) {
    note("reallocarray", p, size, 0, n);
    return refuse ? NULL : moves_to;
}
static void *a_memalign(size_t align, size_t size) {
    note("memalign", NULL, size, align, 0);
    return block(size);
}
static void *a_aligned_alloc(size_t align, size_t size) {
    note("aligned_alloc", NULL, size, align, 0);
    return block(size);
}
static int a_posix_memalign(void **p, size_t align, size_t size) {
    note("posix_memalign", NULL, size, align, 0);
    if (refuse)
        return 12; /* and *p as it was */
    *p = block(size);
    return 0;
}
static void *a_valloc(size_t size) {
    note("valloc", NULL, size, 0, 0);
    return block(size);
}
static void *a_pvalloc(size_t size) {
    note("pvalloc", NULL, size, 0, 0);
    return block(size);
}
static void a_free_sized(void *p, size_t size) {
    note("free_sized", p, size, 0, 0);
}
static void a_free_aligned_sized(void *p, size_t align, size_t size) {
    note("free_aligned_sized", p, size, align, 0);
}
static void *a_new(size_t size, const void *tag) {
    note(tag == &replay_nothrow ? "new" : "new without tag", NULL, size, 0, 0);
    return block(size);
}
static void *a_new_array(size_t size, const void *tag) {
    note(tag == &replay_nothrow ? "new[]" : "new without tag", NULL, size, 0,
         0);
    return block(size);
}
static void *a_new_aligned(size_t size, size_t align, const void *tag) {
    (void)tag;
    note("new align", NULL, size, align, 0);
    return block(size);
}
static void *a_new_array_aligned(size_t size, size_t align, const void *tag) {
    (void)tag;
    note("new[] align", NULL, size, align, 0);
    return block(size);
}
static void a_delete(void *p) {
    note("delete", p, 0, 0, 0);
}
static void a_delete_array(void *p) {
    note("delete[]", p, 0, 0, 0);
}
static void a_delete_sized(void *p, size_t size) {
    note("delete size", p, size, 0, 0);
}
static void a_delete_array_sized(void *p, size_t size) {
    note("delete[] size", p, size, 0, 0);
}
static void a_delete_aligned(void *p, size_t align) {
    note("delete align", p, 0, align, 0);
}
static void a_delete_array_aligned(void *p, size_t align) {
    note("delete[] align", p, 0, align, 0);
}
static void a_delete_sized_aligned(void *p, size_t size, size_t align) {
    note("delete size align", p, size, align, 0);
}
static void a_delete_array_sized_aligned(void *p, size_t size, size_t align) {
    note("delete[] size align", p, size, align, 0);
}
static bool a_release(struct ThreadCacheState **place) {
    *place = moves_to;
    note("release", moves_to, 0, 0, 0);
    return true;
}
static bool a_set(struct ThreadCacheState *state) {
    note("set", state, 0, 0, 0);
    return true;
}

static int a_trim(size_t pad) {
    note("trim", NULL, pad, 0, 0);
    return 1;
}

static const struct replay_calls calls = {
    .malloc = a_malloc,
    .free = a_free,
    .calloc = a_calloc,
    .realloc = a_realloc,
    .reallocarray = a_reallocarray,
    .memalign = a_memalign,
    .aligned_alloc = a_aligned_alloc,
    .posix_memalign = a_posix_memalign,
    .valloc = a_valloc,
    .pvalloc = a_pvalloc,
    .free_sized = a_free_sized,
    .free_aligned_sized = a_free_aligned_sized,
    .new_one = a_new,
    .new_array = a_new_array,
    .new_aligned = a_new_aligned,
    .new_array_aligned = a_new_array_aligned,
    .delete_one = a_delete,
    .delete_array = a_delete_array,
    .delete_sized = a_delete_sized,
    .delete_array_sized = a_delete_array_sized,
    .delete_aligned = a_delete_aligned,
    .delete_array_aligned = a_delete_array_aligned,
    .delete_sized_aligned = a_delete_sized_aligned,
    .delete_array_sized_aligned = a_delete_array_sized_aligned,
    .release_cache = a_release,
    .set_cache = a_set,
    .trim = a_trim,
};

/* --- Running words -------------------------------------------------------- */

static struct replay_batch batch;
static void *slots[8];
static struct ThreadCacheState *caches[8];

static void begin(struct replay_exec *x, enum replay_touch touch) {
    memset(x, 0, sizeof(*x));
    memset(slots, 0, sizeof(slots));
    x->calls = calls;
    x->touch = touch;
    x->page_size = 4096;
    x->slot = slots;
    x->via = &x->calls;
    asked_count = 0;
    refuse = false;
}

static void run1(struct replay_exec *x, uint64_t w) {
    batch.words = 1;
    batch.word[0] = w;
    replay_exec_batch(x, &batch);
}

static void run_long(struct replay_exec *x, unsigned call, uint32_t slot,
                     uint64_t size, uint64_t old, unsigned align_log2,
                     bool is_new) {
    batch.words = 3;
    batch.word[0] = replay_word(REPLAY_LONG, slot, call);
    batch.word[1] = size;
    batch.word[2] = replay_long_word(old, align_log2, is_new);
    replay_exec_batch(x, &batch);
}

static void run_trim(struct replay_exec *x, uint64_t pad) {
    batch.words = 3;
    batch.word[0] = replay_word(REPLAY_TRIM, 0, 0);
    batch.word[1] = pad;
    batch.word[2] = replay_word(REPLAY_MALLOC, 1, 24);
    replay_exec_batch(x, &batch);
}

/* The last call was CALL with P, SIZE and ALIGN. */
static bool last_was(const char *call, void *p, size_t size, size_t align) {
    if (asked_count == 0)
        return false;
    const struct asked *a = &asked[asked_count - 1];
    if (strcmp(a->call, call) == 0 && a->p == p && a->size == size &&
        a->align == align)
        return true;
    tap_diag("last: %s p=%p size=%zu align=%zu", a->call, a->p, a->size,
             a->align);
    return false;
}

static void short_words(void) {
    static const struct {
        enum replay_code code;
        const char *call;
        size_t size;
    } allocs[] = {{REPLAY_MALLOC, "malloc", 40},
                  {REPLAY_CALLOC, "calloc", 40},
                  {REPLAY_NEW, "new", 40},
                  {REPLAY_NEW_ARRAY, "new[]", 40}},
      frees[] = {{REPLAY_FREE, "free", 0},
                 {REPLAY_DELETE, "delete", 0},
                 {REPLAY_DELETE_ARRAY, "delete[]", 0},
                 {REPLAY_DELETE_SIZED, "delete size", 40},
                 {REPLAY_DELETE_ARRAY_SIZED, "delete[] size", 40},
                 {REPLAY_FREE_SIZED, "free_sized", 40}};
    struct replay_exec x;
    begin(&x, REPLAY_TOUCH_AUTO);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(allocs); i++) {
        run1(&x, replay_word(allocs[i].code, 3, 40));
        tap_ok(last_was(allocs[i].call, NULL, 40, 0), "%s", allocs[i].call);
        tap_ok(slots[3] == end_of_memory - 40, "its block is in the slot");
    }
    for (size_t i = 0; i < TCM_ARRAY_SIZE(frees); i++) {
        run1(&x, replay_word(frees[i].code, 3, 40));
        tap_ok(last_was(frees[i].call, slots[3], frees[i].size, 0), "%s",
               frees[i].call);
    }
}

static void long_words(void) {
    static const struct {
        unsigned call;
        const char *name;
        size_t align; /* 0: the call has none */
    } allocs[] =
        {
            {MTF_CALL_MALLOC, "malloc", 0},
            {MTF_CALL_CALLOC, "calloc", 0},
            {MTF_CALL_NEW, "new", 0},
            {MTF_CALL_NEW_NOTHROW, "new", 0},
            {MTF_CALL_NEW_ARRAY, "new[]", 0},
            {MTF_CALL_NEW_ARRAY_NOTHROW, "new[]", 0},
            {MTF_CALL_MEMALIGN, "memalign", 64},
            {MTF_CALL_ALIGNED_ALLOC, "aligned_alloc", 64},
            {MTF_CALL_POSIX_MEMALIGN, "posix_memalign", 64},
            {MTF_CALL_VALLOC, "valloc", 0},
            {MTF_CALL_PVALLOC, "pvalloc", 0},
            {MTF_CALL_NEW_ALIGNED, "new align", 64},
            {MTF_CALL_NEW_ALIGNED_NOTHROW, "new align", 64},
            {MTF_CALL_NEW_ARRAY_ALIGNED, "new[] align", 64},
            {MTF_CALL_NEW_ARRAY_ALIGNED_NOTHROW, "new[] align", 64},
        },
      frees[] = {
          {MTF_CALL_FREE, "free", 0},
          {MTF_CALL_DELETE_SIZED, "delete size", 0},
          {MTF_CALL_DELETE_ARRAY_SIZED, "delete[] size", 0},
          {MTF_CALL_DELETE_ALIGNED, "delete align", 64},
          {MTF_CALL_DELETE_ALIGNED_NOTHROW, "delete align", 64},
          {MTF_CALL_DELETE_ARRAY_ALIGNED, "delete[] align", 64},
          {MTF_CALL_DELETE_ARRAY_ALIGNED_NOTHROW, "delete[] align", 64},
          {MTF_CALL_DELETE_SIZED_ALIGNED, "delete size align", 64},
          {MTF_CALL_DELETE_ARRAY_SIZED_ALIGNED, "delete[] size align", 64},
          {MTF_CALL_FREE_SIZED, "free_sized", 0},
          {MTF_CALL_FREE_ALIGNED_SIZED, "free_aligned_sized", 64},
      };
    struct replay_exec x;
    begin(&x, REPLAY_TOUCH_AUTO);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(allocs); i++) {
        run_long(&x, allocs[i].call, 2, 100, 0, 6, false);
        tap_ok(last_was(allocs[i].name, NULL, 100, allocs[i].align) &&
                   slots[2] == end_of_memory - 100,
               "long %s", mtf_call_name(allocs[i].call));
    }
    for (size_t i = 0; i < TCM_ARRAY_SIZE(frees); i++) {
        bool sized = strstr(frees[i].name, "size") != NULL;
        run_long(&x, frees[i].call, 2, 100, 0, 6, false);
        tap_ok(
            last_was(frees[i].name, slots[2], sized ? 100 : 0, frees[i].align),
            "long %s", mtf_call_name(frees[i].call));
    }
    run_long(&x, MTF_CALL_POSIX_MEMALIGN, 2, 100, 0, 0, false);
    tap_ok(last_was("posix_memalign", NULL, 100, sizeof(void *)),
           "posix_memalign is never asked for less than a pointer's alignment");
}

static void reallocs(void) {
    struct replay_exec x;
    begin(&x, REPLAY_TOUCH_AUTO);
    moves_to = end_of_memory - 500;
    run_long(&x, MTF_CALL_REALLOC, 1, 500, 0, 0, true);
    tap_ok(last_was("realloc", NULL, 500, 0), "realloc of nothing");
    moves_to = end_of_memory - 600;
    run_long(&x, MTF_CALL_REALLOC, 1, 600, 500, 0, false);
    tap_ok(last_was("realloc", end_of_memory - 500, 600, 0),
           "realloc of a block");
    tap_ok(slots[1] == end_of_memory - 600, "which may move");
    run_long(&x, MTF_CALL_REALLOCARRAY, 1, 300, 600, 0, false);
    tap_ok(last_was("reallocarray", end_of_memory - 600, 300, 0) &&
               asked[asked_count - 1].n == 1,
           "reallocarray");
    run_long(&x, MTF_CALL_REALLOC, 1, 0, 300, 0, false);
    tap_ok(last_was("realloc", slots[1], 1, 0),
           "a realloc that kept its block is not made a free");
    run_long(&x, MTF_CALL_REALLOC, 4, 10, 10, 0, false);
    tap_is_u64(x.skipped, 1, "a realloc of an empty slot is skipped");
    refuse = true;
    run_long(&x, MTF_CALL_REALLOC, 1, 1000, 300, 0, false);
    tap_ok(last_was("free", moves_to, 0, 0) && slots[1] == NULL,
           "after a refused realloc the slot is empty, its block freed");
    tap_is_u64(x.refused, 1, "and that is counted");
}

static void refusals(void) {
    struct replay_exec x;
    begin(&x, REPLAY_TOUCH_ALL);
    refuse = true;
    slots[0] = slots[1] = slots[2] = slots[3] = end_of_memory;
    run1(&x, replay_word(REPLAY_MALLOC, 0, 100));
    run1(&x, replay_word(REPLAY_NEW, 1, 100));
    run_long(&x, MTF_CALL_POSIX_MEMALIGN, 2, 100, 0, 6, false);
    run_long(&x, MTF_CALL_REALLOC, 3, 100, 0, 0, true);
    tap_is_u64(x.refused, 4, "refused allocations are counted");
    tap_ok(!slots[0] && !slots[1] && !slots[2] && !slots[3],
           "their slots are empty");
    asked_count = 0;
    run1(&x, replay_word(REPLAY_FREE, 0, 0));
    run1(&x, replay_word(REPLAY_DELETE_SIZED, 1, 100));
    run_long(&x, MTF_CALL_FREE_ALIGNED_SIZED, 2, 100, 0, 6, false);
    run_long(&x, MTF_CALL_REALLOC, 3, 200, 100, 0, false);
    tap_is_u64(asked_count, 0, "operations on them ask for nothing");
    tap_is_u64(x.skipped, 4, "and are counted");
    tap_is_u64(x.skipped_frees, 3, "the frees apart");
}

/* --- Touching ------------------------------------------------------------- */

/* Bytes of [P, P + SIZE) that were written, and whether these are BYTES. */
static size_t written(const char *p, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        n += p[i] != 0;
    return n;
}

static void touched(enum replay_touch touch, size_t size, size_t want,
                    const char *what) {
    struct replay_exec x;
    begin(&x, touch);
    char *start = end_of_memory - 65536;
    memset(start, 0, 65536);
    run1(&x, replay_word(REPLAY_MALLOC, 0, size));
    tap_is_u64(written(end_of_memory - size, size), want, "%s: %zu bytes", what,
               size);
    tap_is_u64(written(start, 65536 - size), 0, "and none before the block");
}

static void touches(void) {
    for (size_t size = 0; size <= 9; size++)
        touched(REPLAY_TOUCH_AUTO, size, size < 8 ? size : 8, "auto");
    touched(REPLAY_TOUCH_AUTO, 4095, 8, "auto");
    touched(REPLAY_TOUCH_AUTO, 4096, 4096, "auto");
    touched(REPLAY_TOUCH_AUTO, 60000, 60000, "auto");
    touched(REPLAY_TOUCH_NONE, 60000, 0, "none");
    touched(REPLAY_TOUCH_FIRST, 60000, 8, "first");
    touched(REPLAY_TOUCH_FIRST, 3, 3, "first");
    touched(REPLAY_TOUCH_ALL, 3, 3, "all");
    touched(REPLAY_TOUCH_ALL, 5000, 5000, "all");
    touched(REPLAY_TOUCH_PAGE, 1, 1, "page");
    touched(REPLAY_TOUCH_PAGE, 4096, 1, "page");
    touched(REPLAY_TOUCH_PAGE, 4097, 2, "page");
    touched(REPLAY_TOUCH_PAGE, 40960, 10, "page");
    touched(REPLAY_TOUCH_PAGE, 0, 0, "page");
}

static void grown(enum replay_touch touch, size_t old, size_t size,
                  size_t first, size_t rest, const char *what) {
    struct replay_exec x;
    begin(&x, touch);
    memset(end_of_memory - 65536, 0, 65536);
    char *p = end_of_memory - (old > size ? old : size);
    slots[0] = moves_to = p;
    run_long(&x, MTF_CALL_REALLOC, 0, size, old, 0, false);
    size_t kept = old < size ? old : size;
    tap_ok(written(p, kept) == first && written(p + kept, size - kept) == rest,
           "realloc %s: %zu to %zu bytes", what, old, size);
}

static void growths(void) {
    grown(REPLAY_TOUCH_AUTO, 100, 200, 8, 0, "auto");
    grown(REPLAY_TOUCH_AUTO, 100, 9000, 8, 8900, "auto");
    grown(REPLAY_TOUCH_AUTO, 9000, 5000, 8, 0, "auto");
    grown(REPLAY_TOUCH_NONE, 100, 9000, 0, 0, "none");
    grown(REPLAY_TOUCH_ALL, 100, 300, 0, 200, "all");
    grown(REPLAY_TOUCH_ALL, 300, 100, 0, 0, "all");
    grown(REPLAY_TOUCH_PAGE, 4096, 12288, 0, 2, "page");
}

/* WANT bytes behind the first SKIPPED of a realloc, or a malloc, to SIZE of
   which PRESENT bytes are to be written, WRITTEN of them before. */
static void noted(enum replay_touch touch, size_t old, size_t size,
                  size_t was_written, size_t present, size_t skipped,
                  size_t want, const char *what) {
    struct replay_exec x;
    begin(&x, touch);
    memset(end_of_memory - 65536, 0, 65536);
    char *p = end_of_memory - size;
    slots[0] = moves_to = p;
    batch.words = 4;
    batch.word[0] = replay_present_word(was_written, present);
    batch.word[1] = replay_word(REPLAY_LONG, 0,
                                old == 0 ? MTF_CALL_MALLOC : MTF_CALL_REALLOC);
    batch.word[2] = size;
    batch.word[3] = replay_long_word(old, 0, false);
    replay_exec_batch(&x, &batch);
    tap_ok(written(p, skipped) == 0 && written(p + skipped, want) == want &&
               written(p, size) == want,
           "present %s: %zu of %zu bytes", what, want, size);
    memset(end_of_memory - 65536, 0, 65536);
    run1(&x, replay_word(REPLAY_MALLOC, 0, 60000));
    tap_ok(touch != REPLAY_TOUCH_AUTO ||
               written(end_of_memory - 60000, 60000) == 60000,
           "and the next block is written as ever");
}

static void presents(void) {
    noted(REPLAY_TOUCH_AUTO, 0, 60000, 0, 8192, 0, 6144, "auto");
    noted(REPLAY_TOUCH_AUTO, 0, 60000, 0, 8193, 0, 10240, "auto, whole pages");
    noted(REPLAY_TOUCH_AUTO, 0, 60000, 0, 0, 0, 0, "auto, nothing");
    noted(REPLAY_TOUCH_AUTO, 0, 60000, 0, 59999, 0, 60000, "auto, nearly all");
    noted(REPLAY_TOUCH_AUTO, 40000, 60000, 8192, 20000, 6144, 12288,
          "auto, grown");
    noted(REPLAY_TOUCH_AUTO, 40000, 60000, 20000, 10000, 0, 0, "auto, less");
    noted(REPLAY_TOUCH_AUTO, 50000, 40000, 8192, 40000, 6144, 40000 - 6144,
          "auto, shrunk");
    noted(REPLAY_TOUCH_ALL, 0, 60000, 0, 8192, 0, 60000, "all");
    noted(REPLAY_TOUCH_NONE, 0, 60000, 0, 8192, 0, 0, "none");
}

/* --- Thread caches -------------------------------------------------------- */

static struct ThreadCacheState *state(uintptr_t n) {
    return (struct ThreadCacheState *)n;
}

static void trims(void) {
    struct replay_exec x;
    /* The pad would be an impossible word if it were run. */
    uint64_t pad = replay_word(REPLAY_FREE, 5, 0);
    begin(&x, REPLAY_TOUCH_NONE);
    run_trim(&x, pad);
    tap_ok(asked_count == 2 && strcmp(asked[0].call, "trim") == 0 &&
               asked[0].size == pad && last_was("malloc", NULL, 24, 0),
           "malloc_trim gets its pad, and the next word is the next call");
    tap_is_u64(x.trims, 1, "and is counted");
    begin(&x, REPLAY_TOUCH_NONE);
    x.calls.trim = NULL;
    run_trim(&x, pad);
    tap_ok(asked_count == 1 && last_was("malloc", NULL, 24, 0) &&
               x.trims == 0 && x.skipped == 0,
           "an allocator without one is not asked");
}

static void switches(void) {
    struct replay_exec x;
    begin(&x, REPLAY_TOUCH_AUTO);
    run1(&x, replay_word(REPLAY_SWITCH, 2, 0));
    run1(&x, replay_word(REPLAY_THREAD_END, 2, 0));
    tap_is_u64(asked_count, 0, "without switching nothing is switched");

    begin(&x, REPLAY_TOUCH_AUTO);
    memset(caches, 0, sizeof(caches));
    x.cache = caches;
    moves_to = state(100);
    run1(&x, replay_word(REPLAY_SWITCH, 2, 0));
    tap_ok(asked_count == 2 && strcmp(asked[0].call, "release") == 0 &&
               last_was("set", NULL, 0, 0),
           "a new thread: what is attached is released, nothing attached");
    moves_to = state(102);
    run1(&x, replay_word(REPLAY_SWITCH, 0, 0));
    tap_ok(last_was("set", state(100), 0, 0), "back: what was released");
    moves_to = state(100);
    run1(&x, replay_word(REPLAY_SWITCH, 2, 0));
    tap_ok(last_was("set", state(102), 0, 0), "and forth");
    asked_count = 0;
    run1(&x, replay_word(REPLAY_SWITCH, 2, 0));
    tap_is_u64(asked_count, 0, "to itself: nothing");
    run1(&x, replay_word(REPLAY_THREAD_END, 2, 0));
    tap_ok(asked_count == 1 && last_was("set", NULL, 0, 0),
           "the end of the current thread destroys its cache");

    moves_to = NULL;
    run1(&x, replay_word(REPLAY_SWITCH, 3, 0));
    moves_to = state(103);
    run1(&x, replay_word(REPLAY_SWITCH, 0, 0));
    moves_to = state(100);
    asked_count = 0;
    run1(&x, replay_word(REPLAY_THREAD_END, 3, 0));
    tap_ok(asked_count == 5 && asked[1].p == state(103) && asked[2].p == NULL &&
               strcmp(asked[2].call, "set") == 0 &&
               last_was("set", state(100), 0, 0),
           "the end of another one: attached, destroyed, and back");
    tap_ok(caches[2] == NULL && x.current == 0 && x.cache_failures == 0,
           "the table is as before");
}

/* --- Reading -------------------------------------------------------------- */

static char *forbidden;
static unsigned reads;

/* The page was looked at: it may be, from now on. */
static void caught(int sig, siginfo_t *info, void *context) {
    (void)context;
    if ((char *)info->si_addr < forbidden ||
        (char *)info->si_addr >= forbidden + 4096)
        _exit(sig);
    reads++;
    mprotect(forbidden, 4096, PROT_READ);
}

static void reading(void) {
    struct replay_exec x;
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    struct sigaction before;
    forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, &before);
    for (int how = REPLAY_TOUCH_AUTO; how <= REPLAY_TOUCH_USE; how++) {
        begin(&x, (enum replay_touch)how);
        mprotect(forbidden, 4096, PROT_NONE);
        reads = 0;
        slots[1] = forbidden;
        run1(&x, replay_word(REPLAY_FREE, 1, 100));
        tap_is_u64(reads, how == REPLAY_TOUCH_USE,
                   "way %d: a block is %sread when it is freed", how,
                   how == REPLAY_TOUCH_USE ? "" : "not ");
    }
    sigaction(SIGSEGV, &before, NULL);
    munmap(forbidden, 4096);
}

/* --- Cells ---------------------------------------------------------------- */

static uint64_t cells[4];
static unsigned published;

static void *forbidden_malloc(size_t size) {
    (void)size;
    return forbidden;
}
static void *forbidden_realloc(void *p, size_t size) {
    (void)p;
    (void)size;
    return forbidden;
}

/* The block is written: no other thread may have it. */
static void caught_writing(int sig, siginfo_t *info, void *context) {
    (void)context;
    if ((char *)info->si_addr < forbidden ||
        (char *)info->si_addr >= forbidden + 4096)
        _exit(sig);
    published += cells[1] >> 48 != 0;
    reads++;
    mprotect(forbidden, 4096, PROT_READ | PROT_WRITE);
}

static void publishing(void) {
    struct replay_exec x;
    struct sigaction action = {.sa_sigaction = caught_writing,
                               .sa_flags = SA_SIGINFO};
    struct sigaction before;
    forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, &before);
    for (int i = 0; i < 2; i++) {
        begin(&x, REPLAY_TOUCH_ALL);
        x.calls.malloc = forbidden_malloc;
        x.calls.realloc = forbidden_realloc;
        x.slot = NULL;
        x.cell = cells;
        memset(cells, 0, sizeof(cells));
        mprotect(forbidden, 4096, PROT_NONE);
        published = reads = 0;
        if (i == 0)
            run1(&x, replay_word(REPLAY_MALLOC, 1, 100));
        else
            run_long(&x, MTF_CALL_REALLOC, 1, 100, 0, 0, true);
        tap_ok(reads == 1 && published == 0 && cells[1] >> 48 == 1,
               "%s: a block is written before others can see it",
               i == 0 ? "malloc" : "realloc");
    }
    sigaction(SIGSEGV, &before, NULL);
    munmap(forbidden, 4096);
}

int main(void) {
    char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        tap_bail("no memory");
    /* Nothing may be touched behind a block. */
    munmap(p + (512 << 10), 512 << 10);
    mmap(p + (512 << 10), 4096, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    end_of_memory = p + (512 << 10);
    short_words();
    long_words();
    reallocs();
    refusals();
    touches();
    growths();
    presents();
    switches();
    trims();
    reading();
    publishing();
    return tap_done();
}
