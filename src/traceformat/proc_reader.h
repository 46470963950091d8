/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reader of processed traces: pulls bytes (LZ4 already removed) from a source
 * and yields blocks, which proc_decode.h decodes. raw_reader.h is the reader of
 * raw traces.
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
 *         case MTF_PROC_ITEM_INDEX:    item.block: only with index_too
 *         case MTF_PROC_ITEM_DAMAGE:   report; go on
 *         case MTF_PROC_ITEM_END:      item.status: MTF_OK, or what is missing
 *         case MTF_PROC_ITEM_FAILED:   no processed trace, or system error
 *         }
 *     }
 *
 * Invariants: whatever the input, no byte outside the given memory is read,
 * each call makes progress, and no block with a wrong checksum is yielded.
 *
 * Threads: one user at a time for each reader.
 */
#ifndef TCM_TRACEFORMAT_PROC_READER_H
#define TCM_TRACEFORMAT_PROC_READER_H

#include "traceformat/proc_decode.h"
#include "traceformat/proc_layout.h"
#include "traceformat/raw_layout.h"
#include "traceformat/trace_io.h"

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
    const char *problem;    /* the status in words; NULL: no problem */
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

/* Memory of the reader: two blocks, so that it moves bytes rarely. */
#define MTF_PROC_READER_BYTES                                                  \
    (2 * (MTF_PROC_PAYLOAD_MAX + sizeof(struct mtf_proc_block_head)) + 4096)

struct mtf_proc_reader {
    struct mtf_source *source;
    uint8_t *memory;
    size_t begin, end; /* bytes not yet used: [begin, end) of memory */
    uint64_t offset;   /* of memory[begin] in the trace */
    bool at_end;       /* nothing comes after memory[end - 1] */
    bool have_header, closed;
    bool index_too; /* set by the caller: yield index blocks */
    bool in_damage;
    uint64_t damage_start;
    uint64_t ops; /* of the blocks so far */
    uint64_t damaged_places;
    char text[MTF_TOO_NEW_TEXT]; /* a problem that names numbers */
};

/* MEMORY has MTF_PROC_READER_BYTES bytes. */
void mtf_proc_reader_init(struct mtf_proc_reader *r, struct mtf_source *source,
                          void *memory);
/* Begins to read a source whose first byte is that of the block of ENTRY. */
void mtf_proc_reader_init_at(struct mtf_proc_reader *r,
                             struct mtf_source *source, void *memory,
                             const struct mtf_proc_index_entry *entry);
/* Tells the reader that the bytes up to here are lost, and the header with
   them: it searches the following bytes for blocks. */
void mtf_proc_reader_lost_header(struct mtf_proc_reader *r);
/* Yields the next item, which is valid until the next call. The last one is END
   or FAILED. */
void mtf_proc_reader_next(struct mtf_proc_reader *r,
                          struct mtf_proc_item *item);

/* Value of FIELD in a closing block; false: the field is not there. */
bool mtf_proc_account(const struct mtf_proc_block *b, unsigned field,
                      uint64_t *value);
/* Text of a field of the closing block, or NULL. */
const char *mtf_proc_account_name(unsigned field);

/* --- Index ---------------------------------------------------------------- */

/*
 * The index at the end of a trace finds the block to begin at, if the bytes can
 * be read in any order: in a plain file. A reader of a stream skips the index.
 *
 * Bytes with a wrong checksum are not used. A search that finds nothing reads
 * the end of the file once. Offsets that are found lie in the file, but the
 * reader has to check the bytes there.
 */

/* Reads up to N bytes at OFFSET; returns their number, less than N only at the
   end or on failure. */
typedef size_t (*mtf_proc_read_at)(void *ctx, uint64_t offset, void *data,
                                   size_t n);

/* Bytes at the end of a file in which the closing block is searched. */
#define MTF_PROC_CLOSING_TAIL ((size_t)16 << 10)

/* Bytes of working memory of the search. */
#define MTF_PROC_INDEX_MEMORY                                                  \
    (MTF_PROC_PAYLOAD_MAX + sizeof(struct mtf_proc_block_head))

/* Finds the closing block that ends the SIZE bytes. Its payload stays in MEMORY
   (MTF_PROC_CLOSING_TAIL bytes). */
bool mtf_proc_find_closing(mtf_proc_read_at read_at, void *ctx, uint64_t size,
                           void *memory, struct mtf_proc_block *closing);

/*
 * Finds the last entry whose block begins at WANTED or before, in a file of
 * SIZE bytes. MEMORY has MTF_PROC_INDEX_MEMORY bytes. false: there is no usable
 * index, or WANTED is before the first block.
 */
bool mtf_proc_index_find(mtf_proc_read_at read_at, void *ctx, uint64_t size,
                         void *memory, uint64_t wanted,
                         struct mtf_proc_index_entry *found);

#endif
