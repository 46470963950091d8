/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writer of raw traces: header and segments with their checksums, plain or in
 * LZ4 frames, to a sink. It ends a frame at every footer, at a barrier when it
 * is the first or the frame has a mebibyte, and before MTF_RAW_FRAME_BYTES. It
 * repeats the header, because damage to a single one would cost the trace.
 *
 * Invariants: a segment never crosses the end of a frame. Once the sink has
 * refused bytes, the writer writes nothing more and every call returns false,
 * until mtf_raw_writer_go_back.
 *
 * Threads: one user at a time for each writer.
 */
#ifndef TCM_TRACEFORMAT_RAW_WRITER_H
#define TCM_TRACEFORMAT_RAW_WRITER_H

#include "base/compiler.h"
#include "traceformat/compress.h"
#include "traceformat/raw_layout.h"
#include "traceformat/trace_event.h"
#include "traceformat/trace_io.h"

/* Most fields of one sample or footer. */
#define MTF_ACCOUNTS_MAX 64u

/* Place of the events of a data segment. */
struct mtf_raw_place {
    uint32_t thread;
    uint64_t offset;       /* of the first byte in the thread's stream */
    uint64_t buffer_start; /* of its buffer's first byte */
    uint64_t time_lo;      /* they were published after this */
    uint64_t time_hi;      /* and before this */
};

struct mtf_raw_writer {
    mtf_sink *sink;
    void *ctx;
    struct mtf_compress *compress; /* NULL: plain */
    uint8_t *out;                  /* compressed bytes on their way, */
    size_t gathered;               /* of which so many wait for more */
    uint64_t random;
    uint64_t raw_bytes;      /* written, before compression */
    uint64_t settled_bytes;  /* of those, in whole segments, with the sink */
    uint64_t stored_bytes;   /* handed to the sink, after compression */
    uint64_t settled_stored; /* of those, when settled_bytes was set */
    uint64_t *begun;         /* set to the coming raw_bytes before the sink
                                gets any of the bytes; NULL: not needed */
    uint64_t segments;
    uint64_t barriers;
    uint64_t frame_start; /* raw_bytes where the frame began */
    uint64_t header_copy; /* raw_bytes where the last copy ended */
    uint32_t header_length;
    uint32_t header_copies;
    bool in_frame;
    bool settled_in_frame; /* in_frame, when settled_bytes was set */
    bool failed;
    uint8_t header[MTF_RAW_HEADER_MAX];
};

/* Memory that mtf_raw_writer_init needs for a compressing writer (16-byte
   aligned); a plain one needs none. */
#define MTF_RAW_WRITER_MEMORY                                                  \
    (MTF_COMPRESS_MEMORY + MTF_RAW_GATHER + MTF_COMPRESS_ROOM)
/* Bytes behind settled_bytes that are worth a flush, which ends a block. */
#define MTF_RAW_FLUSH_LEAST ((uint64_t)16 << 10)
/* Compressed bytes that may wait until more go to the sink with them. */
#define MTF_RAW_GATHER ((size_t)32 << 10)

/*
 * MEMORY NULL: a plain trace. false: SIZE is too small for a compressor. In a
 * build without LZ4 the trace is plain in any case; w->compress tells.
 */
bool mtf_raw_writer_init(struct mtf_raw_writer *w, mtf_sink *sink, void *ctx,
                         void *memory, size_t size);

/*
 * Builds a header in OUT (MTF_RAW_HEADER_MAX bytes) from the fixed part FIXED,
 * of which magic, version, must_understand, length and reserved are filled in
 * here, and the two texts (NULL: none; cut to 255 bytes). Returns its length.
 */
size_t mtf_raw_build_header(void *out, const struct mtf_raw_header *fixed,
                            const char *executable, const char *library);
/* Builds a header with more: ALLOCATOR as in MTF_TAG_ALLOCATOR (NULL: none),
   FORK as in MTF_TAG_FORK (0: none), and that of part *PART of a flight
   recording, with START bytes in the parts before it (NULL: it is whole). */
size_t mtf_raw_build_full_header(void *out, const struct mtf_raw_header *fixed,
                                 const char *executable, const char *library,
                                 const char *allocator, uint64_t fork,
                                 const uint32_t *part, uint64_t start);

/* Writes the header, which comes first; HEADER is from mtf_raw_build_header. */
bool mtf_raw_write_header(struct mtf_raw_writer *w, const void *header,
                          size_t length);

/* Begins a new file, which begins with HEADER. Called behind a barrier, when
   the frame has ended. Counts go on. */
bool mtf_raw_write_part(struct mtf_raw_writer *w, const void *header,
                        size_t length);

/* Writes N bytes of events, 1 to MTF_SEGMENT_MAX. */
bool mtf_raw_write_data(struct mtf_raw_writer *w,
                        const struct mtf_raw_place *place, const void *events,
                        size_t n);
/* Writes a barrier with the next number and ends the block, or the frame if it
   is long enough. */
bool mtf_raw_write_barrier(struct mtf_raw_writer *w, uint64_t time_ns);
/* Writes a sample of COUNT fields, at most MTF_ACCOUNTS_MAX. */
bool mtf_raw_write_sample(struct mtf_raw_writer *w, uint64_t time_ns,
                          const struct mtf_account_value *accounts,
                          unsigned count);
/* Writes a notice; TEXT is cut to 255 bytes. */
bool mtf_raw_write_notice(struct mtf_raw_writer *w, uint64_t time_ns,
                          enum mtf_notice code, const char *text);
/* Writes COUNT present blocks, at most MTF_PRESENT_MAX. */
bool mtf_raw_write_present(struct mtf_raw_writer *w, uint64_t time_ns,
                           const struct mtf_present *blocks, unsigned count);
/* Writes definitions of call sites: N bytes of events. */
bool mtf_raw_write_sites(struct mtf_raw_writer *w, uint64_t time_ns,
                         const void *events, size_t n);
/* Writes a footer and ends the frame. More segments may follow; the last footer
   counts. */
bool mtf_raw_write_footer(struct mtf_raw_writer *w, uint64_t time_ns,
                          const struct mtf_account_value *accounts,
                          unsigned count);

/*
 * Bytes written may stay in the compressor. The sink has the bytes up to
 * settled_bytes, and all bytes after a barrier or footer. A caller that reuses
 * the memory of a buffer only when its events are stored compares raw_bytes, as
 * it was after mtf_raw_write_data, with settled_bytes, or flushes.
 */
bool mtf_raw_writer_flush(struct mtf_raw_writer *w);
/* Bytes that the sink has behind the last whole segment: the caller removes
   them from the end of the output if it refused bytes. */
uint64_t mtf_raw_writer_excess(const struct mtf_raw_writer *w);
/* Goes on after the excess bytes were removed: closes the frame that is open
   there, with 4 bytes. Later output follows as if no bytes had been refused. */
bool mtf_raw_writer_go_back(struct mtf_raw_writer *w);
/* Ends the open frame; the next segment begins one. */
bool mtf_raw_writer_end_frame(struct mtf_raw_writer *w);

/* Fills page 0 of a spool (PAGE_BYTES >= MTF_SPOOL_UNIT, zeroed by the caller)
   with its head, the trace's header, and a mark for an output that has SAVED
   bytes of the trace. */
void mtf_spool_put_head(void *page, const void *header, size_t length,
                        uint64_t saved);
/* The mark in page 0. */
struct mtf_spool_mark *mtf_spool_mark_of(void *page);
/* Notes in page 0 of a spool that the recording was forced to stop, if the
   output has no room for a footer. */
void mtf_spool_put_forced(void *page);
/* Fills the head of an empty spool buffer of SIZE bytes, head included, and
   keeps the mark of its last use. The sync word is stored last, so that a
   half-written head is no head. */
void mtf_spool_put_buffer(struct mtf_spool_buffer *head, uint64_t random,
                          uint32_t size, uint32_t thread, uint64_t offset,
                          uint64_t time_lo);

#endif
