/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs recorded threads on threads of their own.
 *
 * Two rules order them. Data: an operation on another thread's block waits for
 * that block (feed/op.h). Skew: a thread enters a window of recorded time only
 * when all threads have finished the window some places before it, so threads
 * that never overlapped do not meet. Nothing else is ordered.
 *
 * The dealer, a thread of the replayer, takes batches and gives each segment to
 * the lane of its recorded thread. Lanes run on hosts (hosts.h): one each, or
 * several on one host where threads are limited (`most_hosts`, or by the
 * system). The recorded main thread runs on the thread that calls
 * replay_real_run.
 *
 * Why no deadlock: segments and windows are dealt in the order of the trace. So
 * the earliest operation that is not done was dealt or is next, the operations
 * that it needs are done, and its window may be entered. A host with several
 * lanes leaves a lane that waits for another one.
 *
 * Invariants: nothing here allocates outside of the allocator's own calls, but
 * the C library does when it creates a thread. A lane keeps its host.
 *
 * Threads: one calls replay_real_begin, _run and _end.
 */
#ifndef TOOL_CMD_REPLAY_RUN_REAL_H
#define TOOL_CMD_REPLAY_RUN_REAL_H

#include "cmd/replay/feed/deal.h"
#include "cmd/replay/feed/ring.h"
#include "cmd/replay/run/exec.h"
#include "cmd/replay/run/own_memory.h"
#include "cmd/replay/watch/observer.h"

/* Time that threads spent waiting. */
struct replay_waits {
    uint64_t data_ns; /* for a block of another thread */
    uint64_t skew_ns; /* for other threads to finish earlier windows */
    uint64_t idle_ns; /* for operations */
};

/* One recorded thread. */
struct replay_lane_report {
    uint32_t thread; /* as recorded; 0: unknown */
    struct replay_waits waits;
};
#define REPLAY_LANE_REPORTS 4096u

struct replay_real_options {
    uint32_t most_hosts; /* 0: as many as recorded threads */
    bool spread;         /* spread operations over the time that they took */
    bool is_paced;       /* batches have a time to begin */
    bool clock;          /* the allocator is given recorded time */
};

struct replay_real {
    /* Set by the caller before the beginning. */
    struct replay_real_options options;
    struct replay_ring *ring;
    struct replay_exec *exec; /* state that lanes begin with; at the end, sums
                                 of all lanes */
    struct replay_watch *watch;
    struct replay_table *cells;
    uint64_t own_bytes; /* the replayer's memory besides that of this module */
    pid_t child;        /* -1: ended */
    int child_status;   /* exit status of an ended child */

    /* Results. */
    struct replay_waits waits; /* sums of all lanes */
    uint64_t wall_ns;          /* without the time in which all wait for
                                  operations */
    uint64_t decoder_ns;       /* time in which all wait for operations */
    uint64_t late_ns;          /* largest delay behind the pace */
    uint64_t apart_ns;
    uint64_t cpu_ns;    /* of the process, without dealer and waits */
    uint64_t system_ns; /* part of cpu_ns in the kernel */
    int64_t peak_live_bytes, end_live_bytes;
    uint64_t lanes, most_alive, hosts;
    bool pooled;        /* lanes share hosts, since the system refused threads
                           */
    bool out_of_memory; /* for tables of the replayer */
    bool interrupted;   /* a signal ended the run early */
    struct replay_account done; /* if interrupted: operations that were done at
                                   least */
    bool cut_short;             /* the child ended without its last batch */
    struct replay_lane_report *report; /* threads that ended first */
    size_t reports;
};

/* Makes the dealer; to be called before the start mark. False: the system
   refuses; errno is set. */
bool replay_real_begin(struct replay_real *r);
/* Bytes of the replayer's memory now. */
uint64_t replay_real_bytes(const struct replay_real *r);
/* Runs all batches from B, the first, on; called between start mark and end
   mark. Threads that do not end in the trace stay. */
void replay_real_run(struct replay_real *r, const struct replay_batch *b);
/* Ends those threads and completes the results. The report and the cells
   stay. */
void replay_real_end(struct replay_real *r);
void replay_real_free(struct replay_real *r);

#endif
