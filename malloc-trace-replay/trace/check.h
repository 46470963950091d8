/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of a processed trace promise of each other
 * (doc/processed-trace-format.md): each block's head has the state after the
 * block before, slots are taken from the stack of free ones, the index has the
 * blocks, the account has what is in them. The reader of a trace passes all its
 * parts in their order and gets a line for each contradiction.
 *
 * Whether an operation finds its slot filled or empty is for the caller to
 * check, which keeps the blocks.
 *
 * Invariants: the cost is that of a few comparisons an operation block and a
 * copy of the slots that it leaves free; memory is bounded by the slots.
 * Threads: none shared.
 */
#ifndef TOOL_TRACE_CHECK_H
#define TOOL_TRACE_CHECK_H

#include "traceformat/proc_reader.h"

/* OFFSET: of the block in the trace. */
typedef void (*tool_check_tell)(void *ctx, uint64_t offset, const char *text);

/* Counts of the caller, by number of enum mtf_proc_account. */
struct tool_check_sums {
    uint64_t known; /* bit per number */
    uint64_t value[MTF_PROC_ACCOUNT_LIMIT];
};

static inline void tool_check_sum(struct tool_check_sums *s,
                                  enum mtf_proc_account field, uint64_t value) {
    s->known |= (uint64_t)1 << field;
    s->value[field] = value;
}

/* Records that were read of a thread: a switch to it, its THREAD_START,
   THREAD_END. */
struct tool_check_life {
    bool began, started, ended;
};

struct tool_check {
    tool_check_tell tell;
    void *ctx;
    bool lost;       /* bytes of the trace are: sums mean nothing */
    bool chained;    /* `after` is known */
    bool have_stack; /* `free_slot` is known */
    bool have_index;
    bool noted; /* the record before noted `present` of the next operation */
    uint64_t present;
    struct mtf_proc_block_head after; /* state after the last block */
    uint64_t blocks, records;
    uint64_t index_offset;
    uint32_t *free_slot; /* the last freed at the end */
    size_t depth, capacity;
    /* every `step`th block, as in an index */
    uint64_t step;
    uint32_t seen_count;
    struct mtf_proc_index_entry seen[MTF_PROC_INDEX_MAX];
};

/* CHECK is large: not for the stack. */
void tool_check_init(struct tool_check *check, tool_check_tell tell, void *ctx);
void tool_check_fini(struct tool_check *check);
/* Bytes are missing here. */
void tool_check_lost(struct tool_check *check);
/* An operation block, after mtf_proc_decode_begin and when it is decoded. */
void tool_check_block(struct tool_check *check, const struct mtf_proc_block *b,
                      const struct mtf_proc_decoder *d);
void tool_check_decoded(struct tool_check *check,
                        const struct mtf_proc_block *b,
                        const struct mtf_proc_decoder *d);
/* A record of B that is no operation on a slot. LIFE: of the thread that it
   names, if it does and there is one. CHECK NULL: nothing is checked. */
void tool_check_record(struct tool_check *check, const struct mtf_proc_block *b,
                       const struct mtf_op *op, struct tool_check_life *life);
/* Operation OP of B, if the record before it noted something of it: the caller
   looks at `noted`. CHECK NULL: nothing is checked. */
void tool_check_noted(struct tool_check *check, const struct mtf_proc_block *b,
                      const struct mtf_op *op);
/* A call in B that is of no thread. */
void tool_check_no_thread(struct tool_check *check,
                          const struct mtf_proc_block *b);
void tool_check_index(struct tool_check *check, const struct mtf_proc_block *b);
/* The closing block. SUMS: what was found in the blocks. */
void tool_check_closing(struct tool_check *check,
                        const struct mtf_proc_block *b,
                        const struct tool_check_sums *sums);

/* Text of what the trace of the closing block B lacks, fit to stand behind a
   file's name; NULL: nothing. */
const char *tool_check_lacks(const struct mtf_proc_block *b);

#endif
