/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory table: every resident page of the heap is live, partly live, empty
 * or never used, by the heap's own spans and by what the kernel tells of the
 * pages.
 *
 * A page of the system is
 *
 *   live     wholly within blocks that are in use
 *   partly   within such blocks, and free for the rest: free objects in thread
 *            caches, transfer caches or central lists, ends of spans
 *   empty    within no block that is in use, and not never used
 *   never    RELEASED as a whole and resident all the same, as a huge page may
 *            be; or one of the allocator's own records
 *
 * Invariants, in bytes:
 *   usable + free = live pages + partly pages
 *   usable + free + empty + never = resident
 * Classes, each in objects:
 *   blocks + thread_cache + transfer_cache + central_list = all of its spans
 * They are those of one moment, and the latter two exact, if no thread
 * allocates, frees or writes to memory meanwhile; else each page is as it was
 * found.
 *
 * Threads: any that holds no lock of core. Each lock is held for a bounded
 * number of steps: one bin, one transfer cache, one span of a central list, a
 * few hundred spans of a shard.
 */
#ifndef TCM_CORE_HEAP_MEMORY_H
#define TCM_CORE_HEAP_MEMORY_H

#include "core/core_config.h"

/* A size class; number 0 is large blocks, each of which has a size of its
   own. */
struct tcm_memory_class {
    uint64_t size;  /* usable bytes of a block; 0: large blocks */
    uint64_t spans; /* runs of pages that it has */
    uint64_t blocks;
    uint64_t thread_cache; /* free objects, and so the next two */
    uint64_t transfer_cache;
    uint64_t central_list;
    uint64_t usable_bytes; /* resident bytes of blocks */
    uint64_t free_bytes;   /* other resident bytes of its spans */
};

struct tcm_memory {
    uint64_t page_bytes; /* of the system */
    /* Resident pages, and their bytes. */
    uint64_t live_pages;
    uint64_t partly_pages;
    uint64_t empty_pages;
    uint64_t never_pages;
    uint64_t usable_bytes;
    uint64_t free_bytes; /* of partly pages */
    uint64_t empty_bytes;
    uint64_t empty_run_bytes; /* of these in free runs, the rest in spans */
    uint64_t never_bytes;     /* sum of the next four */
    uint64_t reserve_bytes;   /* RELEASED */
    uint64_t record_bytes;    /* spans, caches, object words */
    uint64_t map_bytes;       /* maps of pages */
    uint64_t arena_bytes;     /* the private arena */
    uint64_t resident_bytes;
    uint64_t huge_bytes; /* of resident_bytes in the heap: in huge pages */
    uint64_t huge_usable_bytes;
    uint64_t huge_known; /* 0: such pages cannot be told apart, and pages of
                            zeros that were only read count as resident */
    /* Bytes of the heap without memory. */
    uint64_t absent_bytes;      /* of blocks */
    uint64_t absent_free_bytes; /* of free objects and FREE runs */
    uint64_t returned_bytes;    /* RELEASED: given back, or not used yet */
    uint64_t reserved_bytes;    /* addresses of its ranges, not mapped */
    struct tcm_memory_class by_class[TCM_MAX_CLASSES];
};

/* Makes the table, in memory from the system. NULL: there is none, or the
   system does not tell which pages are resident. */
struct tcm_memory *tcm_memory_new(void);
/* Frees a table; MEMORY may be NULL. */
void tcm_memory_delete(struct tcm_memory *memory);

#endif
