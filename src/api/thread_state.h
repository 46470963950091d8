/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The allocator's thread-local state: the thread's cache, its stream, and its
 * record.
 *
 *   own     the cache attached to the thread
 *   trace   the thread's stream, or mtr_no_thread
 *   record  what other threads know of the thread (thread_record.h)
 *
 * The plain paths compare a size with the largest of the table, and a page
 * number with the end of the range. While a thread records, its cache is shut
 * (core/thread_cache.h): both bounds are 0, so the same compares lead to the
 * traced or slow path. So recording costs nothing while it is off. The cache
 * that stands in for a missing one is always shut.
 *
 * Invariants: own is never NULL (TCM_NO_CACHE stands in). trace->limit != 0
 * implies that own wants words.
 *
 * Threads: only the owner. A thread that starts a recording shuts the caches
 * (tracer/recording.h), whose memory outlives their threads. It does not touch
 * these states: when a thread ends without notice, its thread-local storage may
 * be unmapped or reused.
 *
 * Size: below 128 bytes, so that a library loaded by dlopen finds room in the
 * static thread-local block.
 */
#ifndef TCM_API_THREAD_STATE_H
#define TCM_API_THREAD_STATE_H

#include "api/thread_record.h"
#include "base/check.h"
#include "base/compiler.h"
#include "core/heap.h"
#if TCM_TRACING
#include "tracer/tracer.h"
#endif

/* 1 in the tracing library, else 0. */
enum { tcm_tracing = TCM_TRACING };

enum tcm_thread_life {
    TCM_THREAD_NEW = 0, /* nothing set up yet */
    TCM_THREAD_LIVE,
    TCM_THREAD_ENDED /* no cache any more; its last destructors may run */
};

struct tcm_thread_state {
    struct tcm_thread_cache *own;
    struct tcm_thread_record *record; /* NULL: none, or no memory for it */
#if TCM_TRACING
    struct mtr_thread *trace;
    struct tcm_thread_cache *saved_own; /* while in recorder code */
    struct mtr_thread *saved_trace;
    uintptr_t caller; /* return address of the call; tcm_trace_from_here */
    uint32_t late_id; /* the thread's id after its end */
    uint16_t private_depth; /* > 0: in recorder code, served by the arena */
#endif
    uint8_t life;
    uint8_t end_calls; /* of our key's destructor */
};

extern TCM_TLS struct tcm_thread_state tcm_self;

/* Semaphores of the probes (alloc_probes.h): how many listen, written by them.
 */
extern TCM_LOCAL uint16_t tcm_alloc_listeners;
extern TCM_LOCAL uint16_t tcm_free_listeners;

/* ------------------------------------------------------------------------ */
/* Recording, as the state tells; never on in the untraced library          */

#if TCM_TRACING
/* True while the calls of the program's threads are recorded. */
static inline bool tcm_trace_is_recording(void) {
    return mtr_is_recording();
}

/* True in recorder code: serve this call from the private arena. */
static inline bool tcm_trace_is_private(const struct tcm_thread_state *self) {
    return self->private_depth != 0;
}

/* True if the traced paths may use the words of SELF's cache: they do as long
   as its stream has room, which may be left from an earlier recording. */
static inline bool tcm_trace_uses_words(const struct tcm_thread_state *self) {
    return tcm_load_relaxed(&self->trace->limit) != NULL ||
           tcm_trace_is_recording();
}
#else
static inline bool tcm_trace_is_recording(void) {
    return false;
}
static inline bool tcm_trace_is_private(const struct tcm_thread_state *self) {
    (void)self;
    return false;
}
static inline bool tcm_trace_uses_words(const struct tcm_thread_state *self) {
    (void)self;
    return false;
}
#endif

/* ------------------------------------------------------------------------ */
/* The cache attached to the thread                                         */

/* Attaches CACHE (or TCM_NO_CACHE) as own, with words if the thread records. */
void tcm_thread_set_own(struct tcm_thread_state *self,
                        struct tcm_thread_cache *cache);
/* Detaches `own` from the state: TCM_NO_CACHE takes its place, and the cache is
   the caller's. */
static inline void tcm_thread_drop_own(struct tcm_thread_state *self) {
    TCM_ASSERT(self == &tcm_self);
    self->own = TCM_NO_CACHE;
    if (TCM_LIKELY(self->record != NULL))
        self->record->cache = NULL;
}

/* True if the parts of SELF, the calling thread's state, agree. For
   assertions. */
static inline bool tcm_thread_is_valid(const struct tcm_thread_state *self) {
    bool has_cache = self->own != TCM_NO_CACHE;
    if (self != &tcm_self || self->own == NULL)
        return false;
    if (self->life != TCM_THREAD_LIVE)
        return !has_cache && self->record == NULL;
    return !has_cache ||
           (tcm_load_relaxed(&self->own->attached) &&
            (self->record == NULL || self->record->cache == self->own));
}

/* Lets the plain paths use `own` again, unless a recording is on or a listener
   wants samples. */
void tcm_thread_resume_plain(struct tcm_thread_state *self);

/* True when the plain paths are in use. */
static TCM_ALWAYS_INLINE bool
tcm_thread_is_plain(const struct tcm_thread_state *self) {
    return tcm_cache_is_open(self->own);
}

#endif
