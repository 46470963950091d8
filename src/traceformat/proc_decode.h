/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decodes a block of the processed trace into an array of operations. The
 * encoder is proc_writer.h.
 *
 * Invariants: no byte outside the block and the 8 bytes after it is read,
 * whatever the block has. Kinds, calls and alignments are in their ranges;
 * slots are below the slot count after the block. After damage, and in forged
 * blocks, an operation may name an empty slot and an allocation may get one
 * that is not empty: code that executes operations must cope with both.
 *
 * Threads: one user at a time for each decoder.
 */
#ifndef TCM_TRACEFORMAT_PROC_DECODE_H
#define TCM_TRACEFORMAT_PROC_DECODE_H

#include "traceformat/proc_layout.h"

/* True if operations of KIND make a block of memory or resize one. */
static inline bool mtf_op_makes(unsigned kind) {
    return kind == MTF_OP_ALLOC || kind == MTF_OP_ALIGNED ||
           kind == MTF_OP_REALLOC || kind == MTF_OP_REALLOC_NEW;
}

/*
 * One operation. For kinds with bytes, `size` has the place of the bytes in the
 * block's payload: mtf_proc_bytes finds them as long as the block exists.
 * Fields that are set, by kind:
 *
 *   ALLOC          slot, call, size
 *   FREE           slot, call
 *   REALLOC        slot (keeps it), call, size; MOVED flag
 *   ALIGNED        slot, call, align_log2, size
 *   REALLOC_NEW    slot (taken), call, size: realloc of NULL, or of a block
 *                  that is not known (OLD_UNKNOWN flag)
 *   REALLOC_END    slot, call: executed as free
 *   FREE_SIZE      slot, call; size: the contradicting one that was given
 *   FAILED         call, align_log2, size; HAD_OLD flag. No slot
 *   SWITCH         slot: thread of the following operations
 *   TIME           size: ns, absolute
 *   THREAD_START   slot: thread; size: kernel thread id
 *   THREAD_END     slot: thread; bytes: its name
 *   SAMPLE         bytes: u64 time, then accounts
 *   LOSS           slot: thread; bytes: u64 events (0: not known), u64 from,
 *                  u64 to
 *   PHASE          slot: enum mtf_proc_phase
 *   PRESENT        size: present bytes of the block that the next operation
 *                  makes or resizes
 *   SITE           slot: site of the allocations and failed calls that follow,
 *                  0 none; also a block's beginning
 *   SITE_DEF       bytes: mtf_site_def_get
 *   of form TEXT   bytes
 *   of form PAIR   slot: which; size: argument
 *   OTHER          slot: number that this reader does not know; bytes
 */
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
 * Decoder of one operation block. Large (768 KiB): not for the stack. No state
 * passes from block to block.
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

/* Begins to decode BLOCK, whose payload must stay until its last operation is
   decoded. false: the block contradicts itself (d->problem tells how). */
bool mtf_proc_decode_begin(struct mtf_proc_decoder *d,
                           const struct mtf_proc_block *block);
/*
 * Decodes up to MAX operations; returns their number, 0 at the end of the
 * block. After the last one, d->problem is NULL or tells why the rest of the
 * block cannot be decoded (only in blocks that our writer did not make).
 * d->slot_count, d->thread and d->time_ns are those after the operations so
 * far.
 */
size_t mtf_proc_decode(struct mtf_proc_decoder *d, struct mtf_op *ops,
                       size_t max);
/* Bytes of an operation whose kind has some. */
static inline const uint8_t *mtf_proc_bytes(const struct mtf_proc_block *b,
                                            const struct mtf_op *op,
                                            size_t *length) {
    *length = (uint32_t)op->size;
    return b->payload + (op->size >> 32);
}

#endif
