/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared libraries: where this project's own ones are, how LD_PRELOAD can name
 * a library, and functions of loaded ones by name.
 */
#ifndef TOOL_COMMON_SHARED_LIBRARY_H
#define TOOL_COMMON_SHARED_LIBRARY_H

#include "base/compiler.h"

#include <limits.h>

#define TOOL_LIBRARY           "libtcmalloc_minimal.so"
#define TOOL_RECORDING_LIBRARY "libtcmalloc_minimal_tracing.so"

/*
 * Stores the path of the library NAME, one of the above: beside the programs of
 * the build tree, in a folder near the installed programs, or where configure
 * put it. false: it is in none of these, a message was printed.
 */
bool tool_own_library(const char *name, char path[PATH_MAX]);
/* Works like tool_own_library, without the message. */
bool tool_own_library_find(const char *name, char path[PATH_MAX]);

/*
 * Replaces PATH by a name that LD_PRELOAD can hold: the loader cuts its value
 * at blanks and colons and expands $ORIGIN and others, with no way to quote.
 * Such a PATH gets a symbolic link LINK in a temporary folder of its own; else
 * LINK is empty. false: a message was printed.
 */
bool tool_preload_link(char path[PATH_MAX], char link[PATH_MAX]);
/* Removes LINK and its folder; an empty LINK: nothing to do. */
void tool_preload_unlink(char link[PATH_MAX]);

/* --- Loaded libraries ----------------------------------------------------- */

/*
 * Why not dlsym: it keeps its result for dlerror in memory from this process's
 * malloc, which may be the one under test; before glibc 2.34 also of a name
 * that it finds. These functions allocate nothing. Threads: any.
 */

/* Returns the function NAME that calls of the program reach; NULL: there is
   none. One that code of its library chooses (an IFUNC) is left to dlsym here,
   and not found by the two functions below. */
void *tool_symbol(const char *name);
/* Returns the function NAME that they would reach if the program had none. */
void *tool_symbol_next(const char *name);
/* Returns the function NAME that LIBRARY itself defines, or NULL. LIBRARY: from
   tool_symbol_library, or NULL. */
void *tool_symbol_own(const void *library, const char *name);
/* Like tool_symbol, if that function is LIBRARY's; else NULL. */
void *tool_symbol_find(const void *library, const char *name);
/* Returns the start of the library that ADDRESS lies in; NULL: in none. */
const void *tool_symbol_library(const void *address);
/* Writes the name of the C library, with its version if it tells one:
   "glibc 2.36", "musl". */
void tool_c_library(char *text, size_t size);
/* Returns the name of the known allocator whose functions LIBRARY has; NULL:
   none. */
const char *tool_allocator_of(const void *library);
/* Writes the name and version of the allocator LIBRARY, "jemalloc 5.3.0"; empty
   if it does not tell. */
void tool_allocator_version(const void *library, char *text, size_t size);

#endif
