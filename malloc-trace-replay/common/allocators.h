/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocators by the names that command lines give them: the C library's, this
 * project's, and known ones of others.
 *
 * Invariants: nothing here allocates.
 * Threads: any.
 */
#ifndef TOOL_COMMON_ALLOCATORS_H
#define TOOL_COMMON_ALLOCATORS_H

#include "base/compiler.h"

#include <limits.h>

/* That of the C library the tools are built for, which also serves the replays
   that they start. <limits.h> defines __GLIBC__. */
#ifdef __GLIBC__
#define TOOL_ALLOCATOR_C_LIBRARY "glibc"
#else
#define TOOL_ALLOCATOR_C_LIBRARY "musl"
#endif
#define TOOL_ALLOCATOR_OWN TCM_ALLOCATOR_NAME
/* TOOL_ALLOCATOR_OWN in command lines, plans and results of older versions. */
#define TOOL_ALLOCATOR_OWN_OLD "malloc-trace"

enum tool_allocator_found {
    TOOL_ALLOCATOR_UNKNOWN, /* the name is none of a known allocator */
    TOOL_ALLOCATOR_MISSING, /* it is not installed */
    TOOL_ALLOCATOR_FOUND
};

/* Stores the path of the library of the known allocator NAME; "" stands for the
   C library. PATH is set only if it is found. */
enum tool_allocator_found tool_allocator_find(const char *name,
                                              char path[PATH_MAX]);
/* Stores the absolute path of the library FILE: a path, or a name that is
   searched for in about the folders where the loader would. false: there is
   none that can be read. */
bool tool_allocator_find_file(const char *file, char path[PATH_MAX]);

/* The name of known allocator I, of other projects; NULL: there are fewer. */
const char *tool_allocator_known(size_t i);
/* Tells whether PATH, without links, is a library of this project. */
bool tool_allocator_is_own_library(const char *path);
/* Writes the names of the allocators that are installed: "glibc, tcmalloc-mt,
   jemalloc". Returns TEXT. */
const char *tool_allocators_installed(char text[400]);

#endif
