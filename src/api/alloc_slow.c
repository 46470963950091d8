/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slow functions of allocation and free: first use, recorder code, threads
 * without a cache, empty and full bins, large blocks, failures, and the
 * recorder's work between two fast events.
 */
#include "api/alloc_slow.h"
#include "api/alloc_probes.h"
#include "api/block.h"
#include "api/library.h"
#include "api/new_handler.h"
#include "api/trace_hooks.h"
#include "base/bits.h"
#include "base/check.h"
#include "core/arena.h"

#include <errno.h>
#include <string.h>

static unsigned align_log2_asked(size_t align) {
    return align == 0 ? 0 : tcm_log2_floor(align);
}

static void *private_alloc(size_t size, size_t align) {
    void *p = size > TCM_MAX_REQUEST
                  ? NULL
                  : tcm_arena_alloc(size, align ? align : TCM_MIN_ALIGN);
    if (p == NULL)
        errno = ENOMEM;
    return p;
}

/* One attempt to allocate SIZE bytes for a request of ASKED bytes, which is the
   size that is recorded. ALIGN 0: a plain call. A calloc sets *ZEROED if all
   bytes are known to be 0. */
static void *alloc_once(size_t size, size_t asked, size_t align,
                        enum mtf_call call, bool record_failure, bool *zeroed) {
    struct tcm_thread_state *self = &tcm_self;
    TCM_ASSERT(asked <= size && (align == 0 || tcm_is_pow2(align)));
    if (!tcm_api_init()) {
        errno = ENOMEM;
        return NULL;
    }
    if (tcm_trace_is_private(self))
        return private_alloc(size, align);
    if (self->life == TCM_THREAD_NEW)
        tcm_thread_need_cache(self);
    tcm_library_begin_if_due();
    struct mtr_thread *trace = tcm_trace_enter_alloc(self, asked);
    bool shared = false;
    uint64_t weight = trace == NULL ? tcm_probe_weigh(self, asked) : 0;
    struct tcm_block block = {NULL, NULL, false};
    if (TCM_UNLIKELY(weight != 0))
        block = tcm_block_get_sampled(size, align, asked, weight, &shared);
    if (block.ptr == NULL && call == MTF_CALL_CALLOC)
        block = tcm_block_get_untouched(self, size, &shared);
    if (TCM_LIKELY(block.ptr == NULL))
        block = tcm_block_get(self, trace, size, align, &shared);
    if (block.ptr == NULL)
        errno = ENOMEM;
    if (trace != NULL) {
        if (shared)
            tcm_trace_took(trace);
        bool looks =
            tcm_trace_look(trace, asked, call == MTF_CALL_CALLOC, &block);
        if (block.ptr != NULL || record_failure)
            tcm_trace_alloc(trace, call, asked, align_log2_asked(align),
                            block.ptr, block.word);
        if (looks)
            tcm_trace_looks(block.word);
        tcm_trace_leave(self);
    } else if (block.ptr != NULL) {
        tcm_trace_forget(block.ptr);
    }
    *zeroed = block.zeroed;
    return block.ptr;
}

/* alloc_once, repeated in new mode while there is a new-handler; only the last
   failure is recorded. Callers that pass no RECORD_FAILURE repeat by
   themselves. */
static void *alloc_any(size_t size, size_t asked, size_t align,
                       enum mtf_call call, bool record_failure, bool *zeroed) {
    if (TCM_LIKELY(!record_failure || !tcm_new_mode()) ||
        tcm_trace_is_private(&tcm_self))
        return alloc_once(size, asked, align, call, record_failure, zeroed);
    int saved = errno;
    do {
        void *p = alloc_once(size, asked, align, call, false, zeroed);
        if (p != NULL) {
            errno = saved;
            return p;
        }
    } while (tcm_new_handler_call(true));
    tcm_alloc_record_failure(asked, call, align_log2_asked(align));
    errno = ENOMEM;
    return NULL;
}

void *tcm_alloc_slow(size_t size, enum mtf_call call) {
    bool zeroed;
    return alloc_any(size, size, 0, call, true, &zeroed);
}

void *tcm_alloc_try_slow(size_t size, enum mtf_call call) {
    bool zeroed;
    return alloc_any(size, size, 0, call, false, &zeroed);
}

/*
 * From this size on, calloc gives back memory that was in use before. For each
 * MiB that costs 60 us, and 370 us when the program writes to it; to clear it
 * costs 10 us where it has memory, and 170 us to find that it has none. So it
 * pays only for what is hardly written. The C library does likewise: longer
 * blocks always get fresh memory there.
 */
#define CALLOC_GIVES ((size_t)32 << 20)

void *tcm_calloc_slow(size_t size) {
    bool zeroed = false;
    void *p = alloc_any(size, size, 0, MTF_CALL_CALLOC, true, &zeroed);
    if (p == NULL || zeroed)
        return p;
    if (size <= TCM_MAX_SMALL)
        memset(p, 0, size);
    else
        tcm_block_clear(p, size, CALLOC_GIVES);
    return p;
}

void *tcm_alloc_aligned(size_t size, size_t align, enum mtf_call call,
                        bool record_failure) {
    bool zeroed;
    TCM_ASSERT(tcm_is_pow2(align));
    return alloc_any(size, size, align, call, record_failure, &zeroed);
}

void *tcm_alloc_aligned_as(size_t size, size_t asked, size_t align,
                           enum mtf_call call) {
    bool zeroed;
    TCM_ASSERT(tcm_is_pow2(align));
    return alloc_any(size, asked, align, call, true, &zeroed);
}

void tcm_alloc_record_failure(uint64_t size, enum mtf_call call,
                              unsigned align_log2) {
    struct tcm_thread_state *self = &tcm_self;
    TCM_ASSERT(align_log2 < 64 || align_log2 == TCM_ALIGN_REFUSED);
    if (tcm_trace_is_private(self))
        return;
    if (self->life == TCM_THREAD_NEW)
        tcm_thread_need_cache(self);
    tcm_library_begin_if_due();
    struct mtr_thread *trace = tcm_trace_enter_alloc(self, 0);
    if (trace != NULL) {
        tcm_trace_alloc(trace, call, size, align_log2, NULL, NULL);
        tcm_trace_leave(self);
    }
}

/* Size and alignment that the caller of a sized free states for its block. */
struct claim {
    size_t size;
    size_t align; /* 0: a plain block */
};

static unsigned claimed_class(const struct claim *claim) {
    return tcm_size_class_request(claim->size, claim->align);
}

/* True if a block of the claimed size would not have this size class, or not
   this number of pages. */
static bool contradicts(const struct claim *claim,
                        const struct tcm_block_info *info) {
    unsigned size_class = claimed_class(claim);
    if (tcm_probe_is_sample(info))
        return claim->size > info->size;
    if (info->kind == TCM_BLOCK_SMALL)
        return size_class != info->size_class;
    return size_class != 0 || claim->size > info->size ||
           tcm_align_up(claim->size, TCM_PAGE_SIZE) != info->size;
}

void tcm_delete_check(const void *ptr, size_t size, size_t align) {
    struct claim claim = {size, align};
    if (!tcm_debug || ptr == NULL)
        return;
    struct tcm_block_info info = tcm_block_check(ptr);
    unsigned size_class = claimed_class(&claim);
    /* A large block may have got more pages than it needs. */
    if (info.kind != TCM_BLOCK_PRIVATE &&
        ((size_class != info.size_class && !tcm_probe_is_sample(&info)) ||
         (info.size_class == 0 && size > info.size)))
        tcm_die_pointer("sized delete with a wrong size of", ptr);
}

void tcm_free_sized_check(const void *ptr, size_t size, size_t align) {
    if (!tcm_debug || ptr == NULL)
        return;
    struct tcm_block_info info = tcm_block_check(ptr);
    if (info.kind == TCM_BLOCK_PRIVATE)
        return;
    if (size > info.size)
        tcm_die_pointer("sized free with a wrong size of", ptr);
    if (tcm_is_pow2(align) && (uintptr_t)ptr % align != 0)
        tcm_die_pointer("sized free with a wrong alignment of", ptr);
}

/* Records the free. false: PTR is no block in use, and must not reach the heap.
 */
static bool free_recorded(struct tcm_thread_state *self, void *ptr,
                          const struct tcm_block_info *info,
                          const struct claim *claim, enum mtf_call call) {
    struct mtr_thread *trace = tcm_trace_enter_free(self);
    if (trace == NULL)
        return true;
    if (TCM_UNLIKELY(tcm_trace_refuses(self, &trace, call, ptr, info))) {
        if (trace != NULL)
            tcm_trace_leave(self);
        return false;
    }
    if (!tcm_block_is_in_use(info)) {
        tcm_trace_leave(self);
        return true;
    }
    uint64_t *word = tcm_block_word(ptr, false);
    tcm_trace_present(trace, ptr, info);
    if (claim != NULL &&
        (tcm_trace_checks_sizes(trace) || contradicts(claim, info)))
        tcm_trace_free_size(trace, call, word, claim->size);
    else
        tcm_trace_free(trace, call, word);
    if (tcm_block_put_is_shared(self, info))
        tcm_trace_gives(trace);
    tcm_trace_leave(self);
    return true;
}

/* Frees PTR. CLAIM: NULL for an unsized free. */
static void free_any(void *ptr, const struct claim *claim, enum mtf_call call) {
    struct tcm_thread_state *self = &tcm_self;
    TCM_ASSERT(ptr != NULL);
    struct tcm_block_info info = tcm_block_info(ptr);
    bool may_free = true;
    tcm_trace_free_begins();
    /* A thread that only frees needs a cache too, so that its end is noticed;
       so does a thread whose cache was released. */
    if (self->own == TCM_NO_CACHE)
        tcm_thread_need_cache(self);
    if (info.kind != TCM_BLOCK_PRIVATE && !tcm_trace_is_private(self))
        may_free = free_recorded(self, ptr, &info, claim, call);
    if (may_free && info.kind != TCM_BLOCK_PRIVATE &&
        !tcm_block_is_in_use(&info)) {
        tcm_trace_free_ends();
        tcm_block_refuse(&info, ptr);
    }
    if (may_free)
        tcm_block_put(self, ptr, &info);
    tcm_trace_free_ends();
}

void tcm_free_slow(void *ptr, enum mtf_call call) {
    if (ptr != NULL)
        free_any(ptr, NULL, call);
}

void tcm_free_sized_slow(void *ptr, size_t size, size_t align,
                         enum mtf_call call) {
    struct claim claim = {size, align};
    if (ptr != NULL)
        free_any(ptr, &claim, call);
}

/* Pushes PTR, not NULL, to its bin. false: the thread is not plain, or the bin
   is full. */
static bool push_by_page_map(void *ptr) {
    TCM_ASSERT(ptr != NULL);
    unsigned size_class = tcm_entry_class(tcm_page_entry(ptr));
    return tcm_thread_is_plain(&tcm_self) &&
           tcm_cache_push(tcm_self.own, size_class, ptr);
}

void tcm_free_elsewhere(void *ptr, enum mtf_call call) {
    if (ptr != NULL && !push_by_page_map(ptr))
        free_any(ptr, NULL, call);
}

void tcm_free_sized_elsewhere(void *ptr, size_t size, size_t align,
                              enum mtf_call call) {
    if (ptr != NULL && !push_by_page_map(ptr))
        tcm_free_sized_slow(ptr, size, align, call);
}
