/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peak of live bytes of a trace before it is read: a file's account stands
 * at its end.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_PEEK_H
#define TOOL_CMD_REPLAY_PEEK_H

#include "base/compiler.h"

struct replay_peek {
    uint64_t peak_bytes;     /* of live blocks */
    uint64_t present_blocks; /* those that have present bytes; 0: none */
};

/* NAME as tool_input_open takes it. False: unknown, because it is no file or
   its end has no account; no byte of it was consumed. */
bool replay_peek(const char *name, struct replay_peek *peek);

#endif
