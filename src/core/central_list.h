/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The central lists of a size class: free objects of all its spans, for all
 * threads.
 *
 * A class that is parted (thread_shard.h) has a list in each shard, of the
 * spans that threads of the shard made. The home of a span, the shard of its
 * list, does not change: objects go back there whichever thread frees them, and
 * spans from before the parting stay at home in shard 0. A thread whose list is
 * empty and whose shard has no idle pages takes objects of lists that have many
 * before it gets other pages: so no memory stays with a shard whose threads
 * sleep, but for a bounded part.
 *
 * Invariants: a span of the class is in its home's list, in its bucket, if it
 * has free objects, else in none. A bucket holds spans with like shares of free
 * objects. Objects are taken from the fullest bucket first, so that spans of
 * the others can become empty, and from the lowest slot of the span. A span
 * whose objects are all free goes back to the page heap at once.
 *
 * Threads: one lock per list, rank CENTRAL_LIST. It is not held while a span
 * comes from the page heap or goes back there, because that may call the
 * system: the span is MOVING then, known to one thread. A child that is forked
 * at that moment loses the span.
 */
#ifndef TCM_CORE_CENTRAL_LIST_H
#define TCM_CORE_CENTRAL_LIST_H

#include "base/dlist.h"
#include "base/lock.h"
#include "core/size_class.h"
#include "core/span.h"
#include "core/thread_shard.h"

#define TCM_CENTRAL_BUCKETS 4

struct tcm_central {
    struct tcm_lock lock;
    /* Linked when the class is first used; all NULL before. */
    struct tcm_dlist spans[TCM_CENTRAL_BUCKETS]; /* [0]: fewest free objects */
    void *free_tables;   /* tables of object words, zero except the link */
    uint64_t span_count; /* this and the next three: read without the lock */
    uint64_t free_objects;
    uint64_t fetches;
    uint64_t returns;
    uint32_t heat;            /* see tcm_class_waits */
    struct tcm_backoff looks; /* at other lists */
    uint8_t shard;            /* its number */
    uint8_t size_class;       /* since it was linked */
} TCM_ALIGNED(2 * TCM_CACHE_LINE);

/* Home of the span of OBJECT, which is of CLASS and the caller's. */
uint32_t tcm_object_home(unsigned size_class, const void *object);

/* Writes up to COUNT objects to OUT in the order of a bin, which uses the last
   one first: within a span the lowest address comes last, but before it objects
   that share a cache line with others. Returns how many: fewer when memory is
   short. */
unsigned tcm_central_fetch(unsigned size_class, void **out, unsigned count);
/* Takes back COUNT objects. Dies on a pointer that is not an object in use of
   this class. */
void tcm_central_return(unsigned size_class, void *const *objects,
                        unsigned count);

/*
 * Object words: of a small object in a table of its span, which is made when
 * first asked for, of a large block in its span's record. Builds without object
 * words have none: the functions do nothing. Threads: any, for a block that the
 * caller owns.
 */
/* Address of the object word of PTR, the start of a block in use. NULL: it has
   no table. MAKE: the table is made if there is none. Words of a new table and
   of a new large block are 0. The word of a freed small object stays until the
   object is allocated again, or its span goes back to the page heap. */
uint64_t *tcm_object_word(const void *ptr, bool make);

/* Word of OBJECT, for a bin's entry. It is tcm_no_word if there is no memory
   for a table: fast paths store to a word without a check. */
uint64_t *tcm_object_word_or_none(const void *object);
extern uint64_t tcm_no_word;

/* Takes and returns the lock of the list that SPAN is of, so that it stays as
   it is. NULL: SPAN, a record found through the page map, is not a SMALL one of
   CLASS, or no longer. */
struct tcm_lock *tcm_central_lock_span(const struct tcm_span *span,
                                       unsigned size_class);

/* Sums over the lists of a class; of several moments. */
struct tcm_central_figures {
    uint64_t spans, free_objects, fetches, returns;
};
void tcm_central_figures(unsigned size_class, struct tcm_central_figures *out);

/* The locks of all lists, around fork: no shard is opened meanwhile. */
void tcm_central_lock_all(void);
void tcm_central_unlock_all(void);

#endif
