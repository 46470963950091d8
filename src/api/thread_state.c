/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Birth and death of a thread's state, and of the library's.
 *
 * A thread is born with its first slow path. It dies in the last round of its
 * thread-specific destructors: our key's destructor puts the key back until
 * then, so that destructors of others which allocate find a cache. What runs
 * later (the C library's own cleanup) uses the central lists.
 */
#include "api/thread_state.h"
#include "base/check.h"
#include "base/lock.h"

#include <limits.h>
#include <pthread.h>

TCM_TLS struct tcm_thread_state tcm_self = {
    .free_base = TCM_NO_BASE,
    .own = &tcm_no_cache,
#if TCM_TRACING
    .trace = &mtr_no_thread,
#endif
};
TCM_STATIC_ASSERT(sizeof(struct tcm_thread_state) < 128,
                  "thread-local storage stays small");

/* Whatever a program takes of a static archive, it gets this, and with it the
   whole family and the library's constructor. */
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
    return tcm_load_relaxed(&initialised) != 0;
}

static void thread_ends(void *state) {
    struct tcm_thread_state *self = state;
    if (++self->destructor_rounds < PTHREAD_DESTRUCTOR_ITERATIONS &&
        pthread_setspecific(end_key, self) == 0)
        return;
    struct tcm_thread_cache *cache = self->own;
    tcm_trace_thread_end(self);
    self->life = TCM_THREAD_ENDED;
    tcm_thread_leave_plain(self);
    self->own = &tcm_no_cache;
    if (cache != &tcm_no_cache)
        tcm_cache_destroy(cache);
}

void tcm_thread_need_cache(struct tcm_thread_state *self) {
    if (!tcm_api_init() || self->life == TCM_THREAD_ENDED)
        return;
#if TCM_TRACING
    if (self->private_depth != 0)
        return;
#endif
    if (self->own == &tcm_no_cache) {
        struct tcm_thread_cache *cache = tcm_cache_new();
        if (cache == NULL)
            return;
        tcm_thread_set_own(self, cache);
    }
    if (self->life == TCM_THREAD_NEW) {
        /* Live before pthread_setspecific, which may itself allocate. */
        self->life = TCM_THREAD_LIVE;
        tcm_trace_thread_begin(self);
        if (have_end_key)
            pthread_setspecific(end_key, self);
    }
}

void tcm_thread_set_own(struct tcm_thread_state *self,
                        struct tcm_thread_cache *cache) {
    self->own = cache;
#if TCM_TRACING
    bool records =
        tcm_load_relaxed(&self->trace->limit) != NULL || mtr_is_recording();
    if (cache != &tcm_no_cache && records)
        tcm_cache_want_words(cache, true);
#endif
    tcm_thread_put_back(self);
}

void tcm_thread_put_back(struct tcm_thread_state *self) {
    bool plain = self->own != &tcm_no_cache;
#if TCM_TRACING
    if (self->private_depth != 0 ||
        tcm_load_relaxed(&mtr_control)->early != 0 || mtr_is_recording())
        plain = false;
    /* The plain path will push without words. */
    if (plain && self->own->want_words)
        tcm_cache_want_words(self->own, false);
    /* Already so, which no starter has changed, or we see 0. */
    if (plain && tcm_thread_is_plain(self))
        return;
    /* The stores come before the second look in the single order of seq_cst
       operations; a starter sets the flag before it stores here. So we see its
       flag, or its stores replace ours. */
    tcm_store_seq_cst(&self->free_base,
                      plain ? tcm_class_map_base : TCM_NO_BASE);
    tcm_store_seq_cst(&self->alloc_limit, plain ? TCM_TABLE_SMALL + 1 : 0);
    if (plain && mtr_is_recording())
        tcm_thread_leave_plain(self);
#else
    self->free_base = plain ? tcm_class_map_base : TCM_NO_BASE;
    self->alloc_limit = plain ? TCM_TABLE_SMALL + 1 : 0;
#endif
}

#if !TCM_TRACING
void tcm_thread_fork_prepare(void) {
}
void tcm_thread_fork_parent(void) {
}
void tcm_thread_fork_child(void) {
}
#endif
