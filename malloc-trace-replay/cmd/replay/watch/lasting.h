/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Greatest value of a curve that lasts, so that a peak of a moment does not
 * hide the state that a program is in for long.
 *
 * Between two values the curve has the lower one, as nobody knows when it
 * changed; the last one holds. Once the curve has more values than
 * places, those of one slice of time are merged into their least one, so a
 * result may be below the true one, by what the curve changed within a few
 * slices, and never above it.
 *
 * Threads: one at a time.
 */
#ifndef TOOL_CMD_REPLAY_WATCH_LASTING_H
#define TOOL_CMD_REPLAY_WATCH_LASTING_H

#include "base/compiler.h"

#include <stdint.h>

#define LASTING_VALUES 4096u
/* Slices of the time so far in which values are merged. */
#define LASTING_SLICES 2048u

/* All zero at first. */
struct lasting {
    unsigned count;
    struct lasting_value {
        uint64_t at;   /* time from which on it holds */
        int64_t value; /* least one of those that were merged */
        uint64_t tag;  /* the caller's, of that one */
    } value[LASTING_VALUES];
};

/* Adds VALUE from the time AT on; times do not go back. Values with one tag are
   one state. */
void lasting_add(struct lasting *l, uint64_t at, int64_t value, uint64_t tag);
/* Returns the least value in that stretch of LENGTH up to END whose least value
   is greatest; if none is that long, the greatest value of all. NULL: there is
   no value. */
const struct lasting_value *lasting_most(const struct lasting *l,
                                         uint64_t length, uint64_t end);

/* Returns the value that held longest up to END, among those that are at least
   LEAST and held for LENGTH. NULL: there is none. */
const struct lasting_value *lasting_longest(const struct lasting *l,
                                            int64_t least, uint64_t length,
                                            uint64_t end);

#endif
