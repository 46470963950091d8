/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Translates decoded operations of the trace into the words that the measured
 * loop runs, and keeps the account of live blocks for that loop.
 *
 * A free gets size, alignment and kind of call from its slot. Frees and
 * reallocs of a block whose allocation was lost are left out; a block whose
 * free was lost is freed when its slot is taken again. Each trace of several
 * has its own slots and threads.
 *
 * Invariants: batches in the ring keep the invariants of op.h, whatever the
 * trace contains. Memory is bounded by the number of threads with operations,
 * and of slots, which is at most `most`.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_FEED_TRANSLATE_H
#define TOOL_CMD_REPLAY_FEED_TRANSLATE_H

#include "base/compiler.h"
#include "cmd/replay/feed/deal.h"
#include "cmd/replay/feed/ring.h"
#include "common/collections.h"
#include "trace/ops.h"
#include "trace/trace_check.h"
#include "traceformat/proc_reader.h"

/* --- Recorded run --------------------------------------------------------- */

/*
 * Facts about the recorded run: its duration and the allocator's counters. The
 * closing block of a trace has exact figures; a trace that was cut short has
 * only times and samples.
 */

struct replay_recorded {
    uint64_t first_ns, last_ns;
    uint64_t cpu_ns;          /* 0: unknown */
    bool seen;                /* a part of a trace was seen */
    uint64_t ops, peak_bytes; /* from the closing block */
    uint64_t rss_bytes;       /* at the last sample */
    uint64_t untraced_frees;
    uint64_t value[REPLAY_COUNTERS]; /* by number of enum mtf_account */
    uint32_t known;                  /* bit per number */
    bool is_part; /* the figures cover more than the trace has */
};

/* Notes a time of the trace. HAS_OPS: operations came before it. Recorded time
   begins with the first operation: what was before a window, or before the kept
   part of a flight recording, is not this trace's. */
static inline void replay_recorded_time(struct replay_recorded *c,
                                        uint64_t time_ns, bool has_ops) {
    c->seen = true;
    if (!has_ops || c->first_ns == 0)
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

/* --- Translation ---------------------------------------------------------- */

/* Recorded threads, and the indices of their thread caches: small numbers from
   1, which are used again when a thread ends. All zero: empty. */
struct replay_thread_map {
    struct replay_thread {
        uint32_t id;
        uint32_t index; /* 0 until the thread has an operation */
        bool counted;   /* the thread had an operation */
        bool failed;    /* the thread had a call that failed */
        struct tool_check_life life;
    } * thread; /* in the order of first appearance */
    struct tool_ids ids;
    uint32_t *free_index;
    size_t free_count, free_room;
    uint32_t indices;     /* 1 + indices given out so far */
    uint64_t counted;     /* threads with an operation */
    uint64_t failed_only; /* threads with failed calls only */
};

/* Returns the entry of thread ID, which is made if there is none; valid until
   the next call. NULL: out of memory. */
struct replay_thread *replay_threads_get(struct replay_thread_map *t,
                                         uint32_t id);
/* Gives ENTRY an index. False: out of memory. */
bool replay_threads_index(struct replay_thread_map *t,
                          struct replay_thread *entry);
/* Ends thread ID: takes its index back and returns it; 0: it had none. Frees of
   the thread may follow. */
uint32_t replay_threads_end(struct replay_thread_map *t, uint32_t id);
void replay_threads_fini(struct replay_thread_map *t);

/* Least recorded time of a window. */
#define REPLAY_WINDOW_NS 1000000u

/* Order and time of operations. */
struct replay_order {
    uint32_t skew;  /* skew of threads, see deal.h; 0: the order of the trace */
    bool undecided; /* the skew is for a trace with several threads; with one
                       thread the order is that of the trace */
    double speed;   /* multiple of the recorded speed; 0: as fast as possible */
    bool clock;     /* the allocator is given recorded time */
    uint64_t max_idle_ns; /* longest recorded pause without operations */
    bool spread; /* batches get the time that they took in the recorded run */
    bool sites;  /* allocations are preceded by their call sites */
    /* Numbers of operations, ascending, behind each of which a batch ends. */
    const uint64_t *stop;
    size_t stops;
};

struct replay_translate {
    struct replay_order order;
    struct replay_deal *deal; /* NULL: the order of the trace */
    bool no_memory;           /* dealt operations are lost */
    bool undecided;           /* `deal` holds the batches */
    /* Recorded time: the last one seen; the sum over all traces, with pauses
       cut to `max_idle_ns`; the beginning of the window; the beginning of the
       batch. */
    uint64_t time_ns, clock_ns, window_ns, batch_ns;

    /* The current batch. */
    struct replay_ring *ring;
    struct replay_batch *batch;
    uint64_t *at, *limit;

    /* Blocks of the trace. */
    uint64_t *slot;  /* words of slots: see translate.c */
    size_t capacity; /* entries of `slot` */
    uint32_t used;   /* slots named so far, in all traces */
    uint32_t base;   /* number of slot 0 of this trace */
    uint64_t most;   /* most slots that this trace can have; set by the caller
                        */
    /* Memory available, set by the caller: a batch that needs more is not
       handed out. The kernel refuses blocks above `grant_bytes`. These, and the
       parts of others that are not present, are the `unwritten_bytes`. */
    uint64_t room_bytes, grant_bytes, unwritten_bytes;
    uint64_t live_bytes, live_objects, peak_bytes, requested_bytes;
    uint64_t live_mark; /* live bytes that end a batch when they are exceeded */
    uint64_t ops, switches;
    uint64_t
        rare[MTF_OP_LAST_OPERATION + 1]; /* by kind: all but the most common
                                            operations */
    uint64_t unknown_reallocs; /* reallocs of blocks that are not in the trace
                                  */

    /* Present bytes count in some modes only (replay_touch); set by the
       caller. */
    bool use_present;
    bool writes_all;   /* a replay makes all resident that is not known to be
                        untouched; set by the caller */
    bool noted;        /* `present` is known for the next operation */
    uint64_t present;  /* in bytes */
    uint64_t noted_in; /* offset of the block that notes it */
    uint64_t notes;    /* notes of present bytes so far */
    struct tool_map partly; /* by slot + 1: bytes that are written of a block */

    /* Threads. */
    struct replay_thread_map threads;
    uint64_t threads_before; /* threads with operations in earlier traces */
    uint64_t ops_before;     /* operations of earlier traces */
    bool several;            /* an earlier trace has several threads */
    uint32_t site;           /* call site of the next allocations */
    size_t next_stop;        /* in order.stop */
    uint32_t thread;         /* thread of the next operations */
    bool entered;            /* the cache of `thread` is attached */
    uint32_t last_thread;    /* thread of the last operation, 0: none yet */
    uint32_t index; /* index of the attached cache, 0: the replayer's own
                             */

    struct replay_recorded recorded; /* facts of this trace */
    bool sampled; /* the batch ends at a sample of the recorded run */
    struct tool_check *check; /* checks of this trace, set by the caller; or
                                 NULL */
    struct replay_result *result;
    bool apart;                      /* in a prologue or epilogue */
    uint64_t apart_since, apart_ops; /* operations before this one; operations
                                        in earlier ones */
};

/* Begins the first batch, even when out of memory (which returns false). ORDER
   NULL: that of the trace, as fast as possible. */
bool replay_translate_init(struct replay_translate *t, struct replay_ring *ring,
                           const struct replay_order *order);
/* Begins a trace. */
void replay_translate_trace(struct replay_translate *t);
/* Sets the thread of the operations that follow; 0: unknown. */
void replay_translate_thread(struct replay_translate *t, uint32_t thread);
/* Sets the call site of the allocations that follow, as the trace numbers it;
   MTF_SITE_NONE: unknown. */
void replay_translate_site(struct replay_translate *t, uint32_t site);
/* Sets the least time of the operations that follow, in ns of the recording's
   clock. */
void replay_translate_time(struct replay_translate *t, uint64_t ns);
/* Translates N operations of block B. False: an operation is impossible, or out
   of memory; the rest of the block cannot be used. */
bool replay_translate_ops(struct replay_translate *t,
                          const struct mtf_proc_block *b,
                          const struct mtf_op *ops, size_t n);
/* True if the memory available holds the blocks that were translated. */
static inline bool replay_translate_fits(const struct replay_translate *t) {
    return (t->unwritten_bytes == 0
                ? t->peak_bytes
                : t->live_bytes - t->unwritten_bytes) <= t->room_bytes;
}
/* Fills the last batch and publishes the account. */
void replay_translate_end(struct replay_translate *t);

#endif
