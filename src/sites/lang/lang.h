/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lines of interpreted programs that allocate (TCMALLOC_TRACE_SITES=lang):
 * which interpreters this program has, and what they run in the calling thread.
 * A reader for each of them is in lang_python.c, lang_perl.c, lang_ruby.c.
 *
 * Interpreters are found at set-up among the modules that the program was
 * loaded with, which are never unloaded: by their exported symbols, the first
 * definition in the order of loading, as the loader binds them. Those of other
 * languages, and all where the program was loaded with several, are found when
 * a stack has code of their module first, by the same symbols of that module.
 * They may go away at any time: such an interpreter is asked only by a thread
 * whose stack has a frame of it, and so keeps it. One of a version that its
 * reader does not know is left alone, and said.
 *
 * Invariants: a reader reads the structures of an interpreter only in a thread
 * that holds its lock, and only its own thread's frames, which keep alive what
 * they refer to. It asks nothing of the interpreter that allocates, waits or
 * changes anything.
 * Threads: any; mts_lang_find before others record.
 */
#ifndef TCM_SITES_LANG_LANG_H
#define TCM_SITES_LANG_LANG_H

#include "base/atomic.h"
#include "base/compiler.h"
#include "traceformat/site_codec.h"

/* Lines of a site, and most frames of the native code that is run by the
   innermost one, or instead of any. */
#define MTS_LANG_DEPTH     32u
#define MTS_LANG_DEPTH_MAX 256u
#define MTS_LANG_NATIVE    16u

struct mts_lang_interpreter;
struct mts_loops;
struct mts_module;

/* A line that runs, as its reader knows it. */
struct mts_lang_frame {
    uintptr_t what;
    uintptr_t where;
};

/* The names of a frame, by the hash of what they are made from. */
struct mts_lang_names {
    uint64_t key;
    uint32_t file, line, function;
};
#define MTS_LANG_NAMES_LOG2 9u

/* Lines that run in a thread, innermost first. */
struct mts_lang_walk {
    uint64_t salt;  /* KEY began with it */
    uint64_t key;   /* hash of all that names the lines: files, functions */
    uint32_t count; /* 0: no interpreter runs here */
    const struct mts_lang_interpreter *of; /* whose frames they are */
    bool cut;                              /* there are more */
    bool is_walking; /* a call inside of it has no lines */
    uint32_t owner;  /* changes when a thread gives this up, or gets it */
    uintptr_t outer; /* in the frame, on the C stack, of the function that runs
                        the innermost one; 0: not known */
    struct mts_lang_frame frame[MTS_LANG_DEPTH_MAX];
    char text[MTF_SITE_TEXT_MAX];
    struct mts_lang_names names[1u << MTS_LANG_NAMES_LOG2];
};

/* Finds the interpreters. DEPTH: the most lines of a site. */
void mts_lang_find(uint32_t depth);
/* A message about interpreters of unknown versions; NULL: there are none. */
const char *mts_lang_notice(void);

/*
 * A key of the lines that run, which W has until is_walking is set back, and no
 * address; CALLER if no interpreter runs in the calling thread. May call
 * functions of an interpreter that read a variable of the thread, for which the
 * loader may have to make room first: so it may allocate. Such calls, and those
 * of signal handlers, have no lines. 0: in such a call the thread found that
 * another recording is on, and gave W up.
 */
uint64_t mts_lang_walk(struct mts_lang_walk *w, uintptr_t caller);
static inline void mts_lang_pass_on(struct mts_lang_walk *w) {
    tcm_store_relaxed(&w->owner, tcm_load_relaxed(&w->owner) + 1);
    w->is_walking = false;
}
/* Looks for an interpreter in module M, which has number MODULE and of which
   the calling thread runs code: whether there is one that was not known. Then
   rows and stacks are out of date. */
bool mts_lang_meet(struct mts_module *m, uint32_t module);
/* mts_lang_walk for a stack that has a frame of LOOPS, of such a module. */
uint64_t mts_lang_walk_late(struct mts_lang_walk *w,
                            const struct mts_loops *loops, uintptr_t caller);
/* The site of W's lines; 0: no memory, or no number left. STAMP: another one
   when other code may have come to an address (mts_stamp). */
uint32_t mts_lang_site(struct mts_lang_walk *w, uint64_t stamp);

#endif
