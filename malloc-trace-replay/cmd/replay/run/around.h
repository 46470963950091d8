/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observed calls of the allocator under test: loops that run in place of the
 * plain one (exec.h) and time calls (watch/latency.c), check their results
 * (watch/verify.c), or log them with addresses.
 *
 * Invariants: nothing here allocates. The clock is read right before and right
 * after the allocator's function, without anything between.
 *
 * Threads: any, each with a replay_exec of its own. The call log: one thread,
 * whose blocks are in slots.
 */
#ifndef TOOL_CMD_REPLAY_RUN_AROUND_H
#define TOOL_CMD_REPLAY_RUN_AROUND_H

#include "cmd/replay/feed/ring.h"
#include "cmd/replay/run/calls.h"
#include "cmd/replay/run/exec.h"
#include "cmd/replay/run/own_memory.h"
#include "cmd/replay/watch/measure.h"

struct replay_latency;
struct replay_verify;

struct replay_around {
    const struct replay_calls *calls; /* functions of the allocator */
    struct replay_latency *latency;   /* NULL: not wanted */
    struct replay_verify *verify;     /* NULL: not wanted */
    /* words from one timed call to the next, without `verify` */
    uint64_t stride;
};

/* Returns the functions that replay_exec_words calls in place of the
   allocator's, to observe them. The process has one A. */
const struct replay_calls *replay_around_calls(const struct replay_around *a);

/* Like replay_exec_words, for an X whose `around` is set. The words lie in B
   and belong to recorded thread THREAD; 0: to any. */
const uint64_t *replay_around_words(struct replay_exec *x,
                                    const struct replay_batch *b,
                                    uint32_t thread, const uint64_t *at,
                                    const uint64_t *end);

/* Words from one check for a stop to the next. More words may take minutes, if
   blocks are large and written whole. */
#define REPLAY_STOP_WORDS 256

/* Runs the words of B from AT up to END, by replay_around_words if calls of X
   are observed, else by replay_exec_words. Returns as these do; and before END
   when IS_STOPPED(CTX). */
static TCM_ALWAYS_INLINE const uint64_t *
replay_words_until(struct replay_exec *x, const struct replay_batch *b,
                   uint32_t thread, const uint64_t *at, const uint64_t *end,
                   bool (*is_stopped)(void *ctx), void *ctx) {
    while (at < end && !is_stopped(ctx)) {
        const uint64_t *to =
            end - at > REPLAY_STOP_WORDS ? at + REPLAY_STOP_WORDS : end;
        at = x->around == NULL ? replay_exec_words(x, at, to)
                               : replay_around_words(x, b, thread, at, to);
        if (at < to)
            break;
    }
    return at;
}

/* --- The call log --------------------------------------------------------- */

/*
 * The replayed calls with the addresses that the allocator returned, as a
 * compact memory trace in text form with tags:
 *
 *     malloc(8) = 55d0c2a0<1>
 *     realloc(55d0c2a0<1>, 16) = 55d0c2c0<2>
 *     free(55d0c2c0<2>)
 *
 * Operations run one by one. The clocks stand still while a line is written, so
 * figures contain no writing; but they contain the cost of stopping the clocks
 * for each call.
 *
 * Invariants: only successful calls have a line; a refused realloc has one that
 * frees its block.
 */
struct replay_call_log {
    int fd;                   /* -1: no log is wanted */
    int error;                /* errno of the first failed write */
    struct replay_table tags; /* number of the block in a slot */
    uint64_t last_tag;
    size_t used;
    char *bytes; /* buffer, all of it resident */
};

/* Opens file NAME; NULL: no log is wanted. False: errno is set, perhaps to
   TCM_EFOREIGN. */
bool replay_call_log_open(struct replay_call_log *log, const char *name);
/* Resident bytes of the log. */
size_t replay_call_log_bytes(const struct replay_call_log *log);
/* Makes room for the slots of B. False: out of memory. */
bool replay_call_log_fits(struct replay_call_log *log,
                          const struct replay_batch *b);
/* Runs the operations of B one by one, timed and logged. */
void replay_call_log_batch(struct replay_call_log *log, struct replay_exec *x,
                           const struct replay_batch *b,
                           struct replay_time *time);
/* Closes the log. Returns 0, or the errno of the first write that failed. */
int replay_call_log_close(struct replay_call_log *log);

#endif
