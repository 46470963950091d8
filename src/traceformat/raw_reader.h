/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reader of raw traces: pulls bytes (LZ4 already removed) from a source and
 * yields header and segments whose checksums are right, in file order. After
 * damage it searches the next valid segment and reports the bytes skipped.
 * malloc-trace-replay/trace/raw.h reads files, LZ4 and spools together.
 *
 * Invariants: memory is the buffer of the caller. Time is linear in the input,
 * also in hostile input.
 *
 * Threads: one user at a time for each reader.
 */
#ifndef TCM_TRACEFORMAT_RAW_READER_H
#define TCM_TRACEFORMAT_RAW_READER_H

#include "base/compiler.h"
#include "traceformat/raw_codec.h"
#include "traceformat/raw_layout.h"
#include "traceformat/trace_event.h"
#include "traceformat/trace_io.h"

/* --- Header ------------------------------------------------------------- */

/* A header and the texts of its fields (cut, terminated, "" if absent). */
struct mtf_raw_info {
    struct mtf_raw_header fixed;
    char executable[256];
    char library[256];
    char allocator[256];
    bool is_part; /* the trace is a part of a flight recording, */
    uint32_t part;
    uint64_t part_start; /* with this many bytes before it */
    uint64_t fork;       /* MTF_TAG_FORK; 0: none */
};

/*
 * Reads the header in the N bytes at P. MTF_OK; MTF_CUT if it is longer than N;
 * MTF_NO_TRACE without the magic; MTF_DAMAGED with a wrong checksum or an
 * impossible length; MTF_TOO_NEW if it is of a later version or has unknown
 * must-understand bits (INFO has both).
 */
enum mtf_status mtf_raw_parse_header(const uint8_t *p, size_t n,
                                     struct mtf_raw_info *info);
/* True if both are of one recording (process id, start, random). */
bool mtf_raw_same_recording(const struct mtf_raw_header *a,
                            const struct mtf_raw_header *b);

/* Largest offset in a stream, so that sums do not overflow. */
#define MTF_STREAM_OFFSET_MAX ((uint64_t)1 << 62)

/* --- Items -------------------------------------------------------------- */

enum mtf_item_kind {
    MTF_ITEM_HEADER = 1, /* the first, unless it is lost; never twice */
    MTF_ITEM_DATA,
    MTF_ITEM_BARRIER,
    MTF_ITEM_SAMPLE,
    MTF_ITEM_NOTICE,
    MTF_ITEM_FOOTER,
    MTF_ITEM_PRESENT,
    MTF_ITEM_SITES,
    MTF_ITEM_DAMAGE, /* something is lost here; reading goes on */
    MTF_ITEM_END,
    MTF_ITEM_FAILED /* no trace of this kind, or system error: give up */
};

struct mtf_item {
    enum mtf_item_kind kind;
    enum mtf_status status; /* DAMAGE, FAILED: what is wrong */
    bool from_spool;
    const char *file;     /* name for messages; NULL from mtf_raw_reader_next */
    uint64_t file_offset; /* of the segment, before LZ4; DAMAGE: as stored */
    uint64_t skipped;     /* DAMAGE: bytes without use */
    bool offset_is_stored; /* DAMAGE: of an LZ4 frame; both count its bytes */
    bool lost_unpacked;    /* SKIPPED counts bytes before compression */
    /* DATA */
    uint32_t thread;
    uint64_t offset;       /* of data[0] in the thread's stream */
    uint64_t buffer_start; /* of its buffer's first byte */
    uint64_t time_lo;
    uint64_t time_hi; /* UINT64_MAX: unknown (spool) */
    /* all segments: payload; 8 bytes after it can be read. Until next call. */
    const uint8_t *data;
    uint32_t length;
    uint64_t number; /* BARRIER: from 1; NOTICE: code */
    /* HEADER; FAILED with MTF_TOO_NEW: the header */
    const struct mtf_raw_info *info;
    int error;           /* FAILED: errno, or 0 */
    const char *foreign; /* FAILED with MTF_NO_TRACE: words for the kind of
                            file, or NULL */
};

/* Reads field I of a sample or footer; false: there is none. */
bool mtf_item_account(const struct mtf_item *item, unsigned i,
                      struct mtf_account_value *account);

/* Reads entry I of a MTF_ITEM_PRESENT; false: there is none. */
bool mtf_item_present(const struct mtf_item *item, unsigned i,
                      struct mtf_present *present);

/* Reads the definition of a MTF_ITEM_SITES at byte *AT, which moves behind it;
   E becomes a MTF_EVENT_SITE_DEF. false: there is none. */
bool mtf_item_site_def(const struct mtf_item *item, uint32_t *at,
                       struct mtf_event *e);

/* --- Reader ------------------------------------------------------------- */

/* Memory of the reader: two largest segments and room to read ahead. */
#define MTF_READER_BUFFER ((size_t)4 << 20)

struct mtf_raw_reader {
    struct mtf_source *source;
    uint8_t *buffer;
    size_t head, tail;  /* bytes not yet used: [head, tail) of buffer */
    uint64_t base;      /* offset in the trace of buffer[0] */
    uint64_t lost_from; /* where the damage that is being skipped begins */
    uint64_t lost_bytes;
    const char *foreign;   /* words for the kind of the first bytes, or NULL */
    uint64_t check_budget; /* bytes that may still be checked in damage */
    enum mtf_status lost_status;
    enum mtf_status
        failure;       /* status of the MTF_ITEM_FAILED that ended reading */
    bool lost;         /* in damage */
    bool at_break;     /* the source broke after buffer[tail - 1] */
    bool at_end;       /* the source ends after buffer[tail - 1] */
    bool have_header;  /* info is good */
    bool header_given; /* MTF_ITEM_HEADER was yielded */
    bool doubtful;     /* no magic: not a trace unless a header is found */
    bool started;
    bool over;
    struct mtf_raw_info info;
};

/* BUFFER has MTF_READER_BUFFER bytes. */
void mtf_raw_reader_init(struct mtf_raw_reader *r, struct mtf_source *source,
                         void *buffer);
/* Yields the next item. After MTF_ITEM_END or MTF_ITEM_FAILED it is yielded
   again. */
void mtf_raw_reader_next(struct mtf_raw_reader *r, struct mtf_item *item);

/* --- Spool -------------------------------------------------------------- */

/* Checks page 0 (N >= MTF_SPOOL_UNIT bytes) and reads the trace's header. */
enum mtf_status mtf_spool_parse_head(const uint8_t *page, size_t n,
                                     struct mtf_raw_info *info);
/* Reads the mark in page 0, whose head is valid. false: the spool is of an
   older library, which wrote none. */
bool mtf_spool_get_mark(const uint8_t *page, struct mtf_spool_mark *mark);
/* True if the head of a buffer is at P (48 bytes); fills HEAD. */
bool mtf_spool_parse_buffer(const uint8_t *p, uint64_t random,
                            struct mtf_spool_buffer *head);

/* --- Streams ------------------------------------------------------------ */

/* State of one thread's stream while its segments are read. */
struct mtf_stream {
    uint64_t next_offset; /* bytes before it were read or are given up */
    bool lost;            /* the coding state is not known */
    bool may_be_late;     /* the stream may begin before the trace */
    bool before;          /* the current buffer began before the trace */
    struct mtf_raw_state state;
};

void mtf_stream_init(struct mtf_stream *s);
/* Begins a stream of a trace whose beginning was not kept: the stream begins
   with its first segment, at any offset. */
void mtf_stream_init_late(struct mtf_stream *s);

/* Position of a data segment in its stream. */
struct mtf_placement {
    const uint8_t *data;  /* bytes to decode now, with the stream's state */
    size_t length;        /* 0: none */
    uint64_t doubled;     /* bytes dropped: they came before */
    uint64_t gap;         /* bytes missing before the segment */
    uint64_t undecodable; /* bytes dropped: no state until the next buffer */
    uint64_t before;      /* as undecodable, in a buffer that began before a
                             trace whose beginning was not kept: nothing is
                             missing */
};

/*
 * Places ITEM (MTF_ITEM_DATA) in its stream: bytes that came before are
 * dropped, a gap is counted, and after a gap bytes are dropped up to the next
 * start of a buffer. If gap or undecodable is not 0 the trace is incomplete.
 */
void mtf_stream_place(struct mtf_stream *s, const struct mtf_item *item,
                      struct mtf_placement *out);
/* Tells the stream that the bytes from the current place to the segment's end
   could not be decoded (MTF_DECODE_BAD): the state is lost until the next
   buffer. */
void mtf_stream_lose(struct mtf_stream *s);

#endif
