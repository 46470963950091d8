/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches of operations (op.h) in memory that two processes share: the decoding
 * child fills them, the measuring parent takes them, in order.
 *
 * Invariants: `filled` and `taken` only grow (modulo 2^32) and differ by at
 * most `batches`, a power of two. Batch n lies in place n modulo `batches`.
 *
 * Threads: one filler, one taker.
 *   filled  written by the filler (release) when a batch is whole; the taker's
 *           acquire load makes the batch and the result visible
 *   read    the taker's own: number of batches that the ring has given it
 *   taken   written by the taker (release) when it no longer needs a batch;
 *           after the acquire load the filler may overwrite the batch. Several
 *           threads may store it one after another, under a lock
 *   wanted  written by the filler before it sleeps: the value of `taken` that
 *           wakes it. The taker reads it after each store of `taken`, with a
 *           full fence between on both sides, so one of the two sees the
 *           other's store
 *   sleeps  not 0 while the taker sleeps, until `filled` changes or until the
 *           ring is full; the filler reads it after each store of `filled`,
 *           with a full fence between on both sides
 *
 * Why: a filler that is ahead sleeps until only `low` batches are left (half of
 * the ring, or none). So it is woken by few system calls of the measured
 * process, and seldom competes with it for processors and memory.
 */
#ifndef TOOL_CMD_REPLAY_FEED_RING_H
#define TOOL_CMD_REPLAY_FEED_RING_H

#include "base/compiler.h"
#include "cmd/replay/feed/op.h"
#include "model/untouched.h"

#include <stddef.h>
#include <string.h>
#include <sys/types.h>

#define REPLAY_BATCH_WORDS ((size_t)16 << 10)
/* Words behind the last one that are read for prefetching, never executed. */
#define REPLAY_BATCH_PAD    64u
#define REPLAY_BATCHES      16u
#define REPLAY_BATCHES_MOST 256u

/* Segments of a batch: operations of one recorded thread in one window of
   recorded time, in order. They lie in the batch by window. */
#define REPLAY_SEGMENTS 512u

struct replay_segment {
    uint32_t lane;         /* number of the thread, never used again */
    uint32_t index;        /* of the thread's cache, used again after its end */
    uint32_t thread;       /* as recorded */
    uint32_t window;       /* from 0; only windows with operations count */
    uint32_t needs;        /* windows to finish before the segment begins */
    uint32_t first, words; /* in `word` */
    uint32_t ends;         /* number of the thread's end, from 1 in the order of
                              the trace, if this is its last segment; else 0 */
    uint32_t after;        /* in a thread's first segment: number of the last
                              end before the thread begins */
    /* change of live bytes by the segment, and the most in its course */
    int64_t net_bytes, rise_bytes;
};

/* Totals of the trace from its start up to some place. */
struct replay_account {
    uint64_t ops;
    uint64_t live_bytes, live_blocks, peak_live_bytes;
    uint64_t requested_bytes; /* of all allocations */
    uint64_t threads;         /* threads with an operation */
    uint64_t switches; /* changes of thread from one operation to the next */
};

struct replay_batch {
    uint32_t words;
    uint32_t slots;  /* slots in use by this batch and all before */
    uint32_t caches; /* likewise, indices of thread caches */
    uint32_t last;   /* 1: no batch follows */
    uint32_t apart;  /* 1: part of a prologue or epilogue of the trace */
    uint32_t segments;
    uint64_t first_op; /* operations in the batches before */
    uint64_t due_ns;   /* paced: time from the start to the batch's beginning */
    uint64_t span_ns;  /* paced: time from its beginning to its end */
    /* If is_state: the trace up to the end of this batch. */
    struct replay_account account;
    uint64_t recorded_ns; /* since the first time of the trace */
    uint32_t is_state;
    uint32_t sampled; /* 1: the next two fields are known */
    uint64_t recorded_heap_bytes, recorded_rss_bytes;
    struct replay_segment segment[REPLAY_SEGMENTS];
    uint64_t word[REPLAY_BATCH_WORDS + REPLAY_BATCH_PAD];
};

/* Copies all of *FROM but segments and words. */
static inline void replay_batch_copy_head(struct replay_batch *to,
                                          const struct replay_batch *from) {
    memcpy(to, from, offsetof(struct replay_batch, segment));
}

/* Live bytes above which resident memory is measured again, if LIVE_BYTES were
   live at the last measurement, the most so far. The batch ends there. */
static inline uint64_t replay_live_mark(uint64_t live_bytes) {
    return live_bytes < UINT64_MAX / 2 ? live_bytes + live_bytes / 16 + 65536
                                       : UINT64_MAX;
}

#define REPLAY_NOTICES     8
#define REPLAY_NOTICE_SIZE 512
#define REPLAY_COUNTERS    16

/* Facts from the child besides operations; final with the last batch. */
struct replay_result {
    uint32_t status;  /* enum tool_status */
    uint32_t notices; /* so far; the first REPLAY_NOTICES have a text */
    char notice[REPLAY_NOTICES][REPLAY_NOTICE_SIZE];
    char error[REPLAY_NOTICE_SIZE];  /* if status is TOOL_FAILED */
    char memory[REPLAY_NOTICE_SIZE]; /* warning before the run; "": none */

    struct replay_account done; /* up to the last batch that was filled */
    uint64_t most_threads;      /* in one trace */
    uint64_t traces;
    uint64_t apart_ops; /* operations in prologues and epilogues */
    uint64_t recorded_failures;
    uint64_t recorded_trims; /* calls of malloc_trim */
    uint64_t unknown_blocks; /* skipped frees and reallocs of blocks whose
                                allocation is lost */
    uint64_t lost_frees;     /* blocks whose free is lost, which are freed when
                                their slot is taken again */
    uint64_t damaged_places;
    uint64_t input_bytes, stored_bytes;
    uint64_t cpu_ns;      /* of decoding */
    uint64_t recorded_ns; /* from the first to the last time of the trace */
    /* Bounds of the peak of live bytes when threads run as far apart as the
       skew allows; both 0: unknown. */
    uint64_t least_peak_bytes, most_peak_bytes;
    /* Figures of the recorded run, if recorded_known; 0: unknown. */
    uint64_t recorded_ops, recorded_peak_bytes;
    uint64_t windows;         /* windows of recorded time with operations */
    uint64_t recorded_cpu_ns; /* processor time of the recorded programs */
    uint32_t without_cpu; /* traces without that time, or of a part of a run */
    char executable[256];
    /* Counters of the recorder's footer, or else of the last sample, by number
       (enum mtf_account), summed over the traces; 0 unless known. */
    uint64_t recorded[REPLAY_COUNTERS];
    uint32_t recorded_known;    /* bit per number */
    struct untouched untouched; /* of the first trace */
    uint64_t untraced_frees;    /* of blocks from before the recordings */
    bool interrupted;           /* a signal ended the reading */
    bool is_part; /* a trace has a part of its run, and so no counters */
    /* Chosen before the first batch, if the ring is undecided. */
    bool is_real;      /* recorded threads run on threads of their own */
    uint64_t head_ops; /* operations of one thread at the beginning, behind
                          which more threads may follow; 0: none do */
};

struct replay_ring {
    uint32_t filled TCM_ALIGNED(128);
    uint32_t sleeps;
    uint32_t taken TCM_ALIGNED(128);
    uint32_t wanted;
    uint32_t read TCM_ALIGNED(128);
    uint32_t batches, low; /* constant from the first batch on */
    uint32_t undecided; /* 1: the filler chooses whether recorded threads run on
                           threads of their own; constant */
    uint64_t bytes;     /* size of the memory; differs in another build */
    struct replay_result result TCM_ALIGNED(128);
    struct replay_batch batch[] TCM_ALIGNED(128);
};

static inline struct replay_batch *replay_ring_place(struct replay_ring *r,
                                                     uint32_t number) {
    return &r->batch[number & (r->batches - 1)];
}

/* Makes a ring of BATCHES (a power of two) in shared memory. LOW 0: the ring is
   filled and emptied in turns. *FD, unless FD is NULL, is a descriptor of the
   memory, closed on exec, by which another program opens the ring; -1: only a
   fork shares it. Returns NULL when out of memory. */
struct replay_ring *replay_ring_new(uint32_t batches, uint32_t low, int *fd);
/* Opens in another program the ring of descriptor FD. NULL: FD is no ring of
   this build, or out of memory. */
struct replay_ring *replay_ring_open(int fd);
/* Bytes of the ring. */
size_t replay_ring_bytes(const struct replay_ring *r);
/* Makes all these bytes resident in this process. */
void replay_ring_make_present(const struct replay_ring *r);

/* Filler, before the first batch: the ring is not filled and emptied in turns,
   and needs few batches. */
void replay_ring_leave_turns(struct replay_ring *r);

/* Filler: waits until the place of the next batch is free, and returns it. */
struct replay_batch *replay_ring_fill(struct replay_ring *r);
/* Filler: publishes the batch that replay_ring_fill returned. */
void replay_ring_filled(struct replay_ring *r);

/* Taker: waits for the next batch. NULL: process CHILD has ended before its
   last batch, or a stop is due (tool_stop_is_due). If CHILD has ended, *CHILD
   becomes -1 and *STATUS its wait status. */
const struct replay_batch *replay_ring_take(struct replay_ring *r, pid_t *child,
                                            int *status);
/* Taker: true if replay_ring_take need not wait. */
bool replay_ring_has(struct replay_ring *r);
/* Taker of a ring that is filled and emptied in turns: sleeps until the ring is
   full, or has the last batch. CHILD and STATUS: as for replay_ring_take. */
void replay_ring_await_full(struct replay_ring *r, pid_t *child, int *status);
/* Taker, behind replay_ring_await_full: slots in use by all batches so far. */
uint32_t replay_ring_slots(struct replay_ring *r);
/* Taker: gives the oldest batch from replay_ring_take back to the filler. */
void replay_ring_taken(struct replay_ring *r);

#endif
