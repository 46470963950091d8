/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for the allocator's own records: a bump allocator over chunks that are
 * never returned, and pools of equal records over it.
 *
 * Threads: tcm_meta_alloc any; a pool's callers hold the pool's lock.
 */
#ifndef TCM_CORE_META_ALLOC_H
#define TCM_CORE_META_ALLOC_H

#include "base/atomic.h"
#include "base/compiler.h"

#define TCM_META_ALIGN 64

/* Longest request. */
#define TCM_META_MOST ((size_t)32 << 10)

/* BYTES of zeroed memory, aligned to TCM_META_ALIGN, never returned. NULL: out
   of memory, or more than TCM_META_MOST. */
void *tcm_meta_alloc(size_t bytes);

/* Maps memory ahead if little is left. For callers that hold no lock and are
   about to take one under which records are made. */
void tcm_meta_stock_slow(void);
extern bool tcm_meta_low; /* a hint; relaxed */
static inline void tcm_meta_stock(void) {
    if (TCM_UNLIKELY(tcm_load_relaxed(&tcm_meta_low)))
        tcm_meta_stock_slow();
}

/*
 * Keeps a reserve for the records of a heap of HEAP_BYTES. It serves urgent
 * pools when the system has no more memory: to split a freed block into smaller
 * ones takes records even then. Only the thread that makes the heap grow calls
 * this, with the growth lock held. false: out of memory.
 */
bool tcm_meta_keep_reserve(uint64_t heap_bytes);

/* Bytes taken from the system. */
uint64_t tcm_meta_mapped_bytes(void);

/* Calls VISIT, without a lock, for each range that was mapped and may have been
   written to. */
void tcm_meta_each(void (*visit)(void *ctx, uintptr_t start, size_t bytes),
                   void *ctx);

void tcm_meta_lock(void);
void tcm_meta_unlock(void);
/* Called in the child of fork with the lock held. */
void tcm_meta_fork_child(void);

/* Records of one size. A free record keeps the link in its first word. */
struct tcm_pool {
    void *free;
    size_t record_bytes;
    bool urgent; /* may use the reserve */
};

#define TCM_POOL_INIT(bytes)                                                   \
    { NULL, (bytes), false }
#define TCM_POOL_INIT_URGENT(bytes)                                            \
    { NULL, (bytes), true }

/* A record, zeroed if it was never used before. NULL: out of memory. */
void *tcm_pool_get(struct tcm_pool *pool);
void tcm_pool_put(struct tcm_pool *pool, void *record);

#endif
