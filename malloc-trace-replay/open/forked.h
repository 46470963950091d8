/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the traces of the processes that a forked child comes from.
 *
 * Threads: none shared.
 */
#ifndef TOOL_OPEN_FORKED_H
#define TOOL_OPEN_FORKED_H

#include "sort/inherited.h"

/* Reads what the process of the raw trace NAME inherited into IN, from the
   traces of its parent, and of that one's parents, in the same folder. IN stays
   empty where the process was not forked, or the parent's trace is not there.
   The caller frees IN. */
void forked_inherited(struct inherited *in, const char *name);

#endif
