/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/thread_shard.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_thread.h"
#include "core/central_list.h"
#include "core/core_stats.h"
#include "core/transfer_cache.h"

/* Heat of a thread: HEAT_TAKEN is added each time that it finds a lock of its
   shard taken, 1 is subtracted each time that it does not. It looks for another
   shard when the heat reaches HEAT_MOST, and a class is parted at that heat. */
#define HEAT_TAKEN 256u
#define HEAT_MOST  2048u

/* Shards that may be open where there are fewer processors than that: a thread
   may lose its processor while it holds a lock. */
#define SHARDS_LEAST 4u

enum membership { NEW_THREAD, MEMBER, ENDED };

static TCM_TLS struct {
    uint8_t shard;
    uint8_t membership; /* enum membership */
    uint16_t heat;      /* below HEAT_MOST */
} thread;
/* See tcm_thread_shard_note; or NULL. Apart, where it leaves no gap. */
static TCM_TLS uint8_t *thread_note;
TCM_STATIC_ASSERT(HEAT_MOST + HEAT_TAKEN <= UINT16_MAX, "heat fits");

static struct tcm_lock shards_lock = TCM_LOCK_INIT(TCM_RANK_SHARDS);
/* True if all threads use shard 0. */
static bool restricted;
/* Shards that may be open; 0: not known yet. Read without the lock, too. */
static uint32_t most_shards;
/* Threads in each shard. */
static uint32_t members[TCM_PAGE_SHARDS] TCM_ALIGNED(TCM_CACHE_LINE);

static struct tcm_central first_lists[TCM_MAX_CLASSES];
static struct tcm_transfer first_caches[TCM_MAX_CLASSES];
struct tcm_central *tcm_central[TCM_PAGE_SHARDS] = {first_lists};
struct tcm_transfer *tcm_transfer[TCM_PAGE_SHARDS] = {first_caches};

uint8_t tcm_class_parted[TCM_MAX_CLASSES] TCM_ALIGNED(TCM_CACHE_LINE);

TCM_STATIC_ASSERT(TCM_PAGE_SHARDS <= UINT8_MAX, "a number fits");
TCM_STATIC_ASSERT(sizeof(struct tcm_central) % TCM_CACHE_LINE == 0,
                  "lists of two threads share no line");

static uint32_t members_of(uint32_t shard) {
    return tcm_load_relaxed(&members[shard]);
}

/* The first shard with the fewest threads. Acquire: a shard is complete before
   it is counted. */
static uint32_t emptiest_shard(void) {
    uint32_t best = 0;
    uint32_t n =
        tcm_load_relaxed(&restricted) ? 1 : tcm_load_acquire(&tcm_page_shards);
    for (uint32_t i = 1; i < n; i++)
        if (members_of(i) < members_of(best))
            best = i;
    return best;
}

static void leave(uint32_t shard) {
    (void)tcm_add_relaxed(&members[shard], UINT32_MAX);
}

static void move_to(uint32_t shard) {
    if (thread.membership == MEMBER)
        leave(thread.shard);
    (void)tcm_add_relaxed(&members[shard], 1u);
    thread.shard = (uint8_t)shard;
    thread.membership = MEMBER;
    if (thread_note != NULL)
        *thread_note = (uint8_t)(shard + 1);
}

uint32_t tcm_thread_shard(void) {
    if (TCM_UNLIKELY(thread.membership == NEW_THREAD))
        move_to(emptiest_shard());
    return TCM_UNLIKELY(tcm_load_relaxed(&restricted)) ? 0 : thread.shard;
}

void tcm_thread_shard_passes(void) {
    if (TCM_UNLIKELY(thread.heat != 0))
        thread.heat--;
}

/* Prepares the lists and caches of shard N, in zeroed memory. */
static void init_lists(uint32_t n) {
    for (unsigned c = 0; c < TCM_MAX_CLASSES; c++) {
        if (n != 0)
            tcm_central[n][c].shard = (uint8_t)n;
        tcm_lock_init_rank(&tcm_central[n][c].lock, TCM_RANK_CENTRAL_LIST);
        tcm_lock_init_rank(&tcm_transfer[n][c].lock, TCM_RANK_TRANSFER_CACHE);
    }
}

/* BYTES of zeroed memory for a table of lists or caches, whose entries take two
   cache lines at most. NULL: out of memory. */
static void *new_table(size_t bytes) {
    uintptr_t table = (uintptr_t)tcm_meta_alloc(bytes + TCM_CACHE_LINE);
    TCM_STATIC_ASSERT(TCM_META_ALIGN == TCM_CACHE_LINE,
                      "one line more suffices to align it to two");
    return (void *)tcm_align_up(table, 2 * (uintptr_t)TCM_CACHE_LINE);
}

/* Makes shard N, with the settings of shard 0. NULL: out of memory. */
static struct tcm_page_heap *new_shard(uint32_t n) {
    TCM_STATIC_ASSERT(
        sizeof(struct tcm_page_heap) <= TCM_META_MOST &&
            sizeof(first_lists) + TCM_CACHE_LINE <= TCM_META_MOST &&
            sizeof(first_caches) + TCM_CACHE_LINE <= TCM_META_MOST,
        "a shard's parts are no longer than a request may be");
    struct tcm_page_heap *heap = tcm_meta_alloc(sizeof(*heap));
    tcm_central[n] = new_table(sizeof(first_lists));
    tcm_transfer[n] = new_table(sizeof(first_caches));
    if (heap == NULL || tcm_central[n] == NULL || tcm_transfer[n] == NULL)
        return NULL;
    init_lists(n);
    tcm_lock_init(&heap->lock, TCM_RANK_PAGE_HEAP);
    heap->shard = n;
    heap->records = (struct tcm_span_pools)TCM_SPAN_POOLS_INIT;
    tcm_dlist_init(&heap->busy);
    tcm_lock(&tcm_page_heap.lock);
    heap->system_page = tcm_page_heap.system_page;
    heap->limit_pages = tcm_page_heap.limit_pages;
    heap->release_rate_milli = tcm_page_heap.release_rate_milli;
    heap->release_at_once = tcm_page_heap.release_at_once;
    tcm_unlock(&tcm_page_heap.lock);
    return heap;
}

/* True if one shard more may be open. */
static bool may_open(void) {
    tcm_lock_assert_held(&shards_lock);
    if (most_shards == 0) {
        uint32_t most = tcm_os_cpu_count();
        if (most < SHARDS_LEAST)
            most = SHARDS_LEAST;
        if (most > TCM_PAGE_SHARDS)
            most = TCM_PAGE_SHARDS;
        tcm_store_relaxed(&most_shards, most);
    }
    return tcm_page_shards < most_shards && !tcm_load_relaxed(&restricted) &&
           tcm_page_shards < tcm_load_relaxed(&tcm_cache_count);
}

/* Opens shard N, unless another thread was faster or there are no more threads
   than shards. */
static bool open_shard(uint32_t n) {
    struct tcm_page_heap *heap = NULL;
    uint32_t most = tcm_load_relaxed(&most_shards);
    if (most != 0 && n >= most)
        return false; /* without two locks that all threads share */
    tcm_lock(&shards_lock);
    tcm_lock(&tcm_growth.lock);
    if (tcm_page_shards == n && may_open()) {
        if (tcm_range_add(&tcm_ranges, n, TCM_GROW_STEP) >= 0)
            heap = new_shard(n);
        if (heap != NULL) {
            tcm_page_shard[n] = heap;
            /* Publishes the shard; pairs with the loads that count shards. */
            tcm_store_release(&tcm_page_shards, n + 1);
        } else {
            tcm_store_relaxed(&most_shards, n);
        }
    }
    tcm_unlock(&tcm_growth.lock);
    tcm_unlock(&shards_lock);
    return heap != NULL;
}

uint32_t tcm_thread_shard_waits(void) {
    uint32_t own = tcm_thread_shard();
    thread.heat = (uint16_t)(thread.heat + HEAT_TAKEN);
    if (thread.heat < HEAT_MOST)
        return own;
    thread.heat = 0;
    if (thread.membership != MEMBER || members_of(own) <= 1 ||
        tcm_load_relaxed(&restricted))
        return own;
    uint32_t other = emptiest_shard();
    uint32_t next = tcm_load_acquire(&tcm_page_shards);
    if (members_of(other) != 0 && open_shard(next))
        other = next;
    if (members_of(other) + 1 < members_of(own))
        move_to(other);
    return tcm_thread_shard();
}

void tcm_class_waits(unsigned size_class, uint32_t *heat) {
    if (tcm_class_is_parted(size_class)) {
        (void)tcm_thread_shard_waits();
        return;
    }
    if (tcm_add_relaxed(heat, HEAT_TAKEN) + HEAT_TAKEN < HEAT_MOST)
        return;
    tcm_lock(&shards_lock);
    tcm_store_relaxed(&tcm_class_parted[size_class], (uint8_t)1);
    tcm_unlock(&shards_lock);
}

void tcm_thread_shard_note(uint8_t *note) {
    thread_note = note;
    *note = thread.membership == MEMBER ? (uint8_t)(thread.shard + 1) : 0;
}

void tcm_thread_shard_end(void) {
    if (thread.membership == MEMBER)
        leave(thread.shard);
    thread.membership = ENDED;
    thread_note = NULL;
}

void tcm_thread_shard_end_dead(uint8_t note) {
    if (note != 0)
        leave(note - 1u);
}

void tcm_thread_shards_lock(void) {
    tcm_lock(&shards_lock);
}

void tcm_thread_shards_unlock(void) {
    tcm_unlock(&shards_lock);
}

void tcm_thread_shard_fork_child(void) {
    for (uint32_t i = 0; i < TCM_PAGE_SHARDS; i++)
        tcm_store_relaxed(&members[i], 0u);
    if (thread.membership == MEMBER)
        tcm_store_relaxed(&members[thread.shard], 1u);
}

void tcm_thread_shards_init(void) {
    if (tcm_debug)
        init_lists(0);
}

void tcm_thread_shards_restrict(bool one) {
    tcm_store_relaxed(&restricted, one);
}
