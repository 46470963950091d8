/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts about the recorded run: its duration and the allocator's counters. The
 * closing block of a trace has exact figures; a trace that was cut short has
 * only times and samples.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_FEED_RECORDED_H
#define TOOL_CMD_REPLAY_FEED_RECORDED_H

#include "cmd/replay/feed/ring.h"
#include "traceformat/proc_reader.h"

struct replay_recorded {
    uint64_t first_ns, last_ns;
    uint64_t cpu_ns;                 /* 0: unknown */
    bool seen;                       /* a part of a trace was seen */
    uint64_t ops, peak_bytes;        /* from the closing block */
    uint64_t rss_bytes;              /* at the last sample */
    uint64_t value[REPLAY_COUNTERS]; /* by number of enum mtf_account */
    uint32_t known;                  /* bit per number */
    bool is_part; /* the figures cover more than the trace has */
};

/* Notes a time of the trace. */
static inline void replay_recorded_time(struct replay_recorded *c,
                                        uint64_t time_ns) {
    c->seen = true;
    if (c->first_ns == 0)
        c->first_ns = time_ns;
    c->last_ns = time_ns;
}
/* Notes sample OP of block B. */
void replay_recorded_sample(struct replay_recorded *c,
                            const struct mtf_proc_block *b,
                            const struct mtf_op *op);
/* Bytes of the heap with memory behind them at the last sample. 0: unknown. */
uint64_t replay_recorded_heap(const struct replay_recorded *c);
/* Notes closing block B. */
void replay_recorded_closing(struct replay_recorded *c,
                             const struct mtf_proc_block *b);
/* Ends a trace: adds C to RESULT and empties C. */
void replay_recorded_end(struct replay_recorded *c,
                         struct replay_result *result);

#endif
