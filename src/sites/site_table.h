/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of call sites that a process has: modules (program, libraries) and
 * texts, numbered from 1, and the sites that name them.
 *
 * Invariants: a number stands for one address, in one module, below one parent,
 * as long as the process and its children live. Two numbers may stand for the
 * same site. Modules are told apart when the loader has been at work: it
 * allocates before it loads one, so each allocation by the loader, also one
 * that has no site, changes mts_stamp, and each site is compared with its
 * module again before it is used.
 * Threads: any. No lock; nothing is allocated but by tcm_os_map. Nothing here
 * calls the loader or is undone by a signal handler that allocates.
 */
#ifndef TCM_SITES_SITE_TABLE_H
#define TCM_SITES_SITE_TABLE_H

#include "base/compiler.h"
#include "traceformat/site_codec.h"

/* --- Modules ------------------------------------------------------------- */

/*
 * Modules are found with _dl_find_object of the C library (glibc 2.35), which
 * takes no lock and allocates nothing; without it all sites lie in no module.
 * A module is looked at only while a thread runs code of it, so it is not
 * unloaded meanwhile.
 */
struct mts_module {
    uint64_t start, end, bias;
    uint64_t dynamic; /* address of its dynamic section */
    uint32_t epoch;   /* it is defined in; see site_table.c */
    uint32_t stamp;   /* what it was last described at */
    bool is_met;      /* of lang.c's: interpreters were looked for in it */
    uint8_t build_id_length;
    uint8_t build_id[MTF_BUILD_ID_MAX];
    uint32_t path_length;
    char path[];
};

#define MTS_MODULES_MAX 16384u

/* Whether the code at ADDRESS is of module NUMBER. */
bool mts_module_is_at(uint32_t number, uintptr_t address);
/* Module NUMBER, from 1; NULL: there are fewer. */
struct mts_module *mts_module(uint32_t number);

/* The loader's code; none in a static program. Set before others record. */
extern struct mts_code {
    uintptr_t start;
    size_t bytes;
} mts_loader TCM_LOCAL;
void mts_loader_find(void);

/* Whether a call that returns to CALLER is the loader's. */
static TCM_ALWAYS_INLINE bool mts_is_loader(uintptr_t caller) {
    return caller - mts_loader.start < mts_loader.bytes;
}

/* --- Texts --------------------------------------------------------------- */

/* Names of files and functions. */
struct mts_text {
    uint32_t epoch; /* it is defined in; see site_table.c */
    uint32_t next;  /* in its bucket */
    uint32_t length;
    uint32_t hash;
    const char *bytes;
};

/* The number of a text of LENGTH bytes, at most MTF_SITE_TEXT_MAX; 0 for an
   empty one, and where there is no memory or no number left. */
uint32_t mts_text_intern(const char *bytes, uint32_t length);
/* Text NUMBER, from 1; NULL: there is none, or it is being made. */
struct mts_text *mts_text_of(uint32_t number);
/* Above the number of each text so far. */
uint32_t mts_texts_end(void);

/* --- Sites --------------------------------------------------------------- */

/* Changes when sites have to be compared with their modules again: a recording
   begins, the loader allocates. Never 0. Relaxed: the code that a change is
   about comes to a thread by some order of the program's own, which orders the
   change, too. */
extern uint64_t mts_stamp TCM_LOCAL;

struct mts_site {
    uint64_t address; /* or language, file and number of a line */
    uint32_t parent;
    uint32_t module; /* or MTS_SITE_IS_LINE and its function */
    uint32_t epoch;  /* of the recording that it is defined in */
    uint32_t stamp;  /* its module was compared then; GONE: it is another */
};

/* A recording begins: what was defined so far is not defined in it. */
void mts_table_begin(void);
/* The number of the recording, which counts from 1. */
uint32_t mts_epoch(void);

/* The site of a frame that returns to ADDRESS, below PARENT; 0: no memory, or
   no number is left. */
uint32_t mts_intern(uint64_t address, uint32_t parent);
#define MTS_SITE_IS_LINE ((uint32_t)1 << 31)

/* A line of an interpreted program; its texts are of site_texts.h. */
struct mts_line {
    enum mtf_language language;
    uint32_t file, line, function;
};
uint32_t mts_intern_line(const struct mts_line *line, uint32_t parent);
/* False: N is no line. */
bool mts_line_of(const struct mts_site *n, struct mts_line *line);

/* SITE, which was interned; NULL: it is being made. */
struct mts_site *mts_site_of(uint32_t site);
/* A number above that of each site so far. */
uint32_t mts_sites_end(void);

/* Raises the epoch at PLACE to recording NOW, in which its owner is defined. A
   thread may have defined it in a later one already: then that stays. */
void mts_tell_epoch(uint32_t *place, uint32_t now);

#endif
