/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes of the processed trace, version 1: operations on numbered slots, in one
 * order. All numbers are little-endian. doc/processed-trace-format.md describes
 * them in words, with worked examples; the two change together.
 *
 *   header:  fixed part (32 bytes) | the raw trace's header | zeros to a
 *            multiple of 8 | fields | zeros to a multiple of 8 | XXH64
 *   block:   head (72 bytes) | payload
 *
 * Operation blocks come first, then an index of them, one closing block last.
 * Every block can be decoded alone.
 */
#ifndef TCM_TRACEFORMAT_PROC_LAYOUT_H
#define TCM_TRACEFORMAT_PROC_LAYOUT_H

#include "traceformat/trace_event.h"

#define MTF_PROC_MAGIC   "\x89MTPRC\r\n" /* 8 bytes */
#define MTF_PROC_VERSION 1

struct mtf_proc_header {      /* offset */
    uint8_t magic[8];         /*  0 */
    uint16_t version;         /*  8 */
    uint16_t must_understand; /* 10: a reader that knows not all bits stops */
    uint32_t length;          /* 12: of the whole header, multiple of 8 */
    uint32_t raw_length;      /* 16: of the raw trace's header at 32 */
    uint32_t reserved;        /* 20 */
    uint64_t reserved2;       /* 24 */
};
TCM_STATIC_ASSERT(sizeof(struct mtf_proc_header) == 32, "proc header layout");

#define MTF_PROC_HEADER_MAX    4096u
#define MTF_PROC_CONVERTER_MAX 1024u

/* Header fields: u16 tag, u16 length, bytes; tag 0 or the checksum ends them.
   postprocess writes none. */
enum mtf_proc_tag {
    MTF_PROC_TAG_END = 0,
    MTF_PROC_TAG_CONVERTER = 1 /* name and version of the program that made it
                                  of a trace of another format */
};

/* "\xA5PB\xF1" */
#define MTF_PROC_SYNC 0xF14250A5u

struct mtf_proc_block_head { /* offset */
    uint32_t sync;           /*  0 */
    uint8_t kind;            /*  4: enum mtf_proc_block_kind */
    uint8_t alloc_call;      /*  5: sticky calls before the first record */
    uint8_t free_call;       /*  6 */
    uint8_t flags;           /*  7: 0; else a reader stops */
    uint32_t length;     /*  8: of the payload, at most MTF_PROC_PAYLOAD_MAX */
    uint32_t records;    /* 12: at most MTF_PROC_BLOCK_RECORDS */
    uint32_t ops;        /* 16: of them, allocations, frees and reallocs */
    uint32_t taken;      /* 20: slots listed at the start of the payload */
    uint64_t first_op;   /* 24: operations of all blocks before */
    uint64_t time_ns;    /* 32: time before the first record */
    uint32_t slot_count; /* 40: slots ever used before */
    uint32_t thread;     /* 44: thread before the first record, 0 none */
    uint64_t last_8th;   /* 48: last size / 8, the predictor of sizes */
    uint32_t last_slot;  /* 56: last slot that was named */
    uint32_t head_check; /* 60: low half of XXH64, seed 0, of bytes 0..59 */
    uint64_t checksum;   /* 64: XXH64, seed 0, of bytes 0..63 and payload */
};
TCM_STATIC_ASSERT(sizeof(struct mtf_proc_block_head) == 72, "proc block head");

#define MTF_PROC_PAYLOAD_MAX   (256u << 10)
#define MTF_PROC_BLOCK_RECORDS (64u << 10)
/* Bytes of one mark, name, sample or other record with bytes. */
#define MTF_PROC_BYTES_MAX (16u << 10)
/* Longest step of one TIME record, ns. A longer pause takes several in a row,
   which the decoder joins. */
#define MTF_PROC_TIME_MAX (((uint64_t)1 << 47) - 1)

enum mtf_proc_block_kind {
    MTF_PROC_BLOCK_OPS = 1,
    MTF_PROC_BLOCK_CLOSING = 2, /* accounts: u16 field, u64 value each */
    MTF_PROC_BLOCK_INDEX = 3    /* struct mtf_proc_index_entry each */
};

/* Entry of the index: a place where an operation block begins. The index has
   entries, in rising order, of each block, or of every 2nd, 4th, ... in a long
   trace. Traces of early versions have no index. */
struct mtf_proc_index_entry { /* offset */
    uint64_t offset;          /*  0: of the block in the trace */
    uint64_t first_op;        /*  8: operations before it */
    uint64_t time_ns;         /* 16: time before it */
};
TCM_STATIC_ASSERT(sizeof(struct mtf_proc_index_entry) == 24, "index layout");
#define MTF_PROC_INDEX_MAX 8192u
TCM_STATIC_ASSERT(MTF_PROC_INDEX_MAX * sizeof(struct mtf_proc_index_entry) <=
                      MTF_PROC_PAYLOAD_MAX,
                  "the index is one block");

/*
 * A record begins with a varint. The lowest set bit of its payload tells the
 * type, and the bits above are the argument; if none of the low four bits is
 * set, the record is extended. Extended records have a kind in the next five
 * bits: below 16 the bits above are the argument, from 16 on the number of
 * bytes that follow, so that a reader skips kinds that it does not know. Kinds
 * are listed in trace_event.h.
 */
enum mtf_proc_type {
    MTF_PROC_ALLOC = 0, /* ...1    size code; of the sticky allocation call */
    MTF_PROC_FREE = 1,  /* ..10    zigzag(birth - last named birth): born in
                           this block; of the sticky free call */
    MTF_PROC_FREE_OLD = 2, /* .100    zigzag(slot - last named slot): born in an
                              earlier block */
    MTF_PROC_REALLOC = 3,  /* 1000    zigzag(birth - last named birth); a second
                              varint: size code << 2 | moved << 1 |
                              reallocarray */
    MTF_PROC_EXTENDED = 4  /* 0000    kind (5 bits) | argument or length */
};

/* Phase of records. Operations that were not recorded have phases of their own.
 */
enum mtf_proc_phase {
    MTF_PROC_PHASE_RECORDED = 0, /* the phase at the beginning */
    MTF_PROC_PHASE_PROLOGUE = 1, /* makes the blocks that are alive where a
                                    window begins */
    MTF_PROC_PHASE_EPILOGUE = 2 /* frees the blocks that are alive at the end */
};

/* Flags of REALLOC_NEW and of decoded operations. */
#define MTF_PROC_FLAG_OLD_UNKNOWN 1u /* the old block was not recorded */
#define MTF_PROC_FLAG_MOVED       2u /* realloc moved the block */
/* Flags of FAILED. */
#define MTF_PROC_FLAG_HAD_OLD 4u /* a block was to be resized; it stayed */

/* Fields of the closing block: X(NAME, number, "text"). Fields of the raw
   trace's footer (enum mtf_account) have their number plus 0x8000. */
#define MTF_PROC_ACCOUNTS(X)                                                   \
    X(OPS, 1, "ops")                                                           \
    X(RECORDS, 2, "records")                                                   \
    X(BLOCKS, 3, "blocks")                                                     \
    X(SLOTS, 4, "slots")                                                       \
    X(LIVE_AT_END, 5, "live_at_end")                                           \
    X(PEAK_LIVE_BYTES, 6, "peak_live_bytes")                                   \
    X(THREADS, 7, "threads")                                                   \
    X(EVENTS, 8, "events")                                                     \
    X(MALLOCS, 9, "mallocs")                                                   \
    X(MEMALIGNS, 10, "memaligns")                                              \
    X(REALLOCS, 11, "reallocs")                                                \
    X(FREES, 12, "frees")                                                      \
    X(FAILED_ALLOCATIONS, 13, "failed_allocations")                            \
    X(REQUESTED_BYTES, 14, "requested_bytes")                                  \
    X(UNMATCHED_FREES, 15, "unmatched_frees")                                  \
    X(UNMATCHED_REALLOCS, 16, "unmatched_reallocs")                            \
    X(UNTRACED_FREES, 17, "untraced_frees")                                    \
    X(DROPPED_EVENTS, 18, "dropped_events")                                    \
    X(ORDER_CONFLICTS, 19, "order_conflicts")                                  \
    X(COMPLETE, 20, "complete")                                                \
    X(CLEAN_END, 21, "clean_end")                                              \
    X(GROWING, 22, "still_being_recorded")                                     \
    X(SWITCHES, 23, "thread_switches")                                         \
    X(WIDEST_INTERVAL_NS, 24, "widest_interval_ns")                            \
    X(MEDIAN_INTERVAL_NS, 25, "median_interval_ns")                            \
    X(DAMAGED_PLACES, 26, "damaged_places")                                    \
    X(LOST_STREAM_BYTES, 27, "lost_stream_bytes")                              \
    X(START_NS, 28, "start_ns")                                                \
    X(END_NS, 29, "end_ns")                                                    \
    X(RAW_BYTES, 30, "raw_bytes")                                              \
    X(DAMAGED_EVENTS, 31, "damaged_events")                                    \
    X(INDEX_OFFSET, 32, "index_offset")                                        \
    X(PRESENT_BLOCKS, 33, "present_blocks")                                    \
    X(PROLOGUE_OPS, 40, "prologue_ops")                                        \
    X(EPILOGUE_OPS, 41, "epilogue_ops")                                        \
    X(LEFT_OUT_EVENTS, 42, "left_out_events")                                  \
    X(BEGINS_LATE, 43, "begins_late")                                          \
    X(WRONG_FREES, 44, "wrong_frees")

enum mtf_proc_account {
#define X(name, number, text) MTF_PROC_ACCOUNT_##name = number,
    MTF_PROC_ACCOUNTS(X)
#undef X
        MTF_PROC_ACCOUNT_LIMIT = 64
};
#define MTF_PROC_ACCOUNT_RECORDER 0x8000u

#endif
