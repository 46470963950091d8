/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that a forked child inherited: those that were alive in its parent at
 * the fork, as the parent's raw trace tells, with what the parent had inherited
 * itself.
 *
 * Invariants: memory grows with the blocks that are alive at once, by 96 bytes
 * each at most.
 * Threads: none shared.
 */
#ifndef TOOL_SORT_INHERITED_H
#define TOOL_SORT_INHERITED_H

#include "base/compiler.h"

struct inherited_block {
    uint64_t token, size;
    uint64_t present; /* bytes; INHERITED_ALL: no fewer are known */
    uint8_t align_log2;
};
#define INHERITED_ALL UINT64_MAX

/* All 0 at first. */
struct inherited {
    struct inherited_block *block; /* in the order of their tokens */
    size_t count, room;
};

/* Turns IN from the blocks that a process had inherited itself into those that
   its child inherits by the fork with the number FORK. NAME: the raw trace of
   the process. False: it does not have that fork, or no memory; IN is empty. */
bool inherited_read(struct inherited *in, const char *name, uint64_t fork);
void inherited_free(struct inherited *in);

#endif
