/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One call of the allocator under test: what it is, where it stands in the
 * trace, and the clock that it is timed with.
 *
 * Threads: any; the place of a call in a batch without segments is asked for by
 * the thread that runs the batch.
 */
#ifndef TOOL_CMD_REPLAY_RUN_ONE_CALL_H
#define TOOL_CMD_REPLAY_RUN_ONE_CALL_H

#include "base/clock.h"
#include "cmd/replay/feed/ring.h"

/* The kinds of calls that results are told apart by. */
enum replay_kind {
    REPLAY_KIND_MALLOC,
    REPLAY_KIND_CALLOC,
    REPLAY_KIND_REALLOC,
    REPLAY_KIND_ALIGNED,
    REPLAY_KIND_NEW,
    REPLAY_KIND_FREE,
    REPLAY_KIND_DELETE,
    REPLAY_KINDS
};
extern const char *const replay_kind_name[REPLAY_KINDS];

struct replay_one_call {
    enum replay_kind kind;
    uint64_t size;   /* of the block; of a large one that is freed, saturated */
    uint32_t thread; /* as recorded, 0: unknown */
    uint32_t slot;   /* or cell */
    const struct replay_batch *batch;
    const uint64_t *at; /* in it */
};

/* Sets KIND, SIZE and SLOT of *C to those of the operation at W, which may
   begin with words that belong to it. False: there is none. */
bool replay_one_call_at(const uint64_t *w, struct replay_one_call *c);
/* Number of the operation in the trace, from 1. *ABOUT: since operations were
   dealt out to threads, it is only that of the batch's first one. */
uint64_t replay_one_call_place(const struct replay_one_call *c, bool *about);

/* --- The clock that calls are timed with ---------------------------------- */

/* Ticks, as many a second as watch/latency.c measures. The processor's counter
   is read when all before is done and before anything after begins. */
static TCM_ALWAYS_INLINE uint64_t replay_ticks(void) {
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ __volatile__("lfence\n\trdtsc\n\tlfence"
                         : "=a"(low), "=d"(high)
                         :
                         : "memory");
    return (uint64_t)high << 32 | low;
#else
    return tcm_clock_ns();
#endif
}

#endif
