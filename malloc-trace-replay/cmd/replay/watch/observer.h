/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observers watch a replay and report on it after the end mark: memory,
 * latency, checks and so on. Each is a struct replay_observer in a file of its
 * own and a line of the list below. The loops that run operations (replay.c,
 * run/real.c) know none of them.
 *
 * Observers begin and start from the last to the first, and end and report in
 * the order of the list. So each one's figures contain no work of those behind
 * it.
 *
 * A moment is a state of the replay that is also a state of the trace: all
 * operations up to the end of a batch are done, and none behind it has begun.
 * On one thread, every batch ends in a moment. Several threads have to stop for
 * one, so an observer has to ask for it (wants).
 *
 * Observers of single calls (latency.c, verify.c) are called by run/around.c, a
 * loop that replaces the plain loop, which therefore pays nothing for them.
 *
 * Threads: all functions run on the thread that takes batches from the ring,
 * except those for single calls.
 */
#ifndef TOOL_CMD_REPLAY_WATCH_OBSERVER_H
#define TOOL_CMD_REPLAY_WATCH_OBSERVER_H

#include "cmd/replay/feed/ring.h"
#include "cmd/replay/run/exec.h"
#include "common/json.h"

#include <stdio.h>

struct replay_options;
struct replay_rss;

/* All observers in the order above; X(NAME) stands for replay_NAME_observer. */
#define REPLAY_OBSERVERS(X)                                                    \
    X(usage)                                                                   \
    X(returns)                                                                 \
    X(resident)                                                                \
    X(latency)                                                                 \
    X(verify)                                                                  \
    X(fidelity)                                                                \
    X(timeline)                                                                \
    X(memory)                                                                  \
    X(share)

#define REPLAY_OBSERVER_INDEX(name) REPLAY_OBSERVER_##name,
enum replay_observer_index {
    REPLAY_OBSERVERS(REPLAY_OBSERVER_INDEX) REPLAY_OBSERVER_COUNT
};

/* Facts for all observers, and the state of each. */
struct replay_watch {
    const struct replay_options *options;
    struct replay_exec *exec; /* at the end it has the sums of all threads */
    const struct replay_result *result; /* final after the end mark */
    struct replay_rss *rss;             /* resident memory */
    uint64_t bytes; /* resident bytes of the observers, each of which adds its
                       own */
    /* The replayer's resident bytes, with `bytes`: before the start, and at the
       end. */
    uint64_t own_bytes;
    uint64_t start_ns;       /* clock at the start mark */
    bool runs_apart;         /* recorded threads run on threads of their own */
    uint64_t run_peak_bytes; /* if runs_apart: peak of live bytes in the order
                                of the run */
    void *state[REPLAY_OBSERVER_COUNT]; /* NULL: observer not wanted */
};

/* Functions of an observer. All but `begin` may be NULL. */
struct replay_observer {
    /* Called before threads are made. Sets *STATE, which the other functions
       get; NULL: the observer is not wanted, and none of them is called. False:
       out of memory. */
    bool (*begin)(struct replay_watch *w, void **state);
    /* Called at the start mark. */
    void (*start)(struct replay_watch *w, void *state);
    /* Called when batch B has run or is about to; its words can be read. */
    void (*batch)(struct replay_watch *w, void *state,
                  const struct replay_batch *b);
    /* True: the end of B has to be a moment. NULL: `moment` is called at the
       moments that other observers want. */
    bool (*wants)(const struct replay_watch *w, const void *state,
                  const struct replay_batch *b);
    bool takes_any; /* `moment` is called at those, too */
    /* Called at the moment after B, of which only words and segments may be
       gone. */
    void (*moment)(struct replay_watch *w, void *state,
                   const struct replay_batch *b);
    /* Called at the end mark. */
    void (*end)(struct replay_watch *w, void *state);
    /* Reports on standard error, and writes a file of the observer's own unless
       STATUS, the exit status so far, is TOOL_FAILED. Returns the new exit
       status. */
    int (*tell)(struct replay_watch *w, void *state, int status);
    /* Write a part of the report: lines of text, members of the JSON object. */
    void (*print)(const struct replay_watch *w, const void *state, FILE *out);
    void (*json)(const struct replay_watch *w, const void *state,
                 struct tool_json *j);
};

#define REPLAY_OBSERVER_DECLARE(name)                                          \
    extern const struct replay_observer replay_##name##_observer;
REPLAY_OBSERVERS(REPLAY_OBSERVER_DECLARE)

/* Call that function of all observers, in the order above. replay_watch_begin
   returns false when out of memory, after a message. */
bool replay_watch_begin(struct replay_watch *w);
void replay_watch_start(struct replay_watch *w);
void replay_watch_batch(struct replay_watch *w, const struct replay_batch *b);
/* True if an observer wants a moment after B. */
bool replay_watch_wants(const struct replay_watch *w,
                        const struct replay_batch *b);
/* Called at a moment: calls the observers that want it, and those that take
   any. */
void replay_watch_moment(struct replay_watch *w, const struct replay_batch *b);
/* Recorded time passes from FROM_NS to TO_NS since the start, without
   operations, behind the moment LAST: waits of the allocator end at their
   deadlines, and observers have moments in between. */
void replay_watch_pass(struct replay_watch *w, const struct replay_batch *last,
                       uint64_t from_ns, uint64_t to_ns);
/* True if a paced replay has a pause, long enough for moments, until DUE_NS of
   its time. */
bool replay_watch_pauses(const struct replay_watch *w, uint64_t due_ns);
/* Sleeps through most of such a pause, with moments, behind the moment LAST;
   NULL: returns at once. */
void replay_watch_sleep(struct replay_watch *w, const struct replay_batch *last,
                        uint64_t due_ns);
void replay_watch_end(struct replay_watch *w);
int replay_watch_tell(struct replay_watch *w, int status);
void replay_watch_print(const struct replay_watch *w, FILE *out);
void replay_watch_json(const struct replay_watch *w, struct tool_json *j);

/* --- Figures of single observers ------------------------------------------ */

/* Processor time in user mode of all threads of the process. */
uint64_t replay_usage_user_ns(const struct replay_watch *w);

/* The replayer's own part of the processor time of all timed batches, about, in
   ns; 0: unknown. Called after the end mark. Destroys the table of X. */
uint64_t replay_share_ns(const struct replay_watch *w,
                         const struct replay_exec *x);

/* --- Single calls: latency.c ---------------------------------------------- */

/* Words from one timed call to the next, by default: adds less than 2 % to a
   run. */
#define REPLAY_LATENCY_STRIDE 2048u

struct replay_latency;

/* Notes that call C took TICKS. */
void replay_latency_note(struct replay_latency *l,
                         const struct replay_one_call *c, uint64_t ticks);
/* Number and ticks of all timed calls of KIND; nanoseconds of a tick. */
void replay_latency_sum(const struct replay_latency *l, enum replay_kind kind,
                        uint64_t *calls, uint64_t *ticks);
double replay_latency_tick_ns(const struct replay_latency *l);

/* --- Single calls: verify.c ----------------------------------------------- */

struct replay_verify;

/* Called before call C frees or resizes P. */
void replay_verify_before(struct replay_verify *v,
                          const struct replay_one_call *c, void *p);
/* Called after call C made P. ALIGN 0: that of any block. */
void replay_verify_made(struct replay_verify *v,
                        const struct replay_one_call *c, void *p, size_t size,
                        size_t align, bool is_zero);
/* Called after OLD (NULL: none) became P. P NULL: it was refused, and OLD
   stays. */
void replay_verify_resized(struct replay_verify *v,
                           const struct replay_one_call *c, void *old, void *p,
                           size_t size);
/* Call that this thread makes, which is named if a signal comes; set by
   replay_around_words. */
extern __thread const struct replay_one_call *replay_verify_at;

#endif
