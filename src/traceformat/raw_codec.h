/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding and decoding of events, side by side;
 * doc/raw-trace-format.md has the tables.
 *
 * The payload of an event's first varint has the type in its low two bits:
 *
 *   ALLOC    size code
 *   FREE     zigzag(token - last freed token)
 *   REALLOC  zigzag(old token - last freed token), then a second varint:
 *            size code << 2 | moved << 1 | reallocarray
 *   EXTENDED kind (5 bits) | argument or length
 *
 * Size code: sizes change by multiples of 8 most of the time, so the change of
 * size / 8 is coded, and the low three bits only when they are not 0:
 *
 *   low bits 0:   zigzag(size/8 - last size/8) << 1
 *   otherwise:    zigzag(size/8 - last size/8) << 4 | low bits << 1 | 1
 *
 * Encoders write by 8-byte stores: MTF_VARINT_MAX_BYTES after an event may be
 * overwritten with zeros. The encoders of ALLOC and FREE make words, which
 * malloc and free store; the others write one event and return its length.
 *
 * Decoders read by unchecked 8-byte loads: 8 bytes after END can be read (their
 * values do not matter). Nothing else outside [P, END) is touched, whatever the
 * bytes are.
 *
 * Invariants: the decoder's state belongs to one stream and is good only
 * between a BUFFER event and the next loss (mtf_stream_place in raw_reader.h
 * tells). Calls are always below MTF_CALL_LIMIT and of the right range; sizes
 * of successful calls are at most MTF_SIZE_MAX.
 *
 * A loop that keeps the state in registers copies it to a local variable, uses
 * mtf_raw_decode_hot on the copy, and copies back and forth around
 * mtf_raw_decode_slow.
 */
#ifndef TCM_TRACEFORMAT_RAW_CODEC_H
#define TCM_TRACEFORMAT_RAW_CODEC_H

#include "base/check.h"
#include "base/compiler.h"
#include "traceformat/raw_layout.h"
#include "traceformat/trace_event.h"
#include "traceformat/varint.h"

/* Largest size whose size code leaves room for the type bits. Requests for more
   can only fail (MTF_RAW_FAILED has all 64 bits). */
#define MTF_SIZE_MAX ((uint64_t)1 << 48)
/* Head of an extended event with bytes, and the most bytes it can have. */
#define MTF_EXTENDED_HEAD 2u
#define MTF_EXTENDED_MAX  127u
/* Room that suffices for any encoder. */
#define MTF_EVENT_ROOM                                                         \
    (MTF_EXTENDED_HEAD + MTF_EXTENDED_MAX + MTF_VARINT_MAX_BYTES)
/* Largest distance of tokens or times; it fits any event. */
#define MTF_ARGUMENT_MAX (((uint64_t)1 << 48) - 1)

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
    uint32_t as_thread; /* late stream: thread of the events; else 0 */
    /* sums of the thread so far */
    uint64_t untraced_frees;
    uint64_t dropped;
    uint64_t waits;
    uint64_t wait_ns;
};

#define MTF_EVENT_MOVED       1u /* REALLOC: the block changed its place */
#define MTF_EVENT_OLD_UNKNOWN 2u /* REALLOC_NEW: old block not recorded */

/* align_log2 of FAILED: alignment that was no power of two. */
#define MTF_ALIGN_BAD 255u

/*
 * A decoded event. Fields that are set, by kind:
 *
 *   ALLOC          call, size, token
 *   FREE           call, old_token
 *   REALLOC        call, size, token, old_token, flags
 *   ALIGNED        call, align_log2, size, token
 *   REALLOC_NEW    call, size, token, flags
 *   REALLOC_END    call, old_token: freed, returned NULL
 *   FREE_SIZE      call, old_token, size that was given
 *   FAILED         call, align_log2, size, old_token (0: none)
 *   TIME, BUFFER   time_ns; the counts of a BUFFER are in the state
 *   AS_THREAD      thread
 *   UNTRACED       value: frees
 *   THREAD_START   value: kernel thread id
 *   THREAD_END     text: name
 *   GAP            value: dropped events; time_ns, time_hi
 *   PRESENT        value: bytes of the next block to end
 *   SITE           value: argument for mtf_site_decode
 *   SITE_DEF       text: bytes for mtf_site_def_get
 *   WRONG          call; flags: enum mtf_wrong; old_token (0: not known);
 *                  value: distance from the block's start, or the address of
 *                  what is no block
 *   of form TEXT   text
 *   of form PAIR   call: which; value: argument
 *   UNKNOWN        value: number in the file; text: its bytes
 */
struct mtf_event {
    uint8_t kind; /* enum mtf_event_kind */
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

/* --- Ends of events ----------------------------------------------------- */

/* Kind of the extended event whose first varint has the payload V. */
static TCM_ALWAYS_INLINE unsigned mtf_raw_kind_of(uint64_t v) {
    return (unsigned)(v >> 2) & 31;
}

/*
 * Length of the event at P; *V: the payload of its first varint. 0: a zero byte
 * (nothing was written here), or END cuts the event.
 */
static TCM_ALWAYS_INLINE size_t mtf_raw_event_length(const uint8_t *p,
                                                     const uint8_t *end,
                                                     uint64_t *v) {
    TCM_ASSERT(p < end);
    size_t room = (size_t)(end - p);
    size_t n = mtf_varint_get_unchecked(p, v);
    if (n == 0 || n > room)
        return 0;
    if ((*v & 3) == MTF_RAW_REALLOC) {
        uint64_t second;
        size_t m = n == room ? 0 : mtf_varint_get_unchecked(p + n, &second);
        return m == 0 || m > room - n ? 0 : n + m;
    }
    if ((*v & 3) == MTF_RAW_EXTENDED && mtf_raw_kind_of(*v) >= MTF_RAW_BUFFER)
        return *v >> 7 > room - n ? 0 : n + (size_t)(*v >> 7);
    return n;
}

/* Bytes of whole events from P on: up to the first zero byte where an event
   would begin, to an event that END cuts, or to END. *ENDED: true unless an
   event was cut. */
size_t mtf_raw_events_length(const uint8_t *p, const uint8_t *end, bool *ended);

/* True if the event at P is a BUFFER event that lies before END. */
bool mtf_raw_is_buffer_event(const uint8_t *p, const uint8_t *end);

/* --- Sizes -------------------------------------------------------------- */

/* Size code of SIZE, where LAST_8TH is an eighth of the size before, above
   SHIFT bits with the value TYPE. Both forms are computed and a conditional
   move selects one; the empty statement keeps the compiler from making a branch
   of it, which mixed sizes would mispredict. */
static TCM_ALWAYS_INLINE uint64_t mtf_size_payload(uint64_t size,
                                                   uint64_t last_8th,
                                                   unsigned shift,
                                                   uint64_t type) {
    TCM_ASSERT(size <= MTF_SIZE_MAX && type >> shift == 0);
    uint64_t change = mtf_zigzag((int64_t)((size >> 3) - last_8th));
    uint64_t low = size & 7;
    uint64_t exact =
        (((change << 3) + low) << (1 + shift)) + (1u << shift) + type;
    uint64_t rounded = (change << (1 + shift)) + type;
    __asm__("" : "+r"(rounded), "+r"(exact));
    return low != 0 ? exact : rounded;
}

static TCM_ALWAYS_INLINE uint64_t mtf_size_code(uint64_t size,
                                                uint64_t last_8th) {
    return mtf_size_payload(size, last_8th, 0, 0);
}

static TCM_ALWAYS_INLINE uint64_t mtf_size_of_code(uint64_t code,
                                                   uint64_t *last_8th) {
    uint64_t exact = code & 1;
    uint64_t change = (uint64_t)mtf_unzigzag(code >> (1 + 3 * exact));
    *last_8th += change;
    return *last_8th << 3 | (code >> 1 & (7 * exact));
}

/* Writes the low bytes of SIZE that are needed, at least one; returns their
   number. A reader knows it from the event's length. */
static inline unsigned mtf_put_size(uint8_t *p, uint64_t size) {
    mtf_store_le64(p, size);
    return tcm_log2_floor(size | 1) / 8 + 1;
}

/* N bytes (1 to 8) as a number. */
static inline uint64_t mtf_get_size(const uint8_t *p, unsigned n) {
    TCM_ASSERT(n >= 1 && n <= 8);
    return mtf_load_le64(p) << (64 - 8 * n) >> (64 - 8 * n);
}

/* --- ALLOC and FREE ----------------------------------------------------- */

static TCM_ALWAYS_INLINE uint64_t mtf_alloc_payload(uint64_t size,
                                                    uint64_t last_8th) {
    return mtf_size_payload(size, last_8th, 2, MTF_RAW_ALLOC);
}

static TCM_ALWAYS_INLINE uint64_t mtf_free_distance(uint64_t token,
                                                    uint64_t last_freed) {
    return mtf_zigzag((int64_t)(token - last_freed));
}

static TCM_ALWAYS_INLINE uint64_t mtf_free_payload(uint64_t distance) {
    TCM_ASSERT(distance <= MTF_VARINT_MAX >> 2);
    return distance << 2 | MTF_RAW_FREE;
}

/* Varint word of mtf_free_payload(DISTANCE) in SHIFT + 1 bytes. */
static TCM_ALWAYS_INLINE uint64_t mtf_free_word(uint64_t distance,
                                                size_t shift) {
    TCM_ASSERT(shift < 8 && distance <= ((uint64_t)1 << (7 * shift + 5)) - 1);
    return ((distance << 3) + (MTF_RAW_FREE << 1 | 1)) << shift;
}

/* Largest distance that fits SHIFT + 1 bytes. */
static TCM_ALWAYS_INLINE uint64_t mtf_free_reach(unsigned shift) {
    TCM_ASSERT(shift < 8);
    return ((uint64_t)1 << (7 * shift + 5)) - 1;
}

/*
 * Decodes ALLOC and FREE. Returns the bytes taken. 0: another kind, or a fault;
 * nothing has changed, and the caller calls mtf_raw_decode_slow.
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

/* --- REALLOC ------------------------------------------------------------ */

static inline bool mtf_raw_take_token(struct mtf_raw_state *s,
                                      struct mtf_event *e) {
    if (s->tokens_left == 0)
        return false;
    s->tokens_left--;
    e->token = s->next_token++;
    return true;
}

static inline unsigned mtf_raw_put_realloc(uint8_t *p, uint64_t last_freed,
                                           uint64_t last_8th,
                                           enum mtf_call call, uint64_t old,
                                           uint64_t size, bool moved) {
    TCM_ASSERT(mtf_call_is_realloc(call));
    uint64_t first = mtf_free_distance(old, last_freed) << 2 | MTF_RAW_REALLOC;
    uint64_t second = mtf_size_code(size, last_8th) << 2 |
                      (uint64_t)moved << 1 |
                      (uint64_t)(call == MTF_CALL_REALLOCARRAY);
    unsigned n = mtf_varint_put(p, first);
    return n + mtf_varint_put(p + n, second);
}

/* Decodes a REALLOC from the payloads of its two varints. */
static inline bool mtf_raw_get_realloc(struct mtf_raw_state *s, uint64_t first,
                                       uint64_t second, struct mtf_event *e) {
    uint64_t last_8th = s->last_8th;
    e->size = mtf_size_of_code(second >> 2, &last_8th);
    if (e->size > MTF_SIZE_MAX || !mtf_raw_take_token(s, e))
        return false;
    s->last_8th = last_8th;
    s->last_freed += (uint64_t)mtf_unzigzag(first >> 2);
    e->kind = MTF_EVENT_REALLOC;
    e->call = (second & 1) != 0 ? MTF_CALL_REALLOCARRAY : MTF_CALL_REALLOC;
    e->flags = (second & 2) != 0 ? MTF_EVENT_MOVED : 0;
    e->old_token = s->last_freed;
    return true;
}

/* --- Extended events without bytes: kinds below 16 ---------------------- */

/* Payload of an event of KIND with ARGUMENT, at most MTF_ARGUMENT_MAX. */
static inline uint64_t mtf_inline_payload(enum mtf_raw_kind kind,
                                          uint64_t argument) {
    TCM_ASSERT(kind < MTF_RAW_BUFFER && argument <= MTF_ARGUMENT_MAX);
    return argument << 7 | (uint64_t)kind << 2 | MTF_RAW_EXTENDED;
}

/* Argument of MTF_RAW_TOKENS: a block of COUNT (a power of two) tokens that
   begins DISTANCE after the end of the one before. */
static inline uint64_t mtf_tokens_argument(uint64_t distance, uint64_t count) {
    TCM_ASSERT(tcm_is_pow2(count) && count <= UINT32_MAX);
    TCM_ASSERT(distance <= MTF_ARGUMENT_MAX >> 5);
    return distance << 5 | tcm_log2_floor(count);
}

static inline void mtf_raw_get_tokens(struct mtf_raw_state *s,
                                      uint64_t argument) {
    s->next_token += s->tokens_left + (argument >> 5);
    s->tokens_left = (uint64_t)1 << (argument & 31);
}

/* PRESENT: the number of bytes with memory behind them in the block that the
   next FREE, FREE_SIZE, REALLOC or REALLOC_END of the buffer names. */
static inline uint64_t mtf_present_payload(uint64_t bytes) {
    return mtf_inline_payload(MTF_RAW_PRESENT,
                              tcm_min_u64(bytes, MTF_ARGUMENT_MAX));
}

static inline void mtf_raw_get_present(uint64_t argument, struct mtf_event *e) {
    e->kind = MTF_EVENT_PRESENT;
    e->value = argument;
}

/* True if an event of KIND ends the block that a PRESENT before it is about. */
static inline bool mtf_event_ends_block(unsigned kind) {
    return kind == MTF_EVENT_FREE || kind == MTF_EVENT_FREE_SIZE ||
           kind == MTF_EVENT_REALLOC || kind == MTF_EVENT_REALLOC_END;
}

/* --- Extended events with bytes: kinds from 16 on ----------------------- */

/*
 * Writes the head of an extended event of LENGTH bytes (at most
 * MTF_EXTENDED_MAX) to P; the bytes stand behind it already. In a spool the
 * head must come last and in one store: a process killed before it leaves a
 * zero byte there, after it a whole event.
 */
static inline unsigned mtf_raw_put_head(uint8_t *p, enum mtf_raw_kind kind,
                                        unsigned length) {
    TCM_ASSERT(kind >= MTF_RAW_BUFFER && kind < 32);
    TCM_ASSERT(length <= MTF_EXTENDED_MAX);
    uint64_t v = (uint64_t)length << 7 | (uint64_t)kind << 2;
    uint16_t head = (uint16_t)mtf_varint_word(v, MTF_EXTENDED_HEAD);
    if (mtf_big_endian)
        head = __builtin_bswap16(head);
    __asm__ volatile("" ::: "memory");
    *(mtf_word16 *)p = head;
    return MTF_EXTENDED_HEAD + length;
}

/* An extended event with bytes, taken apart. */
struct mtf_raw_bytes {
    unsigned kind;
    unsigned length;     /* of the bytes */
    const uint8_t *data; /* the bytes; 8 more behind them can be read */
};

/* THREAD_END and kinds of the form TEXT: N bytes. */
static inline unsigned mtf_raw_put_bytes(uint8_t *p, enum mtf_raw_kind kind,
                                         const void *bytes, unsigned n) {
    if (n != 0)
        memcpy(p + MTF_EXTENDED_HEAD, bytes, n);
    return mtf_raw_put_head(p, kind, n);
}

/* Reads kinds of the form TEXT, THREAD_END, and kinds of a later version. */
static inline void mtf_raw_get_bytes(const struct mtf_raw_bytes *x,
                                     enum mtf_event_kind kind,
                                     struct mtf_event *e) {
    e->kind = (uint8_t)kind;
    e->value = x->kind;
    e->text = x->data;
    e->text_length = x->length;
}

/* Kinds of the form PAIR: u8 which, u64 argument */
static inline unsigned mtf_raw_put_pair(uint8_t *p, enum mtf_raw_kind kind,
                                        unsigned which, uint64_t argument) {
    TCM_ASSERT(which <= UINT8_MAX);
    p[MTF_EXTENDED_HEAD] = (uint8_t)which;
    mtf_store_le64(p + MTF_EXTENDED_HEAD + 1, argument);
    return mtf_raw_put_head(p, kind, 9);
}

static inline bool mtf_raw_get_pair(const struct mtf_raw_bytes *x,
                                    enum mtf_event_kind kind,
                                    struct mtf_event *e) {
    e->kind = (uint8_t)kind;
    if (x->length < 9)
        return false;
    e->call = x->data[0];
    e->value = mtf_load_le64(x->data + 1);
    return true;
}

/* BUFFER: struct mtf_raw_buffer_state */
static inline unsigned
mtf_raw_put_buffer(uint8_t *p, const struct mtf_raw_buffer_state *b) {
    TCM_ASSERT(b->alloc_call == MTF_CALL_NONE ||
               mtf_call_is_plain_alloc(b->alloc_call));
    TCM_ASSERT(b->free_call == MTF_CALL_NONE || mtf_call_is_free(b->free_call));
    return mtf_raw_put_bytes(p, MTF_RAW_BUFFER, b, sizeof(*b));
}

static inline bool mtf_raw_get_buffer(struct mtf_raw_state *s,
                                      const struct mtf_raw_bytes *x,
                                      struct mtf_event *e) {
    struct mtf_raw_buffer_state b;
    if (x->length < sizeof(b))
        return false;
    memcpy(&b, x->data, sizeof(b));
    if (b.alloc_call == MTF_CALL_NONE)
        b.alloc_call = MTF_CALL_MALLOC;
    if (b.free_call == MTF_CALL_NONE)
        b.free_call = MTF_CALL_FREE;
    if (!mtf_call_is_plain_alloc(b.alloc_call) ||
        !mtf_call_is_free(b.free_call))
        return false;
    *s = (struct mtf_raw_state){.next_token = b.next_token,
                                .tokens_left = b.tokens_left,
                                .last_freed = b.next_token,
                                .time_ns = b.time_ns,
                                .alloc_call = b.alloc_call,
                                .free_call = b.free_call,
                                .cpu = b.cpu,
                                .as_thread = MTF_THREAD_NONE,
                                .untraced_frees = b.untraced_frees,
                                .dropped = b.dropped,
                                .waits = b.waits,
                                .wait_ns = b.wait_ns};
    e->kind = MTF_EVENT_BUFFER;
    e->time_ns = b.time_ns;
    return true;
}

/* THREAD_START: u32 kernel thread id */
static inline unsigned mtf_raw_put_thread_start(uint8_t *p, uint32_t tid) {
    mtf_store_le64(p + MTF_EXTENDED_HEAD, tid);
    return mtf_raw_put_head(p, MTF_RAW_THREAD_START, sizeof(tid));
}

static inline bool mtf_raw_get_thread_start(const struct mtf_raw_bytes *x,
                                            struct mtf_event *e) {
    e->kind = MTF_EVENT_THREAD_START;
    e->value = (uint32_t)mtf_load_le64(x->data);
    return x->length >= 4;
}

/* Reads the size that ends the event, after FIXED bytes. */
static inline bool mtf_raw_get_size(const struct mtf_raw_bytes *x,
                                    unsigned fixed, struct mtf_event *e) {
    if (x->length <= fixed || x->length - fixed > 8)
        return false;
    e->size = mtf_get_size(x->data + fixed, x->length - fixed);
    return true;
}

/* ALIGNED: u8 call, u8 log2 of the alignment, size */
static inline unsigned mtf_raw_put_aligned(uint8_t *p, enum mtf_call call,
                                           unsigned align_log2, uint64_t size) {
    TCM_ASSERT(mtf_call_is_aligned_alloc(call));
    TCM_ASSERT(align_log2 < 48 && size <= MTF_SIZE_MAX);
    uint8_t *d = p + MTF_EXTENDED_HEAD;
    d[0] = (uint8_t)call;
    d[1] = (uint8_t)align_log2;
    return mtf_raw_put_head(p, MTF_RAW_ALIGNED, 2 + mtf_put_size(d + 2, size));
}

static inline bool mtf_raw_get_aligned(struct mtf_raw_state *s,
                                       const struct mtf_raw_bytes *x,
                                       struct mtf_event *e) {
    e->kind = MTF_EVENT_ALIGNED;
    e->align_log2 = x->data[1];
    return mtf_raw_get_size(x, 2, e) && mtf_call_is_aligned_alloc(e->call) &&
           e->align_log2 < 48 && e->size <= MTF_SIZE_MAX &&
           mtf_raw_take_token(s, e);
}

/* FAILED: u8 call, u8 log2 of the alignment, u64 old token, size */
static inline unsigned mtf_raw_put_failed(uint8_t *p, enum mtf_call call,
                                          unsigned align_log2, uint64_t old,
                                          uint64_t size) {
    TCM_ASSERT(call != MTF_CALL_NONE && call < MTF_CALL_FREE);
    TCM_ASSERT(align_log2 < 64 || align_log2 == MTF_ALIGN_BAD);
    uint8_t *d = p + MTF_EXTENDED_HEAD;
    d[0] = (uint8_t)call;
    d[1] = (uint8_t)align_log2;
    mtf_store_le64(d + 2, old);
    return mtf_raw_put_head(p, MTF_RAW_FAILED, 10 + mtf_put_size(d + 10, size));
}

static inline bool mtf_raw_get_failed(const struct mtf_raw_bytes *x,
                                      struct mtf_event *e) {
    e->kind = MTF_EVENT_FAILED;
    if (!mtf_raw_get_size(x, 10, e))
        return false;
    e->align_log2 = x->data[1];
    e->old_token = mtf_load_le64(x->data + 2);
    return e->call != MTF_CALL_NONE && e->call < MTF_CALL_FREE &&
           (e->align_log2 < 64 || e->align_log2 == MTF_ALIGN_BAD);
}

/* FREE_SIZE: u8 call, u64 token, size */
static inline unsigned mtf_raw_put_free_size(uint8_t *p, enum mtf_call call,
                                             uint64_t token, uint64_t size) {
    TCM_ASSERT(mtf_call_is_free(call));
    uint8_t *d = p + MTF_EXTENDED_HEAD;
    d[0] = (uint8_t)call;
    mtf_store_le64(d + 1, token);
    return mtf_raw_put_head(p, MTF_RAW_FREE_SIZE,
                            9 + mtf_put_size(d + 9, size));
}

static inline bool mtf_raw_get_free_size(struct mtf_raw_state *s,
                                         const struct mtf_raw_bytes *x,
                                         struct mtf_event *e) {
    e->kind = MTF_EVENT_FREE_SIZE;
    e->old_token = mtf_load_le64(x->data + 1);
    if (!mtf_raw_get_size(x, 9, e) || !mtf_call_is_free(e->call))
        return false;
    s->last_freed = e->old_token;
    return true;
}

/* REALLOC_NEW: u8 call, u8 flags (bit 0: old unknown), size */
static inline unsigned mtf_raw_put_realloc_new(uint8_t *p, enum mtf_call call,
                                               bool old_unknown,
                                               uint64_t size) {
    TCM_ASSERT(mtf_call_is_realloc(call) && size <= MTF_SIZE_MAX);
    uint8_t *d = p + MTF_EXTENDED_HEAD;
    d[0] = (uint8_t)call;
    d[1] = old_unknown;
    return mtf_raw_put_head(p, MTF_RAW_REALLOC_NEW,
                            2 + mtf_put_size(d + 2, size));
}

static inline bool mtf_raw_get_realloc_new(struct mtf_raw_state *s,
                                           const struct mtf_raw_bytes *x,
                                           struct mtf_event *e) {
    e->kind = MTF_EVENT_REALLOC_NEW;
    e->flags = (x->data[1] & 1) != 0 ? MTF_EVENT_OLD_UNKNOWN : 0;
    return mtf_raw_get_size(x, 2, e) && mtf_call_is_realloc(e->call) &&
           e->size <= MTF_SIZE_MAX && mtf_raw_take_token(s, e);
}

/* REALLOC_END: u8 call, u64 old token */
static inline unsigned mtf_raw_put_realloc_end(uint8_t *p, enum mtf_call call,
                                               uint64_t old) {
    TCM_ASSERT(mtf_call_is_realloc(call));
    p[MTF_EXTENDED_HEAD] = (uint8_t)call;
    mtf_store_le64(p + MTF_EXTENDED_HEAD + 1, old);
    return mtf_raw_put_head(p, MTF_RAW_REALLOC_END, 9);
}

static inline bool mtf_raw_get_realloc_end(struct mtf_raw_state *s,
                                           const struct mtf_raw_bytes *x,
                                           struct mtf_event *e) {
    e->kind = MTF_EVENT_REALLOC_END;
    if (x->length < 9 || !mtf_call_is_realloc(e->call))
        return false;
    e->old_token = mtf_load_le64(x->data + 1);
    s->last_freed = e->old_token;
    return true;
}

/* WRONG: u8 call, u8 enum mtf_wrong, u64 token, u64 distance or address */
static inline unsigned mtf_raw_put_wrong(uint8_t *p, enum mtf_call call,
                                         enum mtf_wrong wrong, uint64_t token,
                                         uint64_t value) {
    TCM_ASSERT(mtf_call_is_free(call) || mtf_call_is_realloc(call));
    uint8_t *d = p + MTF_EXTENDED_HEAD;
    d[0] = (uint8_t)call;
    d[1] = (uint8_t)wrong;
    mtf_store_le64(d + 2, token);
    mtf_store_le64(d + 10, value);
    return mtf_raw_put_head(p, MTF_RAW_WRONG, 18);
}

static inline bool mtf_raw_get_wrong(const struct mtf_raw_bytes *x,
                                     struct mtf_event *e) {
    e->kind = MTF_EVENT_WRONG;
    if (x->length < 18)
        return false;
    e->call = x->data[0];
    e->flags = x->data[1];
    e->old_token = mtf_load_le64(x->data + 2);
    e->value = mtf_load_le64(x->data + 10);
    return mtf_call_is_free(e->call) || mtf_call_is_realloc(e->call);
}

/* GAP: u64 events, u64 from ns, u64 to ns. The first and the last can be
   changed in place. */
#define MTF_RAW_GAP_LENGTH (MTF_EXTENDED_HEAD + 24u)

static inline void mtf_raw_set_gap_events(uint8_t *p, uint64_t events) {
    mtf_store_le64(p + MTF_EXTENDED_HEAD, events);
}

static inline void mtf_raw_set_gap_end(uint8_t *p, uint64_t to_ns) {
    mtf_store_le64(p + MTF_EXTENDED_HEAD + 16, to_ns);
}

static inline unsigned mtf_raw_put_gap(uint8_t *p, uint64_t events,
                                       uint64_t from_ns, uint64_t to_ns) {
    TCM_ASSERT(from_ns <= to_ns);
    mtf_raw_set_gap_events(p, events);
    mtf_store_le64(p + MTF_EXTENDED_HEAD + 8, from_ns);
    mtf_raw_set_gap_end(p, to_ns);
    return mtf_raw_put_head(p, MTF_RAW_GAP, 24);
}

static inline bool mtf_raw_get_gap(const struct mtf_raw_bytes *x,
                                   struct mtf_event *e) {
    e->kind = MTF_EVENT_GAP;
    if (x->length < 24)
        return false;
    e->value = mtf_load_le64(x->data);
    e->time_ns = mtf_load_le64(x->data + 8);
    e->time_hi = mtf_load_le64(x->data + 16);
    return true;
}

/* --- Any event ---------------------------------------------------------- */

/* Results of the decoders beside the number of bytes taken. */
#define MTF_DECODE_END 0  /* a zero byte: nothing was written here */
#define MTF_DECODE_BAD -1 /* no valid event, or END cuts it */

/* Decodes any event. Returns the bytes taken, MTF_DECODE_END or MTF_DECODE_BAD;
   nothing has changed after the last two. P is below END. */
int mtf_raw_decode_slow(struct mtf_raw_state *s, const uint8_t *p,
                        const uint8_t *end, struct mtf_event *e);

static TCM_ALWAYS_INLINE int mtf_raw_decode(struct mtf_raw_state *s,
                                            const uint8_t *p,
                                            const uint8_t *end,
                                            struct mtf_event *e) {
    unsigned n = mtf_raw_decode_hot(s, p, end, e);
    return TCM_LIKELY(n != 0) ? (int)n : mtf_raw_decode_slow(s, p, end, e);
}

#endif
