/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory available for a replay, and memory that a trace needs.
 *
 * Available memory is what the system, cgroups and resource limits leave; more
 * gets the process killed or allocations refused. The need is the peak of live
 * bytes, from the closing block at the end of the trace's file.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_FEED_MEMORY_ROOM_H
#define TOOL_CMD_REPLAY_FEED_MEMORY_ROOM_H

#include "base/compiler.h"

struct replay_memory {
    /* Bytes that can be touched; more gets the process killed. UINT64_MAX:
       unknown. */
    uint64_t room_bytes;
    const char *room_of; /* name of that limit, for messages */
    /* RLIMIT_AS, beyond which allocations are refused. */
    uint64_t address_bytes;
    /* Largest block that the kernel grants; UINT64_MAX: any. */
    uint64_t grant_bytes;
};

/* Fills in *M. ROOT is put before the names of files in /proc and /sys: "", or
   a folder of a test. */
void replay_memory_find(struct replay_memory *m, const char *root);
/* Finds the line of TEXT that begins with NAME and reads the number after NAME.
   False: there is none. */
bool replay_number_in(const char *text, const char *name, uint64_t *value);

struct replay_peek {
    uint64_t peak_bytes;     /* of live blocks */
    uint64_t present_blocks; /* blocks with present bytes */
    uint64_t threads;        /* threads with operations; 0: unknown */
};

/* Reads the closing block of trace NAME (see tool_input_open) without consuming
   any of its input. False: NAME is no file, or has no closing block. */
bool replay_peek(const char *name, struct replay_peek *peek);

#endif
