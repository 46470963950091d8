/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page heap: free runs of pages in reserved address ranges. It splits,
 * merges, grows into the ranges, and gives memory back to the system.
 *
 *    range  |<----- committed ----->|<--- reserved, no access --->|
 *           [used][FREE][used][REL.]
 *
 * Invariants: the spans of a range cover its committed part without gaps. The
 * page map holds a span at its first and last page, a SMALL one at every page,
 * and nothing between. No two FREE runs, and no two RELEASED runs, are
 * neighbours inside a range (a FREE and a RELEASED one may be). Position means
 * range index, then offset: no choice depends on absolute addresses.
 *
 * Threads: one lock, rank PAGE_HEAP; it is not held while the system takes
 * memory back or gives some: then the thread holds the growth lock, rank
 * GROWTH, for which only those wait that find no pages.
 */
#ifndef TCM_CORE_PAGE_HEAP_H
#define TCM_CORE_PAGE_HEAP_H

#include "base/lock.h"
#include "core/address_range.h"
#include "core/run_set.h"
#include "core/span.h"

struct tcm_page_heap {
    struct tcm_lock lock;
    struct tcm_lock growth_lock; /* of the one thread that makes it grow */
    struct tcm_run_set free;
    struct tcm_run_set released;
    uint64_t committed_pages;
    uint64_t free_pages;
    uint64_t released_pages;
    uint64_t busy_pages;
    uint64_t large_pages;
    uint64_t large_blocks;
    struct tcm_dlist busy;  /* runs that are being given back unlocked */
    uint64_t scavenge_wait; /* pages to be freed until the next release */
    size_t system_page;     /* bytes; what can be given back alone */
    uint64_t limit_pages;   /* 0: none */
    uint32_t release_rate_milli;
    bool release_at_once;
    struct tcm_range_table ranges;
};

extern struct tcm_page_heap tcm_page_heap;

void tcm_page_heap_init(void);

/*
 * A run of PAGES whose start is a multiple of ALIGN_PAGES (a power of two), in
 * STATE (SMALL or LARGE), with a record of BIT_WORDS words. *ZEROED, if asked:
 * all bytes are 0. The page map knows first and last page. NULL: out of memory.
 */
struct tcm_span *tcm_page_heap_alloc(size_t pages, size_t align_pages,
                                     enum tcm_span_state state,
                                     unsigned bit_words, bool *zeroed);
/* Takes back a SMALL or LARGE span; its entries in the page map are 0 and a
   SMALL one's inner pages are cleared. */
void tcm_page_heap_free(struct tcm_span *span);
/* Makes a LARGE span PAGES long where it is. */
bool tcm_page_heap_resize(struct tcm_span *span, size_t pages);
/* Gives at least PAGES free pages back to the system, if there are so many;
   returns how many. */
size_t tcm_page_heap_release(size_t pages);

/* Both locks, around fork. */
void tcm_page_heap_lock_all(void);
void tcm_page_heap_unlock_all(void);
/* In the child of fork, with the locks held. */
void tcm_page_heap_fork_child(void);

/* The span of any state that covers ADDRESS, or NULL; slow. */
struct tcm_span *tcm_page_heap_find(const void *address);

#endif
