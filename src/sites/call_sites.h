/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call sites of a recording (TCMALLOC_TRACE_SITES): from a call of malloc to
 * the number of its site. doc/call-sites.md has the picture.
 *
 * A thread looks for the key of its call among the keys that it knows (the
 * inline functions here). A key is an address of code (mode CALLER), or a hash
 * with the highest bit set: of a stack, of lines, or of both. Sites of other
 * keys are found in the table of sites (mts_find), and defined.
 *
 * Threads: any, each with its own struct mts_thread. No lock; no memory but
 * that of tcm_os_map, unless a function says so. Nothing here calls the loader
 * or is undone by a signal handler that allocates.
 */
#ifndef TCM_SITES_CALL_SITES_H
#define TCM_SITES_CALL_SITES_H

#include "base/check.h"
#include "base/compiler.h"
#include "sites/lang/lang.h"
#include "sites/site_defs.h"
#include "sites/site_table.h"
#include "sites/site_settings.h"
#include "sites/unwind/stack.h"
#include "traceformat/site_codec.h"

/* Keys of a thread whose sites it knows. */
#define MTS_KNOWN_LOG2 10u

struct mts_known {
    uint64_t key;
    uint32_t site;
};

/* The sites of one thread. The child of any fork finds them zeroed. */
struct mts_thread {
    struct mtf_site_state coding;
    uint8_t call;   /* the sticky call of allocations */
    bool has_lines; /* of interpreted programs */
    bool walks;     /* sites are more than callers */
    uint32_t id;    /* in the trace; MTF_THREAD_LATE: several threads' */
    uint32_t epoch; /* of its recording */
    uint64_t stamp; /* KNOWN is of this; else it is empty */
    bool mode_told; /* the mode stands in its stream */
    bool sampling;  /* the first distance was drawn */
    uint64_t sample_left, random;
    struct mts_known known[1u << MTS_KNOWN_LOG2];
    /* From here on there is memory only where the mode needs it. */
    struct mts_lang_walk lang;
    struct mts_thread_stack stack;
};

/* Bytes of one, in the mode that is set; a multiple of 16. */
size_t mts_thread_bytes(void);

/* A recording of process PID begins. With the lock under which threads get
   their session, so that a thread's session and epoch are of the same. */
void mts_begin(uint32_t pid, uint64_t random);
/* Thread ID begins, in the recording that began last. */
void mts_thread_begin(struct mts_thread *s, uint32_t id);
/* The thread gives S up, maybe in a call that a walk with S made. */
void mts_thread_leave(struct mts_thread *s);

/* --- Known sites ---------------------------------------------------------- */

/* The number of KEY's entry; where sites are walks, one of two has the entry
   whose number differs in the last bit. */
static TCM_ALWAYS_INLINE size_t mts_known_entry(uint64_t key) {
    return key * 0x9E3779B97F4A7C15u >> (64 - MTS_KNOWN_LOG2);
}

static TCM_ALWAYS_INLINE uint32_t mts_known_in(const struct mts_thread *s,
                                               size_t entry, uint64_t key) {
    const struct mts_known *k = &s->known[entry];
    return k->key == key && s->stamp == tcm_load_relaxed(&mts_stamp)
               ? k->site
               : MTF_SITE_NONE;
}

/* The site of KEY, which is defined, or none: mts_find finds it. */
static TCM_ALWAYS_INLINE uint32_t mts_known(const struct mts_thread *s,
                                            uint64_t key) {
    return mts_known_in(s, mts_known_entry(key), key);
}

/* The site of KEY where sites are walks. */
static TCM_ALWAYS_INLINE uint32_t mts_known_walk(const struct mts_thread *s,
                                                 uint64_t key) {
    uint32_t site = mts_known(s, key);
    return TCM_LIKELY(site != MTF_SITE_NONE)
               ? site
               : mts_known_in(s, mts_known_entry(key) ^ 1, key);
}

#define MTS_NOT_KNOWN (-1)
/*
 * The site of an allocation of SIZE bytes by a call from CALLER, for modes that
 * need more than that: the frame pointer of the function that was called is FP.
 * Or MTS_NOT_KNOWN: mts_find finds it. With lines it may allocate.
 */
int64_t mts_walk(struct mts_thread *s, size_t size, uintptr_t caller,
                 const void *fp);
/* The site where the function that was called has called others; of samples
   none is known. */
int64_t mts_walk_inside(struct mts_thread *s, uintptr_t caller);

/* --- Sites that are not known --------------------------------------------- */

/* Of each allocation by a thread with sites that is not of a known one, whether
   or not it has a site or is recorded: the loader, which allocates before it
   loads a module, is at work if CALLER is its. */
static TCM_ALWAYS_INLINE void mts_notice(uintptr_t caller) {
    if (TCM_UNLIKELY(mts_is_loader(caller)))
        tcm_add_relaxed(&mts_stamp, (uint64_t)1);
}

/* The key of the lines that run, or CALLER if there are none; mts_key_done when
   mts_find is over. With lines it may allocate (lang.h). 0: the calling thread
   gave S up meanwhile. */
uint64_t mts_key_late(struct mts_thread *s, uintptr_t caller);
static TCM_ALWAYS_INLINE uint64_t mts_key(struct mts_thread *s,
                                          uintptr_t caller) {
    if (TCM_LIKELY(!s->has_lines))
        return caller;
    uint64_t key = mts_lang_walk(&s->lang, caller);
    return TCM_LIKELY(key != caller) ||
                   tcm_load_acquire(&mts_loops_first) == NULL
               ? key
               : mts_key_late(s, caller);
}

static TCM_ALWAYS_INLINE void mts_key_done(struct mts_thread *s, uint64_t key,
                                           uintptr_t caller) {
    if (key != caller)
        s->lang.is_walking = false;
}

/* A call that allocates. */
struct mts_call {
    uintptr_t caller;  /* where it returns to */
    uint64_t key;      /* mts_key */
    size_t size;       /* bytes that are asked for */
    const void *inner; /* frame pointer of a function of this library that the
                          call has come to, and that has not returned yet */
};
/*
 * The site of CALL, defined by SINK if need be, or MTF_SITE_NONE: no memory, no
 * sample, a walk of this thread is interrupted. false: SINK has no room for the
 * definition.
 */
bool mts_find(struct mts_thread *s, const struct mts_sink *sink,
              const struct mts_call *call, uint32_t *site);
/* The site of a call that frees; INNER as in struct mts_call. Where lines are
   recorded it has its caller alone: finding lines may allocate. */
bool mts_find_free(struct mts_thread *s, const struct mts_sink *sink,
                   const void *inner, uint32_t *site);
/* Whether the caller of a free can be found where frees have no sites: what it
   takes is there where allocations have stacks or lines. */
bool mts_finds_free(void);

#endif
