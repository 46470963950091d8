/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap as the layer above (src/api) sees it: start, blocks without a thread
 * cache, large blocks, object words, fork, settings and figures. What a
 * thread's cache is and does (thread_cache.h) comes along.
 *
 * Threads: any, unless said otherwise. No function changes errno; NULL or false
 * means out of memory.
 */
#ifndef TCM_CORE_HEAP_H
#define TCM_CORE_HEAP_H

#include "core/central_list.h"
#include "core/core_config.h"
#include "core/core_stats.h"
#include "core/page_map.h"
#include "core/size_class.h"
#include "core/thread_cache.h"

/* Sets the heap up. Called before first use, by one thread at a time; a second
   call does nothing. */
bool tcm_heap_init(void);

/* One object of CLASS (not 0), directly from or to the central lists. */
void *tcm_heap_alloc_one(unsigned size_class);
void tcm_heap_free_one(unsigned size_class, void *ptr);

/*
 * A large block: SIZE rounded up to pages, aligned to ALIGN (a power of two, or
 * 0). *ZEROED becomes true if all its bytes are known to be 0.
 */
void *tcm_large_alloc(size_t size, size_t align, bool *zeroed);
/* A large block of SIZE bytes, all 0, without memory behind it yet, aligned to
   a page. NULL: there is memory that another block should use first, or the
   heap would have to grow. */
void *tcm_large_alloc_untouched(size_t size);
/* Frees the large block of SPAN. */
void tcm_large_free(struct tcm_span *span);
/* Grows or shrinks a large block in place. false: not possible there. */
bool tcm_large_resize(struct tcm_span *span, size_t size);

/* Kinds of addresses. */
enum tcm_block_kind {
    TCM_BLOCK_FOREIGN, /* not of this heap, or in no span that is in use */
    TCM_BLOCK_SMALL,   /* start of an object's slot */
    TCM_BLOCK_LARGE,   /* start of a large block */
    TCM_BLOCK_PRIVATE, /* of the private arena */
    TCM_BLOCK_INTERIOR /* inside a block */
};
struct tcm_block_info {
    enum tcm_block_kind kind;
    unsigned size_class; /* small */
    size_t size;         /* usable bytes */
    struct tcm_span *span;
};
struct tcm_block_info tcm_block_info(const void *ptr);
/* Start of the block that PTR, which INFO describes as INTERIOR, lies in. */
uintptr_t tcm_block_start(const struct tcm_block_info *info, const void *ptr);

/* The locks of registry, lists and page heap, in order. */
void tcm_heap_lock(void);
void tcm_heap_unlock(void);

/* Around fork, in the forking thread: all locks of core, in order. */
void tcm_heap_fork_prepare(void);
void tcm_heap_fork_parent(void);
/* OWN is the cache of the calling thread, the only one of the child. */
void tcm_heap_fork_child(const struct tcm_thread_cache *own);

/*
 * Makes memory available when it is short: moves the objects in CACHE (or NULL)
 * and in the transfer caches back to their spans, and for a large SIZE makes
 * all FREE pages RELEASED, so that they merge. true: another request for SIZE
 * may succeed.
 */
bool tcm_heap_gather(struct tcm_thread_cache *cache, size_t size);

/* Returns FREE pages to the system, at least BYTES if there are that many.
   Returns the number of bytes. */
size_t tcm_heap_release(size_t bytes);

/* Figures of the heap for mallinfo and malloc_stats. */
struct tcm_heap_figures {
    uint64_t heap_bytes;       /* committed: in use + free + caches */
    uint64_t in_use_bytes;     /* handed out, rounded to class or page */
    uint64_t free_pages_bytes; /* free spans with memory behind them */
    uint64_t released_bytes;   /* free spans without */
    uint64_t central_bytes;    /* in central lists */
    uint64_t slack_bytes;      /* ends of spans too short for an object */
    uint64_t transfer_bytes;
    uint64_t cached_bytes; /* in thread caches */
    uint64_t large_bytes;  /* of in_use: large blocks */
    uint64_t large_blocks;
    uint64_t metadata_bytes;
    uint64_t caches; /* thread caches, detached ones too */
};
void tcm_heap_figures(struct tcm_heap_figures *out);

/* A copy of all counters. */
void tcm_stats_read(struct tcm_stats *out);

/* True if a lock that tcm_stats_read or a census waits for is not free once
   within NS. */
bool tcm_heap_is_stuck(uint64_t ns);

/* Settings; each takes effect at once. */
struct tcm_heap_settings {
    uint64_t cache_budget_bytes; /* bound on what all thread caches may hold */
    uint64_t limit_bytes;        /* of heap_bytes; 0: none */
    uint32_t release_rate_milli; /* 1000: idle pages go back after as many
                                    freed pages as are in use; 0: on request */
    bool release_at_once;        /* freed pages are returned immediately */
};
enum tcm_heap_setting {
    TCM_SET_CACHE_BUDGET,
    TCM_SET_LIMIT,
    TCM_SET_RELEASE_RATE,
    TCM_SET_RELEASE_AT_ONCE
};
void tcm_heap_settings(struct tcm_heap_settings *out);
/* Changes one setting, in the unit of its field. */
void tcm_heap_set(enum tcm_heap_setting which, uint64_t value);
void tcm_heap_configure(const struct tcm_heap_settings *settings);

/* --- The verifier: a walk over all structures of core --------------------- */

/* Walks the whole heap and dies on the first broken invariant. Callers
   hold no lock and no other thread allocates. */
void tcm_heap_verify(void);
/*
 * Walks the heap while other threads go on, under all locks. Caches of others
 * change without a lock, so only CACHE, the caller's own (or TCM_NO_CACHE), is
 * walked.
 */
void tcm_heap_verify_running(struct tcm_thread_cache *cache);

#endif
