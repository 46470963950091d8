/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the allocator tells of itself: its counters, which are numeric
 * properties by the names that a trace has for them.
 *
 * Invariants: this project's libraries allocate nothing for a reading, so that
 * the difference of two is what was done between them.
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

/* What the allocator of CALLS tells now. */
void replay_counters_read(const struct replay_calls *calls,
                          struct replay_counters *out);
/* From BEFORE to *AFTER, into *AFTER. Known are those that both have. */
void replay_counters_since(const struct replay_counters *before,
                           struct replay_counters *after);

#endif
