/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decodes a block of the processed trace into an array of ready operations. The
 * encoder is proc_codec.h.
 *
 * Invariants: whatever the block, no byte outside it and the 8 after it is
 * read. Kinds, calls and alignments are in their ranges; slots are below the
 * slot count after the block. After damage, and in forged blocks, an operation
 * may name an empty slot and an allocation may get one that is not empty:
 * whatever executes operations must cope with both.
 * Threads: none shared; one decoder belongs to one thread.
 */
#ifndef TCM_TRACEFORMAT_PROC_DECODE_H
#define TCM_TRACEFORMAT_PROC_DECODE_H

#include "traceformat/proc_layout.h"

/* Kinds of ready operations. Those up to MTF_OP_LAST_OPERATION are counted as
   `ops`; a replayer may skip all above MTF_OP_LAST_EXECUTED. */
enum mtf_op_kind {
    MTF_OP_ALLOC = 1,       /* slot, call, size */
    MTF_OP_FREE = 2,        /* slot, call */
    MTF_OP_REALLOC = 3,     /* slot (keeps it), call, size; MOVED flag */
    MTF_OP_ALIGNED = 4,     /* slot, call, align_log2, size */
    MTF_OP_REALLOC_NEW = 5, /* slot (taken), call, size: realloc of NULL, or of
                               a block unknown (OLD_UNKNOWN flag) */
    MTF_OP_REALLOC_END = 6, /* slot, call: executed as free */
    MTF_OP_FREE_SIZE = 7,   /* slot, call; size = the contradicting one given */
    MTF_OP_LAST_OPERATION = MTF_OP_FREE_SIZE,
    MTF_OP_SWITCH = 8,        /* slot = thread of the following operations */
    MTF_OP_THREAD_END = 9,    /* slot = thread; bytes: its name */
    MTF_OP_TIME = 10,         /* size = ns, absolute */
    MTF_OP_THREAD_START = 11, /* slot = thread; size = kernel thread id */
    MTF_OP_EXTENSION = 12,    /* slot = which; size = argument */
    MTF_OP_LAST_EXECUTED = MTF_OP_EXTENSION,
    MTF_OP_FAILED = 13,  /* call, align_log2, size; HAD_OLD flag. No slot */
    MTF_OP_MARK = 14,    /* bytes: text */
    MTF_OP_SAMPLE = 15,  /* bytes: u64 time, then accounts */
    MTF_OP_LOSS = 16,    /* slot = thread; bytes: u64 events, 0 unknown,
                           u64 from, u64 to */
    MTF_OP_PHASE = 17,   /* slot = enum mtf_proc_phase */
    MTF_OP_PRESENT = 18, /* size = present bytes of the block that the next
                            operation makes or resizes */
    MTF_OP_SITE = 19,    /* slot = site of the allocations and failed calls that
                            follow, 0 none; also a block's beginning */
    MTF_OP_SITE_DEF = 20, /* bytes: mtf_site_def_get */
    MTF_OP_OTHER = 21     /* slot = kind unknown to this reader; bytes */
};

/* Whether operations of KIND make a block of memory or resize one. */
static inline bool mtf_op_makes(unsigned kind) {
    return kind == MTF_OP_ALLOC || kind == MTF_OP_ALIGNED ||
           kind == MTF_OP_REALLOC || kind == MTF_OP_REALLOC_NEW;
}

/* One ready operation. Of kinds with bytes, `size` says where these stand in
   the block's payload: mtf_proc_bytes finds them while the block is there. */
struct mtf_op {
    uint32_t slot;
    uint8_t kind;       /* enum mtf_op_kind */
    uint8_t call;       /* enum mtf_call */
    uint8_t align_log2; /* alignment 1 << this; ALIGNED, FAILED (255: was no
                           power of two) */
    uint8_t flags;      /* MTF_PROC_FLAG_ */
    uint64_t size;
};
TCM_STATIC_ASSERT(sizeof(struct mtf_op) == 16, "ready operation");

struct mtf_proc_block {
    struct mtf_proc_block_head head;
    const uint8_t *payload; /* head.length bytes, and 8 more can be read */
    uint64_t offset;        /* of the head in the (decompressed) trace */
};

/*
 * Decoder of one operation block. It is large (768 KiB): keep one, not on the
 * stack. No state passes from block to block.
 */
struct mtf_proc_decoder {
    const uint8_t *p, *end;
    const uint8_t *payload;
    uint64_t last_8th, time_ns;
    uint32_t last_birth, last_slot, births, depth;
    uint32_t slot_count, old_slots, thread, records_left, ops_left;
    uint8_t alloc_call, free_call;
    const char *problem; /* NULL, or why the block contradicts itself */
    uint32_t birth_slot[MTF_PROC_BLOCK_RECORDS];
    uint32_t stack[2 * MTF_PROC_BLOCK_RECORDS];
};

/* Starts with BLOCK, whose payload must stay until its last operation is
   decoded. False: the block contradicts itself (problem says how). */
bool mtf_proc_decode_begin(struct mtf_proc_decoder *d,
                           const struct mtf_proc_block *block);
/*
 * Decodes up to MAX operations; returns how many, 0 at the end of the block.
 * After the last one, d->problem is NULL or says why the rest of the block
 * cannot be decoded (only blocks not made by our writer have that), and
 * d->slot_count, d->thread, d->time_ns are those after the operations so far.
 */
size_t mtf_proc_decode(struct mtf_proc_decoder *d, struct mtf_op *ops,
                       size_t max);
/* Bytes of an operation of a kind that has some. */
static inline const uint8_t *mtf_proc_bytes(const struct mtf_proc_block *b,
                                            const struct mtf_op *op,
                                            size_t *length) {
    *length = (uint32_t)op->size;
    return b->payload + (op->size >> 32);
}

#endif
