/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts (operating system threads), the lanes (recorded threads) that they run,
 * and the processors that they run on.
 *
 * A host runs the segments of its lane in order, waiting for data and windows.
 * With fewer hosts than lanes, a host alternates between several lanes.
 *
 * In each turn of the ring, every busy thread is bound to a processor of its
 * own if there are enough; otherwise none is bound. Why: a turn lasts
 * milliseconds. A kernel that wakes two threads on one processor while another
 * one idles needs longer to separate them (in virtual machines this is common),
 * so threads recorded in parallel would be replayed one after the other.
 *
 * A bound thread cannot leave a processor that other work takes. So it measures
 * its wait for the processor in each turn: above a quarter of its demand,
 * binding stops for 0.3 seconds and the kernel places the threads.
 *
 * Invariants: a lane keeps its host. Nothing here allocates outside of the
 * allocator's own calls.
 *
 * Threads: the functions of a host run on its thread, the others on the
 * dealer's (real.c). Writers and readers:
 *   lane.chain        see lane_progress.h
 *   lane.host         set by the dealer before the host can know of the lane
 *   lane.over         set by the host (release) when the lane's last operation
 *                     is done; with the acquire load, the dealer sees all that
 *                     the lane did
 *   host.lanes        linked by the dealer at the front (release); its host
 *                     unlinks those that ended, but not the first one
 *   host.ended        pushed by the host, taken as a whole by the dealer
 *   crew.ends         changed by a host after it set lane.over, before it reads
 *                     ends_awaited; the dealer sets ends_awaited, then reads
 *                     lane.over, with a full fence between on both sides, so
 *                     one of the two sees the other's store
 *   crew.finished, leave, stop   flags; a sleeping thread reads them on waking
 *   processors        turns counted by the dealer, claims made by all hosts.
 *                     Relaxed: they publish nothing, and a processor is taken
 *                     by compare and swap
 */
#ifndef TOOL_CMD_REPLAY_RUN_HOSTS_H
#define TOOL_CMD_REPLAY_RUN_HOSTS_H

#include "base/atomic.h"
#include "cmd/replay/run/exec.h"
#include "cmd/replay/run/lane_progress.h"
#include "cmd/replay/run/real.h"

#include <pthread.h>
#include <sched.h>

/* --- Processors ----------------------------------------------------------- */

struct replay_processors {
    cpu_set_t all;    /* processors that the process may use */
    uint32_t turn;    /* 0 before the first turn */
    uint32_t crowded; /* last turn with more threads than processors */
    uint32_t taken[CPU_SETSIZE]; /* by processor: turn in which it was taken */
    uint64_t shared_until_ns;    /* no binding until then, since other work was
                                    seen */
};

/* Time that a thread ran, and waited for its processor, when it was last
   judged. All zero: it is never judged. */
struct replay_delay {
    bool known;
    uint64_t ran_ns, delayed_ns;
};

/* A host's place among the processors. All zero at first. */
struct replay_place {
    uint32_t turn;  /* turn in which the host took a processor, or found none */
    uint32_t bound; /* 1 + processor that it is bound to; 0: none */
    struct replay_delay delay;
};

/* Begins to judge the calling thread. */
void replay_delay_begin(struct replay_delay *d);
/* True if the calling thread waited for its processor for more than a quarter
   of the time that it wanted to run, since D last judged. D judges once in 10
   ms of that time; false in between, and where the kernel does not count. */
bool replay_is_delayed(struct replay_delay *d);

void replay_processors_begin(struct replay_processors *p);
/* Begins the next turn. */
void replay_processors_turn(struct replay_processors *p);
/* Takes a processor for the calling thread, which is about to work and whose
   PLACE this is, or leaves it unbound. */
void replay_processors_claim(struct replay_processors *p,
                             struct replay_place *place);
/* Lets the calling thread run on any processor of the process. */
void replay_processors_leave(const struct replay_processors *p,
                             struct replay_place *place);

/* --- Hosts ---------------------------------------------------------------- */

/* Longest sleep of a waiting thread, and so the longest time until it sees a
   stop. */
#define REPLAY_IDLE_NS 50000000u

/* State that the dealer and all hosts share. All zero at first. */
struct replay_crew {
    const struct replay_real_options *options;
    struct replay_processors processors;
    struct replay_progress progress;
    struct replay_chain chain;
    uint32_t finished TCM_ALIGNED(64); /* all operations are done */
    uint32_t leave;                    /* hosts whose lanes go on may end */
    uint32_t stop;                     /* threads are to end early */
    uint32_t ends TCM_ALIGNED(64);
    uint32_t ends_awaited;
    uint64_t yields_from_ns; /* no thread yields before this time */
};

enum replay_lane_state {
    REPLAY_LANE_RUNS = 0,
    REPLAY_LANE_NEEDS_DATA,
    REPLAY_LANE_NEEDS_SKEW,
    REPLAY_LANE_NEEDS_WORK,
    REPLAY_LANE_HAS_ENDED
};

struct replay_host;

struct replay_lane {
    struct replay_exec exec;
    struct replay_lane *next; /* next lane of the host */
    struct replay_host *host; /* NULL: not born yet */
    uint32_t number, thread;
    struct replay_waits waits;
    enum replay_lane_state state;
    bool begun;         /* the current segment has begun */
    const uint64_t *at; /* its next operation */
    uint64_t begun_ns;
    uint64_t clock_ns, clock_step_ns; /* recorded time of the next part of its
                                         words, and from there to the one
                                         behind */
    struct replay_chain_ends chain;
    uint32_t over; /* 1: the last operation is done */

    /* The dealer's: */
    uint32_t after, needs; /* of its first segment, until the lane is born */
    struct replay_lane *next_unborn;
    uint32_t end; /* number of its end; 0: not dealt, or no longer in the list
                     */
    struct replay_lane *next_ending, *before_ending;
    bool is_retired;
};

struct replay_host {
    struct replay_crew *crew;
    pthread_t thread;
    bool is_main;
    void *stack;
    struct replay_lane *lanes, *ended;
    struct replay_host *next, *before; /* list of hosts that were not joined */
    uint32_t count; /* lanes whose end was not dealt; the dealer's */
    bool is_shared; /* it got a lane after it was made; the dealer's */
    uint64_t wait_cpu_ns;
    struct replay_cpu wait_cpu; /* the same time by the kernel's account */
    struct replay_place place;
    uint32_t left TCM_ALIGNED(64);  /* 1: the thread function is at its end */
    uint32_t event TCM_ALIGNED(64); /* changes when a lane or segment was added
                                       */
    uint32_t sleeps;
};

static inline bool replay_flag_is_set(const uint32_t *flag) {
    return tcm_load_acquire(flag) != 0;
}

/* Wakes H: a lane or segment was added, or a flag was set. */
void replay_host_wake(struct replay_host *h);
/* Runs the lanes of H until they have ended, or all is finished or stopped. */
void replay_host_run(struct replay_host *h);
/* Thread function of host ARG. */
void *replay_host_main(void *arg);

/* Dealer: sleeps until the last operation of L is done, for MOST_NS, or until a
   stop. True: it is done. */
bool replay_lane_await_over(struct replay_crew *c, struct replay_lane *l,
                            uint64_t most_ns);

#endif
