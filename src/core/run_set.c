/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/run_set.h"
#include "base/bits.h"
#include "base/check.h"
#include "core/core_stats.h"
#include "core/page_map.h"

/* Counters that all threads write to, on lines of their own. */
struct tcm_stats tcm_stats TCM_ALIGNED(TCM_CACHE_LINE);
struct tcm_page_stats tcm_page_stats TCM_ALIGNED(TCM_CACHE_LINE);
uint32_t tcm_cache_count TCM_ALIGNED(TCM_CACHE_LINE);

#define ALIGN_TRIES 4u
#define CHAIN_TRIES 32u

struct tcm_page_heap tcm_page_heap = {
    .lock = TCM_LOCK_INIT(TCM_RANK_PAGE_HEAP),
    .records = TCM_SPAN_POOLS_INIT,
    .busy = {&tcm_page_heap.busy, &tcm_page_heap.busy},
    .release_rate_milli = 1000,
};
struct tcm_page_heap *tcm_page_shard[TCM_PAGE_SHARDS] = {&tcm_page_heap};
uint32_t tcm_page_shards = 1;
struct tcm_growth tcm_growth = {TCM_LOCK_INIT(TCM_RANK_GROWTH)};

/* --- Records of spans ----------------------------------------------------- */

/* Records of each size in cache lines have a pool, so that no two records share
   a line: they are changed under different locks. */
#define LINE_BYTES      ((size_t)TCM_CACHE_LINE)
#define MAX_WORDS       (TCM_MAX_OBJECTS / 64)
#define RECORD_BYTES(w) (offsetof(struct tcm_span, free_bits) + 8 * (size_t)(w))

TCM_STATIC_ASSERT(RECORD_BYTES(1) <= LINE_BYTES,
                  "a free run's record is one line");
TCM_STATIC_ASSERT(RECORD_BYTES(MAX_WORDS) <= TCM_SPAN_SIZES * LINE_BYTES,
                  "enough pools");

/* Number of the pool of records with BIT_WORDS words of free_bits. */
static unsigned pool_number(unsigned bit_words) {
    TCM_ASSERT(bit_words != 0 && bit_words <= MAX_WORDS);
    return (unsigned)((RECORD_BYTES(bit_words) - 1) / LINE_BYTES);
}

static struct tcm_pool *pool_of(struct tcm_span_pools *pools,
                                unsigned bit_words) {
    return &pools->pool[pool_number(bit_words)];
}

/* Several fields as one. */
typedef uint64_t __attribute__((may_alias)) word_of_bytes;

struct tcm_span *tcm_span_new(struct tcm_span_pools *pools,
                              unsigned bit_words) {
    struct tcm_span *span = tcm_pool_get(pool_of(pools, bit_words));
    if (span == NULL)
        return NULL;
    /* tcm_central_lock_span may read state, class and home of a record without
       the lock of the page heap. */
    size_t shared = offsetof(struct tcm_span, range);
    size_t rest = offsetof(struct tcm_span, free_bits);
    TCM_STATIC_ASSERT(offsetof(struct tcm_span, range) % 8 == 0 &&
                          offsetof(struct tcm_span, state) ==
                              offsetof(struct tcm_span, range) + 4 &&
                          offsetof(struct tcm_span, free_bits) ==
                              offsetof(struct tcm_span, range) + 16,
                      "what is read lies in two words");
    __builtin_memset(span, 0, shared);
    word_of_bytes *word = (word_of_bytes *)((char *)span + shared);
    tcm_store_relaxed(&word[0], (uint64_t)TCM_SPAN_NONE);
    tcm_store_relaxed(&word[1], (uint64_t)0);
    __builtin_memset(span->free_bits, 0, RECORD_BYTES(bit_words) - rest);
    span->bit_words = (uint8_t)bit_words;
    return span;
}

struct tcm_span *tcm_run_piece(const struct tcm_span *run, uintptr_t start,
                               uintptr_t end) {
    TCM_ASSERT(start >= run->start && start < end && end <= tcm_span_end(run));
    struct tcm_span *piece = tcm_span_new(&tcm_page_shard_of(run)->records, 1);
    if (piece == NULL)
        return NULL;
    piece->range = run->range;
    piece->start = start;
    piece->pages = (end - start) >> TCM_PAGE_SHIFT;
    tcm_store_relaxed(&piece->state, run->state);
    return piece;
}

void tcm_span_delete(struct tcm_span_pools *pools, struct tcm_span *span) {
    struct tcm_pool *pool = pool_of(pools, span->bit_words);
    tcm_store_relaxed(&span->state, (uint8_t)TCM_SPAN_NONE);
    span->pages = 0;
    tcm_pool_put(pool, span);
}

/* --- Trees of runs -------------------------------------------------------- */

bool tcm_run_before(const struct tcm_span *a, const struct tcm_span *b) {
    TCM_ASSERT(a->pages != 0 && b->pages != 0);
    if (a->pages != b->pages)
        return a->pages < b->pages;
    if (a->range != b->range)
        return a->range < b->range;
    return a->start < b->start;
}

/* Equal priorities are harmless: they only cost balance. */
static uint32_t priority_of(const struct tcm_span *run, size_t page) {
    uint64_t x = page + ((uint64_t)(run->range + 1) << 40);
    return (uint32_t)((x * 0x9E3779B97F4A7C15u) >> 32);
}

/* True if RUN's children are on their sides of it, and not of higher priority.
 */
static bool node_is_valid(const struct tcm_span *run) {
    const struct tcm_span *left = run->left;
    const struct tcm_span *right = run->right;
    return (left == NULL ||
            (tcm_run_before(left, run) && left->priority <= run->priority)) &&
           (right == NULL ||
            (tcm_run_before(run, right) && right->priority <= run->priority));
}

void tcm_run_tree_insert(struct tcm_run_tree *tree, struct tcm_span *run,
                         size_t page) {
    TCM_ASSERT(!tcm_run_tree_holds(tree, run));
    uint32_t priority = priority_of(run, page);
    run->priority = priority;
    struct tcm_span **place = &tree->root;
    while (*place != NULL && (*place)->priority >= priority)
        place =
            tcm_run_before(run, *place) ? &(*place)->left : &(*place)->right;
    /* The subtree found here is split around the new node. */
    struct tcm_span *rest = *place;
    struct tcm_span **left = &run->left;
    struct tcm_span **right = &run->right;
    *place = run;
    while (rest != NULL) {
        if (tcm_run_before(run, rest)) {
            *right = rest;
            right = &rest->left;
            rest = rest->left;
        } else {
            *left = rest;
            left = &rest->right;
            rest = rest->right;
        }
    }
    *left = NULL;
    *right = NULL;
    TCM_ASSERT(node_is_valid(run) && tcm_run_tree_holds(tree, run));
}

void tcm_run_tree_remove(struct tcm_run_tree *tree, struct tcm_span *run) {
    struct tcm_span **place = &tree->root;
    while (*place != run) {
        TCM_CHECK(*place != NULL);
        place =
            tcm_run_before(run, *place) ? &(*place)->left : &(*place)->right;
    }
    TCM_ASSERT(node_is_valid(run));
    struct tcm_span *left = run->left;
    struct tcm_span *right = run->right;
    while (left != NULL && right != NULL) {
        if (left->priority >= right->priority) {
            *place = left;
            place = &left->right;
            left = left->right;
        } else {
            *place = right;
            place = &right->left;
            right = right->left;
        }
    }
    *place = left != NULL ? left : right;
    TCM_ASSERT(!tcm_run_tree_holds(tree, run));
}

struct tcm_span *tcm_run_tree_fit(const struct tcm_run_tree *tree,
                                  size_t pages) {
    struct tcm_span *best = NULL;
    for (struct tcm_span *run = tree->root; run != NULL;) {
        if (run->pages >= pages) {
            best = run;
            run = run->left;
        } else {
            run = run->right;
        }
    }
    TCM_ASSERT(best == NULL || best->pages >= pages);
    return best;
}

struct tcm_span *tcm_run_tree_before(const struct tcm_run_tree *tree,
                                     const struct tcm_span *bound) {
    struct tcm_span *best = NULL;
    for (struct tcm_span *run = tree->root; run != NULL;) {
        if (bound == NULL || tcm_run_before(run, bound)) {
            best = run;
            run = run->right;
        } else {
            run = run->left;
        }
    }
    return best;
}

struct tcm_span *tcm_run_tree_after(const struct tcm_run_tree *tree,
                                    const struct tcm_span *bound) {
    struct tcm_span *best = NULL;
    for (struct tcm_span *run = tree->root; run != NULL;) {
        if (tcm_run_before(bound, run)) {
            best = run;
            run = run->left;
        } else {
            run = run->right;
        }
    }
    return best;
}

bool tcm_run_tree_holds(const struct tcm_run_tree *tree,
                        const struct tcm_span *run) {
    struct tcm_span *at = tree->root;
    while (at != NULL && at != run)
        at = tcm_run_before(run, at) ? at->left : at->right;
    return at == run;
}

/* Walks the subtree of RUN, all of whose runs must be after AFTER (NULL: no
   bound). Returns its last run. Clears *VALID if the runs are not in order. */
static const struct tcm_span *tree_walk(const struct tcm_span *run,
                                        const struct tcm_span *after,
                                        bool *valid) {
    if (run == NULL)
        return after;
    after = tree_walk(run->left, after, valid);
    *valid &=
        node_is_valid(run) && (after == NULL || tcm_run_before(after, run));
    return tree_walk(run->right, run, valid);
}

bool tcm_run_tree_is_valid(const struct tcm_run_tree *tree) {
    bool valid = true;
    (void)tree_walk(tree->root, NULL, &valid);
    return valid;
}

/* --- Runs in sets and in the page map ------------------------------------- */

#define assert_held(span) tcm_lock_assert_held(&tcm_page_shard_of(span)->lock)

void tcm_run_map_ends(const struct tcm_span *span, struct tcm_span *value) {
    assert_held(span);
    TCM_ASSERT(span->pages != 0 && (value == NULL || value == span));
    tcm_page_map_set_span(span->start, value);
    tcm_page_map_set_span(tcm_span_end(span) - TCM_PAGE_SIZE, value);
}

static struct tcm_run_set *set_of(struct tcm_page_heap *heap, unsigned state) {
    TCM_ASSERT(state == TCM_SPAN_FREE || state == TCM_SPAN_RELEASED);
    return state == TCM_SPAN_FREE ? &heap->free : &heap->released;
}

static uint64_t *pages_of(struct tcm_page_heap *heap, unsigned state) {
    TCM_ASSERT(state == TCM_SPAN_FREE || state == TCM_SPAN_RELEASED);
    return state == TCM_SPAN_FREE ? &heap->free_pages : &heap->released_pages;
}

/* True if SPAN is in its range's committed part. */
static bool is_committed(const struct tcm_span *span) {
    const struct tcm_range *range = tcm_span_range(span);
    return span->start >= range->start &&
           tcm_span_end(span) <= tcm_range_frontier(range);
}

/* True if the bit of tree I tells whether the tree has runs. */
static bool bit_is_valid(const struct tcm_run_set *set, size_t i) {
    return (set->nonempty[i / 64] >> (i % 64) & 1) ==
           (set->tree[i].root != NULL);
}

/* True if NEIGHBOUR, which may be NULL, does not merge with RUN. */
static bool is_apart(const struct tcm_span *run,
                     const struct tcm_span *neighbour) {
    return neighbour == NULL ||
           tcm_load_relaxed(&neighbour->state) != run->state;
}

void tcm_run_insert(struct tcm_span *run) {
    struct tcm_page_heap *heap = tcm_page_shard_of(run);
    tcm_lock_assert_held(&heap->lock);
    TCM_ASSERT(tcm_span_is_valid(run) && is_committed(run));
    TCM_ASSERT(is_apart(run, tcm_run_after(run)));
    TCM_ASSERT(is_apart(run, tcm_run_preceding(run)));
    size_t i = tcm_run_tree_index(run->pages);
    struct tcm_run_set *set = set_of(heap, run->state);
    uintptr_t offset = run->start - tcm_span_range(run)->start;
    tcm_run_tree_insert(&set->tree[i], run, offset >> TCM_PAGE_SHIFT);
    set->nonempty[i / 64] |= (uint64_t)1 << (i % 64);
    tcm_add_owned(pages_of(heap, run->state), run->pages);
    run->window = heap->window;
    tcm_run_map_ends(run, run);
    TCM_ASSERT(bit_is_valid(set, i));
    TCM_ASSERT(heap->free_pages + heap->released_pages + heap->large_pages <=
               heap->committed_pages);
}

void tcm_run_remove(struct tcm_span *run) {
    struct tcm_page_heap *heap = tcm_page_shard_of(run);
    tcm_lock_assert_held(&heap->lock);
    TCM_ASSERT(tcm_span_is_valid(run) && is_committed(run));
    TCM_ASSERT(tcm_page_map_holds(run->start, tcm_span_end(run), run));
    TCM_ASSERT(*pages_of(heap, run->state) >= run->pages);
    size_t i = tcm_run_tree_index(run->pages);
    struct tcm_run_set *set = set_of(heap, run->state);
    tcm_run_tree_remove(&set->tree[i], run);
    if (set->tree[i].root == NULL)
        set->nonempty[i / 64] &= ~((uint64_t)1 << (i % 64));
    tcm_add_owned(pages_of(heap, run->state), -(uint64_t)run->pages);
    tcm_run_map_ends(run, NULL);
    TCM_ASSERT(bit_is_valid(set, i));
}

struct tcm_span *tcm_run_after(const struct tcm_span *span) {
    uintptr_t end = tcm_span_end(span);
    assert_held(span);
    if (end == tcm_range_frontier(tcm_span_range(span)))
        return NULL;
    return tcm_page_span((void *)end);
}

struct tcm_span *tcm_run_preceding(const struct tcm_span *span) {
    assert_held(span);
    if (span->start == tcm_span_range(span)->start)
        return NULL;
    return tcm_page_span((void *)(span->start - 1));
}

/* True if RUN, which may be NULL, becomes part of a neighbour of STATE. */
static bool joins_neighbour(const struct tcm_span *run, unsigned state) {
    if (run == NULL)
        return false;
    /* A span that is in use changes its state without the page heap lock, but
       not to a free one. */
    unsigned its_state = tcm_load_relaxed(&run->state);
    return its_state == state ||
           (state == TCM_SPAN_FREE && its_state == TCM_SPAN_RELEASED &&
            run->pages < TCM_RUN_SLIVER);
}

/* Removes RUN from its set, as it becomes part of a neighbour of STATE. */
static void remove_for_merge(struct tcm_span *run, unsigned state) {
    tcm_run_remove(run);
    if (run->state != state)
        tcm_page_taken(tcm_page_shard_of(run), tcm_span_bytes(run));
}

void tcm_run_insert_merged(struct tcm_span *run, enum tcm_span_state state) {
    struct tcm_span_pools *records = &tcm_page_shard_of(run)->records;
    tcm_run_map_ends(run, NULL);
    /* joins_neighbour and copy_bits (heap_memory.c) read it without this
       lock. */
    tcm_store_relaxed(&run->state, (uint8_t)state);
    struct tcm_span *before = tcm_run_preceding(run);
    while (joins_neighbour(before, state)) {
        TCM_ASSERT(before->range == run->range);
        TCM_ASSERT(tcm_span_end(before) == run->start);
        remove_for_merge(before, state);
        run->start = before->start;
        run->pages += before->pages;
        tcm_span_delete(records, before);
        before = tcm_run_preceding(run);
    }
    struct tcm_span *after = tcm_run_after(run);
    while (joins_neighbour(after, state)) {
        TCM_ASSERT(after->range == run->range);
        TCM_ASSERT(after->start == tcm_span_end(run));
        remove_for_merge(after, state);
        run->pages += after->pages;
        tcm_span_delete(records, after);
        after = tcm_run_after(run);
    }
    tcm_run_insert(run);
}

struct tcm_span *tcm_run_set_fit(const struct tcm_run_set *set, size_t pages) {
    if (pages < TCM_SHORT_PAGES) {
        for (size_t w = pages / 64; w < TCM_SHORT_PAGES / 64; w++) {
            uint64_t bits = set->nonempty[w];
            if (w == pages / 64)
                bits &= ~(uint64_t)0 << (pages % 64);
            if (w == 0)
                bits &= ~(uint64_t)1;
            if (bits == 0)
                continue;
            size_t i = w * 64 + (size_t)__builtin_ctzll(bits);
            TCM_ASSERT(i >= pages && bit_is_valid(set, i));
            return tcm_run_tree_fit(&set->tree[i], pages);
        }
    }
    return tcm_run_tree_fit(&set->tree[0], pages);
}

struct tcm_span *tcm_run_set_before(const struct tcm_run_set *set,
                                    const struct tcm_span *bound) {
    struct tcm_span *run = tcm_run_tree_before(&set->tree[0], bound);
    size_t i = TCM_SHORT_PAGES - 1;
    if (bound != NULL && bound->pages < i)
        i = bound->pages;
    for (; run == NULL && i != 0; i--)
        run = tcm_run_tree_before(&set->tree[i], bound);
    return run;
}

/* The next longer run of SET after RUN. NULL: none. */
static struct tcm_span *next_longer(const struct tcm_run_set *set,
                                    const struct tcm_span *run) {
    size_t i = tcm_run_tree_index(run->pages);
    struct tcm_span *next = tcm_run_tree_after(&set->tree[i], run);
    if (next != NULL || i == 0)
        return next;
    return tcm_run_set_fit(set, i + 1);
}

size_t tcm_run_offset(const struct tcm_span *run, size_t align) {
    TCM_ASSERT(tcm_is_pow2(align));
    uintptr_t first = tcm_align_up(run->start, align << TCM_PAGE_SHIFT);
    return (first - run->start) >> TCM_PAGE_SHIFT;
}

/* Usually one of the first few runs is aligned or long enough; otherwise a run
   is taken that is long enough wherever it starts. */
struct tcm_span *tcm_run_set_fit_aligned(const struct tcm_run_set *set,
                                         size_t pages, size_t align,
                                         size_t *offset) {
    struct tcm_span *run = tcm_run_set_fit(set, pages);
    *offset = 0;
    if (align == 1)
        return run;
    for (unsigned tries = 0; run != NULL && tries < ALIGN_TRIES; tries++) {
        *offset = tcm_run_offset(run, align);
        if (*offset + pages <= run->pages)
            return run;
        run = next_longer(set, run);
    }
    run = tcm_run_set_fit(set, pages + align - 1);
    if (run != NULL)
        *offset = tcm_run_offset(run, align);
    TCM_ASSERT(run == NULL || *offset + pages <= run->pages);
    return run;
}

struct tcm_span *tcm_run_carve(struct tcm_span *run, size_t offset,
                               size_t pages, enum tcm_span_state state,
                               unsigned bit_words) {
    struct tcm_span_pools *records = &tcm_page_shard_of(run)->records;
    assert_held(run);
    TCM_ASSERT(pages != 0 && offset <= run->pages);
    TCM_ASSERT(pages <= run->pages - offset);
    size_t rest = run->pages - offset - pages;
    struct tcm_span *span = tcm_span_new(records, bit_words);
    struct tcm_span *tail = NULL;
    if (span == NULL)
        return NULL;
    if (offset != 0 && rest != 0) {
        tail = tcm_run_piece(run, tcm_span_end(run) - (rest << TCM_PAGE_SHIFT),
                             tcm_span_end(run));
        if (tail == NULL) {
            tcm_span_delete(records, span);
            return NULL;
        }
    }
    tcm_run_remove(run);
    span->range = run->range;
    span->start = run->start + (offset << TCM_PAGE_SHIFT);
    span->pages = pages;
    tcm_store_relaxed(&span->state, (uint8_t)state);
    if (tail != NULL)
        tcm_run_insert(tail);
    if (offset != 0) {
        run->pages = offset;
        tcm_run_insert(run);
    } else if (rest != 0) {
        run->start = tcm_span_end(span);
        run->pages = rest;
        tcm_run_insert(run);
    } else {
        tcm_span_delete(records, run);
    }
    tcm_run_map_ends(span, span);
    TCM_ASSERT(tcm_span_is_valid(span) && is_committed(span));
    return span;
}

/* --- Chains of FREE and RELEASED neighbours ------------------------------- */

bool tcm_run_is_free(const struct tcm_span *span) {
    if (span == NULL)
        return false;
    /* A span that is in use may change its state now, but not to a free one. */
    unsigned state = tcm_load_relaxed(&span->state);
    return state == TCM_SPAN_FREE || state == TCM_SPAN_RELEASED;
}

size_t tcm_run_pages_at_end(const struct tcm_range *range) {
    size_t pages = 0;
    tcm_lock_assert_held(&tcm_page_shard[range->shard]->lock);
    if (range->committed == 0)
        return 0;
    const struct tcm_span *span =
        tcm_page_span((void *)(tcm_range_frontier(range) - 1));
    for (; tcm_run_is_free(span); span = tcm_run_preceding(span))
        pages += span->pages;
    return pages;
}

/* Joins up to PAGES of PART, a RELEASED neighbour, to the FREE run RUN. Returns
   the joined run. */
static struct tcm_span *absorb_part(struct tcm_span *run, struct tcm_span *part,
                                    size_t pages) {
    TCM_ASSERT(run->state == TCM_SPAN_FREE);
    TCM_ASSERT(part->state == TCM_SPAN_RELEASED && pages != 0);
    TCM_ASSERT(tcm_span_end(run) == part->start ||
               tcm_span_end(part) == run->start);
    struct tcm_span *rest = NULL;
    bool above = part->start > run->start;
    size_t bytes = pages << TCM_PAGE_SHIFT;
    /* Without a record all of PART is taken. */
    if (part->pages > pages)
        rest =
            above
                ? tcm_run_piece(part, part->start + bytes, tcm_span_end(part))
                : tcm_run_piece(part, part->start, tcm_span_end(part) - bytes);
    tcm_run_remove(part);
    if (rest != NULL) {
        if (!above)
            part->start = tcm_span_end(rest);
        part->pages = pages;
        tcm_run_insert(rest);
    }
    tcm_page_taken(tcm_page_shard_of(part), tcm_span_bytes(part));
    tcm_run_insert_merged(part, TCM_SPAN_FREE);
    return part;
}

/* Joins the FREE run RUN with its neighbours to a run of PAGES. NULL: the
   neighbours are too short. */
static struct tcm_span *join_around(struct tcm_span *run, size_t pages) {
    TCM_ASSERT(run->state == TCM_SPAN_FREE);
    size_t total = run->pages;
    const struct tcm_span *at = tcm_run_after(run);
    for (; tcm_run_is_free(at) && total < pages; at = tcm_run_after(at))
        total += at->pages;
    at = tcm_run_preceding(run);
    for (; tcm_run_is_free(at) && total < pages; at = tcm_run_preceding(at))
        total += at->pages;
    if (total < pages)
        return NULL;
    while (run->pages < pages) {
        struct tcm_span *part = tcm_run_after(run);
        if (!tcm_run_is_free(part))
            part = tcm_run_preceding(run);
        run = absorb_part(run, part, pages - run->pages);
    }
    TCM_ASSERT(run->state == TCM_SPAN_FREE && tcm_span_is_valid(run));
    return run;
}

struct tcm_span *tcm_run_join_somewhere(const struct tcm_page_heap *heap,
                                        size_t pages) {
    const struct tcm_span *bound = NULL;
    for (unsigned tries = 0; tries < CHAIN_TRIES; tries++) {
        struct tcm_span *run = tcm_run_set_before(&heap->free, bound);
        if (run == NULL)
            return NULL;
        struct tcm_span *joined = join_around(run, pages);
        if (joined != NULL)
            return joined;
        bound = run;
    }
    return NULL;
}

struct tcm_span *tcm_run_join_at_end(uint32_t index, size_t pages) {
    const struct tcm_range *range = &tcm_ranges.range[index];
    struct tcm_span *run =
        tcm_page_span((void *)(tcm_range_frontier(range) - 1));
    /* It may be a span of a central list, which changes its state meanwhile. */
    if (run != NULL && tcm_load_relaxed(&run->state) == TCM_SPAN_RELEASED)
        run = tcm_run_preceding(run);
    if (run == NULL || tcm_load_relaxed(&run->state) != TCM_SPAN_FREE)
        return NULL;
    return join_around(run, pages);
}

/* --- Spare spans ---------------------------------------------------------- */

/* Bound on a shard's SPARE pages. */
#define SPARE_PAGES 256u

static struct tcm_span **spares_of(struct tcm_page_heap *heap, size_t pages,
                                   unsigned bit_words) {
    tcm_lock_assert_held(&heap->lock);
    TCM_ASSERT(pages != 0 && pages <= TCM_SPARE_LENGTH);
    return &heap->spare[pages - 1][pool_number(bit_words)];
}

struct tcm_span *tcm_spare_take(struct tcm_page_heap *heap, size_t pages,
                                unsigned bit_words) {
    if (pages > TCM_SPARE_LENGTH)
        return NULL;
    struct tcm_span **list = spares_of(heap, pages, bit_words);
    struct tcm_span *span = *list;
    if (span == NULL)
        return NULL;
    TCM_ASSERT(span->state == TCM_SPAN_SPARE && span->pages == pages);
    TCM_ASSERT(heap->spare_pages >= pages);
    *list = span->left;
    tcm_add_owned(&heap->spare_pages, -(uint64_t)pages);
    span->bit_words = (uint8_t)bit_words;
    tcm_store_relaxed(&span->state, (uint8_t)TCM_SPAN_MOVING);
    return span;
}

bool tcm_spare_keep(struct tcm_page_heap *heap, struct tcm_span *span) {
    TCM_ASSERT(span->state == TCM_SPAN_MOVING && span->size_class == 0);
    if (span->pages > TCM_SPARE_LENGTH ||
        heap->spare_pages + span->pages > SPARE_PAGES ||
        heap->limit_pages != 0 || heap->release_at_once)
        return false;
    struct tcm_span **list = spares_of(heap, span->pages, span->bit_words);
    /* copy_bits (heap_memory.c) reads it without this lock. */
    tcm_store_relaxed(&span->state, (uint8_t)TCM_SPAN_SPARE);
    span->left = *list;
    *list = span;
    tcm_add_owned(&heap->spare_pages, span->pages);
    return true;
}

void tcm_spare_merge(struct tcm_page_heap *heap) {
    tcm_lock_assert_held(&heap->lock);
    if (heap->spare_pages == 0)
        return;
    for (unsigned i = 0; i < TCM_SPARE_LENGTH * TCM_SPAN_SIZES; i++) {
        struct tcm_span **list =
            &heap->spare[i / TCM_SPAN_SIZES][i % TCM_SPAN_SIZES];
        while (*list != NULL) {
            struct tcm_span *span = *list;
            TCM_ASSERT(span->state == TCM_SPAN_SPARE);
            *list = span->left;
            tcm_add_owned(&heap->spare_pages, -(uint64_t)span->pages);
            tcm_run_insert_merged(span, TCM_SPAN_FREE);
        }
    }
    TCM_ASSERT(heap->spare_pages == 0);
}
