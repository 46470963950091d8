/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets blocks from the calling thread's cache or the levels below it, and
 * returns them, without an event: for realloc and the slow paths of malloc and
 * free.
 *
 * *SHARED is set if levels that threads share took part. The stream TRACE (or
 * NULL) gets the time before the cache gives up memory that it no longer needs.
 *
 * Threads: SELF is the calling thread's state.
 */
#ifndef TCM_API_BLOCK_H
#define TCM_API_BLOCK_H

#include "api/thread_state.h"
#include "core/heap.h"

#include <string.h>

struct tcm_block {
    void *ptr;
    uint64_t *word; /* its object word; NULL: none, or not needed */
    bool zeroed;    /* all bytes are known to be 0 */
};

/* A block of SIZE bytes with ALIGN, a power of two, or 0 for a plain one. Its
   ptr is NULL when memory is out. */
struct tcm_block tcm_block_get(struct tcm_thread_state *self,
                               struct mtr_thread *trace, size_t size,
                               size_t align, bool *shared);
/* A block with pages of its own, whatever its size. */
struct tcm_block tcm_block_get_pages(size_t size, size_t align, bool *shared);
/*
 * Such a block for a SIZE that has a class, all 0, without memory behind it
 * yet. Its ptr is NULL up to TCM_UNTOUCHED_LEAST, and where an object is at
 * hand whose memory was in use before.
 */
#define TCM_UNTOUCHED_LEAST ((size_t)16 << 10)
struct tcm_block tcm_block_get_untouched(struct tcm_thread_state *self,
                                         size_t size, bool *shared);
/* Such a block for a request of ASKED bytes, which is a sample of WEIGHT: tells
   listeners (alloc_probes.h). */
struct tcm_block tcm_block_get_sampled(size_t size, size_t align, size_t asked,
                                       uint64_t weight, bool *shared);

/* Smallest page of the system. */
#define TCM_SYSTEM_PAGE ((size_t)4096)

static inline bool tcm_is_zero_page(const char *page) {
    uint64_t first;
    memcpy(&first, page, sizeof(first));
    return first == 0 && memcmp(page, page + sizeof(first),
                                TCM_SYSTEM_PAGE - sizeof(first)) == 0;
}

/*
 * Clears BYTES of a new large block. Pages that have no memory get none: from
 * GIVES bytes on all memory there goes back to the system; else only pages with
 * contents are written.
 */
void tcm_block_clear(char *start, size_t bytes, size_t gives);

/* True if INFO describes a block that a program may free. */
static inline bool tcm_block_is_in_use(const struct tcm_block_info *info) {
    return info->kind == TCM_BLOCK_SMALL || info->kind == TCM_BLOCK_LARGE;
}

/* True if tcm_block_put would give memory to levels that threads share. */
bool tcm_block_put_is_shared(struct tcm_thread_state *self,
                             const struct tcm_block_info *info);
/* INFO: the result of tcm_block_check(PTR). */
void tcm_block_put(struct tcm_thread_state *self, void *ptr,
                   const struct tcm_block_info *info);

/* Describes the block at PTR. Stops the program if PTR is no block. */
struct tcm_block_info tcm_block_check(const void *ptr);
/* Stop the program because PTR, which INFO describes, is no block in use. The
   message of the second speaks of a realloc. */
TCM_NORETURN void tcm_block_refuse(const struct tcm_block_info *info,
                                   const void *ptr);
TCM_NORETURN void tcm_block_refuse_realloc(const struct tcm_block_info *info,
                                           const void *ptr);

/* tcm_object_word, without a call in builds that have no object words. */
static inline uint64_t *tcm_block_word(const void *ptr, bool make) {
    return tcm_object_words ? tcm_object_word(ptr, make) : NULL;
}

#endif
