/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of call sites: function, file and line. Their sources:
 *
 * - the trace, for lines of interpreted programs;
 * - modules and their debug information, in a build with elfutils;
 * - maps that just-in-time compilers write (perf-PID.map);
 * - module and offset, where a module is missing or is another build.
 *
 * The frame of a site has several names where the compiler inlined functions
 * into each other at its address. Names are numbered; sites at the same address
 * share them.
 *
 * Invariants: 4 bytes a frame of the trace, and about 100 a named address.
 * Threads: none shared. Names live until symbol_names_free.
 */
#ifndef TOOL_SYMBOLS_SYMBOL_NAMES_H
#define TOOL_SYMBOLS_SYMBOL_NAMES_H

#include "model/sites.h"

struct symbol_names;

struct symbol_name {
    const char *special;  /* text in place of a name: "(not known)"; or NULL */
    const char *function; /* NULL: not known; demangled */
    const char *file;     /* NULL: not known, and LINE is 0 */
    const char *module;   /* its path; NULL: none */
    const char *remedy;   /* see symbol_modules_remedy; NULL: nothing to do */
    uint64_t offset; /* of the call in the module's file; without module its
                             address */
    unsigned line;
    uint8_t language; /* enum mtf_language; 0: native code */
    bool inlined;     /* into the function of the next number */
};

/* SITES outlives the result. FOLDER: searched for modules that are not where
   they were recorded, and for perf-PID.map; or NULL. NULL: out of memory. */
struct symbol_names *symbol_names_new(const struct tool_sites *sites,
                                      const char *folder);
void symbol_names_free(struct symbol_names *n);
/* The number of the innermost name of SITE's own frame. Its *COUNT names, at
   least one, have consecutive numbers, innermost first. */
uint32_t symbol_names_find(struct symbol_names *n, uint32_t site,
                           unsigned *count);
/* NUMBER is below symbol_names_count. Valid until the next
   symbol_names_find. */
const struct symbol_name *symbol_names_get(const struct symbol_names *n,
                                           uint32_t number);
uint32_t symbol_names_count(const struct symbol_names *n);
/* True after an out of memory: some known sites are "(not known)". */
bool symbol_names_failed(const struct symbol_names *n);
/* Returns what this build lacks to demangle a name that was found; NULL:
   nothing. */
const char *symbol_names_lacks(const struct symbol_names *n);

#endif
