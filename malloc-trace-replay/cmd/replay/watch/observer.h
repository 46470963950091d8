/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observers look on while a replay runs and report on it after the end mark:
 * memory, latency, checks and so on. Each is one struct replay_observer in a
 * file of its own and one line of the list below; the loops that run operations
 * (replay.c and run/real.c) know none of them.
 *
 * The first one of the list is the nearest to the replay: observers begin and
 * start from the last to the first, and end and report from the first to the
 * last. So the figures of one contain nothing of those
 * behind it.
 *
 * A moment is a state of the replay that is also a state of the trace: all
 * operations up to the end of a batch are done, none behind it has begun. On
 * one thread each batch ends in a moment; with threads of their own recorded
 * threads have to stop for one, so an observer has to ask for it (wants).
 *
 * Single calls of the allocator are no moments: an observer of these
 * (latency.c, verify.c) is called by run/around.c, a loop that runs instead of
 * the plain one, so that the plain loop pays nothing.
 *
 * Threads: all functions run on the thread that takes batches from the ring.
 */
#ifndef TOOL_CMD_REPLAY_WATCH_OBSERVER_H
#define TOOL_CMD_REPLAY_WATCH_OBSERVER_H

#include "cmd/replay/feed/ring.h"
#include "common/json.h"

#include <stdio.h>

struct replay_exec;
struct replay_options;
struct replay_rss;

/* All observers, in the order that is described above: X(NAME) stands for
   replay_NAME_observer. */
#define REPLAY_OBSERVERS(X)                                                    \
    X(usage)                                                                   \
    X(resident)                                                                \
    X(latency)                                                                 \
    X(verify)                                                                  \
    X(fidelity)                                                                \
    X(timeline)                                                                \
    X(share)

#define REPLAY_OBSERVER_INDEX(name) REPLAY_OBSERVER_##name,
enum replay_observer_index {
    REPLAY_OBSERVERS(REPLAY_OBSERVER_INDEX) REPLAY_OBSERVER_COUNT
};

/* Facts of the replay for all observers, and the state of each. */
struct replay_watch {
    const struct replay_options *options;
    struct replay_exec *exec; /* after the end it has the sums of all threads */
    const struct replay_result *result; /* final after the end mark */
    struct replay_rss *rss;             /* resident memory so far */
    uint64_t bytes; /* resident memory of the observers, which each adds to */
    /* The replayer's resident memory, with `bytes`: before start, and at the
       end. */
    uint64_t own_bytes;
    uint64_t start_ns; /* the clock at the start mark */
    bool runs_apart;   /* recorded threads run on threads of their own; then */
    uint64_t run_peak_bytes; /* is the peak of live bytes as they ran */
    void *state[REPLAY_OBSERVER_COUNT]; /* NULL: not wanted */
};

/* Every function may be NULL but `begin`. */
struct replay_observer {
    /* Before threads are made. Sets *STATE, which the others are given; if it
       stays NULL, the observer is not wanted and none of them is called. False:
       out of memory. */
    bool (*begin)(struct replay_watch *w, void **state);
    /* At the start mark. */
    void (*start)(struct replay_watch *w, void *state);
    /* Batch B is run or about to be run; its words are there to be read. */
    void (*batch)(struct replay_watch *w, void *state,
                  const struct replay_batch *b);
    /* True: the end of B has to be a moment. NULL: `look` is called at the
       moments that others want. */
    bool (*wants)(const struct replay_watch *w, const void *state,
                  const struct replay_batch *b);
    /* At the moment after B. Of B only the words and segments may be gone. */
    void (*look)(struct replay_watch *w, void *state,
                 const struct replay_batch *b);
    /* At the end mark. */
    void (*end)(struct replay_watch *w, void *state);
    /* Says on standard error what is wrong, and writes a file of the observer's
       own if STATUS is not TOOL_FAILED. Returns the exit status instead of
       STATUS, that of the replay so far. */
    int (*tell)(struct replay_watch *w, void *state, int status);
    /* A part of the report: lines of text, and members of the JSON object. */
    void (*print)(const struct replay_watch *w, const void *state, FILE *out);
    void (*json)(const struct replay_watch *w, const void *state,
                 struct tool_json *j);
};

#define REPLAY_OBSERVER_DECLARE(name)                                          \
    extern const struct replay_observer replay_##name##_observer;
REPLAY_OBSERVERS(REPLAY_OBSERVER_DECLARE)

/* The functions of all observers, in the order that is said above. Begin
   returns false when memory is out; a message was printed. */
bool replay_watch_begin(struct replay_watch *w);
void replay_watch_start(struct replay_watch *w);
void replay_watch_batch(struct replay_watch *w, const struct replay_batch *b);
/* True if an observer wants a moment after B. */
bool replay_watch_wants(const struct replay_watch *w,
                        const struct replay_batch *b);
/* At a moment: each observer that wants it looks, and each that takes any. */
void replay_watch_look(struct replay_watch *w, const struct replay_batch *b);
void replay_watch_end(struct replay_watch *w);
int replay_watch_tell(struct replay_watch *w, int status);
void replay_watch_print(const struct replay_watch *w, FILE *out);
void replay_watch_json(const struct replay_watch *w, struct tool_json *j);

#endif
