/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Switching thread caches without switching threads.
 *
 * A thread's cache of free objects can be detached from it and another one
 * attached, in tens of nanoseconds. A replayer uses this to run the operations
 * of many recorded threads on one thread, each with its own cache.
 */
#ifndef GPERFTOOLS_THREAD_CACHE_SWITCH_H
#define GPERFTOOLS_THREAD_CACHE_SWITCH_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ThreadCacheState;

/*
 * Detaches the calling thread's cache and stores it in *PLACE_STATE_HERE, NULL
 * if the thread has none. The thread is then without a cache; its next malloc
 * or free makes a new one. A detached cache counts in the budget of all caches
 * and may be attached by any one thread.
 *
 * false: nothing changed (after the thread's last destructor round).
 */
bool release_malloc_thread_cache(struct ThreadCacheState **place_state_here);

/*
 * Drains and destroys the calling thread's cache, if any, and attaches STATE;
 * NULL attaches none. To destroy a detached cache, attach it and then set NULL.
 *
 * false: nothing changed (after the thread's last destructor round, or no
 * memory to set up the library).
 */
bool set_malloc_thread_cache(struct ThreadCacheState *state);

#ifdef __cplusplus
}
#endif

#endif
