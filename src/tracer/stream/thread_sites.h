/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call sites in a thread's stream: the SITE event, valid for the allocations
 * behind it, and definitions before it (sites/call_sites.h).
 *
 * Threads: the owner of the stream.
 */
#ifndef TCM_TRACER_STREAM_THREAD_SITES_H
#define TCM_TRACER_STREAM_THREAD_SITES_H

#include "sites/call_sites.h"
#include "tracer/stream/thread_registry.h"

#include <string.h>

/* True if the allocations of T have sites. A separate load, so that a fast path
   that has compared the byte need not keep it in a register for this. */
static TCM_ALWAYS_INLINE bool mtr_has_sites(const struct mtr_thread *t) {
    return tcm_load_relaxed(&t->alloc_call) == MTR_CALL_SITED;
}

/* True if the frees of T have sites; then all frees take the slow path. */
static TCM_ALWAYS_INLINE bool mtr_has_free_sites(const struct mtr_thread *t) {
    return (t->flags & MTR_THREAD_FREE_SITES) != 0;
}

/* Makes SITE the site of the allocations that follow in T. Writes at most
   MTF_SITE_BYTES. */
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

/* The sticky call of allocations, with or without sites. */
static inline uint8_t mtr_alloc_call(const struct mtr_thread *t) {
    return mtr_has_sites(t) ? t->cold->sites->call : t->alloc_call;
}

static inline void mtr_set_alloc_call(struct mtr_thread *t, uint8_t call) {
    if (mtr_has_sites(t))
        t->cold->sites->call = call;
    else
        t->alloc_call = call;
}

/* Resets the coding of sites at the start of a buffer. */
static inline void mtr_site_new_buffer(struct mtr_thread *t) {
    if (mtr_has_sites(t))
        memset(&t->cold->sites->coding, 0, sizeof(t->cold->sites->coding));
}

/*
 * Records the site of a call from CALLER with KEY (mts_key) that allocates SIZE
 * bytes, after mtr_enter: the site, defined if need be, is that of the
 * allocations that follow. May wait, as mtr_enter may. false: the recording
 * ended meanwhile, and T may not be used.
 */
bool mtr_site_enter(struct mtr_thread *t, uintptr_t caller, uint64_t key,
                    size_t size);
/* mtr_site_enter for a call that frees (mts_find_free). */
bool mtr_site_enter_free(struct mtr_thread *t);
/* True if mtr_site_enter_free finds sites even where frees are recorded
   without. */
static inline bool mtr_site_finds_free(const struct mtr_thread *t) {
    return mtr_has_sites(t) && mts_finds_free();
}

#endif
