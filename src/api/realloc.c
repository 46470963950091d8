/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * realloc and reallocarray.
 *
 * A block stays in place if the new size fits and is at least half of it, or if
 * a large block can grow or shrink there. Growth by a small step beyond the end
 * gets room in proportion, so that growing in small steps costs linear time:
 * half of the old size, all of it from 4 KiB on, a quarter beyond
 * TCM_MAX_SMALL.
 *
 * The event is written when the new block exists, before the old one is given
 * up. A successful realloc ends the old block's token also when nothing moves.
 */
#include "api/alloc_probes.h"
#include "api/alloc_slow.h"
#include "api/block.h"
#include "api/export.h"
#include "api/library.h"
#include "api/new_handler.h"
#include "api/trace_hooks.h"
#include "base/bits.h"
#include "base/check.h"
#include "core/arena.h"

#include <errno.h>
#include <string.h>

/* From this size on, the room behind a block is whole pages, which mostly have
   no memory until the block grows into them. */
#define ROOM_IS_UNTOUCHED TCM_SYSTEM_PAGE

/* A block that realloc makes longer than this gets its own pages, even if it
   has a size class: it can then grow in place, and copying this much costs more
   than a call of the page heap. The bound is higher for a block without room
   for further steps, which may be its last size: pages waste up to a third of
   it, a class an eighth. */
#define OWN_PAGES       ((size_t)16 << 10)
#define OWN_PAGES_ROOMY ((size_t)8 << 10)
/* Up to this size a block gets no more room than OWN_PAGES_ROOMY: more would be
   two pages of the heap, three times the size. */
#define CLASS_ROOMY ((size_t)7 << 10)

/* Ways to resize a block where it is. */
enum in_place { STAYS, SHRINKS, MAY_GROW, MUST_MOVE };

/*
 * Least size for which a large block of BYTES keeps all its pages. It is below
 * every size that roomy_size() gave the block room for, or the next small step
 * would take that room away: up to TCM_MAX_SMALL this is half the size before
 * it was rounded up to pages.
 */
static TCM_ALWAYS_INLINE size_t large_least(size_t bytes) {
    TCM_ASSERT(bytes % TCM_PAGE_SIZE == 0 && bytes != 0);
    return bytes <= TCM_MAX_SMALL ? (bytes - TCM_PAGE_SIZE) / 2
                                  : bytes - bytes / 4;
}

static enum in_place in_place(const struct tcm_block_info *info, size_t size) {
    TCM_ASSERT(info->kind == TCM_BLOCK_SMALL || info->kind == TCM_BLOCK_LARGE);
    if (info->kind == TCM_BLOCK_SMALL)
        return size <= info->size && size >= info->size / 2 ? STAYS : MUST_MOVE;
    if (size <= info->size && size >= large_least(info->size))
        return STAYS;
    if (size > TCM_MAX_REQUEST)
        return MUST_MOVE;
    if (size > info->size)
        return MAY_GROW;
    return size > OWN_PAGES_ROOMY ? SHRINKS : MUST_MOVE;
}

/* Size for a block of OLD bytes that moves or grows to SIZE. Growth by less
   than a quarter is taken for the first of many such steps. */
static size_t roomy_size(size_t old, size_t size) {
    size_t step, roomy;
    if (size <= old || tcm_add_overflows(old, old / 4, &step) || step <= size)
        return size;
    size_t room = old < ROOM_IS_UNTOUCHED ? old / 2 : old;
    if (tcm_add_overflows(old, room, &roomy) || roomy > TCM_MAX_REQUEST)
        return size;
    if (roomy > OWN_PAGES_ROOMY && size <= CLASS_ROOMY)
        return OWN_PAGES_ROOMY;
    return roomy > TCM_MAX_SMALL ? step : roomy;
}

static bool wants_own_pages(size_t old, size_t size, size_t roomy) {
    return size > old && roomy > (roomy == size ? OWN_PAGES : OWN_PAGES_ROOMY);
}

static void record_in_place(struct mtr_thread *trace, void *ptr, size_t size,
                            enum mtf_call call) {
    if (trace != NULL)
        tcm_trace_realloc(trace, call, size, tcm_block_word(ptr, false),
                          tcm_block_word(ptr, true), false);
}

/* Resizes the block in place. false: it must move. */
static bool resize_in_place(struct mtr_thread *trace, void *ptr,
                            const struct tcm_block_info *info, size_t size,
                            enum mtf_call call) {
    switch (in_place(info, size)) {
    case STAYS:
        record_in_place(trace, ptr, size, call);
        return true;
    case SHRINKS:
        tcm_trace_present(trace, ptr, info);
        record_in_place(trace, ptr, size, call);
        tcm_trace_gives(trace);
        /* If the tail cannot be returned, the block is merely roomy. */
        (void)tcm_large_resize(info->span, size);
        return true;
    case MAY_GROW:
        if (!tcm_large_resize(info->span, roomy_size(info->size, size)) &&
            !tcm_large_resize(info->span, size))
            return false;
        tcm_trace_took(trace);
        tcm_trace_grew(trace, ptr, info->size, tcm_block_info(ptr).size);
        record_in_place(trace, ptr, size, call);
        return true;
    case MUST_MOVE:
        break;
    }
    return false;
}

static void *realloc_private(void *ptr, size_t size,
                             const struct tcm_block_info *info) {
    TCM_ASSERT(info->kind == TCM_BLOCK_PRIVATE && size != 0);
    void *to = tcm_arena_alloc(size, TCM_MIN_ALIGN);
    if (to == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy(to, ptr, size < info->size ? size : info->size);
    tcm_arena_free(ptr);
    return to;
}

/* From this size on, pages without contents are not copied. */
#define SPARSE_LEAST ((size_t)256 << 10)

/* Length of the pages without contents at the start of N bytes. */
static size_t zero_length(const char *from, size_t n) {
    size_t zero = 0;
    while (n - zero >= TCM_SYSTEM_PAGE && tcm_is_zero_page(from + zero))
        zero += TCM_SYSTEM_PAGE;
    return zero;
}

/* Copies the first N bytes of a block. Where a long block has pages that the
   program has not written to, which have no memory, the new block gets none
   either. */
static void copy_block(const struct tcm_block *block, const char *from,
                       size_t n) {
    char *to = block->ptr;
    while (n >= SPARSE_LEAST) {
        size_t part = zero_length(from, n);
        if (part == 0) {
            part = TCM_SYSTEM_PAGE;
            memcpy(to, from, part);
        } else if (!block->zeroed) {
            tcm_block_clear(to, part, SPARSE_LEAST);
        }
        to += part;
        from += part;
        n -= part;
    }
    memcpy(to, from, n);
}

static void *move_block(struct tcm_thread_state *self, struct mtr_thread *trace,
                        void *ptr, const struct tcm_block_info *info,
                        size_t size, enum mtf_call call) {
    bool shared = false;
    size_t roomy = roomy_size(info->size, size);
    TCM_ASSERT(roomy >= size);
    struct tcm_block to = {NULL, NULL, false};
    uint64_t weight = trace == NULL ? tcm_probe_weigh(self, size) : 0;
    if (TCM_UNLIKELY(weight != 0))
        to = tcm_block_get_sampled(roomy, 0, size, weight, &shared);
    if (TCM_LIKELY(to.ptr == NULL))
        to = wants_own_pages(info->size, size, roomy)
                 ? tcm_block_get_pages(roomy, 0, &shared)
                 : tcm_block_get(self, trace, roomy, 0, &shared);
    if (to.ptr == NULL)
        to = tcm_block_get(self, trace, size, 0, &shared);
    if (shared)
        tcm_trace_took(trace);
    if (to.ptr == NULL)
        return NULL;
    TCM_ASSERT(to.ptr != ptr && tcm_block_info(to.ptr).size >= size);
    tcm_trace_present(trace, ptr, info);
    bool looks = trace != NULL && tcm_trace_look(trace, size, true, &to);
    copy_block(&to, ptr, size < info->size ? size : info->size);
    if (trace != NULL) {
        tcm_trace_realloc(trace, call, size, tcm_block_word(ptr, false),
                          to.word, true);
        if (looks)
            tcm_trace_looks(to.word);
        if (tcm_block_put_is_shared(self, info))
            tcm_trace_gives(trace);
    } else {
        tcm_trace_forget(to.ptr);
    }
    tcm_block_put(self, ptr, info);
    return to.ptr;
}

/*
 * Recorded realloc of PTR, which INFO describes and which is no block in use: a
 * new block gets the contents that exist, and nothing is freed. NULL: nothing
 * can be read, or out of memory.
 */
static void *copy_wrong(struct tcm_thread_state *self, struct mtr_thread *trace,
                        const void *ptr, const struct tcm_block_info *info,
                        size_t size, enum mtf_call call) {
    struct tcm_block to = {NULL, NULL, false};
    bool shared = false;
    if (info->kind != TCM_BLOCK_FOREIGN)
        to = tcm_block_get(self, trace, size, 0, &shared);
    if (shared)
        tcm_trace_took(trace);
    if (to.ptr == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    size_t left = info->size;
    if (info->kind == TCM_BLOCK_INTERIOR)
        left -= (uintptr_t)ptr - tcm_block_start(info, ptr);
    memcpy(to.ptr, ptr, size < left ? size : left);
    tcm_trace_realloc(trace, call, size, NULL, to.word, true);
    return to.ptr;
}

/* Describes the block at PTR. Small blocks are known by their page's entry
   alone, without their span. */
static struct tcm_block_info block_of(const void *ptr) {
    unsigned size_class = tcm_entry_class(tcm_page_entry(ptr));
    if (TCM_UNLIKELY(size_class == 0))
        return tcm_block_info(ptr);
    struct tcm_block_info info = {TCM_BLOCK_SMALL, size_class,
                                  tcm_class[size_class].size, NULL};
    return info;
}

/* Stops the program unless INFO describes PTR as a block in use. */
static void check_block_in_use(struct tcm_thread_state *self,
                               const struct mtr_thread *trace, const void *ptr,
                               const struct tcm_block_info *info) {
    if (TCM_LIKELY(tcm_block_is_in_use(info)))
        return;
    if (trace != NULL)
        tcm_trace_leave(self);
    tcm_block_refuse_realloc(info, ptr);
}

/* One attempt. FAILS: it is the last one, whose failure is recorded. */
static void *realloc_once(void *ptr, size_t size, enum mtf_call call,
                          bool fails) {
    struct tcm_thread_state *self = &tcm_self;
    struct tcm_block_info info = block_of(ptr);
    if (info.kind == TCM_BLOCK_PRIVATE)
        return realloc_private(ptr, size, &info);
    if (self->life == TCM_THREAD_NEW)
        tcm_thread_need_cache(self);
    struct mtr_thread *trace = NULL;
    if (!tcm_trace_is_private(self)) {
        tcm_library_begin_if_due();
        trace = tcm_trace_enter_alloc(self, size);
    }
    void *result = ptr;
    if (trace != NULL) {
        struct tcm_block_info full_info = tcm_block_info(ptr);
        if (tcm_trace_refuses(self, &trace, call, ptr, &full_info)) {
            result = copy_wrong(self, trace, ptr, &full_info, size, call);
            tcm_trace_leave(self);
            return result;
        }
    }
    check_block_in_use(self, trace, ptr, &info);
    if (resize_in_place(trace, ptr, &info, size, call)) {
        if (trace == NULL && info.kind == TCM_BLOCK_LARGE)
            tcm_probe_resized(self, info.span, size);
    } else {
        result = move_block(self, trace, ptr, &info, size, call);
        if (result == NULL) {
            if (trace != NULL && fails)
                tcm_trace_realloc_failed(trace, call, size,
                                         tcm_block_word(ptr, false));
            errno = ENOMEM;
        }
    }
    if (trace != NULL)
        tcm_trace_leave(self);
    TCM_ASSERT(result == NULL || tcm_block_info(result).size >= size);
    return result;
}

static void *realloc_block(void *ptr, size_t size, enum mtf_call call) {
    if (TCM_LIKELY(!tcm_new_mode()) || tcm_trace_is_private(&tcm_self))
        return realloc_once(ptr, size, call, true);
    int saved = errno;
    do {
        void *to = realloc_once(ptr, size, call, false);
        if (to != NULL) {
            errno = saved;
            return to;
        }
    } while (tcm_new_handler_call(true));
    errno = saved;
    return realloc_once(ptr, size, call, true);
}

/* realloc(ptr, 0): frees and returns NULL, as glibc does. */
static void *realloc_to_zero(void *ptr, enum mtf_call call) {
    struct tcm_thread_state *self = &tcm_self;
    struct tcm_block_info info = tcm_block_info(ptr);
    if (self->life == TCM_THREAD_NEW)
        tcm_thread_need_cache(self);
    struct mtr_thread *trace = NULL;
    if (info.kind != TCM_BLOCK_PRIVATE && !tcm_trace_is_private(self))
        trace = tcm_trace_enter_free(self);
    if (trace != NULL && tcm_trace_refuses(self, &trace, call, ptr, &info)) {
        tcm_trace_leave(self);
        return NULL;
    }
    if (info.kind != TCM_BLOCK_PRIVATE)
        check_block_in_use(self, trace, ptr, &info);
    if (trace != NULL) {
        tcm_trace_present(trace, ptr, &info);
        tcm_trace_realloc_end(trace, call, tcm_block_word(ptr, false));
        if (tcm_block_put_is_shared(self, &info))
            tcm_trace_gives(trace);
        tcm_trace_leave(self);
    }
    tcm_block_put(self, ptr, &info);
    return NULL;
}

/* Stream, call and old block of a realloc on the fast path; T is NULL on the
   plain path. */
struct recorded {
    struct mtr_thread *t;
    enum mtf_call call;
    uint64_t *word; /* of the old block */
};

/*
 * Fast path: a small block that stays, or moves between two small classes of
 * this thread's cache. NULL: the slow path must serve the call. Fast and slow
 * paths choose the same size for a block.
 */
static TCM_ALWAYS_INLINE void *realloc_small(void *ptr, unsigned old_class,
                                             size_t size,
                                             const struct recorded *r) {
    struct tcm_thread_cache *cache = tcm_self.own;
    size_t old_size = tcm_class[old_class].size;
    TCM_ASSERT(old_class != 0 && size != 0 && size <= TCM_MAX_SMALL);
    if (size <= old_size && size >= old_size / 2) {
        if (r->t != NULL)
            tcm_trace_realloc_known(r->t, r->call, size, r->word, r->word,
                                    false);
        return ptr;
    }
    size_t roomy = roomy_size(old_size, size);
    if (TCM_UNLIKELY(wants_own_pages(old_size, size, roomy)))
        return NULL;
    unsigned size_class = tcm_size_class(roomy);
    struct tcm_entry *entry = tcm_cache_peek(cache, size_class);
    void *to = entry->ptr;
    struct tcm_bin *old_bin = &cache->bin[old_class];
    /* A block on top of its bin is free: the slow path reports it. */
    if (TCM_UNLIKELY(to == NULL || old_bin->top == old_bin->end ||
                     tcm_cache_is_top(cache, old_class, ptr)))
        return NULL;
    TCM_ASSERT(tcm_entry_class(tcm_page_entry(to)) == size_class);
    tcm_cache_drop_top(cache, size_class);
    memcpy(to, ptr, size < old_size ? size : old_size);
    TCM_ASSERT(r->t == NULL || cache->want_words);
    if (tcm_object_words && r->t != NULL) {
        tcm_trace_realloc_known(r->t, r->call, size, r->word,
                                *tcm_bin_word(entry), true);
        *tcm_bin_word(old_bin->top) = r->word;
    }
    (void)tcm_cache_push(cache, old_class, ptr);
    return to;
}

/*
 * Span of the large block at PTR if the block stays as in_place() has it, and
 * no listener has to know; else NULL. A buffer with room is resized far more
 * often than its pages change.
 */
static TCM_ALWAYS_INLINE struct tcm_span *large_that_stays(const void *ptr,
                                                           size_t size) {
    struct tcm_span *span = tcm_page_span(ptr);
    if (span == NULL || tcm_load_relaxed(&span->state) != TCM_SPAN_LARGE ||
        span->start != (uintptr_t)ptr || span->sampled ||
        tcm_load_relaxed(&tcm_alloc_listeners) != 0)
        return NULL;
    size_t bytes = tcm_span_bytes(span);
    return size <= bytes && size >= large_least(bytes) ? span : NULL;
}

static TCM_ALWAYS_INLINE void *realloc_plain(void *ptr, size_t size) {
    unsigned size_class = tcm_entry_class(tcm_page_entry(ptr));
    if (TCM_UNLIKELY(size_class == 0 || size > TCM_MAX_SMALL))
        return NULL;
    const struct recorded nothing = {.t = NULL};
    return realloc_small(ptr, size_class, size, &nothing);
}

#if TCM_TRACING
/* Bytes that the first varint of a realloc can take; behind it there must be
   room for another event. */
#define FIRST_BYTES 8

static TCM_ALWAYS_INLINE void *
realloc_traced(void *ptr, size_t size, enum mtf_call call, uintptr_t caller) {
    struct recorded r = {.t = tcm_self.trace, .call = call};
    uint64_t entry = tcm_page_entry(ptr);
    unsigned size_class = tcm_entry_class(entry);
    if (size_class != 0) {
        r.word = size <= TCM_MAX_SMALL ? tcm_entry_word(entry, ptr) : NULL;
    } else {
        struct tcm_span *span = large_that_stays(ptr, size);
        r.word = span == NULL ? NULL : &span->word;
    }
    if (TCM_UNLIKELY(r.word == NULL ||
                     r.t->pos + FIRST_BYTES >= tcm_load_folded(&r.t->limit) ||
                     *r.word < r.t->first_token))
        return NULL;
    if (TCM_UNLIKELY(mtr_has_sites(r.t))) {
        struct mts_thread *sites = r.t->cold->sites;
        const uint8_t *pos = r.t->pos;
        int64_t site = sites->walks ? mts_walk_inside(sites, caller)
                                    : mts_known(sites, caller);
        /* Finding the site may have allocated. */
        if (site <= MTF_SITE_NONE || r.t->pos != pos || tcm_self.trace != r.t)
            return NULL;
        mtr_put_site(r.t, sites, (uint32_t)site);
    }
    if (size_class == 0) {
        tcm_trace_realloc_known(r.t, call, size, r.word, r.word, false);
        return ptr;
    }
    return realloc_small(ptr, size_class, size, &r);
}
#else
static TCM_ALWAYS_INLINE void *
realloc_traced(void *ptr, size_t size, enum mtf_call call, uintptr_t caller) {
    (void)ptr, (void)size, (void)call, (void)caller;
    return NULL;
}
#endif

/* Stands in the tail of the exported function. */
static TCM_NOINLINE void *realloc_far(void *ptr, size_t size,
                                      enum mtf_call call) {
    if (TCM_UNLIKELY(ptr == NULL)) {
        tcm_trace_from_here();
        return tcm_alloc_slow(size, call);
    }
    if (TCM_UNLIKELY(size == 0))
        return realloc_to_zero(ptr, call);
    if (tcm_thread_is_plain(&tcm_self)) {
        if (large_that_stays(ptr, size) != NULL)
            return ptr;
    } else {
        void *to = realloc_traced(ptr, size, call,
                                  (uintptr_t)__builtin_return_address(0));
        if (TCM_LIKELY(to != NULL))
            return to;
    }
    tcm_trace_from_here();
    return realloc_block(ptr, size, call);
}

static TCM_ALWAYS_INLINE void *realloc_any(void *ptr, size_t size,
                                           enum mtf_call call) {
    if (TCM_LIKELY(ptr != NULL && size != 0 &&
                   tcm_thread_is_plain(&tcm_self))) {
        void *to = realloc_plain(ptr, size);
        if (TCM_LIKELY(to != NULL))
            return to;
    }
    return realloc_far(ptr, size, call);
}

TCM_PUBLIC void *TCM_EXPORT(realloc)(void *ptr, size_t size) {
    return realloc_any(ptr, size, MTF_CALL_REALLOC);
}

/* If the program has a realloc of its own, reallocarray calls that. The loader
   fills in the variable. */
TCM_OWN(own_realloc, realloc);
TCM_BOUND(bound_realloc, realloc);
static void *(*const bound)(void *, size_t) = bound_realloc;

TCM_PUBLIC void *TCM_EXPORT(reallocarray)(void *ptr, size_t n, size_t size) {
    size_t bytes;
    if (TCM_UNLIKELY(tcm_mul_overflows(n, size, &bytes)))
        bytes =
            SIZE_MAX; /* refused by realloc_any, which records the old token */
    void *(*program_realloc)(void *, size_t) = bound;
    /* Without this a compiler may assume that two names are two functions. */
    TCM_FORGET(program_realloc);
    if (TCM_UNLIKELY(program_realloc != own_realloc))
        return program_realloc(ptr, bytes);
    return realloc_any(ptr, bytes, MTF_CALL_REALLOCARRAY);
}

TCM_ALIAS(tc_realloc, realloc);
TCM_ALIAS(__libc_realloc, realloc);
TCM_ALIAS(__libc_reallocarray, reallocarray);
