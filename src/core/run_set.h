/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page heap's shards, and their free runs: their sets, their ends in the
 * page map, merging and carving. No policy: the callers choose the run.
 *
 * Invariants: a FREE or RELEASED run is in the set of its state, in the tree of
 * its length, counted in its shard's pages of that state, and at its ends in
 * the page map; or, during a change, in none of them. A run and the runs that
 * it can merge with lie in one range, so in one shard.
 *
 * Threads: the lock of the run's shard is held.
 */
#ifndef TCM_CORE_RUN_SET_H
#define TCM_CORE_RUN_SET_H

#include "base/backoff.h"
#include "base/lock.h"
#include "core/address_range.h"
#include "core/core_stats.h"
#include "core/meta_alloc.h"
#include "core/span.h"

/* --- Records of spans ----------------------------------------------------- */

/* Pools of span records, one for each size; a shard has its own. */
#define TCM_SPAN_SIZES 3
struct tcm_span_pools {
    struct tcm_pool pool[TCM_SPAN_SIZES];
};
#define TCM_SPAN_POOLS_INIT                                                    \
    {                                                                          \
        {                                                                      \
            TCM_POOL_INIT_URGENT((size_t)TCM_CACHE_LINE),                      \
                TCM_POOL_INIT_URGENT(2 * (size_t)TCM_CACHE_LINE),              \
                TCM_POOL_INIT_URGENT(3 * (size_t)TCM_CACHE_LINE)               \
        }                                                                      \
    }

/* A record with BIT_WORDS words of free_bits, zeroed, in state NONE. NULL: out
   of memory. For both functions the lock of the shard that has POOLS is held.
 */
struct tcm_span *tcm_span_new(struct tcm_span_pools *pools, unsigned bit_words);
/* Returns a record, in no set, for the pages of RUN from START up to END, in
   RUN's state; RUN stays as it is. NULL: out of memory. */
struct tcm_span *tcm_run_piece(const struct tcm_span *run, uintptr_t start,
                               uintptr_t end);
/* Frees the record SPAN, which POOLS made. */
void tcm_span_delete(struct tcm_span_pools *pools, struct tcm_span *span);

/* --- Trees of runs -------------------------------------------------------- */

/*
 * An ordered set of free runs: by number of pages, then by range, then by
 * address. A treap whose priorities are a hash of the position, so that its
 * shape is a function of the set alone.
 */
struct tcm_run_tree {
    struct tcm_span *root;
};

/* Adds RUN, which begins PAGE pages into its range. */
void tcm_run_tree_insert(struct tcm_run_tree *tree, struct tcm_span *run,
                         size_t page);
void tcm_run_tree_remove(struct tcm_run_tree *tree, struct tcm_span *run);
/* The shortest run of at least PAGES, the lowest of several. NULL: none. */
struct tcm_span *tcm_run_tree_fit(const struct tcm_run_tree *tree,
                                  size_t pages);
/* The last run before BOUND in the order; the last of all if BOUND is NULL. */
struct tcm_span *tcm_run_tree_before(const struct tcm_run_tree *tree,
                                     const struct tcm_span *bound);
/* The first run that is after BOUND, which need not be in the tree. */
struct tcm_span *tcm_run_tree_after(const struct tcm_run_tree *tree,
                                    const struct tcm_span *bound);
bool tcm_run_tree_holds(const struct tcm_run_tree *tree,
                        const struct tcm_span *run);

/* True if the whole tree is in order. */
bool tcm_run_tree_is_valid(const struct tcm_run_tree *tree);

/* True if A is before B in the order. */
bool tcm_run_before(const struct tcm_span *a, const struct tcm_span *b);

/* --- Shards and their runs ------------------------------------------------ */

/* Runs of fewer pages than this have a tree for each length. */
#define TCM_SHORT_PAGES 128

/* RELEASED runs of fewer pages than this join a neighbour that is freed: they
   would only keep it from merging with the next FREE one. */
#define TCM_RUN_SLIVER 8

/* All free runs of one state: [pages] for short ones, [0] for all others. */
struct tcm_run_set {
    struct tcm_run_tree tree[TCM_SHORT_PAGES];
    uint64_t nonempty[TCM_SHORT_PAGES / 64]; /* a bit per tree */
};

/* Most pages of a SPARE span. */
#define TCM_SPARE_LENGTH 3

/* A shard of the page heap. */
struct tcm_page_heap {
    struct tcm_lock lock;
    uint32_t shard; /* its number */
    struct tcm_run_set free;
    struct tcm_run_set released;
    struct tcm_span_pools records;
    /* SPARE spans by length and size of record, linked by left, the one that
       came last first. */
    struct tcm_span *spare[TCM_SPARE_LENGTH][TCM_SPAN_SIZES];
    uint64_t spare_pages;     /* in them all */
    uint64_t committed_pages; /* in all its ranges */
    uint64_t free_pages;      /* FREE ones among these; the next likewise */
    uint64_t released_pages;
    uint64_t busy_pages;
    uint64_t large_pages;
    uint64_t large_blocks;
    struct tcm_dlist busy; /* BUSY runs */
    /* For returning pages (page_system.c): */
    uint64_t window;         /* its number */
    uint64_t window_freed;   /* pages freed since the window began */
    uint64_t window_used;    /* pages in use at its beginning */
    uint64_t idle_pages;     /* fewest FREE pages since then */
    uint64_t returned_pages; /* returned, and not taken again */
    uint64_t retaken_pages;  /* taken again; halved at the end of a window */
    size_t system_page;      /* bytes; the system takes whole ones back */
    uint64_t limit_pages;    /* 0: none */
    uint32_t release_rate_milli;
    bool release_at_once;
    uint64_t spans_made; /* this and the next two: read without the lock */
    uint64_t spans_freed;
    uint64_t taken_bytes; /* in RELEASED pages that came into use */
    struct tcm_backoff borrows;
    uint32_t refused;   /* requests of other shards' threads that got no pages,
                           since one of its own; changed without the lock */
    uint64_t seen_uses; /* spans made and freed, see tcm_page_scavenge_asleep */
} TCM_ALIGNED(TCM_CACHE_LINE);

/* Shard 0, which all programs have. */
extern struct tcm_page_heap tcm_page_heap;

#define TCM_PAGE_SHARDS 64
/* The shards that are open, from the first on; never closed. Changed with the
   growth lock held: a shard is complete before the count includes it. */
extern struct tcm_page_heap *tcm_page_shard[TCM_PAGE_SHARDS];
extern uint32_t tcm_page_shards;

/* Held by the thread that makes the heap grow, before the lock of a shard. */
extern struct tcm_growth {
    struct tcm_lock lock;
} TCM_ALIGNED(TCM_CACHE_LINE) tcm_growth;

/* Pages with memory behind them: for a shard whose lock is not held, a hint. */
static inline uint64_t tcm_page_used(const struct tcm_page_heap *heap) {
    uint64_t committed = tcm_load_relaxed(&heap->committed_pages);
    uint64_t released = tcm_load_relaxed(&heap->released_pages);
    return committed > released ? committed - released : 0;
}

/* Counts BYTES of RELEASED pages of HEAP that come into use. */
static inline void tcm_page_taken(struct tcm_page_heap *heap, uint64_t bytes) {
    tcm_add_owned(&heap->taken_bytes, bytes);
    tcm_page_event(&tcm_page_stats.commit_count, 1);
}

static inline size_t tcm_run_tree_index(size_t pages) {
    return pages < TCM_SHORT_PAGES ? pages : 0;
}

/* Range of SPAN. For the owner of SPAN or of a block in it, or with the lock of
   its shard held. */
static inline struct tcm_range *tcm_span_range(const struct tcm_span *span) {
    TCM_ASSERT(span->range < tcm_load_relaxed(&tcm_ranges.count));
    return &tcm_ranges.range[span->range];
}

/* Shard of SPAN, for the same callers as tcm_span_range. */
static inline struct tcm_page_heap *
tcm_page_shard_of(const struct tcm_span *span) {
    return tcm_page_shard[tcm_span_range(span)->shard];
}

/* Stores VALUE in the page map for the first and the last page of SPAN. */
void tcm_run_map_ends(const struct tcm_span *span, struct tcm_span *value);

/* The span that begins where SPAN ends, or NULL at the end of the committed
   part of the range. */
struct tcm_span *tcm_run_after(const struct tcm_span *span);

/* The span that ends where SPAN begins, or NULL at the start of the range. */
struct tcm_span *tcm_run_preceding(const struct tcm_span *span);

/* True if SPAN, a neighbour or NULL (false), is FREE or RELEASED. */
bool tcm_run_is_free(const struct tcm_span *span);

/* Adds RUN, FREE or RELEASED, to set, counts and map. Its neighbours have other
   states. */
void tcm_run_insert(struct tcm_span *run);
/* Removes RUN from set, counts and map. */
void tcm_run_remove(struct tcm_span *run);
/* Sets the state of RUN, which is in no set, joins it with neighbours of that
   state (a FREE one also with RELEASED slivers) and inserts the result. */
void tcm_run_insert_merged(struct tcm_span *run, enum tcm_span_state state);

/* The shortest run of at least PAGES, the lowest of several. NULL: none. */
struct tcm_span *tcm_run_set_fit(const struct tcm_run_set *set, size_t pages);
/* A short and low run that has PAGES from a multiple of ALIGN pages on;
   *OFFSET: pages of the run before that. NULL: none was found. */
struct tcm_span *tcm_run_set_fit_aligned(const struct tcm_run_set *set,
                                         size_t pages, size_t align,
                                         size_t *offset);
/* Pages from the start of RUN to the first multiple of ALIGN pages. */
size_t tcm_run_offset(const struct tcm_span *run, size_t align);
/* The last run before BOUND in the order of tcm_run_before; the last of all if
   BOUND is NULL. NULL: none. */
struct tcm_span *tcm_run_set_before(const struct tcm_run_set *set,
                                    const struct tcm_span *bound);

/* Makes a FREE run of PAGES or more in HEAP of a chain of FREE and RELEASED
   neighbours around one of the longest FREE runs: the RELEASED parts that are
   needed become FREE. NULL: no chain is long enough. */
struct tcm_span *tcm_run_join_somewhere(const struct tcm_page_heap *heap,
                                        size_t pages);
/* Joins the chain at the end of range INDEX to a FREE run of PAGES. NULL: the
   chain has no FREE run, or is too short. */
struct tcm_span *tcm_run_join_at_end(uint32_t index, size_t pages);
/* Free pages of either kind at the end of RANGE. */
size_t tcm_run_pages_at_end(const struct tcm_range *range);

/*
 * Makes PAGES pages, OFFSET pages into RUN, which is in its set, a span of
 * STATE with a record of BIT_WORDS; the parts of RUN on either side stay free.
 * NULL, with nothing changed: no memory for a record.
 */
struct tcm_span *tcm_run_carve(struct tcm_span *run, size_t offset,
                               size_t pages, enum tcm_span_state state,
                               unsigned bit_words);

/* --- Spare spans ---------------------------------------------------------- */

/*
 * SPARE spans are empty spans of central lists, kept in one piece for the next
 * class that wants pages and a record of their size. Otherwise each would be
 * merged with its neighbours and soon be cut out again, for five times the
 * instructions. A shard keeps few (SPARE_PAGES), and merges them before a
 * request has to be served by memory that is not resident.
 */
/* Takes a SPARE span of PAGES pages with a record for BIT_WORDS words, the one
   that came last, and makes it MOVING. NULL: there is none. */
struct tcm_span *tcm_spare_take(struct tcm_page_heap *heap, size_t pages,
                                unsigned bit_words);
/* Makes SPAN, MOVING, a spare. false: it is long, there are enough, or free
   pages must go back to the system at once. */
bool tcm_spare_keep(struct tcm_page_heap *heap, struct tcm_span *span);
/* Makes all SPARE spans of HEAP FREE. */
void tcm_spare_merge(struct tcm_page_heap *heap);

#endif
