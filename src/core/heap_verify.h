/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap verifier: a walk over all of core's structures.
 */
#ifndef TCM_CORE_HEAP_VERIFY_H
#define TCM_CORE_HEAP_VERIFY_H

struct tcm_thread_cache;

/* Walks the whole heap and dies on the first broken invariant. Callers
   hold no lock and no other thread allocates. */
void tcm_heap_verify(void);
/*
 * The same while other threads go on, under all locks: caches of others change
 * without one, so only CACHE, the caller's own (or TCM_NO_CACHE), is walked.
 */
void tcm_heap_verify_running(struct tcm_thread_cache *cache);

#endif
