/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transfer caches of a size class: objects that one thread gave up and
 * another will soon want, kept as plain pointers so that neither thread touches
 * their spans. A class that is parted (central_list.h) has one in each shard: a
 * thread takes objects from that of its shard, and gives a batch up to that of
 * the home of the batch's first object. So blocks that one thread frees for
 * another return to where they were made.
 *
 * Invariants: a stack of at most `capacity` objects, whose memory is made at
 * first use. Objects that do not fit go on to the central list, missing ones
 * come from there; neither under this lock.
 *
 * Threads: one lock per cache, rank TRANSFER_CACHE. count and low are also read
 * without it.
 */
#ifndef TCM_CORE_TRANSFER_CACHE_H
#define TCM_CORE_TRANSFER_CACHE_H

#include "base/lock.h"
#include "core/run_set.h"

struct tcm_transfer {
    struct tcm_lock lock;
    uint32_t count;
    uint32_t capacity; /* 0 as long as there is no memory */
    uint32_t low;      /* least count since the last trim: objects that were not
                     needed */
    uint32_t heat;     /* see tcm_class_waits */
    uint32_t trims;    /* by threads of its shard */
    void **object;
    uint64_t hits; /* requests served without the central list */
} TCM_ALIGNED(TCM_CACHE_LINE);

/* Writes up to COUNT objects of CLASS, at most four batches, to OUT in the
   order of a bin, which uses the last one first. Returns how many; 0: out of
   memory. */
unsigned tcm_transfer_remove(unsigned size_class, void **out, unsigned count);
/* Takes COUNT objects (at most TCM_MAX_BATCH) of CLASS. */
void tcm_transfer_insert(unsigned size_class, void *const *objects,
                         unsigned count);
/* Moves the objects of CLASS that were not needed since the last call to the
   central lists. */
void tcm_transfer_trim(unsigned size_class);
/* Moves all objects of all classes to the central lists. */
void tcm_transfer_flush(void);

/* Number of objects of CLASS in its caches, and of requests that they served;
   of several moments. */
uint64_t tcm_transfer_objects(unsigned size_class);
uint64_t tcm_transfer_hits(unsigned size_class);

/* Copies the objects of CLASS in SHARD to OUT, which has TCM_TRANSFER_MOST
   places. Returns how many. */
#define TCM_TRANSFER_MOST (16u * TCM_MAX_BATCH)
unsigned tcm_transfer_copy(uint32_t shard, unsigned size_class, void **out);

/* The locks of all caches, around fork: no shard is opened meanwhile. */
void tcm_transfer_lock_all(void);
void tcm_transfer_unlock_all(void);

#endif
