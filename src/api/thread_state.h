/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a thread of the program has of ours, in thread-local storage: its cache,
 * its stream, its state of life.
 *
 *   alloc_limit  requests below take malloc's plain path: TCM_TABLE_SMALL + 1
 *   free_base    whence free's plain path counts pages: tcm_class_map_base
 *   own          the cache attached to the thread
 *   trace        the thread's stream, or mtr_no_thread
 *
 * The two plain paths must compare a size with the largest of the table, and
 * the number of a page with the largest of the range, in any case. While a
 * thread records, or has no cache yet, alloc_limit is 0 and free_base is
 * TCM_NO_BASE, so that no request is below the one and no page within the
 * other: these compares lead to the traced or the slow path, and a state that
 * is off costs nothing.
 *
 * Invariants: own is never NULL (tcm_no_cache stands in). alloc_limit is 0
 * exactly when free_base is switched off too, but for a moment in which either
 * is changed. trace->limit != 0 implies that own wants words.
 *
 * Threads: the owner, but a thread that starts a recording switches the first
 * two off (state word protocol, tracer/tracer.h), under the registry lock.
 *
 * Total size stays below 128 bytes, so that a library loaded by dlopen finds
 * room in the static thread-local block.
 */
#ifndef TCM_API_THREAD_STATE_H
#define TCM_API_THREAD_STATE_H

#include "api/trace_hooks.h"
#include "base/compiler.h"
#include "base/dlist.h"
#include "core/heap.h"

enum tcm_thread_life {
    TCM_THREAD_NEW = 0, /* nothing set up yet */
    TCM_THREAD_LIVE,
    TCM_THREAD_ENDED /* past its last destructor round: no cache any more */
};

struct tcm_thread_state {
    size_t alloc_limit;
    uintptr_t free_base;
    struct tcm_thread_cache *own;
#if TCM_TRACING
    struct mtr_thread *trace;
    struct tcm_thread_cache *saved_own; /* while in recorder code */
    struct mtr_thread *saved_trace;
    struct tcm_dlist link;  /* in the registry of threads */
    uint32_t late_id;       /* the thread's id after its end */
    uint16_t private_depth; /* > 0: in recorder code, served by the arena */
#endif
    uint8_t life;
    uint8_t destructor_rounds;
};

extern TCM_TLS struct tcm_thread_state tcm_self;

/*
 * Gives the calling thread a cache if it is alive and has none, and sets the
 * library up before the first. own may stay tcm_no_cache (ended thread, out of
 * memory): callers then use the central lists.
 */
TCM_COLD void tcm_thread_need_cache(struct tcm_thread_state *self);

/* Library set-up; any thread, any number of times. false: no address space for
   a heap (yet). */
bool tcm_api_init(void);

/* Attaches CACHE (or tcm_no_cache) as own, with words if the thread records. */
void tcm_thread_set_own(struct tcm_thread_state *self,
                        struct tcm_thread_cache *cache);

/* Lets the plain paths use own again, unless a recording is on. */
void tcm_thread_put_back(struct tcm_thread_state *self);

/* True when the plain paths are in use. */
static TCM_ALWAYS_INLINE bool
tcm_thread_is_plain(const struct tcm_thread_state *self) {
    return tcm_load_relaxed(&self->alloc_limit) != 0;
}

/* Sends the calling thread to the traced or slow paths. */
static inline void tcm_thread_leave_plain(struct tcm_thread_state *self) {
    tcm_store_relaxed(&self->alloc_limit, 0);
    tcm_store_relaxed(&self->free_base, TCM_NO_BASE);
}

/* Does nothing; in fork_exit.c, whose constructor nothing refers to. */
void tcm_library_anchor(void);
/* Refers to every file with exported functions. */
extern const struct tcm_family tcm_family;

/* Around fork. */
void tcm_thread_fork_prepare(void);
void tcm_thread_fork_parent(void);
void tcm_thread_fork_child(void);

#endif
