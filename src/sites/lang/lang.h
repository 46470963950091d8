/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of interpreted programs (TCMALLOC_TRACE_SITES=lang): finds the
 * interpreters of the program, and the lines that they run in the calling
 * thread. Each language has a reader: lang_python.c, lang_perl.c, lang_ruby.c.
 *
 * An interpreter among the modules that the program was loaded with, which are
 * never unloaded, is found at set-up by its exported symbols, the first
 * definition in the order of loading, as the loader binds them. Interpreters of
 * other languages, and all of them in a program that was loaded with several,
 * are found when a stack has code of their module for the first time, by the
 * same symbols of that module. Such a module may be unloaded at any time, so
 * its interpreter is read only by a thread whose stack has a frame of it, which
 * keeps it loaded. An interpreter of a version that its reader does not know,
 * or whose structures turn out to be others, is not read, and a message says
 * so.
 *
 * Invariants: a reader reads the structures of an interpreter only in a thread
 * that holds the interpreter's lock, and only the frames of that thread, which
 * keep alive what they refer to. It calls no function of the interpreter that
 * allocates, waits or changes anything.
 * Threads: any; mts_lang_find runs before other threads record.
 */
#ifndef TCM_SITES_LANG_LANG_H
#define TCM_SITES_LANG_LANG_H

#include "base/atomic.h"
#include "base/compiler.h"
#include "traceformat/site_codec.h"

/* Default and greatest number of lines of a site, and most native frames below
   the lines or in place of them. */
#define MTS_LANG_DEPTH     32u
#define MTS_LANG_DEPTH_MAX 256u
#define MTS_LANG_NATIVE    16u

struct mts_lang_interpreter;
struct mts_loops;
struct mts_module;

/* A running line, in the terms of its reader. */
struct mts_lang_frame {
    uintptr_t code;
    uintptr_t detail;
};

/* The names of a line, kept by the hash of what they are made from. */
struct mts_lang_names {
    uint64_t key;
    uint32_t file, line, function;
};
#define MTS_LANG_NAMES_LOG2 9u

/* The walk of a thread: the lines that run in it, innermost first. */
struct mts_lang_walk {
    uint64_t salt;  /* first input of KEY */
    uint64_t key;   /* hash of what decides the names of the lines */
    uint32_t count; /* 0: the thread runs no interpreter */
    const struct mts_lang_interpreter *of; /* interpreter of the frames */
    bool cut;                              /* there are more lines */
    bool is_walking; /* a walk is in progress: calls that it makes, and
                        signal handlers, have no lines */
    uint32_t owner;  /* changes when a thread gives this up, or gets it */
    uintptr_t outer; /* address in the C frame of the function that runs the
                        innermost line; 0: unknown */
    struct mts_lang_frame frame[MTS_LANG_DEPTH_MAX];
    char text[MTF_SITE_TEXT_MAX];
    struct mts_lang_names names[1u << MTS_LANG_NAMES_LOG2];
};

/* Finds the interpreters that the program was loaded with. DEPTH: most lines of
   a site. */
void mts_lang_find(uint32_t depth);
/* A message about interpreters of unknown versions; NULL: there are none. */
const char *mts_lang_notice(void);

/*
 * The key of the lines that run, which are in W until is_walking is cleared; it
 * is not an address. CALLER: the calling thread runs no interpreter.
 *
 * The walk may call functions of an interpreter that read a variable of the
 * thread, for which the loader may have to allocate memory first. Calls of
 * malloc within the walk, and in signal handlers, have no lines. 0: in such a
 * call the thread found that another recording is on, and gave W up.
 */
uint64_t mts_lang_walk(struct mts_lang_walk *w, uintptr_t caller);
static inline void mts_lang_change_owner(struct mts_lang_walk *w) {
    tcm_store_relaxed(&w->owner, tcm_load_relaxed(&w->owner) + 1);
    w->is_walking = false;
}
/* Searches module M, number MODULE, for interpreters; the calling thread runs
   code of it. true: a new one was found, so rows and stacks are out of date. */
bool mts_lang_scan_module(struct mts_module *m, uint32_t module);
/* mts_lang_walk for a stack that has a frame of LOOPS, of an interpreter that
   was loaded after set-up. */
uint64_t mts_lang_walk_late(struct mts_lang_walk *w,
                            const struct mts_loops *loops, uintptr_t caller);
/* The site of W's lines; 0: no memory or no number is left. STAMP is
   mts_stamp. */
uint32_t mts_lang_site(struct mts_lang_walk *w, uint64_t stamp);

#endif
