/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes of the raw trace and of its spool, version 1. All numbers are
 * little-endian. doc/raw-trace-format.md describes them in words, with worked
 * examples; the two change together.
 *
 * A raw trace is a header and then segments, plain or in LZ4 frames.
 *
 *   header:   fixed part (96 bytes) | fields | zeros to a multiple of 8 | XXH64
 *   segment:  head (56 bytes) | payload
 *   spool:    page 0: spool head | spool mark | the trace's header
 *             then buffers, each from a multiple of 4096 on: head (48 bytes) |
 *             events | zeros
 */
#ifndef TCM_TRACEFORMAT_RAW_LAYOUT_H
#define TCM_TRACEFORMAT_RAW_LAYOUT_H

#include "base/compiler.h"

#define MTF_RAW_MAGIC   "\x89MTRAW\r\n" /* 8 bytes */
#define MTF_SPOOL_MAGIC "\x89MTSPL\r\n"
#define MTF_RAW_VERSION 1

/* Most raw bytes of one LZ4 frame. */
#define MTF_RAW_FRAME_BYTES (4u << 20)

struct mtf_raw_header {       /* offset */
    uint8_t magic[8];         /*  0 */
    uint16_t version;         /*  8 */
    uint16_t must_understand; /* 10: a reader that knows not all bits stops */
    uint32_t length;          /* 12: of the whole header, multiple of 8 */
    uint32_t pid;             /* 16 */
    uint32_t parent_pid;      /* 20 */
    uint64_t process_start; /* 24: clock ticks since boot, of /proc/self/stat */
    uint64_t random;        /* 32: with pid and start, the recording id */
    uint64_t parent_start;  /* 40: 0 unknown */
    uint64_t parent_random; /* 48: of the parent's recording, 0 none */
    uint64_t wall_ns;       /* 56: CLOCK_REALTIME at the start */
    uint64_t start_ns;      /* 64: the trace's clock at the start */
    uint64_t first_token;   /* 72: smaller tokens are of earlier recordings */
    uint32_t page_size;     /* 80 */
    uint8_t clock;          /* 84: enum mtf_clock */
    uint8_t settings;       /* 85: MTF_SETTING_ bits */
    uint16_t reserved;      /* 86 */
    uint64_t buffer_bound;  /* 88: bytes of full buffers that may wait */
};
TCM_STATIC_ASSERT(sizeof(struct mtf_raw_header) == 96, "raw header layout");

enum mtf_clock { MTF_CLOCK_MONOTONIC_NS = 1 };
#define MTF_SETTING_COMPRESSED  1u
#define MTF_SETTING_DROP        2u
#define MTF_SETTING_PER_PROCESS 4u  /* the output's name has %p */
#define MTF_SETTING_SITES       8u  /* allocations have call sites */
#define MTF_SETTING_FREE_SITES  16u /* and frees */
#define MTF_SETTING_LOOKS       32u /* present bytes of a sample of blocks */

/* Header fields: u16 tag, u16 length, bytes; tag 0 ends them. */
enum mtf_header_tag {
    MTF_TAG_END = 0,
    MTF_TAG_EXECUTABLE = 1, /* base name, no path, no arguments */
    MTF_TAG_LIBRARY = 2,    /* library and version that recorded */
    MTF_TAG_PART = 3,       /* u32: part of a flight recording, from 0 */
    MTF_TAG_PART_START = 4, /* u64: bytes of the parts before it */
    /* how the program's own allocator came into it, and its name, if that is
       not the C library's: "linked jemalloc" */
    MTF_TAG_ALLOCATOR = 5,
    MTF_TAG_FORK = 6 /* u64: number of the fork that made the process, as in the
                        parent's EXTENSION event; the recording has all calls
                        since then */
};

/*
 * A flight recording is cut into parts, each a trace by itself, of which the
 * last ones are kept: part P in OUTPUT.k(P % MTF_PARTS). If a buffer begins in
 * one part and goes on in a later one, that part repeats it from its beginning,
 * so that every part can be the first.
 */
#define MTF_PARTS          8u
#define MTF_RAW_HEADER_MAX 2048u

/* "\xA5SG\xF1", a byte sequence that no event stream is likely to hold */
#define MTF_SEGMENT_SYNC 0xF14753A5u

struct mtf_segment {       /* offset */
    uint32_t sync;         /*  0 */
    uint8_t kind;          /*  4: enum mtf_segment_kind */
    uint8_t flags;         /*  5: 0 */
    uint16_t reserved;     /*  6: 0 */
    uint32_t length;       /*  8: of the payload, at most MTF_SEGMENT_MAX */
    uint32_t thread;       /* 12: data: the stream's; else 0 */
    uint64_t offset;       /* 16: data: of the first byte in its stream */
    uint64_t buffer_start; /* 24: data: of its buffer's first byte */
    uint64_t time_lo;      /* 32: its events were published after this, */
    uint64_t time_hi;      /* 40: and before this (barrier: both its time) */
    uint64_t checksum;     /* 48: XXH64 of bytes 0..47 and the payload, seed =
                                  the header's random */
};
TCM_STATIC_ASSERT(sizeof(struct mtf_segment) == 56, "segment layout");

#define MTF_SEGMENT_MAX (1u << 20)

enum mtf_segment_kind {
    MTF_SEGMENT_DATA = 1,    /* events of one thread's stream */
    MTF_SEGMENT_BARRIER = 2, /* u64 number; all published up to time_lo is
                                before it */
    MTF_SEGMENT_SAMPLE = 3,  /* accounts: u16 field, u64 value each */
    MTF_SEGMENT_NOTICE = 4,  /* u16 code, text */
    MTF_SEGMENT_FOOTER = 5,  /* accounts; the last footer counts */
    MTF_SEGMENT_HEADER = 6,  /* the header again; checksum's seed is 0 */
    MTF_SEGMENT_PRESENT = 7, /* struct mtf_present each: blocks that lived on */
    MTF_SEGMENT_SITES = 8 /* SITE_DEF events: all that came in parts before */
};

/* Record of a large block that is alive at the end. */
struct mtf_present {
    uint64_t token;
    uint64_t bytes; /* that have memory behind them */
};
TCM_STATIC_ASSERT(sizeof(struct mtf_present) == 16, "present layout");
#define MTF_PRESENT_MAX 64u /* in one segment of this library */

enum mtf_notice {
    MTF_NOTICE_NO_SPOOL = 1,       /* buffers in private memory */
    MTF_NOTICE_END_MODE = 2,       /* recorded after the library's destructor */
    MTF_NOTICE_NO_SAVER_TABLE = 3, /* descriptor table could not be unshared */
    MTF_NOTICE_NO_LINES = 4        /* an interpreter's version is not known */
};

/* Unit of length of a file after a kill in the middle of a write: the kernel
   checks for signals between pages. */
#define MTF_WRITE_UNIT 4096u

/* Thread ids count from 1 (the first thread) and are never reused. */
#define MTF_THREAD_NONE 0u
/* The stream of events of all threads past their last destructor. */
#define MTF_THREAD_LATE 0xFFFFFFFFu

/* Payload of MTF_RAW_BUFFER, the first event of every buffer. The coding state
   is reset by it: last size 0, last freed token = next_token. */
struct mtf_raw_buffer_state { /* offset */
    uint64_t time_ns;         /*  0 */
    uint64_t next_token;      /*  8 */
    uint32_t tokens_left;     /* 16 */
    uint16_t cpu;             /* 20 */
    uint8_t alloc_call;       /* 22 */
    uint8_t free_call;        /* 23 */
    uint64_t untraced_frees;  /* 24: of the thread so far, as the next three */
    uint64_t dropped;         /* 32 */
    uint64_t waits;           /* 40 */
    uint64_t wait_ns;         /* 48 */
};
TCM_STATIC_ASSERT(sizeof(struct mtf_raw_buffer_state) == 56, "buffer state");

/* Unit of the offsets of buffers in a spool. */
#define MTF_SPOOL_UNIT 4096u

struct mtf_spool_head {       /* offset */
    uint8_t magic[8];         /*  0 */
    uint16_t version;         /*  8 */
    uint16_t must_understand; /* 10 */
    uint32_t header_offset;   /* 12: of the raw header in this file */
    uint64_t end_reason;      /* 16: MTF_END_FORCED, or 0 */
    uint64_t checksum;        /* 24: XXH64 of bytes 0..23, seed 0 */
};
TCM_STATIC_ASSERT(sizeof(struct mtf_spool_head) == 32, "spool head layout");

/*
 * Mark of a spool, behind the head if header_offset leaves room for it. Its
 * words change while the spool is in use, one store each, so a kill leaves
 * every word whole. Bytes of the trace are counted before LZ4, of all parts
 * together.
 */
struct mtf_spool_mark { /* offset in the spool */
    uint64_t length;    /* 32: the spool has at least this many bytes */
    uint64_t saved;     /* 40: bytes of the trace that the output had before a
                               buffer was emptied; it has at least these */
    uint64_t begun;     /* 48: bytes that it can have at most */
    uint64_t flags;     /* 56: MTF_SPOOL_ bits */
};
TCM_STATIC_ASSERT(sizeof(struct mtf_spool_mark) == 32, "spool mark layout");
/* Some buffers were in private memory, not here. */
#define MTF_SPOOL_PRIVATE 1u

/* Losses of threads without a stream, at the end of page 0. They change while
   the spool is in use. */
struct mtf_spool_lost { /* offset */
    uint64_t dropped;   /* 4080: calls */
    uint64_t untraced;  /* 4088: frees of blocks made while not recording */
};
TCM_STATIC_ASSERT(sizeof(struct mtf_spool_lost) == 16, "spool losses layout");

static inline struct mtf_spool_lost *mtf_spool_lost_of(void *page) {
    return (struct mtf_spool_lost *)(void *)((uint8_t *)page + MTF_SPOOL_UNIT -
                                             sizeof(struct mtf_spool_lost));
}

#define MTF_SPOOL_BUFFER_SYNC 0xF14253A5u

/* Head of each buffer in use; in a buffer that was emptied all fields are 0 but
   `saved`. A scanner that finds no head at a unit goes on to the next unit. */
struct mtf_spool_buffer { /* offset */
    uint32_t sync;        /*  0 */
    uint32_t size;        /*  4: bytes of the buffer with this head */
    uint32_t thread;      /*  8 */
    uint32_t reserved;    /* 12 */
    uint64_t offset;   /* 16: of the first event byte in the thread's stream */
    uint64_t time_lo;  /* 24: its events were published after this */
    uint64_t saved;    /* 32: mark.saved when it was emptied last, 0 never */
    uint64_t checksum; /* 40: XXH64 of bytes 0..39, seed = header's random */
};
TCM_STATIC_ASSERT(sizeof(struct mtf_spool_buffer) == 48, "spool buffer");

/* Last bytes of a buffer in use: its events below `given` were published before
   a time that no event has. The thread changes it while no other thread has a
   stream; `given` is 0 meanwhile. */
struct mtf_spool_given { /* offset from the end of the buffer */
    uint64_t time_ns;    /* -16 */
    uint32_t given;      /*  -8: bytes of the buffer with its head; 0: none */
    uint32_t reserved;   /*  -4 */
};
TCM_STATIC_ASSERT(sizeof(struct mtf_spool_given) == 16, "spool given");

#endif
