/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peak of live bytes before a trace is read: the closing block at a file's
 * end has it.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_FEED_PEEK_H
#define TOOL_CMD_REPLAY_FEED_PEEK_H

#include "base/compiler.h"

struct replay_peek {
    uint64_t peak_bytes;     /* of live blocks */
    uint64_t present_blocks; /* those that have present bytes; 0: none */
};

/* NAME as for tool_input_open. False: unknown, because it is no file or has no
   closing block. Consumes nothing of it. */
bool replay_peek(const char *name, struct replay_peek *peek);

#endif
