/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The allocator's own counters: numeric properties with the names that traces
 * use.
 *
 * Invariants: this project's libraries allocate nothing for a reading, so the
 * difference of two readings is what was done between them.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_COUNTERS_H
#define TOOL_CMD_REPLAY_COUNTERS_H

#include "base/compiler.h"
#include "cmd/replay/calls.h"
#include "cmd/replay/ring.h"

struct replay_counters {
    uint64_t value[REPLAY_COUNTERS]; /* by number of enum mtf_account */
    uint32_t known;                  /* bit per number */
};

/* Reads the counters of the allocator of CALLS. */
void replay_counters_read(const struct replay_calls *calls,
                          struct replay_counters *out);
/* Makes *AFTER the difference from BEFORE. Known are the counters that both
   have. */
void replay_counters_since(const struct replay_counters *before,
                           struct replay_counters *after);

#endif
