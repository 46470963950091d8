/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/run/exec.h"

#include "base/bits.h"
#include "base/check.h"
#include "cmd/replay/feed/op.h"
#include "traceformat/trace_event.h"

#include <string.h>

/* Operations from the prefetch of a slot to its use: enough for a miss of all
   caches, as an operation takes a few nanoseconds. */
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

/* Touches the pages of bytes [OLD, SIZE); those below OLD were touched
   before. */
static TCM_NOINLINE void touch_pages(char *p, size_t old, size_t size,
                                     size_t page) {
    uintptr_t at = (uintptr_t)p + old;
    uintptr_t end = (uintptr_t)p + size;
    while (at < end) {
        *(volatile char *)at = (char)TOUCH_BYTE;
        at = tcm_align_down(at, page) + page;
    }
}

/* Bytes to write of a block of SIZE of which PAGES are present: all of them but
   half of the last one, which the program need not have filled. Otherwise a
   block that begins inside a page, as the recorded one did not, would always
   need one page more. */
static size_t present_bytes(uint32_t pages, size_t size) {
    size_t all = pages * REPLAY_PRESENT_PAGE;
    return all == 0 || all >= size ? tcm_min_u64(all, size)
                                   : all - REPLAY_PRESENT_PAGE / 2;
}

/* Touches a larger block in mode AUTO: all of it, or what is present. */
static TCM_NOINLINE void touch_large(const struct replay_exec *x, char *p,
                                     size_t old, size_t size) {
    if (x->noted != 0) {
        old = present_bytes((uint32_t)replay_word_size(x->noted), SIZE_MAX);
        size = present_bytes(replay_word_slot(x->noted), size);
    } else {
        touch_first(p, size);
    }
    if (size > old)
        memset(p + old, TOUCH_BYTE, size - old);
}

/* Touches a block of SIZE bytes, of which a realloc left the first OLD. */
static TCM_ALWAYS_INLINE void touch(const struct replay_exec *x,
                                    enum replay_touch how, char *p, size_t old,
                                    size_t size) {
    switch (how) {
    case REPLAY_TOUCH_NONE:
        break;
    case REPLAY_TOUCH_AUTO:
    case REPLAY_TOUCH_USE:
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

/* Reads a block of SIZE bytes before it is freed, as a program would. */
static TCM_ALWAYS_INLINE void touch_before_free(enum replay_touch how,
                                                const char *p, size_t size) {
    if (how != REPLAY_TOUCH_USE)
        return;
    if (size > TOUCH_LIMIT)
        size = TOUCH_LIMIT;
    for (size_t i = 0; i < size; i += 64)
        (void)*(volatile const char *)(p + i);
}

/* --- Slots and cells ------------------------------------------------------ */

/* IN_CELLS is x->cell != NULL, a constant in the hot loop. */
static TCM_ALWAYS_INLINE void *block_of(const struct replay_exec *x,
                                        bool in_cells, uint32_t slot) {
    return in_cells ? replay_cell_block(&x->cell[slot]) : x->slot[slot];
}
static TCM_ALWAYS_INLINE void block_put(struct replay_exec *x, bool in_cells,
                                        uint32_t slot, void *p) {
    if (in_cells)
        replay_cell_put(&x->cell[slot], p);
    else
        x->slot[slot] = p;
}

/* --- Thread caches -------------------------------------------------------- */

TCM_NOINLINE void replay_exec_switch(struct replay_exec *x, uint32_t index) {
    if (x->cache == NULL || index == x->current)
        return;
    struct ThreadCacheState *state = NULL;
    /* Released first: set_cache would drain and destroy the attached cache. */
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

/* Drains and destroys the cache of a recorded thread that ended. */
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
    const struct replay_calls *c = x->via;
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
    const struct replay_calls *c = x->via;
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

/* Puts P, the new block of SLOT, into its place; NULL: it was refused. */
static TCM_ALWAYS_INLINE void exec_place(struct replay_exec *x,
                                         enum replay_touch how, bool in_cells,
                                         uint32_t slot, void *p, size_t size) {
    if (TCM_UNLIKELY(p == NULL))
        x->refused++;
    else
        touch(x, how, p, 0, size);
    /* Last: from a cell another thread may free it at once. */
    block_put(x, in_cells, slot, p);
}

static void long_realloc(struct replay_exec *x, enum replay_touch how,
                         const struct long_op *op, bool is_new) {
    const struct replay_calls *c = x->via;
    bool in_cells = x->cell != NULL;
    void *old = is_new ? NULL : block_of(x, in_cells, op->slot);
    uint32_t to = x->into != 0 ? x->into - 1 : op->slot;
    x->into = 0;
    /* A size of 0 frees the block in some allocators. The recorded call did
       not. */
    size_t size = op->size == 0 && !is_new ? 1 : op->size;
    if (!is_new && TCM_UNLIKELY(old == NULL)) {
        x->skipped++;
        /* Another thread may wait for this cell. */
        if (in_cells)
            block_put(x, in_cells, to, NULL);
        return;
    }
    void *p = op->call == MTF_CALL_REALLOCARRAY ? c->reallocarray(old, 1, size)
                                                : c->realloc(old, size);
    if (TCM_LIKELY(p != NULL))
        touch(x, how, p, op->old, op->size);
    /* Last: from a cell another thread may free it at once. */
    block_put(x, in_cells, to, p);
    if (TCM_UNLIKELY(p == NULL)) {
        x->refused++;
        /* The block would keep its old size, which a later sized free
           contradicts. So it is freed, and the slot is empty as after any
           refusal. */
        if (old != NULL) {
            x->refused_reallocs++;
            c->free(old);
        }
    }
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
        exec_place(x, how, x->cell != NULL, op.slot, long_alloc(x, &op),
                   op.size);
        return;
    }
    void *p = block_of(x, x->cell != NULL, op.slot);
    if (TCM_UNLIKELY(p == NULL)) {
        x->skipped++;
        x->skipped_frees++;
        return;
    }
    touch_before_free(how, p, op.size);
    long_free(x, &op, p);
}

/* --- The loop ------------------------------------------------------------- */

/* Frees a block; empty slots are skipped. */
#define EXEC_FREE(call)                                                        \
    do {                                                                       \
        void *p_ = block_of(x, in_cells, replay_word_slot(w));                 \
        if (TCM_UNLIKELY(p_ == NULL)) {                                        \
            x->skipped++;                                                      \
            x->skipped_frees++;                                                \
            break;                                                             \
        }                                                                      \
        touch_before_free(how, p_, replay_word_size(w));                       \
        call;                                                                  \
    } while (0)
#define EXEC_ALLOC(call)                                                       \
    exec_place(x, how, in_cells, replay_word_slot(w), (call),                  \
               replay_word_size(w))

/* Instantiated for each way of touching blocks and of keeping them, so that the
   choice costs nothing. */
static TCM_ALWAYS_INLINE const uint64_t *
exec_words(struct replay_exec *x, enum replay_touch how, bool in_cells,
           const uint64_t *at, const uint64_t *end) {
    const struct replay_calls *c = x->via;
    void **const slot = x->slot;
    uint64_t *const cell = x->cell;
    void *(*const do_malloc)(size_t) = c->malloc;
    void (*const do_free)(void *) = c->free;
    for (; at < end; at++) {
        uint64_t w = *at;
        /* Words behind END may name cells of other threads. */
        if (!in_cells)
            __builtin_prefetch(&slot[replay_word_slot(at[AHEAD])], 1);
        else if (at + AHEAD < end)
            __builtin_prefetch(&cell[replay_word_slot(at[AHEAD])], 1);
        unsigned code = replay_word_code(w);
        /* Tested before the jump table, as the most frequent code. */
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
        case REPLAY_AWAIT:
            if (in_cells &&
                !replay_cell_has(&cell[replay_word_slot(w)],
                                 replay_word_size(w)) &&
                !x->is_dry)
                return at;
            break;
        case REPLAY_INTO:
            x->into = replay_word_slot(w) + 1;
            break;
        }
    }
    return at;
}

#define EXEC_TOUCH(how)                                                        \
    case how:                                                                  \
        return x->cell != NULL ? exec_words(x, how, true, at, end)             \
                               : exec_words(x, how, false, at, end)

const uint64_t *replay_exec_words(struct replay_exec *x, const uint64_t *at,
                                  const uint64_t *end) {
    switch (x->touch) {
        EXEC_TOUCH(REPLAY_TOUCH_AUTO);
        EXEC_TOUCH(REPLAY_TOUCH_NONE);
        EXEC_TOUCH(REPLAY_TOUCH_FIRST);
        EXEC_TOUCH(REPLAY_TOUCH_PAGE);
        EXEC_TOUCH(REPLAY_TOUCH_ALL);
        EXEC_TOUCH(REPLAY_TOUCH_USE);
    }
    TCM_ASSERT(false);
    return end;
}

size_t replay_exec_length(const uint64_t *at) {
    switch (replay_word_code(*at)) {
    case REPLAY_LONG:
        return REPLAY_LONG_WORDS;
    case REPLAY_TRIM:
        return REPLAY_TRIM_WORDS;
    case REPLAY_PRESENT:
    case REPLAY_AWAIT:
    case REPLAY_INTO:
        return 1 + replay_exec_length(at + 1);
    default:
        return 1;
    }
}

void replay_exec_batch(struct replay_exec *x, const struct replay_batch *b) {
    TCM_ASSERT(b->words <= REPLAY_BATCH_WORDS);
    const uint64_t *end = b->word + b->words;
    const uint64_t *at = replay_exec_words(x, b->word, end);
    TCM_ASSERT(at == end);
    (void)at;
}

/* --- Which call an operation is ------------------------------------------- */

const char *const replay_kind_name[REPLAY_KINDS] = {
    "malloc", "calloc", "realloc", "aligned", "new", "free", "delete"};

static enum replay_kind kind_of_call(unsigned call) {
    if (mtf_call_is_realloc(call))
        return REPLAY_KIND_REALLOC;
    if (mtf_call_is_aligned_alloc(call))
        return REPLAY_KIND_ALIGNED;
    if (mtf_call_is_free(call))
        return call == MTF_CALL_FREE || call == MTF_CALL_CFREE ||
                       call >= MTF_CALL_FREE_SIZED
                   ? REPLAY_KIND_FREE
                   : REPLAY_KIND_DELETE;
    if (call == MTF_CALL_CALLOC)
        return REPLAY_KIND_CALLOC;
    return call == MTF_CALL_MALLOC ? REPLAY_KIND_MALLOC : REPLAY_KIND_NEW;
}

bool replay_one_call_at(const uint64_t *w, struct replay_one_call *c) {
    static const uint8_t kind[] = {
        [REPLAY_MALLOC] = REPLAY_KIND_MALLOC,
        [REPLAY_FREE] = REPLAY_KIND_FREE,
        [REPLAY_CALLOC] = REPLAY_KIND_CALLOC,
        [REPLAY_NEW] = REPLAY_KIND_NEW,
        [REPLAY_NEW_ARRAY] = REPLAY_KIND_NEW,
        [REPLAY_DELETE] = REPLAY_KIND_DELETE,
        [REPLAY_DELETE_ARRAY] = REPLAY_KIND_DELETE,
        [REPLAY_DELETE_SIZED] = REPLAY_KIND_DELETE,
        [REPLAY_DELETE_ARRAY_SIZED] = REPLAY_KIND_DELETE,
        [REPLAY_FREE_SIZED] = REPLAY_KIND_FREE,
    };
    unsigned code = replay_word_code(*w);
    c->present = UINT64_MAX;
    while (code == REPLAY_AWAIT || code == REPLAY_INTO ||
           code == REPLAY_PRESENT) {
        if (code == REPLAY_PRESENT)
            c->present = replay_word_slot(*w) * REPLAY_PRESENT_PAGE;
        code = replay_word_code(*++w);
    }
    c->slot = replay_word_slot(*w);
    if (code == REPLAY_LONG) {
        c->kind = kind_of_call((unsigned)replay_word_size(w[0]));
        c->size = w[1];
        return true;
    }
    if (code == 0 || code >= sizeof(kind))
        return false;
    c->kind = (enum replay_kind)kind[code];
    c->size = replay_word_size(*w);
    return true;
}

/* One thread runs a batch without segments, from its first word to its last. So
   the count goes on from the place of the last query. */
uint64_t replay_one_call_place(const struct replay_one_call *c, bool *about) {
    static struct {
        uint64_t first_op, place;
        const uint64_t *at;
    } last;
    struct replay_one_call other;
    *about = c->batch->segments != 0;
    if (*about)
        return c->batch->first_op + 1;
    if (last.at == NULL || last.first_op != c->batch->first_op ||
        last.at < c->batch->word || last.at > c->at) {
        last.first_op = c->batch->first_op;
        last.place = c->batch->first_op + 1;
        last.at = c->batch->word;
    }
    for (; last.at < c->at; last.at += replay_exec_length(last.at))
        last.place += replay_one_call_at(last.at, &other);
    return last.place;
}
