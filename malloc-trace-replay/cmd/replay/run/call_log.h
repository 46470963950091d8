/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that were replayed, with the addresses that the allocator returned,
 * as a compact memory trace in text form with tags:
 *
 *     malloc(8) = 55d0c2a0<1>
 *     realloc(55d0c2a0<1>, 16) = 55d0c2c0<2>
 *     free(55d0c2c0<2>)
 *
 * Operations run one by one. The clocks stand still while a line is written, so
 * no figure contains the writing; all contain what stopping the clocks for each
 * call costs.
 *
 * Invariants: nothing here allocates. Only calls that succeeded have a line; a
 * realloc that was refused has one that frees its block.
 *
 * Threads: one; blocks are in slots.
 */
#ifndef TOOL_CMD_REPLAY_RUN_CALL_LOG_H
#define TOOL_CMD_REPLAY_RUN_CALL_LOG_H

#include "cmd/replay/run/arena.h"
#include "cmd/replay/run/exec.h"
#include "cmd/replay/watch/measure.h"
#include "cmd/replay/feed/ring.h"

struct replay_call_log {
    int fd;                   /* -1: not wanted */
    int error;                /* errno of the first failed write */
    struct replay_table tags; /* by slot */
    uint64_t last_tag;
    size_t used;
    char *bytes; /* resident */
};

/* NAME NULL: no log is wanted. False: errno is set, perhaps to TCM_EFOREIGN. */
bool replay_call_log_open(struct replay_call_log *log, const char *name);
/* Bytes that it adds to the resident memory. */
size_t replay_call_log_bytes(const struct replay_call_log *log);
/* Room for the slots of B. False: out of memory. */
bool replay_call_log_fits(struct replay_call_log *log,
                          const struct replay_batch *b);
/* Runs the operations of B, timed and logged. */
void replay_call_log_batch(struct replay_call_log *log, struct replay_exec *x,
                           const struct replay_batch *b,
                           struct replay_time *time);
/* Closes the log. Returns 0, or the errno of the first write that failed. */
int replay_call_log_close(struct replay_call_log *log);

#endif
