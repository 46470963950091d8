/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the parts of a processed trace against each other
 * (doc/processed-trace-format.md): each block's head has the state after the
 * block before, slots are taken from the stack of free ones, the index has the
 * blocks, the account has their sums. The reader of a trace passes all parts in
 * their order, and gets a line of text for each contradiction.
 *
 * The caller, which keeps the live blocks of memory, checks whether an
 * operation's slot is filled or empty.
 *
 * Invariants: a block of operations costs a few comparisons and a copy of the
 * slots that it leaves free; memory is bounded by the number of slots.
 * Threads: none shared.
 */
#ifndef TOOL_TRACE_TRACE_CHECK_H
#define TOOL_TRACE_TRACE_CHECK_H

#include "traceformat/proc_decode.h"

/* OFFSET: of the block in the trace. */
typedef void (*tool_check_tell)(void *ctx, uint64_t offset, const char *text);

/* Sums that the caller has counted, by enum mtf_proc_account. */
struct tool_check_sums {
    uint64_t known; /* a bit for each field that has a value */
    uint64_t value[MTF_PROC_ACCOUNT_LIMIT];
};

static inline void tool_check_sum(struct tool_check_sums *s,
                                  enum mtf_proc_account field, uint64_t value) {
    s->known |= (uint64_t)1 << field;
    s->value[field] = value;
}

/* Records of a thread that were read: a switch to it, its THREAD_START, its
   THREAD_END. */
struct tool_check_life {
    bool began, started, ended;
};

struct tool_check {
    tool_check_tell tell;
    void *ctx;
    bool lost;       /* bytes of the trace are lost: sums cannot be checked */
    bool chained;    /* `after` is known */
    bool have_stack; /* `free_slot` is known */
    bool have_index;
    bool noted; /* the last record was PRESENT, of the next operation */
    uint64_t present;
    struct mtf_proc_block_head after; /* state after the last block */
    uint64_t blocks, records;
    uint64_t index_offset;
    uint32_t *free_slot; /* stack, the last freed at the end */
    size_t depth, capacity;
    /* Every step-th block, as an index has them. */
    uint64_t step;
    uint32_t seen_count;
    struct mtf_proc_index_entry seen[MTF_PROC_INDEX_MAX];
};

/* CHECK is large: not for the stack. */
void tool_check_init(struct tool_check *check, tool_check_tell tell, void *ctx);
void tool_check_fini(struct tool_check *check);
/* Notes that bytes are missing here. */
void tool_check_lost(struct tool_check *check);
/* Checks a block of operations: tool_check_block after mtf_proc_decode_begin,
   tool_check_decoded when all of it is decoded. */
void tool_check_block(struct tool_check *check, const struct mtf_proc_block *b,
                      const struct mtf_proc_decoder *d);
void tool_check_decoded(struct tool_check *check,
                        const struct mtf_proc_block *b,
                        const struct mtf_proc_decoder *d);
/* Checks a record of B that is no operation on a slot. LIFE: of the thread that
   it starts or ends, else NULL. CHECK NULL: nothing is checked. */
void tool_check_record(struct tool_check *check, const struct mtf_proc_block *b,
                       const struct mtf_op *op, struct tool_check_life *life);
/* Checks operation OP of B against the PRESENT record before it. The caller
   calls it only if `noted` is set. CHECK NULL: nothing is checked. */
void tool_check_noted(struct tool_check *check, const struct mtf_proc_block *b,
                      const struct mtf_op *op);
/* Reports a call in B that has no thread. */
void tool_check_no_thread(struct tool_check *check,
                          const struct mtf_proc_block *b);
void tool_check_index(struct tool_check *check, const struct mtf_proc_block *b);
/* Checks the closing block B. SUMS: counted in the blocks. */
void tool_check_closing(struct tool_check *check,
                        const struct mtf_proc_block *b,
                        const struct tool_check_sums *sums);

/* Says what the trace of the closing block B lacks, for a message behind the
   file's name; NULL: nothing. */
const char *tool_check_lacks(const struct mtf_proc_block *b);

#endif
