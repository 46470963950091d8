/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays that grow: a pointer from malloc, and the number of entries that it
 * has room for.
 */
#ifndef TOOL_COMMON_ARRAY_H
#define TOOL_COMMON_ARRAY_H

#include "base/compiler.h"

/*
 * Makes room for NEED entries of SIZE bytes at *ARRAY, a pointer of any type,
 * which has *ROOM of them; both change. Room at least doubles, so that entries
 * added one by one cost constant time each. False: out of memory, nothing
 * changed.
 */
bool tool_array_reserve(void *array, size_t *room, size_t need, size_t size);

#endif
