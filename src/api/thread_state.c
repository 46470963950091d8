/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Birth and death of a thread's state, and of the library's.
 *
 * A thread is born with its first slow path. It ends when our key's destructor
 * is called for the second time: other destructors mostly run in the first
 * round, and those which allocate there find a cache. What runs later uses the
 * central lists. A thread that was born too late for two calls, or that leaves
 * without any, is ended by a thread that is born later.
 */
#include "api/thread_state.h"
#include "api/fork_exit.h"
#include "api/trace_hooks.h"
#include "base/check.h"
#include "base/lock.h"

#include <limits.h>
#include <pthread.h>

TCM_TLS struct tcm_thread_state tcm_self = {
    .own = &tcm_no_cache,
#if TCM_TRACING
    .trace = &mtr_no_thread,
#endif
};
TCM_STATIC_ASSERT(sizeof(struct tcm_thread_state) < 128,
                  "thread-local storage stays small");

/* A program that takes anything from the static archive takes this file, and
   with it the whole family and the library's constructor. */
__attribute__((used)) static const struct tcm_family *const anchor =
    &tcm_family;

static pthread_key_t end_key;
static bool have_end_key;
static uint32_t initialised;
static struct tcm_lock init_lock = TCM_LOCK_INIT(TCM_RANK_API);

static void thread_ends(void *state);

bool tcm_api_init(void) {
    if (TCM_LIKELY(tcm_load_acquire(&initialised) != 0))
        return true;
    tcm_lock(&init_lock);
    if (tcm_load_relaxed(&initialised) == 0 && tcm_heap_init()) {
        have_end_key = pthread_key_create(&end_key, thread_ends) == 0;
        /* Publishes the heap to threads that see the flag without the lock. */
        tcm_store_release(&initialised, 1u);
    }
    tcm_unlock(&init_lock);
    tcm_fork_handlers();
    return tcm_load_relaxed(&initialised) != 0;
}

/* The C library makes PTHREAD_DESTRUCTOR_ITERATIONS rounds. The second call
   comes in the second of them if the thread was born before its destructors
   ran, in the third or fourth if it was born by one. */
static void thread_ends(void *state) {
    struct tcm_thread_state *self = state;
    TCM_ASSERT(self->life == TCM_THREAD_LIVE && tcm_thread_is_valid(self));
    TCM_ASSERT(!tcm_trace_is_private(self));
    if (++self->end_calls == 1 && pthread_setspecific(end_key, self) == 0)
        return;
    struct tcm_thread_cache *cache = self->own;
    struct tcm_thread_record *record = self->record;
    tcm_trace_thread_end(self);
    self->life = TCM_THREAD_ENDED;
    tcm_thread_drop_own(self);
    self->record = NULL;
    if (cache != &tcm_no_cache)
        tcm_cache_destroy(cache);
    if (record != NULL)
        tcm_record_remove(record);
    TCM_ASSERT(tcm_thread_is_valid(self));
}

/* Releases what a thread left that is gone without its end. */
static void end_dead_thread(void) {
    struct tcm_thread_record *dead = tcm_record_take_dead();
    if (dead == NULL)
        return;
    TCM_ASSERT(dead != tcm_self.record);
    TCM_ASSERT(dead->cache == NULL || dead->cache != tcm_self.own);
    if (dead->trace != NULL)
        tcm_trace_dead_thread(dead->trace);
    if (dead->cache != NULL)
        tcm_cache_destroy(dead->cache);
    tcm_record_free(dead);
}

void tcm_thread_need_cache(struct tcm_thread_state *self) {
    TCM_ASSERT(self == &tcm_self);
    if (!tcm_api_init() || self->life == TCM_THREAD_ENDED ||
        tcm_trace_is_private(self))
        return;
    if (self->own == &tcm_no_cache) {
        struct tcm_thread_cache *cache = tcm_cache_new();
        if (cache == NULL)
            return;
        tcm_thread_set_own(self, cache);
    }
    if (self->life == TCM_THREAD_NEW) {
        /* Live before the calls below: the C library, or a library that
           interposes it, may allocate in them. */
        self->life = TCM_THREAD_LIVE;
        end_dead_thread();
        self->record = tcm_record_add();
        if (self->record != NULL && self->own != &tcm_no_cache)
            self->record->cache = self->own;
        if (have_end_key)
            pthread_setspecific(end_key, self);
    }
    TCM_ASSERT(tcm_thread_is_valid(self));
}

void tcm_thread_set_own(struct tcm_thread_state *self,
                        struct tcm_thread_cache *cache) {
    TCM_ASSERT(self == &tcm_self && self->life != TCM_THREAD_ENDED);
    TCM_ASSERT(self->own == &tcm_no_cache && !tcm_trace_is_private(self));
    TCM_ASSERT(cache == &tcm_no_cache || tcm_load_relaxed(&cache->attached));
    self->own = cache;
    if (self->record != NULL)
        self->record->cache = cache == &tcm_no_cache ? NULL : cache;
    /* What was detached while recording has its words. */
    if (cache != &tcm_no_cache && !cache->want_words &&
        tcm_trace_uses_words(self))
        tcm_cache_want_words(cache, true);
    tcm_thread_put_back(self);
}

void tcm_thread_put_back(struct tcm_thread_state *self) {
    struct tcm_thread_cache *cache = self->own;
    TCM_ASSERT(self == &tcm_self);
    if (cache == &tcm_no_cache)
        return;
    if (tcm_trace_is_private(self) || tcm_trace_is_recording()) {
        tcm_cache_shut(cache);
        return;
    }
    /* The plain path will push without words. */
    if (tcm_object_words && cache->want_words)
        tcm_cache_want_words(cache, false);
    /* Open already: had a starter shut it, we would see 0. */
    if (tcm_cache_is_open(cache))
        return;
    /* The stores come before the second look in the single order of seq_cst
       operations; a starter sets the flag before it shuts caches. So we see its
       flag, or its stores replace ours. */
    tcm_cache_open(cache);
    if (tcm_trace_is_recording())
        tcm_cache_shut(cache);
}
