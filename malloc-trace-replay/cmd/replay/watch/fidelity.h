/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The allocator's own counters, which are numeric properties with the names
 * that traces use; and how far a replay with this project's library is from the
 * recorded run: the counters of both side by side.
 *
 * Invariants: this project's libraries allocate nothing for a reading, so the
 * difference of two readings is what was done between them.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_WATCH_FIDELITY_H
#define TOOL_CMD_REPLAY_WATCH_FIDELITY_H

#include "cmd/replay/feed/ring.h"
#include "cmd/replay/run/calls.h"

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

/* Bytes that the heap has memory behind, by the allocator's counters; 0: it
   does not tell. */
uint64_t replay_heap_bytes(const struct replay_calls *calls);

#endif
