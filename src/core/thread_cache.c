/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy. A bin starts without capacity. Objects freed into a bin that was
 * never refilled come from another thread, which may use their neighbours: the
 * first of them go back to the central list, so that the two threads do not
 * write to the same cache line. A miss fetches a few objects, twice as many
 * each time up to a batch. An overflow raises the bin's capacity, up to two
 * batches always, beyond that only as often as the bin has missed: capacity
 * helps a bin whose length goes up and down, not one that only fills or only
 * drains. A bin that gets no capacity returns its oldest objects, at the low
 * end of the array; the recently used ones on top stay.
 *
 * A bin of which the program takes many times what it can hold, and then frees
 * as much, is a bulk bin: capacity would only keep memory that is cold when the
 * program comes back to the class. It has five batches, moves four at a time,
 * and returns them past the transfer cache, so that their spans become empty
 * and serve other classes while they are in the processor's cache.
 *
 * Capacity is paid from the cache's budget. A cache that needs more budget gets
 * it from the unclaimed part of the total, then from another cache; failing
 * that, idle capacity of its own bins is used. Caches and bins are asked in a
 * fixed cyclic order.
 *
 * Every few slow paths the sweep visits one bin. If the bin was not used since
 * the last visit it returns half of its objects, and the class's transfer cache
 * returns those that it did not need. While the heap takes memory from the
 * system every slow path sweeps, and an idle bin returns all its objects: a few
 * idle objects keep as many spans from becoming empty and being used instead.
 */
#include "core/thread_cache.h"
#include "base/bits.h"
#include "base/check.h"
#include "core/cache_registry.h"
#include "core/central_list.h"
#include "core/page_map.h"
#include "core/core_stats.h"
#include "core/thread_shard.h"
#include "core/transfer_cache.h"

#define SWEEP_WAIT 32u
/* Claims that fail at once after a failed one, and after several in a row. */
#define CLAIM_WAIT    32u
#define CLAIM_LONGEST 1024u
#define IDLE_TRIES    16u  /* bins tried for idle capacity */
#define SHRINK_TRIES  256u /* bins shrunk while over the budget */
#define MAX_CREDIT    16u
#define FREE_BATCHES  2u /* capacity a bin gets without credit */

/* A bin is a bulk bin if more than BULK_SWING times the objects that it can
   hold were taken between two overflows. It has BULK_BATCHES; BULK_MOVES of
   them come and go at once. */
#define BULK_SWING   2u
#define BULK_BATCHES 5u
#define BULK_MOVES   4u

TCM_STATIC_ASSERT(BULK_MOVES < BULK_BATCHES,
                  "a full bulk bin does not become empty");

/* The first fetch takes pairs of cache lines, so that threads do not share
   one. */
#define FETCH_BYTES (2 * TCM_CACHE_LINE)

/* Objects that a bin refuses before its first refill: of classes that share
   cache lines, and of others. */
#define FOREIGN_SHARING 64u
#define FOREIGN_ANY     1u

#define MIN_REGION_LOG 3

TCM_STATIC_ASSERT((1u << MIN_REGION_LOG) * sizeof(void *) >= TCM_CACHE_LINE,
                  "bins of two threads share no line");

#if TCM_OBJECT_WORDS
/* The traced paths do not check that the thread has a cache: it may have
   released the cache while it records. */
static const struct tcm_entry no_entries[2];
#define NO_PLACE ((struct tcm_entry *)(uintptr_t)no_entries + 1)

const struct tcm_thread_cache tcm_no_cache = {
    .bin = {[0 ... TCM_MAX_CLASSES - 1] = {.top = NO_PLACE, .end = NO_PLACE}},
};
#else
const struct tcm_thread_cache tcm_no_cache;
#endif

void tcm_cache_open(struct tcm_thread_cache *cache) {
    TCM_ASSERT(cache != TCM_NO_CACHE);
    tcm_store_seq_cst(&cache->free_pages, TCM_CLASS_MAP_PAGES);
    tcm_store_seq_cst(&cache->alloc_limit, TCM_TABLE_SMALL + 1);
}

void tcm_cache_shut(struct tcm_thread_cache *cache) {
    TCM_ASSERT(cache != TCM_NO_CACHE);
    tcm_store_seq_cst(&cache->alloc_limit, 0);
    tcm_store_seq_cst(&cache->free_pages, 0);
}

static uint32_t bin_count(const struct tcm_thread_cache *cache,
                          unsigned size_class) {
    return (uint32_t)(cache->bin[size_class].top -
                      cache->cold[size_class].base);
}

/* True if the parts of the bin of CLASS agree. For assertions. */
static bool bin_is_valid(const struct tcm_thread_cache *cache,
                         unsigned size_class) {
    const struct tcm_bin *bin = &cache->bin[size_class];
    const struct tcm_bin_cold *cold = &cache->cold[size_class];
    uint64_t bit =
        cache->with_capacity[size_class / 64] >> (size_class % 64) & 1;
    return size_class != 0 && size_class < tcm_class_count &&
           cold->base[-1].ptr == NULL && bin->top >= cold->base &&
           bin->top <= bin->end && bin->end == cold->base + cold->capacity &&
           cold->capacity <= cold->region &&
           cold->capacity <= tcm_class[size_class].max_cached &&
           (cold->region & (cold->region + 1)) == 0 &&
           cold->credit <= MAX_CREDIT && bit == (cold->capacity != 0);
}

/* True if capacity_bytes is the sum over all bins. */
static bool capacity_is_counted(const struct tcm_thread_cache *cache) {
    uint64_t bytes = 0;
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        bytes += (uint64_t)cache->cold[size_class].capacity *
                 tcm_class[size_class].size;
    return bytes == cache->capacity_bytes;
}

/* True if the calling thread can use CACHE. */
static bool is_usable(const struct tcm_thread_cache *cache) {
    return cache != TCM_NO_CACHE && tcm_load_relaxed(&cache->attached) &&
           cache->bin[0].top == cache->bin[0].end;
}

/* ------------------------------------------------------------------------ */
/* Memory of bins                                                           */

/* A guard and the place above it, for bins without memory: such a bin is empty
   and full at once. */
static struct tcm_entry no_region[2] TCM_ALIGNED(TCM_CACHE_LINE);

static void region_free(struct tcm_bin_cold *cold) {
    if (cold->region == 0)
        return;
    TCM_ASSERT(tcm_is_pow2(cold->region + 1) && cold->base != no_region + 1);
    tcm_registry_put_region(tcm_log2_ceil(cold->region + 1), cold->base - 1);
}

/* Makes memory for PLACES entries; entries in the bin stay. false: out of
   memory. */
static bool bin_reserve(struct tcm_thread_cache *cache, unsigned size_class,
                        uint32_t places) {
    TCM_ASSERT(bin_is_valid(cache, size_class));
    TCM_ASSERT(places <= tcm_class[size_class].max_cached);
    struct tcm_bin_cold *cold = &cache->cold[size_class];
    if (places <= cold->region)
        return true;
    unsigned k = tcm_log2_ceil(places + 1);
    if (k < MIN_REGION_LOG)
        k = MIN_REGION_LOG;
    struct tcm_entry *guard = tcm_registry_get_region(k);
    if (guard == NULL)
        return false;
    uint32_t count = bin_count(cache, size_class);
    guard[0] = no_region[0];
    if (count != 0)
        __builtin_memcpy(guard + 1, cold->base, count * sizeof(guard[0]));
    region_free(cold);
    cold->base = guard + 1;
    cold->region = (1u << k) - 1;
    cache->bin[size_class].top = cold->base + count;
    cache->bin[size_class].end = cold->base + cold->capacity;
    TCM_ASSERT(bin_is_valid(cache, size_class) && cold->region >= places);
    return true;
}

/* Moves a bin that has many more places than capacity to a smaller region. */
static void bin_trim(struct tcm_thread_cache *cache, unsigned size_class) {
    struct tcm_bin_cold *cold = &cache->cold[size_class];
    struct tcm_bin *bin = &cache->bin[size_class];
    uint32_t count = bin_count(cache, size_class);
    unsigned k = tcm_log2_ceil(cold->capacity + 1);
    if (k < MIN_REGION_LOG)
        k = MIN_REGION_LOG;
    if (cold->region == 0 ||
        (cold->capacity != 0 && cold->region >> 2 < 1u << k))
        return;
    struct tcm_entry *guard = no_region;
    if (cold->capacity != 0) {
        guard = tcm_registry_get_region(k);
        if (guard == NULL)
            return;
        guard[0] = no_region[0];
        __builtin_memcpy(guard + 1, cold->base, count * sizeof(guard[0]));
    }
    region_free(cold);
    cold->base = guard + 1;
    cold->region = cold->capacity != 0 ? (1u << k) - 1 : 0;
    bin->top = cold->base + count;
    bin->end = cold->base + cold->capacity;
    TCM_ASSERT(bin_is_valid(cache, size_class));
}

static void set_capacity(struct tcm_thread_cache *cache, unsigned size_class,
                         uint32_t capacity) {
    struct tcm_bin_cold *cold = &cache->cold[size_class];
    TCM_ASSERT(capacity <= cold->region);
    TCM_ASSERT(capacity >= bin_count(cache, size_class));
    int64_t change = (int64_t)capacity - cold->capacity;
    uint64_t bit = (uint64_t)1 << (size_class % 64);
    cold->capacity = capacity;
    cache->bin[size_class].end = cold->base + capacity;
    cache->with_capacity[size_class / 64] &= ~bit;
    if (capacity != 0)
        cache->with_capacity[size_class / 64] |= bit;
    tcm_store_relaxed(&cache->capacity_bytes,
                      cache->capacity_bytes +
                          (uint64_t)(change * tcm_class[size_class].size));
    TCM_ASSERT(bin_is_valid(cache, size_class));
}

/* ENTRIES as an array of pointers in builds where entries are pointers; else
   BATCH, between which and ENTRIES the caller copies. */
static TCM_ALWAYS_INLINE void **plain_entries(struct tcm_entry *entries,
                                              void **batch) {
    return tcm_object_words ? batch : &entries->ptr;
}

/* Returns the COUNT oldest objects of a bin. */
static void bin_return(struct tcm_thread_cache *cache, unsigned size_class,
                       uint32_t count) {
    struct tcm_bin *bin = &cache->bin[size_class];
    struct tcm_entry *base = cache->cold[size_class].base;
    void *batch[BULK_MOVES * TCM_MAX_BATCH];
    bool bulk = cache->cold[size_class].bulk;
    uint32_t most = (bulk ? BULK_MOVES : 1) * tcm_class[size_class].batch;
    TCM_ASSERT(bin_is_valid(cache, size_class));
    TCM_ASSERT(count <= bin_count(cache, size_class));
    for (uint32_t done = 0; done < count;) {
        uint32_t n = count - done < most ? count - done : most;
        void **objects = plain_entries(base + done, batch);
        for (uint32_t i = 0; tcm_object_words && i < n; i++)
            batch[i] = base[done + i].ptr;
        if (bulk)
            tcm_central_return(size_class, objects, n);
        else
            tcm_transfer_insert(size_class, objects, n);
        done += n;
    }
    uint32_t rest = bin_count(cache, size_class) - count;
    __builtin_memmove(base, base + count, rest * sizeof(base[0]));
    bin->top = base + rest;
}

/* ------------------------------------------------------------------------ */
/* Budget                                                                   */

/* The next class in cyclic order whose bin has capacity; 0: no bin has. */
static unsigned next_with_capacity(struct tcm_thread_cache *cache) {
    unsigned from = cache->steal_class + 1;
    for (unsigned i = 0; i <= TCM_MAX_CLASSES / 64;
         i++, from = (from | 63) + 1) {
        from %= TCM_MAX_CLASSES;
        uint64_t bits = cache->with_capacity[from / 64] >> (from % 64);
        if (bits != 0) {
            cache->steal_class = from + (unsigned)__builtin_ctzll(bits);
            TCM_ASSERT(cache->cold[cache->steal_class].capacity != 0);
            return cache->steal_class;
        }
    }
    return 0;
}

/* Lowers unused capacity of bins other than EXCEPT, until BYTES are saved or
   IDLE_TRIES bins were tried. false: fewer were saved. */
static bool take_idle_capacity(struct tcm_thread_cache *cache, unsigned except,
                               uint64_t bytes) {
    uint64_t saved = 0;
    for (unsigned tries = 0; tries < IDLE_TRIES && saved < bytes; tries++) {
        unsigned size_class = next_with_capacity(cache);
        if (size_class == 0)
            break;
        uint32_t capacity = cache->cold[size_class].capacity;
        uint32_t idle = capacity - bin_count(cache, size_class);
        if (size_class == except || idle == 0)
            continue;
        uint64_t size = tcm_class[size_class].size;
        uint64_t most = (bytes - saved + size - 1) / size;
        if (idle > most)
            idle = (uint32_t)most;
        set_capacity(cache, size_class, capacity - idle);
        saved += idle * size;
    }
    return saved >= bytes;
}

/* Claims BYTES more from the registry. After a claim that failed, the next
   CLAIM_WAIT claims or more fail at once. */
static bool claim_budget(struct tcm_thread_cache *cache, uint64_t bytes) {
    TCM_ASSERT(bytes != 0);
    if (tcm_backoff_waits(&cache->claims))
        return false;
    bool claimed = tcm_registry_claim(cache, bytes);
    tcm_backoff_note(&cache->claims, claimed, CLAIM_WAIT, CLAIM_LONGEST);
    return claimed;
}

/* Makes BYTES more of capacity for CLASS fit the budget. false: not possible.
 */
static bool make_affordable(struct tcm_thread_cache *cache, unsigned size_class,
                            uint64_t bytes) {
    uint64_t need = cache->capacity_bytes + bytes;
    uint64_t budget = tcm_load_relaxed(&cache->budget_bytes);
    if (need <= budget || claim_budget(cache, need - budget))
        return true;
    budget = tcm_load_relaxed(&cache->budget_bytes);
    return need <= budget ||
           take_idle_capacity(cache, size_class, need - budget);
}

/* ------------------------------------------------------------------------ */
/* Upkeep in slow paths                                                     */

/* The capacity exceeds the budget after another cache took from it, or after a
   miss fetched objects in spite of it. Bins in turn give up idle capacity, then
   half of their objects. */
static void shrink_to_budget(struct tcm_thread_cache *cache) {
    uint64_t budget = tcm_load_relaxed(&cache->budget_bytes);
    TCM_ASSERT_SLOW(capacity_is_counted(cache));
    for (unsigned tries = 0;
         tries < SHRINK_TRIES && TCM_UNLIKELY(cache->capacity_bytes > budget);
         tries++) {
        unsigned size_class = next_with_capacity(cache);
        if (size_class == 0)
            return;
        uint32_t count = bin_count(cache, size_class);
        if (cache->cold[size_class].capacity == count)
            bin_return(cache, size_class, (count + 1) / 2);
        set_capacity(cache, size_class, bin_count(cache, size_class));
        bin_trim(cache, size_class);
    }
    if (tcm_load_relaxed(&cache->owed_bytes) != 0 &&
        cache->capacity_bytes <= budget)
        tcm_registry_end_debt(cache);
}

static void sweep_next_bin(struct tcm_thread_cache *cache) {
    unsigned size_class = cache->sweep_class + 1;
    if (size_class >= tcm_class_count)
        size_class = 1;
    cache->sweep_class = size_class;
    struct tcm_bin_cold *cold = &cache->cold[size_class];
    uint32_t count = bin_count(cache, size_class);
    if (count != 0 && !cold->active && count == cold->seen) {
        bin_return(cache, size_class,
                   cache->heap_grows ? count : (count + 1) / 2);
        set_capacity(cache, size_class, bin_count(cache, size_class));
        bin_trim(cache, size_class);
        cold->fetch = (uint16_t)((cold->fetch + 1) / 2);
        cold->credit = 0;
    }
    TCM_ASSERT(bin_is_valid(cache, size_class));
    cold->active = false;
    cold->seen = (uint16_t)bin_count(cache, size_class);
    tcm_transfer_trim(size_class);
}

/* Counts a slow path of CLASS towards the next sweep. */
static void note_use(struct tcm_thread_cache *cache, unsigned size_class) {
    uint64_t taken =
        tcm_load_relaxed(&tcm_page_shard[tcm_thread_shard()]->taken_bytes);
    cache->cold[size_class].active = true;
    cache->heap_grows = taken != cache->taken_seen;
    if (cache->heap_grows)
        cache->sweep_wait = 1;
    else if (cache->sweep_wait > 1)
        cache->sweep_wait--;
    cache->taken_seen = taken;
}

bool tcm_cache_upkeep_due(const struct tcm_thread_cache *cache) {
    return cache->sweep_wait <= 1 ||
           cache->capacity_bytes > tcm_load_relaxed(&cache->budget_bytes) ||
           tcm_load_relaxed(&cache->owed_bytes) != 0;
}

void tcm_cache_upkeep(struct tcm_thread_cache *cache) {
    TCM_ASSERT(is_usable(cache));
    shrink_to_budget(cache);
    if (cache->sweep_wait <= 1) {
        cache->sweep_wait = SWEEP_WAIT;
        sweep_next_bin(cache);
    }
}

/* ------------------------------------------------------------------------ */
/* Slow functions                                                           */

/* Fills in the words of entries of CLASS. Nearly all have a table in the word
   map, whose lines are warm, because frees use them. */
static void fill_words(unsigned size_class, struct tcm_entry *from,
                       struct tcm_entry *to) {
    uintptr_t base = tcm_class_map_base;
    for (; tcm_object_words && from != to; from++) {
        size_t page = tcm_class_map_page(base, from->ptr);
        uint64_t *table = NULL;
        if (TCM_LIKELY(page < TCM_CLASS_MAP_PAGES))
            table = (uint64_t *)tcm_load_relaxed(&tcm_word_map[page]);
        *tcm_bin_word(from) = TCM_LIKELY(table != NULL)
                                  ? tcm_table_word(table, size_class, from->ptr)
                                  : tcm_object_word_or_none(from->ptr);
        TCM_ASSERT(*tcm_bin_word(from) == tcm_object_word_or_none(from->ptr));
    }
}

void tcm_cache_want_words(struct tcm_thread_cache *cache, bool want) {
    cache->want_words = want;
    for (unsigned size_class = 1; want && size_class < tcm_class_count;
         size_class++)
        fill_words(size_class, cache->cold[size_class].base,
                   cache->bin[size_class].top);
}

static uint32_t first_fetch(const struct tcm_class_info *info) {
    uint32_t n = FETCH_BYTES / info->size;
    uint32_t least = info->batch >= 8 ? 2 : 1;
    return n < least ? least : n > info->batch ? info->batch : n;
}

bool tcm_cache_refill(struct tcm_thread_cache *cache, unsigned size_class) {
    const struct tcm_class_info *info = &tcm_class[size_class];
    struct tcm_bin *bin = &cache->bin[size_class];
    struct tcm_bin_cold *cold = &cache->cold[size_class];
    void *batch[BULK_MOVES * TCM_MAX_BATCH];
    TCM_ASSERT(is_usable(cache) && bin_is_valid(cache, size_class));
    TCM_ASSERT(bin->top == cold->base);
    tcm_store_relaxed(&cache->misses, cache->misses + 1);
    note_use(cache, size_class);
    uint32_t n = cold->bulk ? BULK_MOVES * info->batch : cold->fetch;
    if (n > cold->capacity) {
        if (!make_affordable(cache, size_class,
                             (uint64_t)(n - cold->capacity) * info->size))
            n = cold->capacity != 0 ? cold->capacity : 1;
        if (!bin_reserve(cache, size_class, n))
            return false;
        if (n > cold->capacity)
            set_capacity(cache, size_class, n);
    }
    struct tcm_entry *base = cold->base;
    void **objects = plain_entries(base, batch);
    uint32_t got = tcm_transfer_remove(size_class, objects, n);
    if (got == 0)
        return false;
    TCM_ASSERT(got <= n && n <= cold->capacity);
    for (uint32_t i = 0; tcm_object_words && i < got; i++)
        base[i].ptr = batch[i];
    if (tcm_object_words && cache->want_words)
        fill_words(size_class, base, base + got);
    bin->top = base + got;
    cold->fetched = true;
    cold->fetch = (uint16_t)tcm_min_u64(2u * cold->fetch, info->batch);
    if (cold->credit < MAX_CREDIT)
        cold->credit++;
    cold->drained =
        (uint32_t)tcm_min_u64((uint64_t)cold->drained + got, UINT32_MAX);
    TCM_ASSERT(bin_is_valid(cache, size_class) && cold->fetch <= info->batch);
    return true;
}

/* Raises the capacity of a full bin if it is deserved and affordable. */
static bool raise_capacity(struct tcm_thread_cache *cache,
                           unsigned size_class) {
    const struct tcm_class_info *info = &tcm_class[size_class];
    struct tcm_bin_cold *cold = &cache->cold[size_class];
    uint32_t free_batches = cold->bulk ? BULK_BATCHES : FREE_BATCHES;
    bool free_of_charge = cold->capacity < free_batches * info->batch;
    if (!free_of_charge && (cold->credit == 0 || cold->bulk))
        return false;
    uint32_t target = cold->capacity + info->batch;
    if (cold->capacity < info->batch) {
        target = cold->capacity * 2;
        if (target < first_fetch(info))
            target = first_fetch(info);
    }
    if (target > info->max_cached)
        target = info->max_cached;
    if (target <= cold->capacity ||
        !make_affordable(cache, size_class,
                         (uint64_t)(target - cold->capacity) * info->size))
        return false;
    if (!bin_reserve(cache, size_class, target))
        return false;
    if (!free_of_charge)
        cold->credit--;
    set_capacity(cache, size_class, target);
    return true;
}

/* Decides at the first overflow after misses whether the bin is a bulk bin. */
static void judge_swing(struct tcm_thread_cache *cache, unsigned size_class) {
    const struct tcm_class_info *info = &tcm_class[size_class];
    struct tcm_bin_cold *cold = &cache->cold[size_class];
    if (cold->drained == 0)
        return;
    cold->bulk = info->size <= TCM_TABLE_SMALL &&
                 cold->drained > BULK_SWING * info->max_cached;
    cold->drained = 0;
}

/* Returns objects of a full bulk bin of more than BULK_MOVES batches, all but
   one batch, and lowers its capacity to what a bulk bin has. */
static void bulk_return(struct tcm_thread_cache *cache, unsigned size_class) {
    uint32_t batch = tcm_class[size_class].batch;
    uint32_t count = bin_count(cache, size_class);
    TCM_ASSERT(cache->cold[size_class].bulk && count > BULK_MOVES * batch);
    bin_return(cache, size_class, count - batch);
    if (count > BULK_BATCHES * batch) {
        set_capacity(cache, size_class, BULK_BATCHES * batch);
        bin_trim(cache, size_class);
    }
}

/* True for the first objects freed into a bin that was never refilled: they
   come from another thread, which may use their neighbours. After a few the bin
   accepts them, for threads that free many objects of others. */
static bool is_foreign(struct tcm_thread_cache *cache, unsigned size_class) {
    struct tcm_bin_cold *cold = &cache->cold[size_class];
    uint32_t limit = tcm_class[size_class].size < TCM_CACHE_LINE
                         ? FOREIGN_SHARING
                         : FOREIGN_ANY;
    if (cold->fetched || cold->foreign >= limit)
        return false;
    cold->foreign++;
    return true;
}

bool tcm_cache_make_room(struct tcm_thread_cache *cache, unsigned size_class) {
    const struct tcm_class_info *info = &tcm_class[size_class];
    TCM_ASSERT(is_usable(cache) && bin_is_valid(cache, size_class));
    TCM_ASSERT(cache->bin[size_class].top == cache->bin[size_class].end);
    tcm_store_relaxed(&cache->overflows, cache->overflows + 1);
    if (is_foreign(cache, size_class))
        return false;
    note_use(cache, size_class);
    judge_swing(cache, size_class);
    tcm_cache_upkeep(cache);
    if (cache->bin[size_class].top != cache->bin[size_class].end ||
        raise_capacity(cache, size_class))
        return true;
    uint32_t count = bin_count(cache, size_class);
    if (count == 0)
        return false;
    uint32_t n = (count + 1) / 2;
    if (count > info->batch)
        n = count / 4 > info->batch ? count / 4 : info->batch;
    if (cache->cold[size_class].bulk && count > BULK_MOVES * info->batch)
        bulk_return(cache, size_class);
    else
        bin_return(cache, size_class, n);
    TCM_ASSERT(cache->bin[size_class].top != cache->bin[size_class].end);
    return true;
}

void tcm_cache_flush(struct tcm_thread_cache *cache) {
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++) {
        uint32_t count = bin_count(cache, size_class);
        if (count != 0)
            bin_return(cache, size_class, count);
    }
}

/* ------------------------------------------------------------------------ */
/* Life of a cache                                                          */

struct tcm_thread_cache *tcm_cache_new(void) {
    struct tcm_thread_cache *cache = tcm_registry_get_cache();
    if (cache == NULL)
        return NULL;
    __builtin_memset(cache, 0, sizeof(*cache));
    for (unsigned size_class = 0; size_class < TCM_MAX_CLASSES; size_class++) {
        cache->bin[size_class].top = no_region + 1;
        cache->bin[size_class].end = no_region + 1;
        cache->cold[size_class].base = no_region + 1;
    }
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        cache->cold[size_class].fetch =
            (uint16_t)first_fetch(&tcm_class[size_class]);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(cache->scaled_small); i++)
        cache->scaled_small[i] = tcm_class_scale(tcm_class_small[i]);
    cache->sweep_wait = SWEEP_WAIT;
    tcm_store_relaxed(&cache->attached, true);
    tcm_registry_add(cache);
    TCM_ASSERT(is_usable(cache) && !tcm_cache_is_open(cache));
    return cache;
}

void tcm_cache_destroy(struct tcm_thread_cache *cache) {
    TCM_ASSERT(cache != TCM_NO_CACHE);
    TCM_ASSERT_SLOW(capacity_is_counted(cache));
    tcm_cache_flush(cache);
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        region_free(&cache->cold[size_class]);
    tcm_registry_remove(cache);
}

void tcm_cache_detach(struct tcm_thread_cache *cache) {
    TCM_ASSERT(is_usable(cache));
    tcm_store_relaxed(&cache->attached, false);
}

void tcm_cache_attach(struct tcm_thread_cache *cache) {
    TCM_ASSERT(cache != TCM_NO_CACHE);
    TCM_ASSERT(!tcm_load_relaxed(&cache->attached));
    tcm_store_relaxed(&cache->attached, true);
}
