/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streamed LZ4 frames: begin a frame, add bytes, end it. Each call writes to a
 * buffer of the caller.
 *
 * All state lies in memory of the caller; nothing is ever allocated, so that
 * the recorder can use this inside the program that it records.
 *
 * Without liblz4 (TCM_HAVE_LZ4 is 0) bytes pass through unchanged and
 * mtf_compress_available() is false.
 *
 * Invariants: a frame has linked blocks of at most 64 KiB, and no checksum:
 * segments and blocks of traces have their own. An ended frame can be
 * decompressed alone.
 *
 * Threads: one user at a time for each compressor.
 */
#ifndef TCM_TRACEFORMAT_COMPRESS_H
#define TCM_TRACEFORMAT_COMPRESS_H

#include "base/compiler.h"

struct mtf_compress;

/* Most bytes that one call of mtf_compress_add takes. */
#define MTF_COMPRESS_PIECE ((size_t)64 << 10)
/* Room that suffices for the output of any one call. */
#define MTF_COMPRESS_ROOM ((size_t)68 << 10)
/* Bytes of memory that mtf_compress_init needs, aligned to 16. */
#define MTF_COMPRESS_MEMORY       ((size_t)212 << 10)
#define MTF_COMPRESS_SMALL_MEMORY ((size_t)452 << 10)
/* Result of a failed call. The frame is lost; the caller begins a new one. */
#define MTF_COMPRESS_ERROR ((size_t)-1)

bool mtf_compress_available(void);

/* Makes a compressor in MEMORY, which has SIZE >= MTF_COMPRESS_MEMORY bytes and
   stays the caller's. NULL: SIZE is too small. */
struct mtf_compress *mtf_compress_init(void *memory, size_t size);

/* Makes later frames smaller, and several times as slow, unless the frame
   before took more than half of its content. The compressor was made in
   MTF_COMPRESS_SMALL_MEMORY. */
void mtf_compress_make_small(struct mtf_compress *c);

/* These return the number of bytes written to OUT, which has at least
   MTF_COMPRESS_ROOM bytes, or MTF_COMPRESS_ERROR. Added bytes may stay inside
   until a flush, which ends the block, or the end of the frame. */
size_t mtf_compress_begin(struct mtf_compress *c, void *out, size_t room);
size_t mtf_compress_add(struct mtf_compress *c, const void *data, size_t n,
                        void *out, size_t room);
size_t mtf_compress_flush(struct mtf_compress *c, void *out, size_t room);
size_t mtf_compress_end(struct mtf_compress *c, void *out, size_t room);

#endif
