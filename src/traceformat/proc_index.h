/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the block to begin at from the index at the end of a processed trace
 * whose bytes can be read anywhere: a plain file. A reader of a stream skips
 * the index.
 *
 * Invariants: bytes with a wrong checksum are not used, and a search that finds
 * nothing costs one look at the end of the file. Offsets found lie in the file,
 * but what stands there is the reader's to check.
 * Threads: none shared.
 */
#ifndef TCM_TRACEFORMAT_PROC_INDEX_H
#define TCM_TRACEFORMAT_PROC_INDEX_H

#include "traceformat/proc_reader.h"

/* Reads up to N bytes at OFFSET; returns how many, fewer only at the end or on
   failure. */
typedef size_t (*mtf_proc_read_at)(void *ctx, uint64_t offset, void *data,
                                   size_t n);

/* Bytes at the end of a file in which the closing block is looked for. */
#define MTF_PROC_CLOSING_TAIL ((size_t)16 << 10)

/* Memory that the search works in. */
#define MTF_PROC_INDEX_MEMORY                                                  \
    (MTF_PROC_PAYLOAD_MAX + sizeof(struct mtf_proc_block_head))

/* Finds the closing block that ends the SIZE bytes. Its payload stays in MEMORY
   (MTF_PROC_CLOSING_TAIL bytes). */
bool mtf_proc_find_closing(mtf_proc_read_at read_at, void *ctx, uint64_t size,
                           void *memory, struct mtf_proc_block *closing);

/*
 * The last entry whose block begins at WANTED or before. SIZE: of the file.
 * MEMORY: MTF_PROC_INDEX_MEMORY bytes. False: there is no index that can be
 * used, or the wanted place lies before the first block.
 */
bool mtf_proc_index_find(mtf_proc_read_at read_at, void *ctx, uint64_t size,
                         void *memory, uint64_t wanted,
                         struct mtf_proc_index_entry *found);

#endif
