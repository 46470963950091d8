/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measured loop, which runs operations (feed/op.h) against the allocator
 * under test; and the call that an operation makes.
 *
 * Invariants: nothing here allocates, but the calls of the trace. slot[n] is
 * the block of slot n, NULL if its allocation was refused; it is not read
 * between a free and the next allocation. cache[0] is the replayer's own thread
 * cache; cache[current] is stale while that cache is attached.
 *
 * Threads: one, or each with a struct of its own when blocks are in cells.
 */
#ifndef TOOL_CMD_REPLAY_RUN_EXEC_H
#define TOOL_CMD_REPLAY_RUN_EXEC_H

#include "base/clock.h"
#include "base/compiler.h"
#include "cmd/replay/feed/ring.h"
#include "cmd/replay/run/calls.h"

struct replay_around;

struct replay_exec {
    struct replay_calls calls;          /* functions of the allocator */
    const struct replay_calls *via;     /* functions that operations call */
    const struct replay_around *around; /* NULL: no call is observed */
    const struct replay_calls *around_calls;
    uint64_t until; /* words before the next observed call */
    enum replay_touch touch;
    size_t page_size;
    void **slot;    /* blocks by slot; NULL: blocks are in cells */
    uint64_t *cell; /* blocks by cell; NULL: blocks are in slots */
    uint32_t into;  /* 1 + cell for the block of the next realloc; 0: the old
                       cell */
    bool is_dry;    /* blocks of other threads are complete: no waiting */
    struct ThreadCacheState **cache; /* NULL: caches are not switched */
    uint32_t current;                /* index of the attached cache */
    uint64_t noted;                  /* REPLAY_PRESENT of the next operation */
    uint64_t refused;                /* allocations that returned NULL */
    uint64_t refused_reallocs;       /* reallocs among them, whose block was
                                        freed */
    uint64_t skipped;                /* operations on empty slots */
    uint64_t skipped_frees;          /* frees among them */
    uint64_t trims;                  /* calls of malloc_trim */
    uint64_t cache_failures;         /* failed cache switches */
};

/* Runs the operations from AT up to END, in one batch. The tables must be large
   enough. Returns the place of the next operation, behind END if the last one
   reaches across it; or that of a REPLAY_AWAIT whose block is missing, from
   which the caller goes on later. */
const uint64_t *replay_exec_words(struct replay_exec *x, const uint64_t *at,
                                  const uint64_t *end);
/* Words of the operation at AT, with those before it that belong to it. */
size_t replay_exec_length(const uint64_t *at);
/* Runs all operations of batch B. */
void replay_exec_batch(struct replay_exec *x, const struct replay_batch *b);

/* Attaches the cache of INDEX. */
void replay_exec_switch(struct replay_exec *x, uint32_t index);

/* --- Which call an operation is ------------------------------------------- */

/* Kinds of calls, by which results are divided. */
enum replay_kind {
    REPLAY_KIND_MALLOC,
    REPLAY_KIND_CALLOC,
    REPLAY_KIND_REALLOC,
    REPLAY_KIND_ALIGNED,
    REPLAY_KIND_NEW,
    REPLAY_KIND_FREE,
    REPLAY_KIND_DELETE,
    REPLAY_KINDS
};
extern const char *const replay_kind_name[REPLAY_KINDS];

struct replay_one_call {
    enum replay_kind kind;
    uint64_t size;    /* size of the block; saturated for a large block that is
                        freed */
    uint32_t thread;  /* recorded thread, 0: unknown */
    uint32_t slot;    /* slot or cell */
    uint64_t present; /* bytes of a new or resized block that the recorded
                         program had written, about; UINT64_MAX: all */
    const struct replay_batch *batch;
    const uint64_t *at; /* the operation in the batch */
};

/* Sets kind, size, slot and present of *C to those of the operation at W, which
   may begin with words that belong to it. False: it is no call. */
bool replay_one_call_at(const uint64_t *w, struct replay_one_call *c);
/* Number of the operation in the trace, from 1. *ABOUT: it is the number of the
   first one in the batch, since the operations were dealt out to threads. Only
   the thread that runs the batch may ask for a call of a batch without
   segments. */
uint64_t replay_one_call_place(const struct replay_one_call *c, bool *about);

/* --- The clock that calls are timed with ---------------------------------- */

/* Clock of observed calls, in ticks of replay_latency_tick_ns. Reads the
   processor's counter when all instructions before are done, and before any
   after begins. */
static TCM_ALWAYS_INLINE uint64_t replay_ticks(void) {
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ __volatile__("lfence\n\trdtsc\n\tlfence"
                         : "=a"(low), "=d"(high)
                         :
                         : "memory");
    return (uint64_t)high << 32 | low;
#else
    return tcm_clock_ns();
#endif
}

#endif
