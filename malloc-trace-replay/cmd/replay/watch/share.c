/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observer of the replayer's share of the processor time: reading operations,
 * finding blocks and making calls.
 *
 * Some batches, spread evenly over the run, are copied after they have run. The
 * copies run again after the end mark, with the same table of blocks, but with
 * empty calls and without writing to blocks. Their mean time for a word stands
 * for all words.
 *
 * Invariants: nothing here allocates; the copies are resident from the start.
 *
 * Threads: one.
 */
#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_mem.h"
#include "cmd/replay/run/own_memory.h"
#include "cmd/replay/watch/observer.h"

#include <string.h>

/* Rounds over the copies; the median of their times counts. */
#define ROUNDS 3u
/* Most batches that are copied. */
#define COPIES 8u
#define COPIES_BYTES                                                           \
    ((COPIES * sizeof(struct replay_batch) + 65535) & ~(size_t)65535)

static struct share {
    struct replay_batch *copy; /* NULL: out of memory; the share is unknown */
    unsigned copies;
    uint64_t seen;          /* timed batches */
    uint64_t words;         /* words in timed batches */
    uint64_t stride;        /* one batch of this many is copied */
    unsigned place[COPIES]; /* places of the copies, in order */
} share_state;

/* --- Calls that do nothing ------------------------------------------------ */

static char null_block[1];

static void *no_malloc(size_t size) {
    (void)size;
    return null_block;
}
static void no_free(void *p) {
    (void)p;
}
static void *no_calloc(size_t n, size_t size) {
    (void)n;
    (void)size;
    return null_block;
}
static void *no_realloc(void *p, size_t size) {
    (void)p;
    (void)size;
    return null_block;
}
static void *no_reallocarray(void *p, size_t n, size_t size) {
    (void)p;
    (void)n;
    (void)size;
    return null_block;
}
static int no_posix_memalign(void **p, size_t align, size_t size) {
    (void)align;
    (void)size;
    *p = null_block;
    return 0;
}
static void *no_new(size_t size, const void *nothrow) {
    (void)size;
    (void)nothrow;
    return null_block;
}
static void *no_new_aligned(size_t size, size_t align, const void *nothrow) {
    (void)size;
    (void)align;
    (void)nothrow;
    return null_block;
}
static void no_free_sized(void *p, size_t size) {
    (void)p;
    (void)size;
}
static void no_free_aligned_sized(void *p, size_t a, size_t b) {
    (void)p;
    (void)a;
    (void)b;
}

static const struct replay_calls no_calls = {
    .malloc = no_malloc,
    .free = no_free,
    .calloc = no_calloc,
    .realloc = no_realloc,
    .reallocarray = no_reallocarray,
    .memalign = no_calloc,
    .aligned_alloc = no_calloc,
    .posix_memalign = no_posix_memalign,
    .valloc = no_malloc,
    .pvalloc = no_malloc,
    .free_sized = no_free_sized,
    .free_aligned_sized = no_free_aligned_sized,
    .new_one = no_new,
    .new_array = no_new,
    .new_aligned = no_new_aligned,
    .new_array_aligned = no_new_aligned,
    .delete_one = no_free,
    .delete_array = no_free,
    .delete_sized = no_free_sized,
    .delete_array_sized = no_free_sized,
    .delete_aligned = no_free_sized,
    .delete_array_aligned = no_free_sized,
    .delete_sized_aligned = no_free_aligned_sized,
    .delete_array_sized_aligned = no_free_aligned_sized,
};

/* --- Copies --------------------------------------------------------------- */

static bool share_begin(struct replay_watch *w, void **state) {
    struct share *s = &share_state;
    *state = s;
    s->stride = 1;
    void *p = replay_own_map(COPIES_BYTES);
    if (p == NULL)
        return true;
    memset(p, 0, COPIES_BYTES);
    w->bytes += COPIES_BYTES;
    s->copy = p;
    for (unsigned i = 0; i < COPIES; i++)
        s->place[i] = i;
    return true;
}

/* Drops every other copy. */
static void share_thin(struct share *s) {
    unsigned kept[COPIES];
    for (unsigned i = 0; i < COPIES; i++)
        kept[i % 2 * (COPIES / 2) + i / 2] = s->place[i];
    memcpy(s->place, kept, sizeof(kept));
    s->copies = COPIES / 2;
    s->stride *= 2;
}

static void share_batch(struct replay_watch *w, void *state,
                        const struct replay_batch *b) {
    struct share *s = state;
    (void)w;
    if (b->apart != 0)
        return;
    uint64_t number = s->seen++;
    s->words += b->words;
    if (s->copy == NULL || number % s->stride != 0)
        return;
    if (s->copies == COPIES)
        share_thin(s);
    if (number % s->stride != 0)
        return;
    TCM_ASSERT(s->copies < COPIES && tcm_is_pow2(s->stride));
    struct replay_batch *copy = &s->copy[s->place[s->copies++]];
    /* Includes the words behind the last one, which are prefetched. */
    memcpy(copy, b,
           offsetof(struct replay_batch, word) +
               (b->words + REPLAY_BATCH_PAD) * sizeof(b->word[0]));
}

/* --- The measure ---------------------------------------------------------- */

uint64_t replay_share_ns(const struct replay_watch *w,
                         const struct replay_exec *x) {
    const struct share *s = w->state[REPLAY_OBSERVER_share];
    struct replay_exec dry = *x;
    uint64_t ns[ROUNDS], words = 0;
    if (s == NULL || s->copies == 0)
        return 0;
    dry.via = &no_calls;
    dry.touch = REPLAY_TOUCH_NONE;
    dry.cache = NULL;
    for (unsigned r = 0; r < ROUNDS; r++) {
        uint64_t start = tcm_clock_thread_cpu_ns();
        for (unsigned i = 0; i < s->copies; i++)
            replay_exec_batch(&dry, &s->copy[s->place[i]]);
        ns[r] = tcm_clock_thread_cpu_ns() - start;
    }
    for (unsigned i = 0; i < s->copies; i++)
        words += s->copy[s->place[i]].words;
    uint64_t low = tcm_min_u64(ns[0], ns[1]), high = tcm_max_u64(ns[0], ns[1]);
    uint64_t middle = tcm_max_u64(low, tcm_min_u64(high, ns[2]));
    return words == 0
               ? 0
               : (uint64_t)((double)middle * (double)s->words / (double)words);
}

const struct replay_observer replay_share_observer = {.begin = share_begin,
                                                      .batch = share_batch};
