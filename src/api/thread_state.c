/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/thread_state.h"
#include "base/check.h"
#include "base/linux/usdt.h"
#include "core/cache_registry.h"

TCM_TLS struct tcm_thread_state tcm_self = {
    .own = TCM_NO_CACHE,
#if TCM_TRACING
    .trace = &mtr_no_thread,
#endif
};
TCM_STATIC_ASSERT(sizeof(struct tcm_thread_state) < 128,
                  "thread-local storage stays small");

TCM_USDT_SEMAPHORE(tcm_alloc_listeners);
TCM_USDT_SEMAPHORE(tcm_free_listeners);

void tcm_thread_set_own(struct tcm_thread_state *self,
                        struct tcm_thread_cache *cache) {
    TCM_ASSERT(self == &tcm_self && self->life != TCM_THREAD_ENDED);
    TCM_ASSERT(self->own == TCM_NO_CACHE && !tcm_trace_is_private(self));
    TCM_ASSERT(cache == TCM_NO_CACHE || tcm_load_relaxed(&cache->attached));
    self->own = cache;
    if (self->record != NULL)
        self->record->cache = cache == TCM_NO_CACHE ? NULL : cache;
    /* A cache that was detached while recording has its words. */
    if (cache != TCM_NO_CACHE && !cache->want_words &&
        tcm_trace_uses_words(self))
        tcm_cache_want_words(cache, true);
    tcm_thread_resume_plain(self);
}

void tcm_thread_resume_plain(struct tcm_thread_state *self) {
    struct tcm_thread_cache *cache = self->own;
    TCM_ASSERT(self == &tcm_self);
    if (cache == TCM_NO_CACHE)
        return;
    if (tcm_trace_is_private(self) || tcm_trace_is_recording()) {
        tcm_cache_shut(cache);
        return;
    }
    /* The plain path pushes without words. */
    if (tcm_object_words && cache->want_words)
        tcm_cache_want_words(cache, false);
    /* The other threads may take no slow path for long. */
    if (tcm_load_relaxed(&tcm_alloc_listeners) != 0) {
        if (tcm_cache_is_open(cache))
            tcm_registry_shut_all();
        return;
    }
    /* Open already: if a starter had shut it, this would read 0. */
    if (tcm_cache_is_open(cache))
        return;
    /* In the single order of seq_cst operations the stores of tcm_cache_open
       come before this second check, and a starter sets its flag before it
       shuts caches. So either the check sees the flag, or the starter's stores
       come after ours. */
    tcm_cache_open(cache);
    if (tcm_trace_is_recording())
        tcm_cache_shut(cache);
}
