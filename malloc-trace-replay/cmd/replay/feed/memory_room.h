/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory available for a replay: what the system, the cgroups of this
 * process and its limits leave. Using more gets the process killed, or
 * allocations refused.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_FEED_MEMORY_ROOM_H
#define TOOL_CMD_REPLAY_FEED_MEMORY_ROOM_H

#include "base/compiler.h"

struct replay_memory {
    /* Touching more gets the process killed. UINT64_MAX: unknown. */
    uint64_t room_bytes;
    const char *room_of; /* whose limit that is, in words */
    /* Room that RLIMIT_AS leaves, beyond which allocations are refused. */
    uint64_t address_bytes;
    /* The kernel refuses larger blocks; UINT64_MAX: it refuses none. */
    uint64_t grant_bytes;
};

/* ROOT goes before the names of files in /proc and /sys; "" but in tests. */
void replay_memory_find(struct replay_memory *m, const char *root);
/* The number after NAME at the beginning of a line of TEXT. False: none. */
bool replay_number_in(const char *text, const char *name, uint64_t *value);

#endif
