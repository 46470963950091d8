/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measured loop: runs ready operations against the allocator under test.
 *
 * Invariants: between two batches nothing here allocates. slot[n] is the block
 * of slot n, or NULL when its allocation was refused; what it holds after a
 * free is never looked at. cache[0] is the replayer's own thread cache; cache
 * [current] is not up to date, it is attached.
 *
 * Threads: one, or each with a struct of its own when blocks are in cells.
 */
#ifndef TOOL_CMD_REPLAY_EXEC_H
#define TOOL_CMD_REPLAY_EXEC_H

#include "base/compiler.h"
#include "cmd/replay/calls.h"
#include "cmd/replay/ring.h"

/* What is written to a block when it is allocated or grows. */
enum replay_touch {
    REPLAY_TOUCH_AUTO = 0, /* FIRST below 4 KiB, else ALL, or what is present */
    REPLAY_TOUCH_NONE,
    REPLAY_TOUCH_FIRST, /* the first 8 bytes */
    REPLAY_TOUCH_PAGE,  /* one byte in each page */
    REPLAY_TOUCH_ALL,
    REPLAY_TOUCH_USE /* as AUTO; read when it is freed, to 4 KiB */
};

struct replay_around;

struct replay_exec {
    struct replay_calls calls;          /* the allocator's */
    const struct replay_calls *via;     /* what operations call */
    const struct replay_around *around; /* NULL: no call is looked at */
    const struct replay_calls *around_calls;
    uint64_t until; /* words to the next call that is */
    enum replay_touch touch;
    size_t page_size;
    void **slot;    /* blocks by slot; NULL: they are in */
    uint64_t *cell; /* cells */
    uint32_t into;  /* cell of the next realloc's block, and 1; 0: its own */
    bool is_dry;    /* what other threads made is there: nothing to await */
    struct ThreadCacheState **cache; /* NULL: no switching */
    uint32_t current;                /* index of the attached cache */
    uint64_t noted;                  /* REPLAY_PRESENT of the next operation */
    uint64_t refused;                /* allocations that returned NULL */
    uint64_t refused_reallocs;       /* of them; their block was freed */
    uint64_t skipped;                /* operations on empty slots */
    uint64_t skipped_frees;          /* of them: slots that came to their end */
    uint64_t trims;                  /* calls of malloc_trim */
    uint64_t cache_failures;         /* calls of the switch that said no */
};

/*
 * Runs the operations from AT up to END, which lie in a batch. The tables are
 * large enough. Returns where the next operation is, END or more if that lies
 * within the last one; or the REPLAY_AWAIT before the operation that needs a
 * block that is not there yet: go on from there later.
 */
const uint64_t *replay_exec_words(struct replay_exec *x, const uint64_t *at,
                                  const uint64_t *end);
/* Words of the operation at AT. */
size_t replay_exec_length(const uint64_t *at);
/* Runs the operations of one batch. */
void replay_exec_batch(struct replay_exec *x, const struct replay_batch *b);

/* Attaches the cache of index INDEX. */
void replay_exec_switch(struct replay_exec *x, uint32_t index);

#endif
