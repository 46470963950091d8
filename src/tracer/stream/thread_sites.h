/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call sites in a thread's stream: the site of the allocations that follow, and
 * the definitions before it (sites/call_sites.h).
 *
 * Threads: the one whose stream it is.
 */
#ifndef TCM_TRACER_STREAM_THREAD_SITES_H
#define TCM_TRACER_STREAM_THREAD_SITES_H

#include "sites/call_sites.h"
#include "tracer/stream/thread_registry.h"

#include <string.h>

/* Whether the allocations of T have sites. A load of its own, so that a fast
   path which compared the byte need not keep it in a register for this. */
static TCM_ALWAYS_INLINE bool mtr_has_sites(const struct mtr_thread *t) {
    return tcm_load_relaxed(&t->alloc_call) == MTR_CALL_SITED;
}

/* Whether the frees of T have sites: then all are served slowly. */
static TCM_ALWAYS_INLINE bool mtr_has_free_sites(const struct mtr_thread *t) {
    return (t->flags & MTR_THREAD_FREE_SITES) != 0;
}

/* The allocations of T that follow are of SITE. At most MTF_SITE_BYTES. */
static TCM_ALWAYS_INLINE void
mtr_put_site(struct mtr_thread *t, struct mts_thread *s, uint32_t site) {
    if (s->coding.last != site)
        mtr_put(t, mtf_inline_payload(MTF_RAW_SITE,
                                      mtf_site_argument(&s->coding, site)));
}

static TCM_ALWAYS_INLINE void mtr_put_sited_call(struct mtr_thread *t,
                                                 struct mts_thread *s,
                                                 enum mtf_call call) {
    if (s->call != call) {
        s->call = (uint8_t)call;
        mtr_put(t, mtf_inline_payload(MTF_RAW_ALLOC_CALL, call));
    }
}

/* The sticky call of allocations, whether or not they have sites. */
static inline uint8_t mtr_alloc_call(const struct mtr_thread *t) {
    return mtr_has_sites(t) ? t->cold->sites->call : t->alloc_call;
}

static inline void mtr_set_alloc_call(struct mtr_thread *t, uint8_t call) {
    if (mtr_has_sites(t))
        t->cold->sites->call = call;
    else
        t->alloc_call = call;
}

/* The stream begins a buffer. */
static inline void mtr_site_new_buffer(struct mtr_thread *t) {
    if (mtr_has_sites(t))
        memset(&t->cold->sites->coding, 0, sizeof(t->cold->sites->coding));
}

/*
 * After mtr_enter, for a call from CALLER with KEY (mts_key) that allocates
 * SIZE bytes: its site, defined if need be, is that of the allocations that
 * follow. May wait, as mtr_enter. false: the recording ended meanwhile, and T
 * may not be used.
 */
bool mtr_site_enter(struct mtr_thread *t, uintptr_t caller, uint64_t key,
                    size_t size);
/* mtr_site_enter for a call that frees (mts_find_free). */
bool mtr_site_enter_free(struct mtr_thread *t);
/* Whether that finds a site, also where frees have none. */
static inline bool mtr_site_finds_free(const struct mtr_thread *t) {
    return mtr_has_sites(t) && mts_finds_free();
}

#endif
