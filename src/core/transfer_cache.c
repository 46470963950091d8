/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transfer_cache.h"
#include "base/check.h"
#include "core/central_list.h"
#include "core/meta_alloc.h"
#include "core/size_class.h"

#define PARKED_BYTES   ((size_t)512 << 10) /* per class */
#define PARKED_BATCHES 16u
#define MIN_BATCHES    2u
/* Where a class has a cache in each shard, one has room for a batch of at most
   this, even if all of them together then keep more. */
#define SHARD_BYTES ((size_t)64 << 10)

/* True if the counts agree; the lock is held. */
static bool transfer_is_valid(const struct tcm_transfer *transfer) {
    tcm_lock_assert_held(&transfer->lock);
    return transfer->low <= transfer->count &&
           transfer->count <= transfer->capacity &&
           (transfer->count == 0 || transfer->object != NULL);
}

static TCM_ALWAYS_INLINE void copy_reversed(void **out, void *const *from,
                                            unsigned count) {
    void *const *last = from + count;
    for (; count >= 4; count -= 4, out += 4, last -= 4) {
        out[0] = last[-1];
        out[1] = last[-2];
        out[2] = last[-3];
        out[3] = last[-4];
    }
    for (; count != 0; count--)
        *out++ = *--last;
}

/* Locks TRANSFER, of the calling thread's shard. */
static void lock_own(struct tcm_transfer *transfer, unsigned size_class) {
    if (!tcm_class_lock_try(&transfer->lock, size_class, &transfer->heat))
        tcm_lock(&transfer->lock);
}

/* Takes up to COUNT objects, if there are at least LEAST, the one parked last
   first. Returns how many. The lock is held. */
static unsigned take_locked(struct tcm_transfer *transfer, void **out,
                            unsigned count, unsigned least) {
    TCM_ASSERT(least <= count);
    TCM_ASSERT(transfer_is_valid(transfer));
    unsigned got = transfer->count < count ? transfer->count : count;
    if (got < least)
        got = 0;
    if (got != 0) {
        unsigned rest = transfer->count - got;
        copy_reversed(out, transfer->object + rest, got);
        tcm_store_relaxed(&transfer->count, rest);
        if (rest < transfer->low)
            tcm_store_relaxed(&transfer->low, rest);
    }
    TCM_ASSERT(transfer_is_valid(transfer));
    return got;
}

static unsigned take_parked(struct tcm_transfer *transfer, void **out,
                            unsigned count) {
    tcm_lock(&transfer->lock);
    unsigned got = take_locked(transfer, out, count, 1);
    tcm_unlock(&transfer->lock);
    return got;
}

/*
 * The central list serves the request unless the transfer cache has about as
 * many objects as are requested: a few of many are not worth a lock, and a
 * single object that a thread gave up may share a cache line with others of
 * that thread.
 */
unsigned tcm_transfer_remove(unsigned size_class, void **out, unsigned count) {
    struct tcm_transfer *transfer =
        &tcm_transfer[tcm_class_shard(size_class)][size_class];
    TCM_ASSERT(size_class != 0 && size_class < tcm_class_count && count != 0);
    unsigned half = (tcm_class[size_class].batch + 1) / 2;
    unsigned least = count < half ? count : half;
    /* Read without the lock: with one thread the cache is mostly empty. */
    if (tcm_load_relaxed(&transfer->count) >= least) {
        lock_own(transfer, size_class);
        unsigned got = take_locked(transfer, out, count, least);
        tcm_unlock(&transfer->lock);
        if (got != 0) {
            (void)tcm_add_relaxed(&transfer->hits, 1);
            return got;
        }
    }
    unsigned got = tcm_central_fetch(size_class, out, count);
    for (uint32_t i = 0; i < tcm_class_parts(size_class) && got == 0; i++)
        got = take_parked(&tcm_transfer[i][size_class], out, count);
    return got;
}

static uint32_t capacity_of(unsigned size_class) {
    const struct tcm_class_info *info = &tcm_class[size_class];
    size_t capacity = PARKED_BYTES / info->size;
    if (capacity > PARKED_BATCHES * info->batch)
        capacity = PARKED_BATCHES * info->batch;
    if (capacity < MIN_BATCHES * info->batch)
        capacity = MIN_BATCHES * info->batch;
    TCM_ASSERT(capacity >= info->batch && capacity <= TCM_TRANSFER_MOST);
    return (uint32_t)capacity;
}

static bool get_memory(struct tcm_transfer *transfer, unsigned size_class) {
    tcm_lock_assert_held(&transfer->lock);
    if (transfer->object != NULL)
        return true;
    uint32_t capacity = capacity_of(size_class);
    transfer->object = tcm_meta_alloc(capacity * sizeof(transfer->object[0]));
    if (transfer->object != NULL)
        transfer->capacity = capacity;
    return transfer->object != NULL;
}

/* Objects that TRANSFER may have: those of a class together about as many as
   where there is one. */
static uint32_t room_of(const struct tcm_transfer *transfer,
                        unsigned size_class) {
    const struct tcm_class_info *info = &tcm_class[size_class];
    uint32_t batch = info->batch;
    uint32_t room = transfer->capacity / tcm_class_parts(size_class);
    return room < batch && batch * (size_t)info->size <= SHARD_BYTES ? batch
                                                                     : room;
}

void tcm_transfer_insert(unsigned size_class, void *const *objects,
                         unsigned count) {
    TCM_ASSERT(size_class != 0 && size_class < tcm_class_count);
    TCM_ASSERT(count != 0 && count <= TCM_MAX_BATCH);
    bool parted = tcm_class_is_parted(size_class);
    uint32_t home = parted ? tcm_object_home(size_class, objects[0]) : 0;
    struct tcm_transfer *transfer = &tcm_transfer[home][size_class];
    if (parted)
        tcm_lock(&transfer->lock);
    else
        lock_own(transfer, size_class);
    TCM_ASSERT(transfer_is_valid(transfer));
    bool fits = get_memory(transfer, size_class) &&
                transfer->count + count <= room_of(transfer, size_class);
    if (fits) {
        __builtin_memcpy(transfer->object + transfer->count, objects,
                         count * sizeof(objects[0]));
        tcm_store_relaxed(&transfer->count, transfer->count + count);
    }
    TCM_ASSERT(transfer_is_valid(transfer));
    tcm_unlock(&transfer->lock);
    if (!fits)
        tcm_central_return(size_class, objects, count);
}

/* Takes up to COUNT of the objects that were not needed since the last trim,
   which are at the low end. Returns how many. */
static unsigned take_unneeded(struct tcm_transfer *transfer, void **out,
                              unsigned count) {
    TCM_ASSERT(count <= TCM_MAX_BATCH);
    tcm_lock(&transfer->lock);
    TCM_ASSERT(transfer_is_valid(transfer));
    unsigned n = transfer->low < count ? transfer->low : count;
    unsigned rest = transfer->count - n;
    if (n != 0) {
        __builtin_memcpy(out, transfer->object, n * sizeof(out[0]));
        __builtin_memmove(transfer->object, transfer->object + n,
                          rest * sizeof(out[0]));
        tcm_store_relaxed(&transfer->count, rest);
    }
    uint32_t low = transfer->low - n;
    tcm_store_relaxed(&transfer->low, low != 0 ? low : rest);
    TCM_ASSERT(transfer_is_valid(transfer));
    tcm_unlock(&transfer->lock);
    return n;
}

static void trim_one(struct tcm_transfer *transfer, unsigned size_class) {
    void *batch[TCM_MAX_BATCH];
    unsigned todo = tcm_load_relaxed(&transfer->low);
    if (tcm_load_relaxed(&transfer->count) == 0)
        return;
    do {
        unsigned n = take_unneeded(transfer, batch,
                                   todo < TCM_MAX_BATCH ? todo : TCM_MAX_BATCH);
        if (n != 0)
            tcm_central_return(size_class, batch, n);
        todo -= n != 0 ? n : todo;
    } while (todo != 0);
}

/* The cache of the thread's shard, and that of another in turn, whose threads
   may sleep. */
void tcm_transfer_trim(unsigned size_class) {
    uint32_t own = tcm_class_shard(size_class);
    struct tcm_transfer *transfer = &tcm_transfer[own][size_class];
    trim_one(transfer, size_class);
    uint32_t n = tcm_class_parts(size_class);
    uint32_t other = tcm_add_relaxed(&transfer->trims, 1u) % n;
    if (other != own)
        trim_one(&tcm_transfer[other][size_class], size_class);
}

/* Returns the objects that are there now: other threads may go on adding. */
static void flush_one(struct tcm_transfer *transfer, unsigned size_class) {
    void *batch[TCM_MAX_BATCH];
    unsigned todo = tcm_load_relaxed(&transfer->count);
    while (todo != 0) {
        unsigned got = take_parked(transfer, batch,
                                   todo < TCM_MAX_BATCH ? todo : TCM_MAX_BATCH);
        if (got == 0)
            break;
        tcm_central_return(size_class, batch, got);
        todo -= got;
    }
}

void tcm_transfer_flush(void) {
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        for (uint32_t i = 0; i < tcm_class_parts(size_class); i++)
            flush_one(&tcm_transfer[i][size_class], size_class);
}

uint64_t tcm_transfer_objects(unsigned size_class) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < tcm_class_parts(size_class); i++)
        count += tcm_load_relaxed(&tcm_transfer[i][size_class].count);
    return count;
}

uint64_t tcm_transfer_hits(unsigned size_class) {
    uint64_t hits = 0;
    for (uint32_t i = 0; i < tcm_class_parts(size_class); i++)
        hits += tcm_load_relaxed(&tcm_transfer[i][size_class].hits);
    return hits;
}

unsigned tcm_transfer_copy(uint32_t shard, unsigned size_class, void **out) {
    struct tcm_transfer *transfer = &tcm_transfer[shard][size_class];
    TCM_STATIC_ASSERT(PARKED_BATCHES * TCM_MAX_BATCH <= TCM_TRANSFER_MOST &&
                          MIN_BATCHES <= PARKED_BATCHES,
                      "no transfer cache has more");
    tcm_lock(&transfer->lock);
    TCM_ASSERT(transfer_is_valid(transfer));
    unsigned n = transfer->count;
    if (n != 0)
        __builtin_memcpy(out, transfer->object, n * sizeof(out[0]));
    tcm_unlock(&transfer->lock);
    return n;
}

void tcm_transfer_lock_all(void) {
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        for (uint32_t i = 0; i < tcm_class_parts(size_class); i++)
            tcm_lock(&tcm_transfer[i][size_class].lock);
}

void tcm_transfer_unlock_all(void) {
    for (unsigned size_class = 1; size_class < tcm_class_count; size_class++)
        for (uint32_t i = 0; i < tcm_class_parts(size_class); i++)
            tcm_unlock(&tcm_transfer[i][size_class].lock);
}
