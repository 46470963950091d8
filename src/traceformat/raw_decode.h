/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decoding of events, one at a time. The encoder is raw_codec.h; the tables are
 * in doc/raw-trace-format.md.
 *
 * Reading is by unchecked 8-byte loads: 8 bytes after END can be read (their
 * values do not matter). Nothing else outside [P, END) is touched, whatever the
 * bytes are.
 *
 * Invariants: the state belongs to one stream and is good only between a
 * BUFFER event and the next loss (mtf_stream_place in raw_reader.h tells).
 * Calls are always below MTF_CALL_LIMIT and of the right range; sizes of
 * successful calls are at most MTF_SIZE_MAX.
 *
 * A loop that keeps the state in registers copies it to a local variable, uses
 * mtf_raw_decode_hot on the copy, and copies back and forth around
 * mtf_raw_decode_slow.
 */
#ifndef MTF_RAW_DECODE_H
#define MTF_RAW_DECODE_H

#include "base/compiler.h"
#include "traceformat/raw_codec.h"
#include "traceformat/raw_layout.h"
#include "traceformat/trace_event.h"
#include "traceformat/varint.h"

/* Coding state of one stream. */
struct mtf_raw_state {
    uint64_t next_token;
    uint64_t tokens_left;
    uint64_t last_8th;
    uint64_t last_freed;
    uint64_t time_ns;   /* last time of the stream */
    uint8_t alloc_call; /* sticky */
    uint8_t free_call;  /* sticky */
    uint16_t cpu;       /* of the last BUFFER */
    uint32_t as_thread; /* late stream: whose the events are; else 0 */
    /* of the thread so far */
    uint64_t untraced_frees;
    uint64_t dropped;
    uint64_t waits;
    uint64_t wait_ns;
};

enum mtf_event_kind {
    MTF_EVENT_ALLOC = 1,   /* call, size, token */
    MTF_EVENT_FREE,        /* call, old_token */
    MTF_EVENT_REALLOC,     /* call, size, token, old_token, flags */
    MTF_EVENT_ALIGNED,     /* call, align_log2, size, token */
    MTF_EVENT_FREE_SIZE,   /* call, old_token, size that was given */
    MTF_EVENT_REALLOC_NEW, /* call, size, token, flags */
    MTF_EVENT_REALLOC_END, /* call, old_token: freed, returned NULL */
    MTF_EVENT_FAILED,      /* call, align_log2, size, old_token (0: none) */
    /* no calls of the malloc family from here on */
    MTF_EVENT_STATE,        /* only the state changed: calls, tokens */
    MTF_EVENT_TIME,         /* time_ns */
    MTF_EVENT_BUFFER,       /* time_ns; counts in the state */
    MTF_EVENT_AS_THREAD,    /* thread */
    MTF_EVENT_UNTRACED,     /* value: frees */
    MTF_EVENT_THREAD_START, /* value: kernel thread id */
    MTF_EVENT_THREAD_END,   /* text: name */
    MTF_EVENT_MARK,         /* text */
    MTF_EVENT_EXTENSION,    /* call: which one; value: argument */
    MTF_EVENT_GAP,          /* value: dropped events; time_ns, time_hi */
    MTF_EVENT_UNKNOWN       /* kind of a later version; text: its bytes */
};

#define MTF_EVENT_MOVED       1u /* REALLOC: the block changed its place */
#define MTF_EVENT_OLD_UNKNOWN 2u /* REALLOC_NEW: old block not recorded */

/* align_log2 of FAILED: alignment that was no power of two. */
#define MTF_ALIGN_BAD 255u

struct mtf_event {
    uint8_t kind; /* enum mtf_event_kind; says which fields are set */
    uint8_t call; /* enum mtf_call */
    uint8_t align_log2;
    uint8_t flags;
    uint32_t thread;
    uint64_t size;
    uint64_t token;     /* of the block that was made */
    uint64_t old_token; /* of the block that ended */
    uint64_t value;
    uint64_t time_ns;
    uint64_t time_hi;
    const uint8_t *text; /* not terminated */
    uint32_t text_length;
};

/* What the decoders return beside the number of bytes taken. */
#define MTF_DECODE_END 0  /* a zero byte: nothing was written here */
#define MTF_DECODE_BAD -1 /* no event, or one cut by END */

static TCM_ALWAYS_INLINE uint64_t mtf_size_of_code(uint64_t code,
                                                   uint64_t *last_8th) {
    uint64_t exact = code & 1;
    uint64_t change = (uint64_t)mtf_unzigzag(code >> (1 + 3 * exact));
    *last_8th += change;
    return *last_8th << 3 | (code >> 1 & (7 * exact));
}

/*
 * ALLOC and FREE. Returns the bytes taken, or 0: another kind, or something is
 * wrong; then nothing changed and mtf_raw_decode_slow shall look at it.
 */
static TCM_ALWAYS_INLINE unsigned mtf_raw_decode_hot(struct mtf_raw_state *s,
                                                     const uint8_t *p,
                                                     const uint8_t *end,
                                                     struct mtf_event *e) {
    uint64_t w = mtf_load_le64(p);
    /* The added bit keeps the count below 64 for a word of zeros. */
    unsigned n = (unsigned)__builtin_ctzll(w | (uint64_t)1 << 63) + 1;
    if (TCM_UNLIKELY(n > 8 || n > (size_t)(end - p)))
        return 0;
    uint64_t v = w << (64 - 8 * n) >> (64 - 7 * n);
    if ((v & 3) == MTF_RAW_FREE) {
        s->last_freed += (uint64_t)mtf_unzigzag(v >> 2);
        e->kind = MTF_EVENT_FREE;
        e->call = s->free_call;
        e->old_token = s->last_freed;
        return n;
    }
    if (TCM_LIKELY((v & 3) == MTF_RAW_ALLOC)) {
        uint64_t last_8th = s->last_8th;
        uint64_t size = mtf_size_of_code(v >> 2, &last_8th);
        if (TCM_UNLIKELY(size > MTF_SIZE_MAX || s->tokens_left == 0))
            return 0;
        s->last_8th = last_8th;
        s->tokens_left--;
        e->kind = MTF_EVENT_ALLOC;
        e->call = s->alloc_call;
        e->size = size;
        e->token = s->next_token++;
        return n;
    }
    return 0;
}

/* Any event. Returns the bytes taken, MTF_DECODE_END or MTF_DECODE_BAD; after
   the last two nothing changed. P is below END. */
int mtf_raw_decode_slow(struct mtf_raw_state *s, const uint8_t *p,
                        const uint8_t *end, struct mtf_event *e);

static TCM_ALWAYS_INLINE int mtf_raw_decode(struct mtf_raw_state *s,
                                            const uint8_t *p,
                                            const uint8_t *end,
                                            struct mtf_event *e) {
    unsigned n = mtf_raw_decode_hot(s, p, end, e);
    return TCM_LIKELY(n != 0) ? (int)n : mtf_raw_decode_slow(s, p, end, e);
}

/* Bytes of whole events from P on: up to the first zero byte where an event
   would begin, to one that is cut by END, or to END. *ENDED tells that it was
   END or a zero byte. */
size_t mtf_raw_events_length(const uint8_t *p, const uint8_t *end, bool *ended);

/* Whether the event at P is a BUFFER event that lies before END. */
bool mtf_raw_is_buffer_event(const uint8_t *p, const uint8_t *end);

#endif
