/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a processed trace as ready operations: info, dump, replay and report
 * read traces this way. With a `tell`, it also checks the parts of the trace
 * against each other (trace/trace_check.h).
 *
 *     tool_ops_init(o, in, tell, ctx);
 *     for (;;) {
 *         tool_ops_next(o, &item);
 *         switch (item.kind) {
 *         case TOOL_OPS_HEADER:     item.from->header, item.from->raw_header
 *         case TOOL_OPS_BLOCK:      item.block: its operations follow
 *         case TOOL_OPS_SOME:       item.op[0 .. item.count)
 *         case TOOL_OPS_BLOCK_END:  item.problem: why the rest is lost, or NULL
 *         case TOOL_OPS_CLOSING:    item.block
 *         case TOOL_OPS_DAMAGE:     item.problem, item.from->skipped; go on
 *         case TOOL_OPS_END:        item.problem: what is missing, or NULL
 *         case TOOL_OPS_FAILED:     item.problem: no processed trace, or I/O
 *         }
 *     }
 *     tool_ops_fini(o);
 *
 * Invariants: each BLOCK is followed by its SOMEs and one BLOCK_END, unless it
 * is skipped; END or FAILED is the last item. An item is good until the next.
 * Threads: one user at a time.
 */
#ifndef TOOL_TRACE_OPS_H
#define TOOL_TRACE_OPS_H

#include "common/input.h"
#include "trace/trace_check.h"
#include "traceformat/proc_reader.h"

/* Most operations that one item has: they fit the first-level cache. */
#define TOOL_OPS_AT_ONCE 1024u
/* Operations behind the last one that may be read, as for a prefetch. */
#define TOOL_OPS_AHEAD 12u

/* Time between two time records, in time of the recording: writers of processed
   traces write a record when the last one is this old. */
#define TOOL_OPS_TIME_NS 1000000u

/* Counts of the events in a processed trace, for its account. */
struct tool_ops_counts {
    uint64_t mallocs, memaligns, reallocs, frees, failed;
    uint64_t requested_bytes;
    uint64_t untraced_frees; /* of blocks from before a late beginning */
    uint64_t unmatched_frees, unmatched_reallocs;
    uint64_t threads;
};

enum tool_ops_kind {
    TOOL_OPS_HEADER = 1,
    TOOL_OPS_BLOCK,
    TOOL_OPS_SOME,
    TOOL_OPS_BLOCK_END,
    TOOL_OPS_CLOSING,
    TOOL_OPS_DAMAGE,
    TOOL_OPS_END,
    TOOL_OPS_FAILED
};

struct tool_ops_item {
    enum tool_ops_kind kind;
    const struct mtf_proc_item *from;   /* item of the reader */
    const struct mtf_proc_block *block; /* BLOCK to BLOCK_END, CLOSING */
    const struct mtf_op *op;            /* SOME */
    size_t count;
    const char *problem; /* BLOCK_END and the following kinds */
    uint64_t offset;     /* of the problem; SOME: of the record of op[0] */
};

/* Large: not for the stack. */
struct tool_ops {
    struct tool_input *in;
    bool validates; /* there is a `tell` */
    bool in_block;
    size_t at_once; /* most operations of one SOME; the caller may lower it */
    struct tool_check check;
    struct mtf_proc_item item;
    struct mtf_proc_reader reader;
    struct mtf_proc_decoder decoder; /* state after the last operation */
    struct mtf_op op[TOOL_OPS_AT_ONCE + TOOL_OPS_AHEAD];
    uint8_t memory[MTF_PROC_READER_BYTES];
};

/* Tells whether IN, of which nothing was read yet, is a processed trace, even
   one that has lost its first LZ4 frame and thus its magic. NAME: as given to
   tool_input_open; NULL for stdin, where a lost frame is not recognised. */
bool tool_ops_is_processed(struct tool_input *in, const char *name);

/* IN stays the caller's. TELL NULL: nothing is checked. */
void tool_ops_init(struct tool_ops *o, struct tool_input *in,
                   tool_check_tell tell, void *ctx);
void tool_ops_fini(struct tool_ops *o);
/* Bound of the slots that the bytes read so far can name. Each slot was filled
   by an operation of at least a byte. Those in a damaged frame were not read,
   but their number is bounded by what LZ4 can compress, 255 to 1. */
static inline uint64_t tool_ops_most_slots(const struct tool_ops *o) {
    return tool_input_bytes(o->in) + 255 * tool_input_stored_bytes(o->in);
}
/* Goes on reading from IN, which begins with the block of ENTRY. Not in a
   block, and not with a TELL. */
void tool_ops_jump(struct tool_ops *o, struct tool_input *in,
                   const struct mtf_proc_index_entry *entry);
void tool_ops_next(struct tool_ops *o, struct tool_ops_item *item);
/* Skips the rest of the present block, and its BLOCK_END. */
void tool_ops_skip_block(struct tool_ops *o);

#endif
