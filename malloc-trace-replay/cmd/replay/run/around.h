/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the allocator under test that are looked at: how long they take
 * (latency.h), and whether what they return is right (verify.h).
 *
 * Invariants: nothing here allocates. The clock is read right before and right
 * after the allocator's function, and nowhere else between them.
 *
 * Threads: any, each with a replay_exec of its own.
 */
#ifndef TOOL_CMD_REPLAY_RUN_AROUND_H
#define TOOL_CMD_REPLAY_RUN_AROUND_H

#include "cmd/replay/run/calls.h"
#include "cmd/replay/run/exec.h"
#include "cmd/replay/feed/ring.h"

struct replay_latency;
struct replay_verify;

struct replay_around {
    const struct replay_calls *calls; /* the allocator's */
    struct replay_latency *latency;   /* NULL: not wanted */
    struct replay_verify *verify;     /* NULL: not wanted */
    uint64_t stride; /* without `verify`, words from one call to the next */
};

/* The functions that replay_exec_words calls instead of the allocator's. There
   is one A for the process. */
const struct replay_calls *replay_around_calls(const struct replay_around *a);

/* Does the work of replay_exec_words for an X whose `around` is set. The words
   lie in B and belong to recorded thread THREAD, 0: to any. */
const uint64_t *replay_around_words(struct replay_exec *x,
                                    const struct replay_batch *b,
                                    uint32_t thread, const uint64_t *at,
                                    const uint64_t *end);

/* Words that are run between two looks for a stop: more of them, of large
   blocks that are written whole, may take minutes. */
#define REPLAY_STOP_WORDS 256

/* Runs the words of B from AT up to END, as replay_exec_words or, if the calls
   of X are looked at, as replay_around_words; returns as these do, and before
   END when IS_STOPPED(CTX). */
static TCM_ALWAYS_INLINE const uint64_t *
replay_words_until(struct replay_exec *x, const struct replay_batch *b,
                   uint32_t thread, const uint64_t *at, const uint64_t *end,
                   bool (*is_stopped)(const void *ctx), const void *ctx) {
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

#endif
