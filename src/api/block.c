/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slow functions and realloc are built of these: blocks out of and into the
 * thread's cache or the levels below it.
 */
#include "api/block.h"
#include "api/alloc_probes.h"
#include "api/library.h"
#include "api/trace_hooks.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "core/arena.h"

/* True if PTR is an object of the class. For assertions. */
static bool is_of_class(const void *ptr, unsigned size_class) {
    return tcm_entry_class(tcm_page_entry(ptr)) == size_class;
}

/* True if BLOCK is empty, or has SIZE bytes and ALIGN. For assertions. */
static bool block_is_valid(const struct tcm_block *block, size_t size,
                           size_t align) {
    if (block->ptr == NULL)
        return true;
    struct tcm_block_info info = tcm_block_info(block->ptr);
    return tcm_block_is_in_use(&info) && info.size >= size &&
           (align == 0 || (uintptr_t)block->ptr % align == 0);
}

static void get_uncached(unsigned size_class, struct tcm_block *block) {
    block->ptr = tcm_heap_alloc_one(size_class);
    if (block->ptr != NULL)
        block->word = tcm_block_word(block->ptr, true);
}

static void get_small(struct tcm_thread_state *self, struct mtr_thread *trace,
                      unsigned size_class, struct tcm_block *block,
                      bool *shared) {
    if (self->own == TCM_NO_CACHE)
        tcm_thread_need_cache(self);
    struct tcm_thread_cache *cache = self->own;
    if (cache == TCM_NO_CACHE) {
        *shared = true;
        get_uncached(size_class, block);
        return;
    }
    struct tcm_entry *entry = tcm_cache_peek(cache, size_class);
    if (entry->ptr == NULL) {
        *shared = true;
        TCM_ASSERT(tcm_load_relaxed(&cache->attached));
        if (tcm_cache_upkeep_due(cache)) {
            tcm_trace_gives(trace);
            tcm_cache_upkeep(cache);
        }
        if (!tcm_cache_refill(cache, size_class)) {
            /* There may be memory for an object even if there is none for the
               bin. */
            get_uncached(size_class, block);
            return;
        }
        entry = tcm_cache_peek(cache, size_class);
        TCM_ASSERT(entry->ptr != NULL);
    }
    block->ptr = entry->ptr;
    TCM_ASSERT(is_of_class(block->ptr, size_class));
    if (tcm_object_words && cache->want_words)
        block->word = *tcm_bin_word(entry);
    tcm_cache_drop_top(cache, size_class);
}

static void complete_large(struct tcm_block *block, bool *shared) {
    *shared = true;
    TCM_ASSERT(block->ptr == NULL ||
               tcm_block_info(block->ptr).kind == TCM_BLOCK_LARGE);
    if (block->ptr != NULL)
        block->word = tcm_block_word(block->ptr, true);
}

static struct tcm_block get_large(size_t size, size_t align, bool *shared) {
    struct tcm_block block = {NULL, NULL, false};
    TCM_ASSERT(size <= TCM_MAX_REQUEST);
    block.ptr = tcm_large_alloc(size, align, &block.zeroed);
    complete_large(&block, shared);
    return block;
}

struct tcm_block tcm_block_get_untouched(struct tcm_thread_state *self,
                                         size_t size, bool *shared) {
    struct tcm_block block = {NULL, NULL, true};
    if (size <= TCM_UNTOUCHED_LEAST || size > TCM_MAX_SMALL)
        return block;
    if (self->own == TCM_NO_CACHE)
        tcm_thread_need_cache(self);
    if (self->own == TCM_NO_CACHE ||
        tcm_cache_peek(self->own, tcm_size_class(size))->ptr != NULL)
        return block;
    block.ptr = tcm_large_alloc_untouched(size);
    complete_large(&block, shared);
    return block;
}

struct tcm_block tcm_block_get_pages(size_t size, size_t align, bool *shared) {
    if (size <= TCM_MAX_REQUEST)
        return get_large(size, align, shared);
    return (struct tcm_block){NULL, NULL, false};
}

static struct tcm_block get_block(struct tcm_thread_state *self,
                                  struct mtr_thread *trace, size_t size,
                                  size_t align, bool *shared) {
    struct tcm_block block = {NULL, NULL, false};
    unsigned size_class = tcm_size_class_request(size, align);
    if (size_class != 0) {
        get_small(self, trace, size_class, &block, shared);
        return block;
    }
    return get_large(size, align, shared);
}

struct tcm_block tcm_block_get(struct tcm_thread_state *self,
                               struct mtr_thread *trace, size_t size,
                               size_t align, bool *shared) {
    struct tcm_block block = {NULL, NULL, false};
    TCM_ASSERT(tcm_thread_is_valid(self) && !tcm_trace_is_private(self));
    TCM_ASSERT(align == 0 || tcm_is_pow2(align));
    if (size > TCM_MAX_REQUEST)
        return block;
    block = get_block(self, trace, size, align, shared);
    if (TCM_UNLIKELY(block.ptr == NULL)) {
        struct tcm_thread_cache *cache =
            self->own == TCM_NO_CACHE ? NULL : self->own;
        tcm_trace_gives(trace);
        if (tcm_heap_gather(cache, size > align ? size : align))
            block = get_block(self, trace, size, align, shared);
    }
    TCM_ASSERT(block_is_valid(&block, size, align));
    return block;
}

struct tcm_block tcm_block_get_sampled(size_t size, size_t align, size_t asked,
                                       uint64_t weight, bool *shared) {
    struct tcm_block block = tcm_block_get_pages(size, align, shared);
    TCM_ASSERT(asked <= size);
    if (block.ptr != NULL)
        tcm_probe_alloc(tcm_page_span(block.ptr), asked, weight);
    return block;
}

void tcm_block_clear(char *start, size_t bytes, size_t gives) {
    size_t page = tcm_os_page_size(), whole = tcm_align_down(bytes, page);
    if (bytes >= gives && (uintptr_t)start % page == 0 &&
        tcm_os_release(start, whole)) {
        start += whole;
        bytes -= whole;
    }
    for (; bytes >= TCM_SYSTEM_PAGE; bytes -= TCM_SYSTEM_PAGE) {
        if (!tcm_is_zero_page(start))
            memset(start, 0, TCM_SYSTEM_PAGE);
        start += TCM_SYSTEM_PAGE;
    }
    memset(start, 0, bytes);
}

void tcm_block_refuse(const struct tcm_block_info *info, const void *ptr) {
    tcm_die_pointer(info->kind == TCM_BLOCK_INTERIOR
                        ? "attempt to free a pointer inside a block"
                        : "attempt to free invalid pointer",
                    ptr);
}

void tcm_block_refuse_realloc(const struct tcm_block_info *info,
                              const void *ptr) {
    tcm_die_pointer(info->kind == TCM_BLOCK_INTERIOR
                        ? "attempt to realloc a pointer inside a block"
                        : "attempt to realloc invalid pointer",
                    ptr);
}

struct tcm_block_info tcm_block_check(const void *ptr) {
    struct tcm_block_info info = tcm_block_info(ptr);
    if (info.kind != TCM_BLOCK_PRIVATE && !tcm_block_is_in_use(&info))
        tcm_block_refuse(&info, ptr);
    return info;
}

bool tcm_block_put_is_shared(struct tcm_thread_state *self,
                             const struct tcm_block_info *info) {
    TCM_ASSERT(tcm_block_is_in_use(info));
    if (info->kind != TCM_BLOCK_SMALL || self->own == TCM_NO_CACHE)
        return true;
    struct tcm_bin *bin = &self->own->bin[info->size_class];
    return bin->top == bin->end;
}

void tcm_block_put(struct tcm_thread_state *self, void *ptr,
                   const struct tcm_block_info *info) {
    if (info->kind == TCM_BLOCK_PRIVATE) {
        tcm_arena_free(ptr);
        return;
    }
    TCM_ASSERT(tcm_block_is_in_use(info));
    if (info->kind == TCM_BLOCK_LARGE) {
        TCM_ASSERT(info->span == tcm_page_span(ptr));
        if (TCM_UNLIKELY(tcm_probe_is_sample(info)))
            tcm_probe_free(info->span);
        tcm_large_free(info->span);
        return;
    }
    struct tcm_thread_cache *cache = self->own;
    TCM_ASSERT(is_of_class(ptr, info->size_class));
    if (cache == TCM_NO_CACHE) {
        tcm_heap_free_one(info->size_class, ptr);
        return;
    }
    if (TCM_UNLIKELY(tcm_cache_is_top(cache, info->size_class, ptr)))
        tcm_die_pointer("double free of", ptr);
    if (!tcm_cache_push(cache, info->size_class, ptr) &&
        (!tcm_cache_make_room(cache, info->size_class) ||
         !tcm_cache_push(cache, info->size_class, ptr))) {
        tcm_heap_free_one(info->size_class, ptr);
        return;
    }
    if (tcm_object_words && cache->want_words)
        *tcm_bin_word(cache->bin[info->size_class].top - 1) =
            tcm_object_word_or_none(ptr);
}
