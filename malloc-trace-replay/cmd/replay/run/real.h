/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs recorded threads on threads of their own.
 *
 * Two things order them. Data: an operation on a block that another thread made
 * waits for that block (cell.h). Skew: a thread enters a window of recorded
 * time only when all threads have finished the window some places before it, so
 * that threads which never overlapped do not. Everything else runs as it comes.
 *
 * A thread of ours, the dealer, takes batches and gives each segment to the
 * lane of its recorded thread. A lane runs on a host: an operating system
 * thread, which has one lane alone and ends with it, or several in turns when
 * there are fewer (`most_hosts`, or the system refuses more). The recorded
 * main thread runs on the thread that calls replay_real_run.
 *
 * Why nothing can hang: segments are dealt in the order of the trace, windows
 * too, so the earliest operation that is not done has been dealt or is next,
 * what it needs is done, and its window may be entered. A host with several
 * lanes leaves one that waits for another.
 *
 * Invariants: outside of the allocator's own calls nothing here allocates,
 * except that making a thread lets the C library allocate. A lane has one host
 * for all of its life.
 *
 * Threads: replay_real_begin, _run and _end in one; the rest is inside.
 */
#ifndef TOOL_CMD_REPLAY_RUN_REAL_H
#define TOOL_CMD_REPLAY_RUN_REAL_H

#include "cmd/replay/feed/deal.h"
#include "cmd/replay/feed/ring.h"
#include "cmd/replay/run/arena.h"
#include "cmd/replay/run/exec.h"
#include "cmd/replay/watch/observer.h"

/* Time that threads spent besides running operations. */
struct replay_waits {
    uint64_t data_ns; /* for a block of another thread */
    uint64_t skew_ns; /* for the others to reach the window before */
    uint64_t idle_ns; /* with nothing to do yet */
};

/* One recorded thread. */
struct replay_lane_report {
    uint32_t thread; /* as recorded; 0 unknown */
    struct replay_waits waits;
};
#define REPLAY_LANE_REPORTS 4096u

struct replay_real_options {
    uint32_t most_hosts; /* 0: as many as recorded threads */
    bool spread;         /* operations over the time that they took */
    bool is_paced;       /* batches have a time of their own */
};

struct replay_real {
    /* the caller's, before the beginning */
    struct replay_real_options options;
    struct replay_ring *ring;
    struct replay_exec *exec; /* what lanes begin with; has their sums after */
    struct replay_watch *watch;
    struct replay_table *cells;
    uint64_t own_bytes; /* the replayer's memory besides what is made here */
    pid_t child;        /* -1: it has ended, */
    int child_status;   /* with this */

    /* what came of it */
    struct replay_waits waits; /* sums */
    uint64_t wall_ns;          /* without waits of all for operations */
    uint64_t decoder_ns;       /* those waits */
    uint64_t late_ns;          /* how far it fell behind its pace at most */
    uint64_t apart_ns;
    uint64_t cpu_ns; /* of the process, without the dealer and waits */
    int64_t peak_live_bytes;
    uint64_t lanes, most_alive, hosts;
    bool pooled;        /* lanes share hosts, since the system refused more */
    bool out_of_memory; /* for our own tables */
    bool interrupted;   /* a signal ended it early; then */
    struct replay_account done; /* is what was done at least */
    bool cut_short;             /* the child ended without its last batch */
    struct replay_lane_report *report; /* of the first ones that ended */
    size_t reports;
};

/* Before the start mark: makes the dealer. False: the system refuses; errno. */
bool replay_real_begin(struct replay_real *r);
/* The replayer's memory now. */
uint64_t replay_real_bytes(const struct replay_real *r);
/* From start mark to end mark: runs all batches from B, the first, on. Threads
   that do not end in the trace stay. */
void replay_real_run(struct replay_real *r, const struct replay_batch *b);
/* Ends those threads and completes the results; the report and the cells
   stay. */
void replay_real_end(struct replay_real *r);
void replay_real_free(struct replay_real *r);

#endif
