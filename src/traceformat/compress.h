/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LZ4 frames for the recorder, streamed, behind three calls: begin a frame, add
 * bytes, end it. Each call writes to a buffer of the caller.
 *
 * All state lies in memory the caller gives; nothing is allocated, ever, which
 * is what lets the recorder use it inside the program it records.
 *
 * Invariants: a frame has linked blocks of at most 64 KiB and no checksum (the
 * segments in it have theirs) unless asked for. A frame ended is whole on its
 * own.
 * Threads: one user at a time for each compressor.
 * Without liblz4 (TCM_HAVE_LZ4 is 0) bytes pass through unchanged and
 * mtf_compress_available() is false.
 */
#ifndef TCM_TRACEFORMAT_COMPRESS_H
#define TCM_TRACEFORMAT_COMPRESS_H

#include "base/compiler.h"

struct mtf_compress;

/* Most bytes one mtf_compress_add takes. */
#define MTF_COMPRESS_PIECE ((size_t)64 << 10)
/* Room that suffices for what any one call writes. */
#define MTF_COMPRESS_ROOM ((size_t)160 << 10)
/* Memory for mtf_compress_init; 16-byte aligned. */
#define MTF_COMPRESS_MEMORY ((size_t)256 << 10)
/* Result of a failed call. The frame is lost; begin a new one. */
#define MTF_COMPRESS_ERROR ((size_t)-1)

bool mtf_compress_available(void);

/* Places a compressor at MEMORY, which holds SIZE >= MTF_COMPRESS_MEMORY bytes
   and stays the caller's. NULL if it does not fit. */
struct mtf_compress *mtf_compress_init(void *memory, size_t size);

/* Frames begun from now on end with a checksum of their content. */
void mtf_compress_with_checksum(struct mtf_compress *c);

/* Each returns the number of bytes written to OUT, which has at least
   MTF_COMPRESS_ROOM bytes, or MTF_COMPRESS_ERROR. Added bytes may stay inside
   until a flush (ends the block) or the end of the frame. */
size_t mtf_compress_begin(struct mtf_compress *c, void *out, size_t room);
size_t mtf_compress_add(struct mtf_compress *c, const void *data, size_t n,
                        void *out, size_t room);
size_t mtf_compress_flush(struct mtf_compress *c, void *out, size_t room);
size_t mtf_compress_end(struct mtf_compress *c, void *out, size_t room);

#endif
