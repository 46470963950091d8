/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call sites of a recording (TCMALLOC_TRACE_SITES): finds the number of the
 * site of a call of malloc or free. doc/call-sites.md has the picture and the
 * terms.
 *
 * A thread first looks up the key of its call among the keys it knows; the
 * inline functions here do that. A key is an address of code (mode CALLER), or
 * a hash with the highest bit set: of a stack, of lines, or of both. A key that
 * the thread does not know goes to mts_find, which finds the site in the tables
 * of the process, and has it defined.
 *
 * Threads: any, each with its own struct mts_thread. No lock is taken, and no
 * memory but that of tcm_os_map is used, unless a function says so. Nothing
 * here calls the loader, and a signal handler that allocates may interrupt any
 * of it.
 */
#ifndef TCM_SITES_CALL_SITES_H
#define TCM_SITES_CALL_SITES_H

#include "base/check.h"
#include "base/compiler.h"
#include "base/linux/elf_modules.h"
#include "sites/lang/lang.h"
#include "sites/site_defs.h"
#include "sites/site_table.h"
#include "sites/site_settings.h"
#include "sites/unwind/stack.h"
#include "traceformat/site_codec.h"

/* Entries of a thread's table of known keys. */
#define MTS_KNOWN_LOG2 10u

struct mts_known {
    uint64_t key;
    uint32_t site;
};

/* State of one thread. The child of any fork finds it zeroed. */
struct mts_thread {
    struct mtf_site_state coding;
    uint8_t call;      /* sticky call of allocations (enum mtf_call) */
    bool has_lines;    /* the mode is LINES */
    bool walks;        /* the mode is not CALLER */
    uint32_t id;       /* in the trace; MTF_THREAD_LATE: shared */
    uint32_t epoch;    /* number of its recording */
    uint64_t stamp;    /* mts_stamp that KNOWN is valid for */
    bool mode_defined; /* the mode is in its stream */
    bool sampling;     /* SAMPLE_LEFT is valid */
    uint64_t sample_left, random;
    struct mts_known known[1u << MTS_KNOWN_LOG2];
    /* Without memory where mts_thread_bytes does not count them. */
    struct mts_lang_walk lang;
    struct mts_thread_stack stack;
};

/* Bytes of a struct mts_thread in the current mode; a multiple of 16. */
size_t mts_thread_bytes(void);

/* Begins a recording of process PID. The caller holds the lock under which
   threads get their session, so that session and epoch of a thread are of one
   recording. */
void mts_begin(uint32_t pid, uint64_t random);
/* Prepares S for thread ID of the recording that began last. */
void mts_thread_begin(struct mts_thread *s, uint32_t id);
/* Ends the use of S by its thread. A walk that uses S may be further out on the
   stack; it notices (mts_lang_walk). */
void mts_thread_leave(struct mts_thread *s);

/* --- Known sites ---------------------------------------------------------- */

/* Number of KEY's entry. Where sites are walks, KEY may also be in the entry
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

/* The site of KEY if the thread knows it: it is defined. Otherwise
   MTF_SITE_NONE, and mts_find is the next step. */
static TCM_ALWAYS_INLINE uint32_t mts_known(const struct mts_thread *s,
                                            uint64_t key) {
    return mts_known_in(s, mts_known_entry(key), key);
}

/* mts_known for modes in which sites are walks. */
static TCM_ALWAYS_INLINE uint32_t mts_known_walk(const struct mts_thread *s,
                                                 uint64_t key) {
    uint32_t site = mts_known(s, key);
    return TCM_LIKELY(site != MTF_SITE_NONE)
               ? site
               : mts_known_in(s, mts_known_entry(key) ^ 1, key);
}

#define MTS_NOT_KNOWN (-1)
/*
 * The site of an allocation of SIZE bytes by a call from CALLER, in modes that
 * need more than CALLER. FP is the frame pointer of the exported function that
 * was called. MTS_NOT_KNOWN: call mts_find. In mode LINES the walk may
 * allocate.
 */
int64_t mts_walk(struct mts_thread *s, size_t size, uintptr_t caller,
                 const void *fp);
/* mts_walk for a function that the exported one has called. In mode SAMPLES no
   site is known. */
int64_t mts_walk_inside(struct mts_thread *s, uintptr_t caller);

/* --- Sites that are not known --------------------------------------------- */

/* Notes that the loader is at work, if CALLER is in it: the loader allocates
   before it loads a module. Call it for each allocation of a thread with sites
   whose site is not known, even if the allocation gets no site or is not
   recorded. */
static TCM_ALWAYS_INLINE void mts_note_loader(uintptr_t caller) {
    if (TCM_UNLIKELY(mts_is_loader(caller))) {
        tcm_elf_modules_change();
        tcm_add_relaxed(&mts_stamp, (uint64_t)1);
    }
}

/* The key of the lines that run, or CALLER if no interpreter runs. Call
   mts_key_done after mts_find. In mode LINES it may allocate (lang.h). 0: the
   calling thread gave S up meanwhile. */
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

/* A call that allocates memory. */
struct mts_call {
    uintptr_t caller;  /* return address of the call */
    uint64_t key;      /* mts_key */
    size_t size;       /* requested bytes */
    const void *inner; /* frame pointer of any function of this library that
                          the call has entered and not left yet */
};
/*
 * Puts the site of CALL into *SITE, and its definition into SINK if the
 * recording lacks it. MTF_SITE_NONE: no memory, not a sample, or a signal
 * handler interrupted a walk of this thread. false: SINK has no room for the
 * definition.
 */
bool mts_find(struct mts_thread *s, const struct mts_sink *sink,
              const struct mts_call *call, uint32_t *site);
/* mts_find for a call that frees; INNER as in struct mts_call. In mode LINES
   the site is the caller alone, because finding lines may allocate. */
bool mts_find_free(struct mts_thread *s, const struct mts_sink *sink,
                   const void *inner, uint32_t *site);
/* True if mts_find_free works in this mode even where frees are recorded
   without sites: modes STACKS and LINES walk stacks anyway. */
bool mts_finds_free(void);

#endif
