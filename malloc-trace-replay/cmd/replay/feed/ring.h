/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of ready operations in memory shared by two processes: the decoding
 * child fills them, the measuring parent takes them, in order.
 *
 * Invariants: `filled` and `taken` only grow (modulo 2^32) and differ by at
 * most `batches`, a power of two. Batch n lies in place n modulo `batches`.
 *
 * Threads: one filler, one taker.
 *   filled  written by the filler (release) when a batch is whole; the taker's
 *           acquire load makes the batch and the result visible
 *   read    the taker's own: batches that it was given
 *   taken   written by the taker (release) when it needs a batch no more; the
 *           filler's acquire load allows it to write over it. Several threads
 *           may do so one after another, under a lock
 *   wanted  written by the filler before it sleeps: the value of `taken` that
 *           is to wake it. The taker looks at it after each store of `taken`,
 *           with a full fence between on both sides, so one of the two sees the
 *           other's store
 *   sleeps  1 while the taker sleeps until `filled` changes; the filler looks
 *           at it after each store of `filled`, with a full fence between on
 *           both sides
 *
 * Why: a filler that is ahead sleeps until only `low` batches are left, half of
 * the ring or none, so that the measured process makes few system calls to wake
 * it, and it does not compete for processors and memory all the time.
 */
#ifndef TOOL_CMD_REPLAY_FEED_RING_H
#define TOOL_CMD_REPLAY_FEED_RING_H

#include "base/compiler.h"
#include "cmd/replay/feed/op.h"

#include <sys/types.h>

#define REPLAY_BATCH_WORDS ((size_t)16 << 10)
/* Words behind the last that may be read (for prefetching), never executed. */
#define REPLAY_BATCH_PAD    64u
#define REPLAY_BATCHES      16u
#define REPLAY_BATCHES_MOST 256u

/* Segments of a batch: operations of one recorded thread in one window of
   recorded time, in order. They lie in the batch by window. */
#define REPLAY_SEGMENTS 512u

struct replay_segment {
    uint32_t lane;         /* number of the thread, used once */
    uint32_t index;        /* of its cache; another's after its end */
    uint32_t thread;       /* as recorded */
    uint32_t window;       /* from 0; only windows with operations count */
    uint32_t needs;        /* windows to be finished before it begins */
    uint32_t first, words; /* in `word` */
    uint32_t ends;         /* the thread ends after it: number of that end in
                              the order of the trace, from 1; 0: it goes on */
    uint32_t after;        /* in a thread's first segment: the number of the
                              last end before the thread begins */
    /* what it adds to live bytes, and the most above where it begins */
    int64_t net_bytes, rise_bytes;
};

/* The trace up to a place of it. */
struct replay_account {
    uint64_t ops;
    uint64_t live_bytes, live_blocks, peak_live_bytes;
    uint64_t requested_bytes; /* of all allocations */
    uint64_t threads;         /* with an operation */
    uint64_t switches; /* changes of thread from one operation to the next */
};

struct replay_batch {
    uint32_t words;
    uint32_t slots;  /* slots that this and all batches before use */
    uint32_t caches; /* indices of thread caches that they use */
    uint32_t last;   /* 1: none comes after this one */
    uint32_t apart;  /* 1: of a prologue or epilogue, not recorded there */
    uint32_t segments;
    uint64_t first_op; /* operations in batches before */
    uint64_t due_ns;   /* paced: time from the start to its beginning, */
    uint64_t span_ns;  /* and from there to its end */
    /* If is_state: the trace when this batch is done, with all before. */
    struct replay_account account;
    uint64_t recorded_ns; /* since the first time of the trace */
    uint32_t is_state;
    uint32_t sampled; /* 1: the next two are known */
    uint64_t recorded_heap_bytes, recorded_rss_bytes;
    struct replay_segment segment[REPLAY_SEGMENTS];
    uint64_t word[REPLAY_BATCH_WORDS + REPLAY_BATCH_PAD];
};

/* Memory is looked at where more bytes than this are live, when it was looked
   at last with LIVE_BYTES, the most so far: a batch ends there. */
static inline uint64_t replay_live_mark(uint64_t live_bytes) {
    return live_bytes < UINT64_MAX / 2 ? live_bytes + live_bytes / 16 + 65536
                                       : UINT64_MAX;
}

#define REPLAY_NOTICES     8
#define REPLAY_NOTICE_SIZE 512
#define REPLAY_COUNTERS    16

/* Facts that the child tells besides operations. Final with the last batch. */
struct replay_result {
    uint32_t status;  /* enum tool_status */
    uint32_t notices; /* told so far; only the first REPLAY_NOTICES are kept */
    char notice[REPLAY_NOTICES][REPLAY_NOTICE_SIZE];
    char error[REPLAY_NOTICE_SIZE];  /* status is TOOL_FAILED */
    char memory[REPLAY_NOTICE_SIZE]; /* said before the run; "": nothing */

    struct replay_account done; /* up to the last batch that was made */
    uint64_t most_threads;      /* of one trace */
    uint64_t traces;
    uint64_t apart_ops; /* those in prologues and epilogues */
    uint64_t recorded_failures;
    uint64_t recorded_trims; /* calls of malloc_trim */
    uint64_t unknown_blocks; /* frees, reallocs of blocks whose allocation is
                                lost: skipped */
    uint64_t lost_frees;     /* blocks whose free is lost: freed when their slot
                                was taken again */
    uint64_t damaged_places;
    uint64_t input_bytes, stored_bytes;
    uint64_t cpu_ns;      /* of decoding */
    uint64_t recorded_ns; /* from the first to the last time of the trace */
    /* what the peak of live bytes can be when threads run as far apart as the
       skew lets them; both 0: unknown */
    uint64_t least_peak_bytes, most_peak_bytes;
    /* of the recorded run, if recorded_known; 0: unknown */
    uint64_t recorded_ops, recorded_peak_bytes;
    uint64_t windows;         /* of recorded time, that have operations */
    uint64_t recorded_cpu_ns; /* of the recorded programs */
    uint32_t without_cpu; /* traces that do not have it, or are a part only */
    char executable[256];
    /* accounts of the recorder's footer, else of the last sample, by number,
       summed over the traces; 0 and not known when absent */
    uint64_t recorded[REPLAY_COUNTERS];
    uint32_t recorded_known; /* bit per number */
    bool interrupted;        /* a signal ended the reading */
    bool is_part; /* a trace has not all of its run: it has no counters */
};

struct replay_ring {
    uint32_t filled TCM_ALIGNED(128);
    uint32_t sleeps;
    uint32_t taken TCM_ALIGNED(128);
    uint32_t wanted;
    uint32_t read TCM_ALIGNED(128);
    uint32_t batches, low; /* constant */
    uint64_t bytes;        /* of all, which another build has otherwise */
    struct replay_result result TCM_ALIGNED(128);
    struct replay_batch batch[] TCM_ALIGNED(128);
};

static inline struct replay_batch *replay_ring_place(struct replay_ring *r,
                                                     uint32_t number) {
    return &r->batch[number & (r->batches - 1)];
}

/* Shared memory for BATCHES, a power of two, all pages present in this process.
   LOW 0: the ring is filled and emptied in turns. NULL: out of memory. */
struct replay_ring *replay_ring_new(uint32_t batches, uint32_t low);
/* As replay_ring_new; *FD is a descriptor of the memory, closed on exec, by
   which another program opens it. -1: it has none, only a fork has the ring. */
struct replay_ring *replay_ring_new_file(uint32_t batches, uint32_t low,
                                         int *fd);
/* In the other program. NULL: FD is none of this build, or out of memory. */
struct replay_ring *replay_ring_open(int fd);
/* Bytes that it adds to the resident memory. */
size_t replay_ring_bytes(const struct replay_ring *r);

/* Filler: the place of the next batch, when it is free. */
struct replay_batch *replay_ring_fill(struct replay_ring *r);
/* Filler: that batch is whole. */
void replay_ring_filled(struct replay_ring *r);

/* Taker: the next batch that it was not given. NULL: CHILD has ended without
   giving its last one, or a stop is due (tool_stop_is_due). *CHILD becomes -1
   when it was found ended, *STATUS as by waitpid. */
const struct replay_batch *replay_ring_take(struct replay_ring *r, pid_t *child,
                                            int *status);
/* Taker: whether there is a batch that it was not given. */
bool replay_ring_has(struct replay_ring *r);
/* Taker, where the ring is filled and emptied in turns: sleeps until the filler
   waits for its turn, or all there will be is in the ring. */
void replay_ring_await_full(struct replay_ring *r, pid_t *child, int *status);
/* Taker: the first batch that was given and not yet taken is needed no more. */
void replay_ring_taken(struct replay_ring *r);

#endif
