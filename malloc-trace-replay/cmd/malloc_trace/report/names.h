/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of call sites: function, file and line, from the modules and their
 * debug information where this program was built with elfutils; else, and where
 * a module is not at hand or is another build, module and offset.
 *
 * Threads: none shared. Names live until names_free.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_NAMES_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_NAMES_H

#include "model/sites.h"

struct names;

struct name {
    const char *function; /* NULL: not known; demangled */
    const char *file;     /* NULL: not known, and LINE 0 */
    unsigned line;
    const char *module; /* its path; NULL: none */
    uint64_t offset;    /* of the call in the module's file, or its address */
};

/* FOLDER: where modules are looked for that are not where they were when
   recorded; NULL: nowhere. NULL: no memory. */
struct names *names_new(const struct tool_sites *sites, const char *folder);
void names_free(struct names *n);
/* The name of the innermost frame of SITE. */
struct name names_of(struct names *n, uint32_t site);

#endif
