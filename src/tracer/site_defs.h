/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way of an allocation with a call site into its stream.
 *
 * Threads: any.
 */
#ifndef TCM_TRACER_SITE_DEFS_H
#define TCM_TRACER_SITE_DEFS_H

#include "base/compiler.h"
#include "tracer/recorder.h"
#include "tracer/site_modules.h"
#include "tracer/sites.h"

struct mtr_thread;

/* Of each allocation by a thread with sites that is not of a known one, whether
   or not it has a site or is recorded: the loader, which allocates before it
   loads a module, is at work if CALLER is its. */
static TCM_ALWAYS_INLINE void mtr_site_notice(uintptr_t caller) {
    if (TCM_UNLIKELY(mtr_is_loader(caller)))
        tcm_add_relaxed(&mtr_site_stamp, (uint64_t)1);
}

/* What the site of a call from CALLER is known by, or the lines of it, if there
   are any; mtr_site_key_done after it is known or not. With lines it may
   allocate (lang.h). 0: the calling thread gave S up meanwhile. */
uint64_t mtr_site_key_late(struct mtr_thread_sites *s, uintptr_t caller);
static TCM_ALWAYS_INLINE uint64_t mtr_site_key(struct mtr_thread_sites *s,
                                               uintptr_t caller) {
    if (TCM_LIKELY(!s->has_lines))
        return caller;
    uint64_t key = mtr_lang_walk(&s->lang, caller);
    return TCM_LIKELY(key != caller) ||
                   tcm_load_acquire(&mtr_loops_first) == NULL
               ? key
               : mtr_site_key_late(s, caller);
}

static TCM_ALWAYS_INLINE void
mtr_site_key_done(struct mtr_thread_sites *s, uint64_t key, uintptr_t caller) {
    if (key != caller)
        s->lang.is_walking = false;
}

/*
 * After mtr_enter, for a call from CALLER with KEY (mtr_site_key) that
 * allocates SIZE bytes: its site, defined if need be, is that of the
 * allocations that follow. May wait, as mtr_enter. false: the recording ended
 * meanwhile, T cannot be used.
 */
bool mtr_site_enter(struct mtr_thread *t, uintptr_t caller, uint64_t key,
                    size_t size);

/* The same for a call that frees. Where lines are recorded it has its caller
   alone: finding lines may allocate. */
bool mtr_site_enter_free(struct mtr_thread *t);
/* Whether the caller of a free can be found where frees have no sites: what it
   takes is there where allocations have stacks or lines. */
bool mtr_site_finds_free(const struct mtr_thread *t);

#define MTR_SITE_NOT_KNOWN (-1)
/*
 * The site of an allocation of SIZE bytes by a call from CALLER, for modes that
 * need more than that: the frame pointer of the function that was called is FP.
 * Or MTR_SITE_NOT_KNOWN: mtr_site_enter finds it. With lines it may allocate.
 */
int64_t mtr_site_walk(struct mtr_thread *t, size_t size, uintptr_t caller,
                      const void *fp);
/* The same where that function has called others; of samples none is known. */
int64_t mtr_site_walk_inside(struct mtr_thread *t, uintptr_t caller);

#endif
