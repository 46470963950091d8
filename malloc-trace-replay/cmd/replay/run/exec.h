/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measured loop: runs ready operations against the allocator under test.
 *
 * Invariants: between two batches nothing here allocates. slot[n] is the block
 * of slot n, NULL when its allocation was refused; after a free it is never
 * looked at. cache[0] is the replayer's own thread cache; cache[current] is out
 * of date while that cache is attached.
 *
 * Threads: one, or each with a struct of its own when blocks are in cells.
 */
#ifndef TOOL_CMD_REPLAY_RUN_EXEC_H
#define TOOL_CMD_REPLAY_RUN_EXEC_H

#include "base/compiler.h"
#include "cmd/replay/run/calls.h"
#include "cmd/replay/feed/ring.h"

struct replay_around;

struct replay_exec {
    struct replay_calls calls;          /* the allocator's */
    const struct replay_calls *via;     /* what operations call */
    const struct replay_around *around; /* NULL: no call is looked at */
    const struct replay_calls *around_calls;
    uint64_t until; /* words to the next call that is looked at */
    enum replay_touch touch;
    size_t page_size;
    void **slot;    /* blocks by slot; NULL: they are in cells */
    uint64_t *cell; /* NULL: they are in slots */
    uint32_t into;  /* 1 + cell of the next realloc's block; 0: its old one */
    bool is_dry;    /* other threads' blocks are all there: no waiting */
    struct ThreadCacheState **cache; /* NULL: no switching */
    uint32_t current;                /* index of the attached cache */
    uint64_t noted;                  /* REPLAY_PRESENT of the next operation */
    uint64_t refused;                /* allocations that returned NULL */
    uint64_t refused_reallocs;       /* among these; the block was freed */
    uint64_t skipped;                /* operations on empty slots */
    uint64_t skipped_frees;          /* frees among these */
    uint64_t trims;                  /* calls of malloc_trim */
    uint64_t cache_failures;         /* calls of the switch that failed */
};

/*
 * Runs the operations from AT up to END, which lie in a batch. The tables have
 * to be large enough. Returns where the next operation is, which is behind END
 * if the last one does not end there; or a REPLAY_AWAIT below END whose block
 * is not there yet: go on from there later.
 */
const uint64_t *replay_exec_words(struct replay_exec *x, const uint64_t *at,
                                  const uint64_t *end);
/* Number of words of the operation at AT. */
size_t replay_exec_length(const uint64_t *at);
/* Runs the operations of one batch. */
void replay_exec_batch(struct replay_exec *x, const struct replay_batch *b);

/* Attaches the cache with this index. */
void replay_exec_switch(struct replay_exec *x, uint32_t index);

#endif
