/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of the system (hosts) and the recorded threads (lanes) that they run:
 * each lane's segments in their order, as far as data and windows allow; else
 * they wait.
 *
 * A host has one lane alone and ends with it, or several in turns when there
 * are fewer hosts than recorded threads.
 *
 * Invariants: a lane has one host for all of its life. Outside of the
 * allocator's own calls nothing here allocates.
 *
 * Threads: a host's functions run on its thread, the others on the dealer's
 * (real.c). Which thread writes what, and which one sees it:
 *   lane.chain        chain.h
 *   lane.host         set by the dealer before the host can know of the lane
 *   lane.over         set by the host (release) when the lane's last operation
 *                     is done; the dealer that sees it (acquire) sees all that
 *                     the lane did
 *   host.lanes        linked by the dealer at the front (release); its host
 *                     unlinks those that ended, but not the first one
 *   host.ended        pushed by the host, taken as a whole by the dealer
 *   crew.ends         changed by a host after it set lane.over, before it looks
 *                     at ends_awaited; the dealer sets that, then looks at
 *                     lane.over, with a full fence between on both sides, so
 *                     one of the two sees the other's store
 *   crew.finished, leave, stop   flags; a thread that sleeps looks at them on
 *                     waking
 */
#ifndef TOOL_CMD_REPLAY_RUN_HOSTS_H
#define TOOL_CMD_REPLAY_RUN_HOSTS_H

#include "base/atomic.h"
#include "cmd/replay/run/chain.h"
#include "cmd/replay/run/exec.h"
#include "cmd/replay/run/processors.h"
#include "cmd/replay/run/lane_progress.h"
#include "cmd/replay/run/real.h"

#include <pthread.h>

/* Longest sleep of a thread that waits for the next thing to do; also how often
   it looks for a stop. */
#define REPLAY_IDLE_NS 50000000u

/* State that the dealer and all hosts share. All zero at first. */
struct replay_crew {
    const struct replay_real_options *options;
    struct replay_processors processors;
    struct replay_progress progress;
    struct replay_chain chain;
    uint32_t finished TCM_ALIGNED(64); /* every operation was done */
    uint32_t leave;                    /* hosts whose lanes go on may end */
    uint32_t stop;                     /* nothing more is to be done */
    uint32_t ends TCM_ALIGNED(64);
    uint32_t ends_awaited;
    uint64_t yields_from_ns; /* before, no thread gives its processor away */
};

enum replay_why { RUNS = 0, NEEDS_DATA, NEEDS_SKEW, NEEDS_WORK, HAS_ENDED };

struct replay_host;

struct replay_lane {
    struct replay_exec exec;
    struct replay_lane *next; /* of the host */
    struct replay_host *host; /* NULL: it is not born yet */
    uint32_t number, thread;
    struct replay_waits waits;
    enum replay_why why;
    bool begun;         /* the current segment has begun */
    const uint64_t *at; /* next operation in it */
    uint64_t begun_ns;
    struct replay_chain_ends chain;
    uint32_t over; /* 1: its last operation is done */

    /* the dealer's */
    uint32_t after, needs; /* of its first segment, until it is born */
    struct replay_lane *next_unborn;
    uint32_t end; /* number of its end; 0: not dealt, or no more in the list */
    struct replay_lane *next_ending, *before_ending;
    bool is_buried;
};

struct replay_host {
    struct replay_crew *crew;
    pthread_t thread;
    bool is_main;
    void *stack;
    struct replay_lane *lanes, *ended;
    struct replay_host *next, *before; /* hosts that were not joined */
    uint32_t count; /* lanes whose end was not dealt; the dealer's */
    bool is_shared; /* it had more than one lane; the dealer's */
    uint64_t wait_cpu_ns;
    struct replay_place place;
    uint32_t left TCM_ALIGNED(64);  /* 1: the thread function is at its end */
    uint32_t event TCM_ALIGNED(64); /* changes when there is something new */
    uint32_t sleeps;
};

static inline bool replay_is_flag(const uint32_t *flag) {
    return tcm_load_acquire(flag) != 0;
}

/* H has something new to look at. */
void replay_host_wake(struct replay_host *h);
/* Runs the lanes of H until they have ended, or all is finished or stopped. */
void replay_host_run(struct replay_host *h);
/* The function of a host's thread; ARG is the host. */
void *replay_host_main(void *arg);

/* Dealer: sleeps until the last operation of L is done, for MOST_NS, or until a
   stop. True: it is done. */
bool replay_lane_await_over(struct replay_crew *c, struct replay_lane *l,
                            uint64_t most_ns);

#endif
