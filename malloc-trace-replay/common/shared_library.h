/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the libraries of this project are: beside the programs of the build
 * tree, in a folder near the installed ones, or where configure put it; and how
 * LD_PRELOAD can name a library.
 */
#ifndef TOOL_COMMON_SHARED_LIBRARY_H
#define TOOL_COMMON_SHARED_LIBRARY_H

#include "base/compiler.h"

#include <limits.h>

#define TOOL_LIBRARY           "libtcmalloc_minimal.so"
#define TOOL_RECORDING_LIBRARY "libtcmalloc_minimal_tracing.so"

/* The path of the library NAME, one of the above. false: it is nowhere, a
   message is out. */
bool tool_own_library(const char *name, char path[PATH_MAX]);
/* Works as tool_own_library, without the message. */
bool tool_own_library_find(const char *name, char path[PATH_MAX]);

/*
 * LD_PRELOAD is a list cut at blanks and colons, in which the loader expands
 * $ORIGIN and the like, with no way to quote. PATH becomes a second name of the
 * library that it can name, LINK, in a folder of its own; LINK is empty if
 * there was no need. false: a message is out.
 */
bool tool_preload_link(char path[PATH_MAX], char link[PATH_MAX]);
/* Removes both. */
void tool_preload_unlink(char link[PATH_MAX]);

/* --- Loaded libraries ----------------------------------------------------- */

/*
 * Functions of a library that was loaded, by name.
 *
 * Why not dlsym alone: what it does not find makes a message, in memory of the
 * malloc of this process, which may be the one that is looked at.
 *
 * Invariants: nothing here allocates.
 *
 * Threads: any.
 */
/* Start of the library that ADDRESS lies in; NULL: of none. */
const void *tool_symbol_library(const void *address);
/* The function NAME as a program's call finds it, if it is of LIBRARY; else
   NULL. */
void *tool_symbol_of(const void *library, const char *name);

#endif
