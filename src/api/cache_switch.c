/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls that detach and attach thread caches; contract in
 * gperftools/thread_cache_switch.h.
 */
#include "gperftools/thread_cache_switch.h"
#include "api/export.h"
#include "api/library.h"
#include "api/trace_hooks.h"
#include "base/check.h"

bool TCM_EXPORT(release_malloc_thread_cache)(struct ThreadCacheState **place);
bool TCM_EXPORT(set_malloc_thread_cache)(struct ThreadCacheState *state);

TCM_PUBLIC bool
TCM_EXPORT(release_malloc_thread_cache)(struct ThreadCacheState **place) {
    struct tcm_thread_state *self = &tcm_self;
    if (TCM_UNLIKELY(self->life == TCM_THREAD_ENDED))
        return false;
    TCM_ASSERT(tcm_thread_is_valid(self));
    /* A thread that never asked for memory has none either. */
    struct tcm_thread_cache *cache = self->own;
    if (cache == TCM_NO_CACHE) {
        *place = NULL;
        return true;
    }
    tcm_trace_cache_moves(self, true);
    tcm_thread_drop_own(self);
    tcm_cache_detach(cache);
    *place = (struct ThreadCacheState *)cache;
    return true;
}

TCM_PUBLIC bool
TCM_EXPORT(set_malloc_thread_cache)(struct ThreadCacheState *state) {
    struct tcm_thread_state *self = &tcm_self;
    if (TCM_UNLIKELY(self->life != TCM_THREAD_LIVE)) {
        if (self->life == TCM_THREAD_ENDED)
            return false;
        tcm_thread_need_cache(self);
        if (self->life != TCM_THREAD_LIVE)
            return false;
    }
    struct tcm_thread_cache *cache = self->own;
    struct tcm_thread_cache *next = (struct tcm_thread_cache *)state;
    if (TCM_UNLIKELY(cache == next))
        return true;
    if (TCM_UNLIKELY(cache != TCM_NO_CACHE)) {
        tcm_trace_cache_moves(self, true);
        tcm_thread_drop_own(self);
        tcm_cache_destroy(cache);
    }
    if (next != NULL)
        tcm_cache_attach(next);
    tcm_thread_set_own(self, next != NULL ? next : TCM_NO_CACHE);
    TCM_ASSERT(tcm_thread_is_valid(self));
    if (next != NULL)
        tcm_trace_cache_moves(self, false);
    return true;
}
