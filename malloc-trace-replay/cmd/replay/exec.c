/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/exec.h"

#include "base/bits.h"
#include "base/check.h"
#include "traceformat/trace_event.h"

#include <string.h>

/* Operations between the prefetch of a slot and its use: enough for a miss of
   all caches while operations take a few nanoseconds each. */
#define AHEAD       24
#define TOUCH_LIMIT ((size_t)4096)
#define TOUCH_BYTE  0xA5

TCM_STATIC_ASSERT(AHEAD <= REPLAY_BATCH_PAD, "reads stay within the batch");

/* --- Touching ------------------------------------------------------------- */

static TCM_ALWAYS_INLINE void touch_first(char *p, size_t size) {
    uint64_t v = UINT64_C(0x0101010101010101) * TOUCH_BYTE;
    if (TCM_LIKELY(size >= sizeof(v)))
        memcpy(p, &v, sizeof(v));
    else
        for (size_t i = 0; i < size; i++)
            ((volatile char *)p)[i] = (char)TOUCH_BYTE;
}

/* The pages of bytes [OLD, SIZE) of the block, of which those below OLD were
   touched before. */
static TCM_NOINLINE void touch_pages(char *p, size_t old, size_t size,
                                     size_t page) {
    uintptr_t at = (uintptr_t)p + old;
    uintptr_t end = (uintptr_t)p + size;
    while (at < end) {
        *(volatile char *)at = (char)TOUCH_BYTE;
        at = tcm_align_down(at, page) + page;
    }
}

/* What AUTO writes of larger blocks: all, or what is present. */
static TCM_NOINLINE void touch_large(const struct replay_exec *x, char *p,
                                     size_t old, size_t size) {
    if (x->noted != 0) {
        old = replay_word_size(x->noted) * REPLAY_PRESENT_PAGE;
        size =
            tcm_min_u64(size, replay_word_slot(x->noted) * REPLAY_PRESENT_PAGE);
    } else {
        touch_first(p, size);
    }
    if (size > old)
        memset(p + old, TOUCH_BYTE, size - old);
}

/* A block of SIZE bytes whose first OLD are as a realloc left them. */
static TCM_ALWAYS_INLINE void touch(const struct replay_exec *x,
                                    enum replay_touch how, char *p, size_t old,
                                    size_t size) {
    switch (how) {
    case REPLAY_TOUCH_NONE:
        break;
    case REPLAY_TOUCH_AUTO:
        if (TCM_UNLIKELY(size >= TOUCH_LIMIT))
            touch_large(x, p, old, size);
        else
            touch_first(p, size);
        break;
    case REPLAY_TOUCH_FIRST:
        touch_first(p, size);
        break;
    case REPLAY_TOUCH_PAGE:
        touch_pages(p, old, size, x->page_size);
        break;
    case REPLAY_TOUCH_ALL:
        if (size > old)
            memset(p + old, TOUCH_BYTE, size - old);
        break;
    }
}

/* --- Thread caches -------------------------------------------------------- */

TCM_NOINLINE void replay_exec_switch(struct replay_exec *x, uint32_t index) {
    if (x->cache == NULL || index == x->current)
        return;
    struct ThreadCacheState *state = NULL;
    /* Released first: set would drain and destroy what is attached. */
    if (!x->calls.release_cache(&state) ||
        !x->calls.set_cache(x->cache[index])) {
        x->cache_failures++;
        return;
    }
    TCM_ASSERT(index != x->current && x->cache[x->current] == NULL);
    x->cache[x->current] = state;
    x->cache[index] = NULL;
    x->current = index;
}

/* The recorded thread ended: its cache is drained and destroyed. */
static TCM_COLD void exec_thread_end(struct replay_exec *x, uint32_t index) {
    if (x->cache == NULL)
        return;
    uint32_t back = x->current;
    replay_exec_switch(x, index);
    if (x->current != index || !x->calls.set_cache(NULL))
        x->cache_failures++;
    if (back != index)
        replay_exec_switch(x, back);
}

/* --- Operations that need more than one word ------------------------------ */

struct long_op {
    unsigned call;
    uint32_t slot;
    size_t size, old, align;
};

static void *long_alloc(struct replay_exec *x, const struct long_op *op) {
    const struct replay_calls *c = &x->calls;
    void *p = NULL;
    switch (op->call) {
    case MTF_CALL_CALLOC:
        return c->calloc(1, op->size);
    case MTF_CALL_NEW:
    case MTF_CALL_NEW_NOTHROW:
        return c->new_one(op->size, &replay_nothrow);
    case MTF_CALL_NEW_ARRAY:
    case MTF_CALL_NEW_ARRAY_NOTHROW:
        return c->new_array(op->size, &replay_nothrow);
    case MTF_CALL_MEMALIGN:
        return c->memalign(op->align, op->size);
    case MTF_CALL_ALIGNED_ALLOC:
        return c->aligned_alloc(op->align, op->size);
    case MTF_CALL_POSIX_MEMALIGN:
        return c->posix_memalign(&p,
                                 op->align < sizeof(p) ? sizeof(p) : op->align,
                                 op->size) == 0
                   ? p
                   : NULL;
    case MTF_CALL_VALLOC:
        return c->valloc(op->size);
    case MTF_CALL_PVALLOC:
        return c->pvalloc(op->size);
    case MTF_CALL_NEW_ALIGNED:
    case MTF_CALL_NEW_ALIGNED_NOTHROW:
        return c->new_aligned(op->size, op->align, &replay_nothrow);
    case MTF_CALL_NEW_ARRAY_ALIGNED:
    case MTF_CALL_NEW_ARRAY_ALIGNED_NOTHROW:
        return c->new_array_aligned(op->size, op->align, &replay_nothrow);
    default:
        return c->malloc(op->size);
    }
}

static void long_free(struct replay_exec *x, const struct long_op *op,
                      void *p) {
    const struct replay_calls *c = &x->calls;
    switch (op->call) {
    case MTF_CALL_DELETE_SIZED:
        c->delete_sized(p, op->size);
        break;
    case MTF_CALL_DELETE_ARRAY_SIZED:
        c->delete_array_sized(p, op->size);
        break;
    case MTF_CALL_DELETE_ALIGNED:
    case MTF_CALL_DELETE_ALIGNED_NOTHROW:
        c->delete_aligned(p, op->align);
        break;
    case MTF_CALL_DELETE_ARRAY_ALIGNED:
    case MTF_CALL_DELETE_ARRAY_ALIGNED_NOTHROW:
        c->delete_array_aligned(p, op->align);
        break;
    case MTF_CALL_DELETE_SIZED_ALIGNED:
        c->delete_sized_aligned(p, op->size, op->align);
        break;
    case MTF_CALL_DELETE_ARRAY_SIZED_ALIGNED:
        c->delete_array_sized_aligned(p, op->size, op->align);
        break;
    case MTF_CALL_FREE_SIZED:
        c->free_sized(p, op->size);
        break;
    case MTF_CALL_FREE_ALIGNED_SIZED:
        c->free_aligned_sized(p, op->align, op->size);
        break;
    default:
        c->free(p);
        break;
    }
}

/* The block that SLOT holds now, which may be NULL: then it was refused. */
static TCM_ALWAYS_INLINE void placed(struct replay_exec *x,
                                     enum replay_touch how, uint32_t slot,
                                     void *p, size_t size) {
    x->slot[slot] = p;
    if (TCM_UNLIKELY(p == NULL)) {
        x->refused++;
        return;
    }
    touch(x, how, p, 0, size);
}

static void long_realloc(struct replay_exec *x, enum replay_touch how,
                         const struct long_op *op, bool is_new) {
    const struct replay_calls *c = &x->calls;
    void *old = is_new ? NULL : x->slot[op->slot];
    /* With size 0 it would be a free, in some allocators; in the recorded run
       it was none. */
    size_t size = op->size == 0 && !is_new ? 1 : op->size;
    if (!is_new && TCM_UNLIKELY(old == NULL)) {
        x->skipped++;
        return;
    }
    void *p = op->call == MTF_CALL_REALLOCARRAY ? c->reallocarray(old, 1, size)
                                                : c->realloc(old, size);
    x->slot[op->slot] = p;
    if (TCM_UNLIKELY(p == NULL)) {
        x->refused++;
        /* The block still has its old size, which a later sized free would
           contradict: it goes, and the slot is empty as after any refusal. */
        if (old != NULL) {
            x->refused_reallocs++;
            c->free(old);
        }
        return;
    }
    touch(x, how, p, op->old, op->size);
}

static TCM_NOINLINE void exec_long(struct replay_exec *x, enum replay_touch how,
                                   const uint64_t *w) {
    struct long_op op = {.call = (unsigned)replay_word_size(w[0]),
                         .slot = replay_word_slot(w[0]),
                         .size = (size_t)w[1],
                         .old = (size_t)replay_long_old(w[2]),
                         .align = (size_t)1 << replay_long_align_log2(w[2])};
    if (mtf_call_is_realloc(op.call)) {
        long_realloc(x, how, &op, replay_long_is_new(w[2]));
        return;
    }
    if (!mtf_call_is_free(op.call)) {
        placed(x, how, op.slot, long_alloc(x, &op), op.size);
        return;
    }
    void *p = x->slot[op.slot];
    if (TCM_UNLIKELY(p == NULL)) {
        x->skipped++;
        x->skipped_frees++;
        return;
    }
    long_free(x, &op, p);
}

/* --- The loop ------------------------------------------------------------- */

/* Empty slots are never freed. */
#define EXEC_FREE(call)                                                        \
    do {                                                                       \
        void *p_ = slot[replay_word_slot(w)];                                  \
        if (TCM_UNLIKELY(p_ == NULL)) {                                        \
            x->skipped++;                                                      \
            x->skipped_frees++;                                                \
            break;                                                             \
        }                                                                      \
        call;                                                                  \
    } while (0)
#define EXEC_ALLOC(call)                                                       \
    placed(x, how, replay_word_slot(w), (call), replay_word_size(w))

/* Instantiated once per way of touching, so that the choice costs nothing. */
static TCM_ALWAYS_INLINE void exec_words(struct replay_exec *x,
                                         enum replay_touch how,
                                         const uint64_t *at,
                                         const uint64_t *end) {
    const struct replay_calls *c = &x->calls;
    void **const slot = x->slot;
    void *(*const do_malloc)(size_t) = c->malloc;
    void (*const do_free)(void *) = c->free;
    for (; at < end; at++) {
        uint64_t w = *at;
        __builtin_prefetch(&slot[replay_word_slot(at[AHEAD])], 1);
        unsigned code = replay_word_code(w);
        /* Before the jump table: nearly all operations of a C program. */
        if (TCM_LIKELY(code == REPLAY_MALLOC)) {
            EXEC_ALLOC(do_malloc(replay_word_size(w)));
            continue;
        }
        if (TCM_LIKELY(code == REPLAY_FREE)) {
            EXEC_FREE(do_free(p_));
            continue;
        }
        switch (code) {
        case REPLAY_CALLOC:
            EXEC_ALLOC(c->calloc(1, replay_word_size(w)));
            break;
        case REPLAY_NEW:
            EXEC_ALLOC(c->new_one(replay_word_size(w), &replay_nothrow));
            break;
        case REPLAY_NEW_ARRAY:
            EXEC_ALLOC(c->new_array(replay_word_size(w), &replay_nothrow));
            break;
        case REPLAY_DELETE:
            EXEC_FREE(c->delete_one(p_));
            break;
        case REPLAY_DELETE_ARRAY:
            EXEC_FREE(c->delete_array(p_));
            break;
        case REPLAY_DELETE_SIZED:
            EXEC_FREE(c->delete_sized(p_, replay_word_size(w)));
            break;
        case REPLAY_DELETE_ARRAY_SIZED:
            EXEC_FREE(c->delete_array_sized(p_, replay_word_size(w)));
            break;
        case REPLAY_FREE_SIZED:
            EXEC_FREE(c->free_sized(p_, replay_word_size(w)));
            break;
        case REPLAY_SWITCH:
            replay_exec_switch(x, replay_word_slot(w));
            break;
        case REPLAY_THREAD_END:
            exec_thread_end(x, replay_word_slot(w));
            break;
        case REPLAY_TRIM:
            if (c->trim) {
                c->trim((size_t)at[1]);
                x->trims++;
            }
            at += REPLAY_TRIM_WORDS - 1;
            break;
        case REPLAY_LONG:
            exec_long(x, how, at);
            x->noted = 0;
            at += REPLAY_LONG_WORDS - 1;
            break;
        case REPLAY_PRESENT:
            x->noted = w;
            break;
        }
    }
}

void replay_exec_batch(struct replay_exec *x, const struct replay_batch *b) {
    TCM_ASSERT(b->words <= REPLAY_BATCH_WORDS);
    const uint64_t *at = b->word;
    const uint64_t *end = at + b->words;
    switch (x->touch) {
    case REPLAY_TOUCH_AUTO:
        exec_words(x, REPLAY_TOUCH_AUTO, at, end);
        break;
    case REPLAY_TOUCH_NONE:
        exec_words(x, REPLAY_TOUCH_NONE, at, end);
        break;
    case REPLAY_TOUCH_FIRST:
        exec_words(x, REPLAY_TOUCH_FIRST, at, end);
        break;
    case REPLAY_TOUCH_PAGE:
        exec_words(x, REPLAY_TOUCH_PAGE, at, end);
        break;
    case REPLAY_TOUCH_ALL:
        exec_words(x, REPLAY_TOUCH_ALL, at, end);
        break;
    }
}
