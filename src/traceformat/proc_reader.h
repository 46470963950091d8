/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the processed trace: pulls bytes (LZ4 already removed) from a source,
 * yields blocks, and decodes a block into an array of ready operations. The
 * counterpart for raw traces is raw_reader.h.
 *
 *     mtf_proc_reader_init(r, source, memory);
 *     for (;;) {
 *         mtf_proc_reader_next(r, &item);
 *         switch (item.kind) {
 *         case MTF_PROC_ITEM_HEADER:   item.header
 *         case MTF_PROC_ITEM_OPS:      mtf_proc_decode_begin(d, &item.block),
 *                                      then mtf_proc_decode until it returns 0
 *         case MTF_PROC_ITEM_CLOSING:  mtf_proc_account(&item.block, field,
 *                                      &value)
 *         case MTF_PROC_ITEM_INDEX:    item.block: only if asked for
 *         case MTF_PROC_ITEM_DAMAGE:   report; go on
 *         case MTF_PROC_ITEM_END:      item.status: MTF_OK, or what is missing
 *         case MTF_PROC_ITEM_FAILED:   no processed trace, or system error
 *         }
 *     }
 *
 * Invariants: whatever the input, no byte outside the given memory is read,
 * each call makes progress, and no operation is handed out of a block whose
 * checksum was wrong. Kinds, calls and alignments are in their ranges; slots
 * are below the slot count after the block. After damage, and in forged blocks,
 * an operation may name an empty slot and an allocation may get one that is not
 * empty: whatever executes operations must cope with both.
 * Threads: none shared; one reader and one decoder belong to one thread.
 */
#ifndef TCM_TRACEFORMAT_PROC_READER_H
#define TCM_TRACEFORMAT_PROC_READER_H

#include "traceformat/proc_layout.h"
#include "traceformat/raw_layout.h"
#include "traceformat/trace_io.h"
#include "traceformat/trace_status.h"

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
    MTF_OP_FAILED = 13, /* call, align_log2, size; HAD_OLD flag. No slot */
    MTF_OP_MARK = 14,   /* bytes: text */
    MTF_OP_SAMPLE = 15, /* bytes: u64 time, then accounts */
    MTF_OP_LOSS = 16,   /* slot = thread; bytes: u64 events, 0 unknown,
                           u64 from, u64 to */
    MTF_OP_PHASE = 17,  /* slot = enum mtf_proc_phase */
    MTF_OP_OTHER = 18   /* slot = kind unknown to this reader; bytes */
};

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

enum mtf_proc_item_kind {
    MTF_PROC_ITEM_HEADER = 1,
    MTF_PROC_ITEM_OPS,
    MTF_PROC_ITEM_CLOSING,
    MTF_PROC_ITEM_INDEX,  /* only if `index_too` is set */
    MTF_PROC_ITEM_DAMAGE, /* something is lost here; reading goes on */
    MTF_PROC_ITEM_END,
    MTF_PROC_ITEM_FAILED /* no processed trace, or system error: give up */
};

struct mtf_proc_item {
    enum mtf_proc_item_kind kind;
    enum mtf_status status; /* DAMAGE, END, FAILED: what is wrong */
    const char *problem;    /* the same in words; NULL: nothing */
    int error;              /* FAILED with MTF_SYSTEM: errno */
    uint64_t file_offset;   /* before LZ4; DAMAGE: as stored if so marked */
    uint64_t skipped;       /* DAMAGE: bytes without a readable block */
    bool offset_is_stored;  /* DAMAGE: of an LZ4 frame; both count its bytes.
                               FAILED: the source failed and knows where */
    struct mtf_proc_header header; /* HEADER */
    struct mtf_raw_header raw;     /* HEADER: fixed part of the raw header */
    const uint8_t *raw_header;     /* HEADER: header.raw_length bytes */
    const char
        *converter; /* HEADER: the program that made it; no 0 at its end */
    size_t converter_length;     /* 0: postprocess */
    struct mtf_proc_block block; /* OPS, CLOSING, INDEX */
};

/* Memory the reader needs: two blocks, so that it moves bytes rarely. */
#define MTF_PROC_READER_BYTES                                                  \
    (2 * (MTF_PROC_PAYLOAD_MAX + sizeof(struct mtf_proc_block_head)) + 4096)

struct mtf_proc_reader {
    struct mtf_source *source;
    uint8_t *memory;
    size_t begin, end; /* bytes not yet used: [begin, end) of memory */
    uint64_t offset;   /* of memory[begin] in the trace */
    bool at_end;       /* nothing comes after memory[end - 1] */
    bool have_header, closed;
    bool index_too; /* by the caller: hand out index blocks */
    bool in_damage;
    uint64_t damage_start;
    uint64_t ops; /* of the blocks so far */
    uint64_t damaged_places;
    char text[MTF_TOO_NEW_TEXT]; /* a problem that names numbers */
};

/* MEMORY has MTF_PROC_READER_BYTES bytes. */
void mtf_proc_reader_init(struct mtf_proc_reader *r, struct mtf_source *source,
                          void *memory);
/* The same for a source that begins with the block of ENTRY. */
void mtf_proc_reader_init_at(struct mtf_proc_reader *r,
                             struct mtf_source *source, void *memory,
                             const struct mtf_proc_index_entry *entry);
/* The bytes up to here are lost, and the header with them: what comes is looked
   through for blocks. */
void mtf_proc_reader_lost_header(struct mtf_proc_reader *r);
/* Yields the next item, which is good until the next call. The last one is END
   or FAILED. */
void mtf_proc_reader_next(struct mtf_proc_reader *r,
                          struct mtf_proc_item *item);

/* Whether a good block, of any kind, begins at P and ends in its N bytes; fills
   HEAD. */
bool mtf_proc_is_block(const uint8_t *p, size_t n,
                       struct mtf_proc_block_head *head);

/* Value of FIELD in a closing block; false: not there. */
bool mtf_proc_account(const struct mtf_proc_block *b, unsigned field,
                      uint64_t *value);
/* Text of a field of the closing block, or NULL. */
const char *mtf_proc_account_name(unsigned field);

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
