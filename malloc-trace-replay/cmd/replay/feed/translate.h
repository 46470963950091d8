/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns decoded operations of the trace into the words that the measured loop
 * runs, and keeps the account of live blocks, so that the loop need not.
 *
 * A free gets the size, alignment and kind of call from its slot. Frees and
 * reallocs of blocks whose allocation was lost are left out; a block whose free
 * was lost is freed when its slot is taken again. Of several traces each has
 * slots and threads of its own.
 *
 * Invariants: what goes into the ring keeps the promises of op.h, whatever the
 * trace says. Memory is bounded by the number of threads with operations, and
 * of slots, which is at most `most`.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_FEED_TRANSLATE_H
#define TOOL_CMD_REPLAY_FEED_TRANSLATE_H

#include "base/compiler.h"
#include "cmd/replay/feed/deal.h"
#include "cmd/replay/feed/recorded.h"
#include "cmd/replay/feed/ring.h"
#include "cmd/replay/feed/thread_map.h"
#include "common/collections.h"
#include "trace/check.h"
#include "trace/ops.h"
#include "traceformat/proc_reader.h"

/* A window covers at least this much recorded time. */
#define REPLAY_WINDOW_NS 1000000u

/* In what order and when operations are made. */
struct replay_order {
    uint32_t skew; /* dealt to threads, see deal.h; 0: in the trace's order */
    double speed;  /* of the recorded run; 0: as fast as it goes */
    uint64_t max_idle_ns; /* longest time without an operation, as recorded */
    bool spread; /* batches say how long they took in the recorded run */
};

struct replay_translate {
    struct replay_order order;
    struct replay_deal *deal; /* NULL: in the trace's order */
    bool no_memory;           /* operations that were dealt are lost */
    /* Recorded time: the last one seen; the sum over all traces without long
       idle times; where the window began; where the batch began. */
    uint64_t time_ns, clock_ns, window_ns, batch_ns;

    /* the current batch */
    struct replay_ring *ring;
    struct replay_batch *batch;
    uint64_t *at, *limit;

    /* blocks of the trace */
    uint64_t *slot;  /* see slot_words.h */
    size_t capacity; /* entries of it */
    uint32_t used;   /* slots that were named so far, in all traces */
    uint32_t base;   /* number of this trace's slot 0 */
    uint64_t most;   /* slots this trace can have; set by the caller */
    /* Memory that there is, set by the caller: a batch that would need more is
       not handed out. The kernel refuses blocks above `grant_bytes`; these,
       and what is not present of others, are the `unwritten_bytes`. */
    uint64_t room_bytes, grant_bytes, unwritten_bytes;
    uint64_t live_bytes, live_objects, peak_bytes, requested_bytes;
    uint64_t live_mark; /* a batch ends when more bytes are live */
    uint64_t ops, switches;
    uint64_t
        rare[MTF_OP_LAST_OPERATION + 1]; /* all but the most common, by kind */
    uint64_t unknown_reallocs; /* of blocks that are not in the trace */

    /* Present bytes count only with --touch=auto; set by the caller. */
    bool use_present;
    bool noted;             /* `present` is known for the next operation */
    uint64_t present;       /* bytes */
    uint64_t noted_in;      /* offset of the block that says so */
    uint64_t notes;         /* so far */
    struct tool_map partly; /* by slot + 1: bytes written of a block */

    /* threads */
    struct replay_thread_map threads;
    uint32_t thread;      /* of the next operations */
    bool entered;         /* the cache of that thread is attached */
    uint32_t last_thread; /* of the last operation, 0 none */
    uint32_t index;       /* of the cache that is attached, 0 the replayer's */

    struct replay_recorded recorded; /* of this trace */
    bool sampled; /* the batch ends at a sample of the recorded run */
    struct tool_check *check; /* of this trace, set by the caller; or NULL */
    struct replay_result *result;
    bool apart;                      /* in a prologue or epilogue */
    uint64_t apart_since, apart_ops; /* ops before it; ops in earlier ones */
};

/* Begins the first batch, even without memory (false). ORDER NULL: that of the
   trace, as fast as possible. */
bool replay_translate_init(struct replay_translate *t, struct replay_ring *ring,
                           const struct replay_order *order);
/* Begins a trace. */
void replay_translate_trace(struct replay_translate *t);
/* The operations that follow are THREAD's, 0: of no known one. */
void replay_translate_thread(struct replay_translate *t, uint32_t thread);
/* The operations that follow were made at NS or later. */
void replay_translate_time(struct replay_translate *t, uint64_t ns);
/* Translates N operations of block B. False: one is impossible, or out of
   memory; the rest of the block cannot be used. */
bool replay_translate_ops(struct replay_translate *t,
                          const struct mtf_proc_block *b,
                          const struct mtf_op *ops, size_t n);
/* True if there is memory for what was translated. */
static inline bool replay_translate_fits(const struct replay_translate *t) {
    return (t->unwritten_bytes == 0
                ? t->peak_bytes
                : t->live_bytes - t->unwritten_bytes) <= t->room_bytes;
}
/* Hands over the last batch and the account. */
void replay_translate_end(struct replay_translate *t);

#endif
