/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/transfer_cache.h"
#include "core/central_list.h"
#include "core/meta_alloc.h"
#include "core/size_class.h"

#define PARKED_BYTES   ((size_t)512 << 10) /* of one class */
#define PARKED_BATCHES 16u
#define MIN_BATCHES    2u

struct tcm_transfer tcm_transfer[TCM_MAX_CLASSES];

void tcm_transfer_init(void) {
    for (unsigned class = 1; class < tcm_class_count; class ++) {
        struct tcm_transfer *transfer = &tcm_transfer[class];
        const struct tcm_class_info *info = &tcm_class[class];
        tcm_lock_init(&transfer->lock, TCM_RANK_TRANSFER_CACHE);
        size_t capacity = PARKED_BYTES / info->size;
        if (capacity > PARKED_BATCHES * info->batch)
            capacity = PARKED_BATCHES * info->batch;
        if (capacity < MIN_BATCHES * info->batch)
            capacity = MIN_BATCHES * info->batch;
        transfer->capacity = (uint32_t)capacity;
    }
}

unsigned tcm_transfer_remove(unsigned class, void **out, unsigned count) {
    struct tcm_transfer *transfer = &tcm_transfer[class];
    /* An unlocked look: an empty one is the common case of one thread. */
    if (tcm_load_relaxed(&transfer->count) != 0) {
        tcm_lock(&transfer->lock);
        unsigned got = transfer->count < count ? transfer->count : count;
        if (got != 0) {
            unsigned rest = transfer->count - got;
            __builtin_memcpy(out, transfer->object + rest,
                             got * sizeof(out[0]));
            tcm_store_relaxed(&transfer->count, rest);
            tcm_store_relaxed(&transfer->hits, transfer->hits + 1);
        }
        tcm_unlock(&transfer->lock);
        if (got != 0)
            return got;
    }
    return tcm_central_fetch(class, out, count);
}

/* The lock is held. */
static bool has_memory(struct tcm_transfer *transfer) {
    if (transfer->object == NULL)
        transfer->object =
            tcm_meta_alloc(transfer->capacity * sizeof(transfer->object[0]));
    return transfer->object != NULL;
}

void tcm_transfer_insert(unsigned class, void *const *objects, unsigned count) {
    struct tcm_transfer *transfer = &tcm_transfer[class];
    tcm_lock(&transfer->lock);
    bool fits =
        transfer->count + count <= transfer->capacity && has_memory(transfer);
    if (fits) {
        __builtin_memcpy(transfer->object + transfer->count, objects,
                         count * sizeof(objects[0]));
        tcm_store_relaxed(&transfer->count, transfer->count + count);
    }
    tcm_unlock(&transfer->lock);
    if (!fits)
        tcm_central_return(class, objects, count);
}

void tcm_transfer_flush(void) {
    for (unsigned class = 1; class < tcm_class_count; class ++) {
        struct tcm_transfer *transfer = &tcm_transfer[class];
        void *batch[TCM_MAX_BATCH];
        unsigned got;
        do {
            tcm_lock(&transfer->lock);
            got = transfer->count < TCM_MAX_BATCH ? transfer->count
                                                  : TCM_MAX_BATCH;
            unsigned rest = transfer->count - got;
            if (got != 0)
                __builtin_memcpy(batch, transfer->object + rest,
                                 got * sizeof(batch[0]));
            tcm_store_relaxed(&transfer->count, rest);
            tcm_unlock(&transfer->lock);
            if (got != 0)
                tcm_central_return(class, batch, got);
        } while (got != 0);
    }
}

void tcm_transfer_lock_all(void) {
    for (unsigned class = 1; class < tcm_class_count; class ++)
        tcm_lock(&tcm_transfer[class].lock);
}

void tcm_transfer_unlock_all(void) {
    for (unsigned class = 1; class < tcm_class_count; class ++)
        tcm_unlock(&tcm_transfer[class].lock);
}
