/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's set-up and end, and those of the state of its threads.
 */
#ifndef TCM_API_LIBRARY_H
#define TCM_API_LIBRARY_H

#include "api/thread_state.h"
#include "api/trace_hooks.h"

/* Sets the library up; any thread, any number of times. false: no address space
   for a heap (yet). */
bool tcm_api_init(void);

/* Reads the settings in the environment, and starts a recording if one of them
   says so. Called by the constructor, or earlier BY_CALL if
   tcm_trace_init_is_due. A second call does only what BY_CALL left to do
   (mtr_init). */
void tcm_library_begin(bool by_call);
static inline void tcm_library_begin_if_due(void) {
    if (TCM_UNLIKELY(tcm_trace_init_is_due()))
        tcm_library_begin(true);
}

/*
 * Gives the calling thread a cache if it is alive and has none; sets the
 * library up before the first one. `own` may stay TCM_NO_CACHE (ended thread,
 * out of memory): callers then use the central lists.
 */
TCM_COLD void tcm_thread_need_cache(struct tcm_thread_state *self);

/* tcm_api_init for a call that allocates nothing but may be recorded: a stream
   needs a thread whose end is noticed. */
static inline bool tcm_api_init_recorded(void) {
    if (!tcm_api_init())
        return false;
    if (tcm_tracing && tcm_self.life == TCM_THREAD_NEW)
        tcm_thread_need_cache(&tcm_self);
    return true;
}

/* Registers the library's handlers of fork (fork.c), once; the earlier the
   better. */
void tcm_fork_handlers(void);
/* Lets no fork by another thread begin any more, where such a fork might keep
   this thread, which ends the process, waiting for ever. Call it last. */
void tcm_fork_exit(void);

#endif
