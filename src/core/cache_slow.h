/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slow functions of a thread's cache: its life, empty and full bins, idle
 * memory and budget.
 *
 * Threads: the caller is the thread that CACHE is attached to. None calls
 * upwards or reads the clock; errno stays as it is.
 */
#ifndef TCM_CORE_CACHE_SLOW_H
#define TCM_CORE_CACHE_SLOW_H

#include "base/compiler.h"

struct tcm_thread_cache;

/* A new cache with nothing in it, attached, counted in the budget. NULL: out
   of memory. */
struct tcm_thread_cache *tcm_cache_new(void);
/* Returns all objects to the central lists and frees CACHE. */
void tcm_cache_destroy(struct tcm_thread_cache *cache);
/* Marks CACHE as used by no thread, or by one again. No lock, no loop. */
void tcm_cache_detach(struct tcm_thread_cache *cache);
void tcm_cache_attach(struct tcm_thread_cache *cache);

/*
 * Idle memory and budget. tcm_cache_refill only takes objects, so its caller
 * does the upkeep first: a recorder reads its clock before memory is given up,
 * and again after memory was got. tcm_cache_make_room does its own upkeep.
 */
bool tcm_cache_upkeep_due(const struct tcm_thread_cache *cache);
void tcm_cache_upkeep(struct tcm_thread_cache *cache);

/* The bin of CLASS (not 0) is empty: gets at least one object into it. false:
   out of memory. */
bool tcm_cache_refill(struct tcm_thread_cache *cache, unsigned size_class);
/* The bin of CLASS (not 0) is full: raises its capacity or returns objects to
   the central list. true: there is room. false: the object is better not
   cached, or there is no memory for the bin; the caller passes it to
   tcm_heap_free_one. */
bool tcm_cache_make_room(struct tcm_thread_cache *cache, unsigned size_class);

/* Returns all objects to the central lists; the cache stays. */
void tcm_cache_flush(struct tcm_thread_cache *cache);

/* Gives every entry its word from now on, for which tables are made as needed;
   or none needs it. */
void tcm_cache_want_words(struct tcm_thread_cache *cache, bool want);

#endif
