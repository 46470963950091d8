/* SPDX-License-Identifier: BSD-3-Clause */
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
#ifndef TOOL_COMMON_SYMBOL_H
#define TOOL_COMMON_SYMBOL_H

#include "base/compiler.h"

/* Start of the library that ADDRESS lies in; NULL: of none. */
const void *tool_symbol_library(const void *address);
/* The function NAME as a program's call finds it, if it is of LIBRARY; else
   NULL. */
void *tool_symbol_of(const void *library, const char *name);

#endif
