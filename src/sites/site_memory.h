/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of tables that only grow: it comes from the kernel, is never given
 * back, and stays in a child of fork.
 *
 * Threads: any, without lock.
 */
#ifndef TCM_SITES_SITE_MEMORY_H
#define TCM_SITES_SITE_MEMORY_H

#include "base/compiler.h"

/* The zeroed memory of at least BYTES that the pointer at PLACE leads to, made
   if that is NULL. NULL: there is no memory. */
void *mts_need(void *place, size_t bytes);

/* BYTES of zeroed memory, cut from *CHUNK, which is NULL at first. Multiples of
   16 BYTES, if all were, begin at one. NULL: there is no memory, or BYTES are
   more than a chunk has. */
void *mts_take(size_t **chunk, size_t bytes);

#endif
