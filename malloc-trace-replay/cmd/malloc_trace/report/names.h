/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of call sites: function, file and line, from the modules and their
 * debug information where this program was built with elfutils, from the maps
 * that compilers at run time write, and from the trace for lines of
 * interpreters; else, and where a module is not at hand or is another build,
 * module and offset.
 *
 * A site's frame may stand for several: functions that the compiler inlined
 * into each other at the place. Each has a name; names are numbered, and sites
 * at the same address share them.
 *
 * Invariants: 4 bytes a frame of the trace, and about 100 for each address that
 * was named.
 * Threads: none shared. Names live until names_free.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_NAMES_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_NAMES_H

#include "model/sites.h"

struct names;

struct name {
    const char *special;  /* it is no place, but this; or NULL */
    const char *function; /* NULL: not known; demangled */
    const char *file;     /* NULL: not known, and LINE 0 */
    const char *module;   /* its path; NULL: none */
    uint64_t offset;      /* of the call in the module's file, or its address */
    unsigned line;
    uint8_t language; /* enum mtf_language; 0: native code */
    bool inlined;     /* into the next one */
};

/* FOLDER: where modules are looked for that are not where they were when
   recorded; NULL: nowhere. NULL: no memory. */
struct names *names_new(const struct tool_sites *sites, const char *folder);
void names_free(struct names *n);
/* The number of the innermost name of SITE's frame; *COUNT of them follow each
   other, at least one. Those of its parents are not among them. */
uint32_t names_find(struct names *n, uint32_t site, unsigned *count);
/* NUMBER: below names_count. Good until the next names_find. */
const struct name *names_get(const struct names *n, uint32_t number);
uint32_t names_count(const struct names *n);
/* Whether memory was missing: some sites are "not known" that are. */
bool names_failed(const struct names *n);
/* The innermost name of SITE's frame. */
struct name names_of(struct names *n, uint32_t site);

#endif
