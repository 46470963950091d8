/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inline fast paths of allocation and free, plain and traced. All other
 * calls go to the slow functions of alloc_slow.h.
 *
 *   malloc --small, plain?--> pop --empty--> tcm_alloc_slow
 *      \--else--> plain: pop of a larger class --none--> tcm_alloc_slow
 *          \----> traced: pop + event --anything rare--> tcm_alloc_slow
 *   free   --first range, plain?--> push --full--> tcm_free_slow
 *      \--else--> plain: NULL; push by the page map --full--> tcm_free_slow
 *          \----> traced: event + push --anything rare--> tcm_free_slow
 *
 * The traced path adds nothing to the plain one: the branch to it is a compare
 * that is needed anyway (thread_state.h). The code behind "else", named "far"
 * here, follows the plain path in the same function and uses its registers. For
 * sized frees and calloc, whose plain path would grow, it is a function.
 *
 * tests/integration/allocator/fast_path.sh counts the instructions of both
 * plain paths.
 */
#ifndef TCM_API_MALLOC_PATH_H
#define TCM_API_MALLOC_PATH_H

#include "api/alloc_slow.h"
#include "api/thread_state.h"
#include "api/trace_hooks.h"
#include "base/bits.h"
#include "base/check.h"
#include "core/page_map.h"
#include "core/heap.h"
#if TCM_TRACING
#include "tracer/stream/thread_looks.h"
#endif

/* True if PTR is an object of the class. For assertions. */
static inline bool tcm_class_is(const void *ptr, uint64_t scaled) {
    return tcm_class_scale(tcm_entry_class(tcm_page_entry(ptr))) == scaled;
}

#if TCM_TRACING
/* Traced fast path of a plain allocation; SLOW serves all other cases. SCALED
   is the scaled class of SIZE. It stands in the tail of the exported function,
   so the return address is its caller. */
static TCM_ALWAYS_INLINE void *tcm_traced_alloc(size_t size, uint64_t scaled,
                                                enum mtf_call call,
                                                void *(*slow)(size_t)) {
    struct mtr_thread *t = tcm_self.trace;
    struct tcm_thread_cache *cache = tcm_self.own;
    struct tcm_entry *entry = tcm_bin_at(cache, scaled)->top - 1;
    void *ptr = entry->ptr;
    /* pos at limit: no room or no token is left, nothing is recorded, or the
       saver calls. */
    if (TCM_UNLIKELY(t->pos >= tcm_load_folded(&t->limit) || ptr == NULL))
        return slow(size);
    TCM_ASSERT(cache->want_words && entry->word != NULL);
    TCM_ASSERT(tcm_class_is(ptr, scaled));
    if (TCM_UNLIKELY(t->alloc_call != call)) {
        if (TCM_UNLIKELY(mtr_has_sites(t)))
            return tcm_trace_sited_alloc(size, scaled, call,
                                         (uintptr_t)__builtin_return_address(0),
                                         slow);
        mtr_put_alloc_call(t, call);
    }
    TCM_FORGET(scaled);
    tcm_bin_at(cache, scaled)->top = entry;
    *entry->word = mtr_put_alloc(t, size);
    return ptr;
}

/* Traced fast path of a SIZE above TCM_TABLE_SMALL: the recorder may look at
   the block. A function, called in the tail, so that the others have their
   registers. */
static TCM_NOINLINE void *tcm_traced_medium(size_t size, enum mtf_call call,
                                            void *(*slow)(size_t)) {
    struct mtr_thread *t = tcm_self.trace;
    /* Not of a record that fork has wiped: its limit is 0. */
    if (size > MTF_PRESENT_ABOVE && size <= TCM_MAX_SMALL &&
        t->pos < tcm_load_folded(&t->limit) && mtr_look_is_due(t, size))
        return slow(size);
    return tcm_traced_alloc(size, tcm_class_scale(tcm_size_class_medium(size)),
                            call, slow);
}

/*
 * Traced fast path of a free in the first range. false: the block must be freed
 * slowly, or the thread does not record. SIZED: the caller states CLAIM, a
 * scaled class, for the block. A double free needs no check: the word of a free
 * block is marked, and so below all tokens.
 */
static TCM_ALWAYS_INLINE bool tcm_traced_free_try(void *ptr, enum mtf_call call,
                                                  bool sized, uint64_t claim) {
    struct mtr_thread *t = tcm_self.trace;
    struct tcm_thread_cache *cache = tcm_self.own;
    uintptr_t base = tcm_class_map_base;
    size_t page = tcm_class_map_page(base, ptr);
    if (TCM_UNLIKELY(page >= TCM_CLASS_MAP_PAGES ||
                     t->pos >= tcm_load_folded(&t->limit)))
        return false;
    uint64_t scaled = tcm_class_map_get(base, page);
    uint64_t *table = (uint64_t *)tcm_load_relaxed(&tcm_word_map[page]);
    struct tcm_entry *top = tcm_bin_at(cache, scaled)->top;
    TCM_FORGET(scaled);
    if (TCM_UNLIKELY(table == NULL || top == tcm_bin_at(cache, scaled)->end ||
                     (sized && scaled != claim)))
        return false;
    uint64_t offset = (uintptr_t)ptr & (TCM_PAGE_SIZE - 1);
    uint64_t *word = table + (offset * tcm_scaled_reciprocal(scaled) >> 32);
    uint64_t token = *word;
    if (TCM_UNLIKELY(token < t->first_token))
        return false;
    TCM_ASSERT(cache->want_words && tcm_class_is(ptr, scaled));
    if (TCM_UNLIKELY(t->free_call != call))
        mtr_put_free_call(t, call);
    mtr_word_mark(word);
    top->ptr = ptr;
    top->word = word;
    TCM_FORGET(scaled);
    tcm_bin_at(cache, scaled)->top = top + 1;
    /* Last, so that its rare half is no more than a jump. Other threads see the
       block only after a slow path of this thread, which comes later. */
    mtr_put_free(t, token);
    return true;
}

static TCM_ALWAYS_INLINE bool tcm_traced_free(void *ptr, enum mtf_call call) {
    return tcm_traced_free_try(ptr, call, false, 0);
}

static TCM_ALWAYS_INLINE bool tcm_traced_free_sized(void *ptr, size_t size,
                                                    enum mtf_call call) {
    return tcm_traced_free_try(ptr, call, true,
                               tcm_class_scale(tcm_size_class(size)));
}
#else
static TCM_ALWAYS_INLINE void *tcm_traced_alloc(size_t size, uint64_t scaled,
                                                enum mtf_call call,
                                                void *(*slow)(size_t)) {
    (void)scaled, (void)call;
    return slow(size);
}
static TCM_ALWAYS_INLINE void *
tcm_traced_medium(size_t size, enum mtf_call call, void *(*slow)(size_t)) {
    (void)call;
    return slow(size);
}
static TCM_ALWAYS_INLINE bool tcm_traced_free(void *ptr, enum mtf_call call) {
    (void)ptr, (void)call;
    return false;
}
static TCM_ALWAYS_INLINE bool tcm_traced_free_sized(void *ptr, size_t size,
                                                    enum mtf_call call) {
    (void)ptr, (void)size, (void)call;
    return false;
}
#endif

/* Plain path of a request below the cache's alloc_limit. FAR serves the others,
   SLOW an empty bin. */
static TCM_ALWAYS_INLINE void *tcm_alloc_path(size_t size, void *(*far)(size_t),
                                              void *(*slow)(size_t)) {
    struct tcm_thread_cache *cache = tcm_self.own;
    if (TCM_UNLIKELY(size >= tcm_load_folded(&cache->alloc_limit)))
        return far(size);
    uint64_t scaled = tcm_cache_scaled_small(cache, size);
    struct tcm_entry *top = tcm_bin_at(cache, scaled)->top - 1;
    void *ptr = top->ptr;
    TCM_IN_RESULT(ptr);
    if (TCM_UNLIKELY(ptr == NULL))
        return slow(size);
    TCM_ASSERT(tcm_class_is(ptr, scaled));
    TCM_FORGET(scaled);
    tcm_bin_at(cache, scaled)->top = top;
    return ptr;
}

/* Body of FAR. A small request comes here only when the plain path is not in
   use. */
static TCM_ALWAYS_INLINE void *tcm_alloc_far(size_t size, enum mtf_call call,
                                             void *(*slow)(size_t)) {
    struct tcm_thread_cache *cache = tcm_self.own;
    if (TCM_LIKELY(size <= TCM_TABLE_SMALL))
        return tcm_traced_alloc(size, tcm_cache_scaled_small(cache, size), call,
                                slow);
    unsigned size_class = tcm_size_class_medium(size);
    if (TCM_UNLIKELY(!tcm_thread_is_plain(&tcm_self)))
        return tcm_traced_medium(size, call, slow);
    void *ptr = tcm_cache_peek(cache, size_class)->ptr;
    if (TCM_UNLIKELY(ptr == NULL))
        return slow(size);
    TCM_ASSERT(tcm_class_is(ptr, tcm_class_scale(size_class)));
    tcm_cache_drop_top(cache, size_class);
    return ptr;
}

/* Plain path of an aligned request; ALIGN: a power of two. NULL: the request
   must be served slowly. */
static TCM_ALWAYS_INLINE void *tcm_alloc_aligned_plain(size_t size,
                                                       size_t align) {
    if (TCM_UNLIKELY(!tcm_thread_is_plain(&tcm_self)))
        return NULL;
    struct tcm_thread_cache *cache = tcm_self.own;
    unsigned size_class = tcm_size_class_request(size, align);
    void *ptr = tcm_cache_peek(cache, size_class)->ptr;
    TCM_ASSERT(tcm_is_pow2(align) && (uintptr_t)ptr % align == 0);
    if (TCM_LIKELY(ptr != NULL))
        tcm_cache_drop_top(cache, size_class);
    return ptr;
}

/* Plain path of a free of a block in the first range. FAR serves the others.
   BASE: tcm_class_map_base, or TCM_NO_BASE, with which FAR serves all. */
static TCM_ALWAYS_INLINE void tcm_free_path(uintptr_t base, void *ptr,
                                            void (*far)(void *),
                                            void (*slow)(void *)) {
    struct tcm_thread_cache *cache = tcm_self.own;
    size_t page = tcm_class_map_page(base, ptr);
    TCM_ASSERT(page >= TCM_CLASS_MAP_PAGES ||
               tcm_class_is(ptr, tcm_class_map_get(base, page)));
    if (TCM_UNLIKELY(page >= tcm_load_folded(&cache->free_pages)))
        far(ptr);
    else if (TCM_UNLIKELY(!tcm_cache_push_scaled(
                 cache, tcm_class_map_get(base, page), ptr)))
        slow(ptr);
}

/* Body of FAR. Other frees go to a function, so that the traced path has no
   register to keep for them. */
static TCM_ALWAYS_INLINE void tcm_free_far(void *ptr, enum mtf_call call) {
    if (TCM_UNLIKELY(!tcm_traced_free(ptr, call)))
        tcm_free_elsewhere(ptr, call);
}

/*
 * Path of a sized free. The block's class is always looked up: that takes no
 * more instructions than finding it by SIZE, and a free with a wrong size frees
 * the right block, traced or not.
 */
static TCM_ALWAYS_INLINE void
tcm_free_sized_path(uintptr_t base, void *ptr, size_t size,
                    void (*far)(void *, size_t), void (*slow)(void *, size_t)) {
    struct tcm_thread_cache *cache = tcm_self.own;
    size_t page = tcm_class_map_page(base, ptr);
    TCM_ASSERT(page >= TCM_CLASS_MAP_PAGES ||
               tcm_class_is(ptr, tcm_class_map_get(base, page)));
    if (TCM_UNLIKELY(page >= tcm_load_folded(&cache->free_pages)))
        far(ptr, size);
    else if (TCM_UNLIKELY(!tcm_cache_push_scaled(
                 cache, tcm_class_map_get(base, page), ptr)))
        slow(ptr, size);
}

static TCM_ALWAYS_INLINE void tcm_free_sized_far(void *ptr, size_t size,
                                                 enum mtf_call call) {
    if (TCM_UNLIKELY(!tcm_traced_free_sized(ptr, size, call)))
        tcm_free_sized_elsewhere(ptr, size, 0, call);
}

#endif
