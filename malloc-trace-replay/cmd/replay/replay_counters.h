/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the allocator tells of itself: its version and its counters, from
 * malloc_info where that has them, else by name.
 *
 * Invariants: between open and close a reading allocates nothing, so that the
 * difference of two readings is what was done between them.
 *
 * Threads: one.
 */
#ifndef CMD_REPLAY_REPLAY_COUNTERS_H
#define CMD_REPLAY_REPLAY_COUNTERS_H

#include "base/compiler.h"
#include "cmd/replay/replay_calls.h"
#include "cmd/replay/replay_ring.h"

struct replay_counters {
    uint64_t value[REPLAY_COUNTERS]; /* by number of enum mtf_account */
    uint32_t known;                  /* bit per number */
    char version[32];                /* empty when not known */
};

/* Once, before the first reading. May allocate if the allocator has a
   malloc_info to be read. */
void replay_counters_open(const struct replay_calls *calls);
/* What it tells now. */
void replay_counters_read(struct replay_counters *out);
/* Once, after the last reading. */
void replay_counters_close(void);

/* What XML, as malloc_info writes it, has of these: elements
   <library ... version="V"/> and <counter name="N" value="V"/>. */
void replay_counters_parse(const char *xml, struct replay_counters *out);
/* From BEFORE to *AFTER, into *AFTER. Known are those that both have. */
void replay_counters_since(const struct replay_counters *before,
                           struct replay_counters *after);

#endif
