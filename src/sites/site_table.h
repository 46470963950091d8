/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of call sites of a process: modules (program, libraries) and
 * texts, numbered from 1, and the sites that name them.
 *
 * Invariants: a number stands for one address, in one module, below one parent,
 * as long as the process and its children live. Two numbers may stand for the
 * same site. Modules at the same address are told apart by the loader's
 * allocations: it allocates before it loads a module, so each allocation by the
 * loader, even one without a site, changes mts_stamp, and each site is compared
 * with its module again before it is used.
 * Threads: any. No lock; memory comes from tcm_os_map only. Nothing here calls
 * the loader, and a signal handler that allocates may interrupt any of it.
 */
#ifndef TCM_SITES_SITE_TABLE_H
#define TCM_SITES_SITE_TABLE_H

#include "base/compiler.h"
#include "traceformat/site_codec.h"

/* --- Modules ------------------------------------------------------------- */

/*
 * A module. It is found by base/linux/elf_modules.h, which takes no lock and
 * allocates nothing. It is read only while a thread runs its code, so it cannot
 * be unloaded meanwhile.
 */
struct mts_module {
    uint64_t start, end, bias;
    uint64_t dynamic;     /* address of the dynamic section */
    uint32_t epoch;       /* of the recording that defines it */
    uint32_t stamp;       /* mts_stamp of its last description */
    bool is_lang_scanned; /* lang.c has searched it */
    uint8_t build_id_length;
    uint8_t build_id[MTF_BUILD_ID_MAX];
    uint32_t path_length;
    char path[];
};

#define MTS_MODULES_MAX 16384u

/* True if the code at ADDRESS is of module NUMBER. */
bool mts_module_is_at(uint32_t number, uintptr_t address);
/* Module NUMBER, from 1; NULL: there are not that many. */
struct mts_module *mts_module(uint32_t number);

/* The code of the loader; empty in a static program, and where the C library is
   its own loader. mts_loader_find sets it
   before other threads record. */
extern struct mts_code {
    uintptr_t start;
    size_t bytes;
} mts_loader TCM_LOCAL;
void mts_loader_find(void);

/* True if a call that returns to CALLER comes from the loader. */
static TCM_ALWAYS_INLINE bool mts_is_loader(uintptr_t caller) {
    return caller - mts_loader.start < mts_loader.bytes;
}

/* --- Texts --------------------------------------------------------------- */

/* A text: the name of a file or function. */
struct mts_text {
    uint32_t epoch; /* of the recording that defines it */
    uint32_t next;  /* next text in its bucket */
    uint32_t length;
    uint32_t hash;
    const char *bytes;
};

/* The number of the text of LENGTH bytes, at most MTF_SITE_TEXT_MAX, added if
   it is new. 0: the text is empty, or no memory or no number is left. */
uint32_t mts_text_intern(const char *bytes, uint32_t length);
/* Text NUMBER, from 1; NULL: there is none, or another thread is adding it. */
struct mts_text *mts_text_of(uint32_t number);
/* A number above all texts so far. */
uint32_t mts_texts_end(void);

/* --- Sites --------------------------------------------------------------- */

/* Changes when sites have to be compared with their modules again: a recording
   begins, the loader allocates, an interpreter is found. Never 0. Relaxed: new
   code reaches a thread by some synchronization of the program, which orders
   the change of the stamp as well. */
extern uint64_t mts_stamp TCM_LOCAL;

struct mts_site {
    uint64_t address; /* of a line: language, file and number */
    uint32_t parent;
    uint32_t module; /* of a line: MTS_SITE_IS_LINE, function */
    uint32_t epoch;  /* of the recording that defines it */
    uint32_t stamp;  /* mts_stamp of the last comparison with its module;
                        GONE: the module was replaced */
};

/* Begins a recording, in which nothing is defined yet. */
void mts_table_begin(void);
/* The number of the recording, from 1. */
uint32_t mts_epoch(void);

/* The site of a frame with return address ADDRESS below site PARENT, added if
   it is new. 0: no memory or no number is left. */
uint32_t mts_intern(uint64_t address, uint32_t parent);
#define MTS_SITE_IS_LINE ((uint32_t)1 << 31)

/* A line of an interpreted program; FILE and FUNCTION are numbers of texts. */
struct mts_line {
    enum mtf_language language;
    uint32_t file, line, function;
};
uint32_t mts_intern_line(const struct mts_line *line, uint32_t parent);
/* Splits N into *LINE. false: N is a frame. */
bool mts_line_of(const struct mts_site *n, struct mts_line *line);

/* The node of SITE, which was interned; NULL: another thread is adding it. */
struct mts_site *mts_site_of(uint32_t site);
/* A number above all sites so far. */
uint32_t mts_sites_end(void);

/* Raises the epoch at PLACE to recording NOW, in which its owner is defined;
   an epoch that another thread has raised further stays. Publishes (release)
   that the definition is in a stream; pairs with the acquire loads in
   site_defs.c. */
void mts_raise_epoch(uint32_t *place, uint32_t now);

#endif
