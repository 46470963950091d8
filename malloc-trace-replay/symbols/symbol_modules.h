/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of recorded programs and libraries, and the frames at an address in
 * them. A file is searched where it was recorded, then in the user's folder,
 * then by build id. A build without elfutils finds nothing
 * (symbols/symbol_stubs.c).
 *
 * Threads: none shared.
 */
#ifndef TOOL_SYMBOLS_SYMBOL_MODULES_H
#define TOOL_SYMBOLS_SYMBOL_MODULES_H

#include "model/sites.h"

/* Most frames at one address: functions inlined into each other. */
#define SYMBOL_DEPTH 64u

/* A function that runs, and the line that it has reached. */
struct symbol_frame {
    const char *function; /* the linker's name if that is C++ or Rust; NULL:
                             not known */
    const char *within;   /* linker's name of the function that FUNCTION is
                             local to; NULL: none */
    const char *plain;    /* FUNCTION without its scopes; NULL: it is a linker's
                             name, or not known */
    const char *file;     /* NULL: not known */
    unsigned line;        /* 0: not known */
    bool line_only;       /* functions that are inlined here are not known */
};

/* --- Modules -------------------------------------------------------------- */

struct symbol_modules;

/* SITES outlives the result. FOLDER: the user's, or NULL. NULL: out of
   memory. */
struct symbol_modules *symbol_modules_new(const struct tool_sites *sites,
                                          const char *folder);
void symbol_modules_free(struct symbol_modules *m);
/* Fills FRAME for the byte OFFSET of module NUMBER, innermost function first;
   returns the number of frames, 0 if nothing is known. Texts live until
   symbol_modules_free. */
unsigned symbol_modules_find(struct symbol_modules *m, uint32_t number,
                             uint64_t offset,
                             struct symbol_frame frame[SYMBOL_DEPTH]);

/* Remedy where module NUMBER lacks lines or inlined functions: "compile with
   -g". Follows a symbol_modules_find that found none or LINE_ONLY. Lives until
   symbol_modules_free. */
const char *symbol_modules_remedy(struct symbol_modules *m, uint32_t number);

/* --- Debug information ---------------------------------------------------- */

/* Functions and lines of one file's debug information (DWARF), by address. */

struct Dwarf; /* libdw's */
struct symbol_debug;

/* DWARF stays the caller's and outlives the index. NULL: out of memory. */
struct symbol_debug *symbol_debug_new(struct Dwarf *dwarf);
/* Name of a file that is missing, which has the functions of some code
   (-gsplit-dwarf); NULL: none is known to be. */
const char *symbol_debug_missing(const struct symbol_debug *x);
/* The file of the line of ADDRESS; NULL: not known. */
const char *symbol_debug_file(struct symbol_debug *x, uint64_t address);
void symbol_debug_free(struct symbol_debug *x);
/* Fills FRAME, innermost function first; returns the number of frames, 0 if
   nothing is known of ADDRESS. Texts belong to DWARF or to X. */
unsigned symbol_debug_find(struct symbol_debug *x, uint64_t address,
                           struct symbol_frame frame[SYMBOL_DEPTH]);

#endif
