/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways a block goes: inline fast paths (plain and traced), and the slow
 * functions they end in.
 *
 *   malloc --cache?--> pop --empty--> tcm_alloc_slow
 *      \--NULL--> traced: pop + event --anything rare--> tcm_alloc_slow
 *   free   --cache?--> push --full--> tcm_free_slow
 *      \--NULL--> traced: event + push --anything rare--> tcm_free_slow
 *
 * The traced fast path is out of line and reached by one
 * branch that always goes the same way, so that the plain one is what it is in
 * the untraced library.
 *
 * free(NULL) has no test of its own: its page entry is 0, bin 0 is always full.
 */
#ifndef TCM_API_MALLOC_PATH_H
#define TCM_API_MALLOC_PATH_H

#include "api/export.h"
#include "api/thread_state.h"
#include "core/heap.h"

/*
 * Serves a plain allocation of SIZE bytes whatever state thread and library are
 * in. Sets errno and returns NULL on failure.
 */
TCM_COLD void *tcm_alloc_slow(size_t size, enum mtf_call call);
/* The same without a record of the failure, for callers that try again. */
TCM_COLD void *tcm_alloc_try_slow(size_t size, enum mtf_call call);
/* calloc of more than TCM_MAX_SMALL bytes. */
TCM_COLD void *tcm_calloc_large(size_t size);
TCM_COLD void tcm_alloc_record_failure(uint64_t size, enum mtf_call call,
                                       unsigned align_log2);
/* ALIGN: a power of two. */
void *tcm_alloc_aligned(size_t size, size_t align, enum mtf_call call,
                        bool record_failure);
/* The same where a rounded SIZE is served and ASKED is what was asked for. */
void *tcm_alloc_aligned_as(size_t size, size_t asked, size_t align,
                           enum mtf_call call);
TCM_COLD void tcm_free_slow(void *ptr, enum mtf_call call);
/* A sized free: SIZE and ALIGN (0: a plain block) are what the caller claims.
 */
TCM_COLD void tcm_free_sized_slow(void *ptr, size_t size, size_t align,
                                  enum mtf_call call);

/*
 * Parts that realloc and the slow functions share: a block out of and into the
 * calling thread's cache or the levels below it, without any event. *SHARED is
 * set when shared levels were or will be asked. TRACE (or NULL) gets the time
 * before memory that the cache no longer needs is given up on the way.
 */
struct tcm_block {
    void *ptr;
    uint64_t *word; /* traced builds: its object word, or NULL */
    bool zeroed;
};
struct tcm_block tcm_block_get(struct tcm_thread_state *self,
                               struct mtr_thread *trace, size_t size,
                               size_t align, bool *shared);
bool tcm_block_put_is_shared(struct tcm_thread_state *self,
                             const struct tcm_block_info *info);
void tcm_block_put(struct tcm_thread_state *self, void *ptr,
                   const struct tcm_block_info *info);
/* What PTR is, or the end of the program if it is no block. */
struct tcm_block_info tcm_block_check(const void *ptr);

#if TCM_TRACING
/* The traced fast path of a plain allocation; SLOW serves the rest. */
static TCM_ALWAYS_INLINE void *tcm_traced_alloc(size_t size, enum mtf_call call,
                                                void *(*slow)(size_t)) {
    struct mtr_thread *t = tcm_self.trace;
    struct tcm_thread_cache *cache = tcm_self.own;
    unsigned class = tcm_size_class(size);
    struct tcm_entry *entry = tcm_cache_peek(cache, class);
    void *ptr = entry->ptr;
    /* pos at limit: no room, no token, not recording, called by the saver. */
    if (TCM_UNLIKELY(t->pos >= tcm_load_relaxed(&t->limit) || ptr == NULL))
        return slow(size);
    if (TCM_UNLIKELY(t->alloc_call != call))
        mtr_put_alloc_call(t, call);
    tcm_cache_drop_top(cache, class);
    *entry->word = mtr_put_alloc(t, size);
    return ptr;
}

/* The traced fast path of a free. The event is published before the block goes
   back to the cache. SIZED: the caller claims CLASS for the block. */
static TCM_ALWAYS_INLINE bool tcm_traced_free_try(void *ptr, enum mtf_call call,
                                                  bool sized, unsigned class) {
    struct mtr_thread *t = tcm_self.trace;
    struct tcm_thread_cache *cache = tcm_self.own;
    uint64_t page = tcm_page_entry(ptr);
    uint64_t *table = (uint64_t *)(page & TCM_ENTRY_TABLE);
    struct tcm_bin *bin = &cache->bin[page >> TCM_ENTRY_SHIFT];
    struct tcm_entry *top = bin->top;
    if (TCM_UNLIKELY(table == NULL || top == bin->end ||
                     t->pos >= tcm_load_relaxed(&t->limit) ||
                     (sized && page >> TCM_ENTRY_SHIFT != class)))
        return false;
    size_t slot =
        ((uintptr_t)ptr & (TCM_PAGE_SIZE - 1)) * bin->reciprocal >> 32;
    uint64_t *word = table + slot;
    uint64_t token = *word;
    if (TCM_UNLIKELY(token < t->first_token))
        return false;
    if (TCM_UNLIKELY(t->free_call != call))
        mtr_put_free_call(t, call);
    *word = 0;
    mtr_put_free(t, token);
    top->ptr = ptr;
    top->word = word;
    bin->top = top + 1;
    return true;
}

static TCM_ALWAYS_INLINE void tcm_traced_free(void *ptr, enum mtf_call call) {
    if (TCM_UNLIKELY(!tcm_traced_free_try(ptr, call, false, 0)))
        tcm_free_slow(ptr, call);
}

static TCM_ALWAYS_INLINE void tcm_traced_free_sized(void *ptr, size_t size,
                                                    enum mtf_call call) {
    if (TCM_UNLIKELY(
            !tcm_traced_free_try(ptr, call, true, tcm_size_class(size))))
        tcm_free_sized_slow(ptr, size, 0, call);
}
#else
static TCM_ALWAYS_INLINE void *tcm_traced_alloc(size_t size, enum mtf_call call,
                                                void *(*slow)(size_t)) {
    (void)call;
    return slow(size);
}
static TCM_ALWAYS_INLINE void tcm_traced_free(void *ptr, enum mtf_call call) {
    tcm_free_slow(ptr, call);
}
static TCM_ALWAYS_INLINE void tcm_traced_free_sized(void *ptr, size_t size,
                                                    enum mtf_call call) {
    (void)size;
    tcm_free_slow(ptr, call);
}
#endif

/* The plain fast path. TRACED is the out-of-line traced twin for this call,
   SLOW what serves the rest. */
static TCM_ALWAYS_INLINE void *
tcm_alloc_path(size_t size, void *(*traced)(size_t), void *(*slow)(size_t)) {
    struct tcm_thread_cache *cache = tcm_load_relaxed(&tcm_self.cache);
    if (TCM_UNLIKELY(cache == NULL))
        return traced(size);
    unsigned class = tcm_size_class(size);
    void *ptr = tcm_cache_peek(cache, class)->ptr;
    if (TCM_UNLIKELY(ptr == NULL))
        return slow(size);
    tcm_cache_drop_top(cache, class);
    return ptr;
}

static TCM_ALWAYS_INLINE void tcm_free_path(void *ptr, enum mtf_call call,
                                            void (*traced)(void *)) {
    struct tcm_thread_cache *cache = tcm_load_relaxed(&tcm_self.cache);
    if (TCM_UNLIKELY(cache == NULL)) {
        traced(ptr);
        return;
    }
    unsigned class = (unsigned)(tcm_page_entry(ptr) >> TCM_ENTRY_SHIFT);
    if (TCM_UNLIKELY(!tcm_cache_push(cache, class, ptr)))
        tcm_free_slow(ptr, call);
}

#endif
