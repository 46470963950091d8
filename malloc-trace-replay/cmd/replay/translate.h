/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns decoded operations of the trace into the words that the measured loop
 * runs, and keeps the account of live blocks, so that the loop need not.
 *
 * A slot's size, alignment and kind of call go with its free. Frees and
 * reallocs of blocks whose allocation was lost are left out, and a block whose
 * free was lost is freed when its slot is taken again. Of several traces each
 * has slots and threads of its own.
 *
 * Invariants: what goes into the ring keeps the promises of op.h,
 * whatever the trace says. Memory is bounded by the number of slots, which is
 * bounded by `most`, and of threads that had an operation.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_TRANSLATE_H
#define TOOL_CMD_REPLAY_TRANSLATE_H

#include "base/compiler.h"
#include "cmd/replay/deal.h"
#include "cmd/replay/recorded.h"
#include "cmd/replay/ring.h"
#include "cmd/replay/thread_map.h"
#include "common/hash.h"
#include "trace/check.h"
#include "trace/ops.h"
#include "traceformat/proc_reader.h"

/* Recorded time that one window covers, at least. */
#define REPLAY_WINDOW_NS 1000000u

/* In what order, and when, operations are made. */
struct replay_order {
    uint32_t skew; /* dealt to threads, see deal.h; 0: in the trace's order */
    double speed;  /* of the recorded run; 0: as fast as it goes */
    uint64_t max_idle_ns; /* longest time without an operation, as recorded */
    bool spread; /* what is dealt says how long it took in the recorded run */
};

struct replay_translate {
    struct replay_order order;
    struct replay_deal *deal; /* NULL: in the trace's order */
    bool no_memory;           /* something dealt was lost */
    /* Recorded time: the last one seen, of all traces without long idle times,
       where the window began, and where the batch did. */
    uint64_t time_ns, clock_ns, window_ns, batch_ns;

    /* the batch in work */
    struct replay_ring *ring;
    struct replay_batch *batch;
    uint64_t *at, *limit;

    /* blocks of the trace */
    uint64_t *slot;  /* see slots.h */
    size_t capacity; /* entries of it */
    uint32_t used;   /* slots that were named so far, in all traces */
    uint32_t base;   /* number of this trace's slot 0 */
    uint64_t most;   /* slots this trace can have: the caller's bound */
    /* Memory that is there: the caller's. A batch that would need more is not
       handed out. Blocks above `grant_bytes` are refused by the kernel. Live
       blocks have `unwritten_bytes`: of those and of what is not present. */
    uint64_t room_bytes, grant_bytes, unwritten_bytes;
    uint64_t live_bytes, live_objects, peak_bytes, requested_bytes;
    uint64_t live_mark; /* a batch ends when more are live */
    uint64_t ops, switches;
    uint64_t
        rare[MTF_OP_LAST_OPERATION + 1]; /* all but the commonest, by kind */
    uint64_t unknown_reallocs; /* of blocks that are not in the trace */

    /* Present bytes. Only with --touch=auto do they count: the caller's. */
    bool use_present;
    bool noted;             /* `present`, of the operation that follows */
    uint64_t present;       /* bytes */
    uint64_t noted_in;      /* offset of the block that says so */
    uint64_t notes;         /* so far */
    struct tool_map partly; /* by slot + 1: bytes written of a block */

    /* threads */
    struct replay_thread_map threads;
    uint32_t thread;      /* of the operations that follow */
    bool entered;         /* the cache of that thread is attached */
    uint32_t last_thread; /* of the last operation, 0 none */
    uint32_t index;       /* of the cache that is attached, 0 the replayer's */

    struct replay_recorded recorded; /* of this trace */
    bool sampled; /* the recorded run where the batch in work ends */
    struct tool_check *check; /* the caller's, of this trace; or NULL */
    struct replay_result *result;
    bool apart;                      /* in a prologue or epilogue, */
    uint64_t apart_since, apart_ops; /* which began after so many ops; past */
};

/* Begins the first batch, in any case. ORDER NULL: the trace's, fast. False:
   out of memory. */
bool replay_translate_init(struct replay_translate *t, struct replay_ring *ring,
                           const struct replay_order *order);
/* Begins a trace. */
void replay_translate_trace(struct replay_translate *t);
/* The operations that follow are THREAD's, 0: of no known one. */
void replay_translate_thread(struct replay_translate *t, uint32_t thread);
/* The operations that follow were made at NS or later. */
void replay_translate_time(struct replay_translate *t, uint64_t ns);
/* N operations of block B. False: one of them cannot be, or memory is out; the
   rest of the block is of no use. */
bool replay_translate_ops(struct replay_translate *t,
                          const struct mtf_proc_block *b,
                          const struct mtf_op *ops, size_t n);
/* Whether what was translated fits into the memory that is there. */
static inline bool replay_translate_fits(const struct replay_translate *t) {
    return (t->unwritten_bytes == 0
                ? t->peak_bytes
                : t->live_bytes - t->unwritten_bytes) <= t->room_bytes;
}
/* Gives the last batch and the account. */
void replay_translate_end(struct replay_translate *t);

#endif
