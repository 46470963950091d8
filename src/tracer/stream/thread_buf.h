/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread's stream as its owner writes it: reserve, write, publish.
 *
 *     struct mtr_thread            buffer (4 or 64 KiB, zeroed)
 *      pos   ------------------->  | head | BUFFER | event | event |0 0 0 ...
 *      limit ------------------------------------------------------------^
 *
 * Invariants: bytes before pos are published events, bytes from pos on are zero
 * (so a reader of the spool needs no position). pos < limit promises room for
 * one hot event, a token for it, that this thread records, and that nobody
 * called it into the slow path: everything else is folded into limit, and
 * limit == 0 is "slow path". All-zero memory (a wiped child, mtr_no_thread) is
 * therefore a valid state that leads to the slow path.
 *
 * Threads: everything is written by the owner, except that the saver may lower
 * limit (to call it in). pos is stored with release and read by the saver
 * with acquire: bytes and predictor state first, then the position.
 *
 * Why behind a pointer: a chain of load, add and store on one address is free
 * when addressed through a register, and slow through the thread register.
 */
#ifndef TCM_TRACER_STREAM_THREAD_BUF_H
#define TCM_TRACER_STREAM_THREAD_BUF_H

#include "base/atomic.h"
#include "base/check.h"
#include "traceformat/raw_codec.h"
#include "traceformat/raw_layout.h"
#include "traceformat/trace_event.h"

#include <stddef.h>

struct mtr_buffer;
struct mtr_recorder;

/*
 * Tokens as this process has them, in object words too: what the trace has for
 * a name, with the highest bit set. The word of a block that was freed keeps
 * the token with a highest byte of 0: a number below all tokens, as 0 is, and
 * the store of one byte on the fast path. It is replaced when the block is
 * allocated again, by 0 if that is not recorded; so a word that is marked with
 * a token of this recording is that of a block that is free.
 */
#define MTR_TOKEN_LIVE ((uint64_t)1 << 63)

/* The name of TOKEN in the trace; 0: none. */
static TCM_ALWAYS_INLINE uint64_t mtr_token_name(uint64_t token) {
    return token & ~MTR_TOKEN_LIVE;
}

/* The block whose WORD holds a token is freed. A store of a character could be
   one to anything, and the fast path would read the stream's position anew. */
union mtr_word {
    uint64_t token;
    bool byte[sizeof(uint64_t)];
};
static TCM_ALWAYS_INLINE void mtr_word_mark(uint64_t *word) {
    ((union mtr_word *)(void *)word)->byte[mtf_big_endian ? 0 : 7] = false;
}

/* The token that WORD was marked with, if FIRST is that or an earlier one of
   the recording; else 0. */
static inline uint64_t mtr_word_marked(uint64_t word, uint64_t first) {
    uint64_t token = word | MTR_TOKEN_LIVE;
    return word != 0 && token != word && token >= first ? token : 0;
}

/* Bytes kept free behind limit: one event's 8-byte store may begin at limit - 1
   and all of it must lie inside the buffer, followed by a zero. */
#define MTR_BUFFER_SLACK 16u

/* Bytes ahead of pos that an allocation fetches: the saver zeroed them on
   another cpu. */
#define MTR_PREFETCH_AHEAD 256u

/*
 * In private memory that the child of any fork finds zeroed. The first cache
 * line is what malloc and free touch.
 */
struct mtr_thread {
    uint8_t *pos;        /* next byte; read by the saver */
    uint8_t *limit;      /* slow path from here on; also written by the saver */
    uint64_t next_token; /* of the next allocation */
    uint64_t last_8th;   /* predictor: last size / 8 */
    uint64_t last_freed; /* predictor: last freed token */
    uint64_t first_token; /* smaller ones are of no or an older recording; all
                             ones: each free is served slowly, cold has it */
    uint8_t alloc_call;   /* sticky calls */
    uint8_t free_call;
    uint8_t flags;                /* MTR_THREAD_ bits, owner only */
    uint8_t free_shift;           /* bytes - 1 of a free whose token is at */
    uint32_t free_max;            /* most this far (zigzag) from the last */
    uint64_t frees;               /* FREE events in the buffer */
    struct mtr_thread_cold *cold; /* thread_registry.h */
} TCM_ALIGNED(TCM_CACHE_LINE);
/* The calls of this thread are dropped: TCMALLOC_TRACE_OVERFLOW. */
#define MTR_THREAD_DROPS 1u
/* Frees have sites, too. */
#define MTR_THREAD_FREE_SITES 2u
/* Each free is looked at: TCMALLOC_TRACE_CHECK_FREES. */
#define MTR_THREAD_CHECKS 4u
/* The alloc_call of a stream with call sites. It is no call, so that each
   leaves the fast path where that compares the sticky call. */
#define MTR_CALL_SITED 255u
TCM_STATIC_ASSERT(offsetof(struct mtr_thread, cold) == TCM_CACHE_LINE,
                  "hot state is one cache line");

/* The state of a thread that has none. Never written. */
extern struct mtr_thread mtr_no_thread;

/*
 * True when the call that T was entered for is not recorded, because buffers
 * are full: a block that it makes gets no token, and what it does is counted,
 * once. Times are passed over by themselves.
 */
static inline bool mtr_drops(const struct mtr_thread *t) {
    return (t->flags & MTR_THREAD_DROPS) != 0;
}

/*
 * Publishes the N bytes that were written from pos on. Pairs with the saver's
 * acquire load of pos: a thread that sees the new position sees the bytes.
 */
static TCM_ALWAYS_INLINE void mtr_publish(struct mtr_thread *t, uint8_t *pos,
                                          size_t n) {
    TCM_ASSERT(n != 0 && pos == t->pos && t != &mtr_no_thread);
    tcm_store_release(&t->pos, pos + n);
}

/* Writes and publishes an event of one varint; no payload is 0, its type is
   not. The caller knows that t->pos < t->limit, or has reserved. */
static TCM_ALWAYS_INLINE void mtr_put(struct mtr_thread *t, uint64_t payload) {
    uint8_t *pos = t->pos;
    size_t shift = mtf_varint_shift(payload);
    mtf_store_le64(pos, (payload << 1 | 1) << shift);
    mtr_publish(t, pos, shift + 1);
}

/* A free at a DISTANCE above free_max; learns from it. */
void mtr_put_free_long(struct mtr_thread *t, uint64_t distance);

/* The hot two. The caller checked pos < limit and the sticky call. */
static TCM_ALWAYS_INLINE uint64_t mtr_put_alloc(struct mtr_thread *t,
                                                size_t size) {
    uint64_t token = t->next_token;
    uint64_t payload = mtf_alloc_payload(size, t->last_8th);
    TCM_ASSERT(token >= t->first_token || t->first_token == UINT64_MAX);
    TCM_ASSERT(!mtr_drops(t));
    t->next_token = token + 1;
    t->last_8th = size >> 3;
    tcm_prefetch_write(t->pos + MTR_PREFETCH_AHEAD);
    mtr_put(t, payload);
    return token;
}

/*
 * A free's varint has the length that most frees lately needed, also where a
 * shorter one would do. That length is guessed by the branch predictor, so the
 * next position does not wait for the token, which is often a cache miss away:
 * with the length computed from it, every later event's address would hang on
 * it, and with it the loads behind those stores.
 */
static TCM_ALWAYS_INLINE void mtr_put_free(struct mtr_thread *t,
                                           uint64_t token) {
    uint64_t distance = mtf_free_distance(token, t->last_freed);
    size_t shift = t->free_shift;
    uint8_t *pos = t->pos;
    t->last_freed = token;
    t->frees++;
    if (TCM_UNLIKELY(distance > t->free_max)) {
        mtr_put_free_long(t, distance);
        return;
    }
    mtf_store_le64(pos, mtf_free_word(distance, shift));
    mtr_publish(t, pos, shift + 1);
}

/*
 * Changes of the sticky calls. A constant CALL makes each two stores, so that
 * programs that mix calls (malloc and calloc, new and malloc) stay on the hot
 * path. Two bytes: with the 8-byte store of the event after them they end
 * within MTR_BUFFER_SLACK of limit.
 */
static TCM_ALWAYS_INLINE void mtr_put_alloc_call(struct mtr_thread *t,
                                                 enum mtf_call call) {
    TCM_ASSERT(mtf_call_is_plain_alloc(call));
    t->alloc_call = (uint8_t)call;
    mtr_put(t, mtf_inline_payload(MTF_RAW_ALLOC_CALL, call));
}

static TCM_ALWAYS_INLINE void mtr_put_free_call(struct mtr_thread *t,
                                                enum mtf_call call) {
    TCM_ASSERT(mtf_call_is_free(call));
    t->free_call = (uint8_t)call;
    mtr_put(t, mtf_inline_payload(MTF_RAW_FREE_CALL, call));
}

/*
 * The rest is out of line. Each publishes whole events, after mtr_enter has
 * reserved MTR_ROOM for all of one call.
 */
/* A time read by this thread; never goes back in the stream. */
void mtr_put_time(struct mtr_thread *t, uint64_t ns);
/* Each returns the token of the new block. */
uint64_t mtr_put_aligned(struct mtr_thread *t, enum mtf_call call, size_t size,
                         unsigned align_log2);
uint64_t mtr_put_realloc(struct mtr_thread *t, enum mtf_call call, size_t size,
                         uint64_t old, bool moved);
uint64_t mtr_put_realloc_new(struct mtr_thread *t, enum mtf_call call,
                             size_t size, bool old_unknown);
void mtr_put_realloc_end(struct mtr_thread *t, enum mtf_call call,
                         uint64_t old);
void mtr_put_failed(struct mtr_thread *t, enum mtf_call call, uint64_t size,
                    unsigned align_log2, uint64_t old);
/* A sized free whose size contradicts the block. */
void mtr_put_free_size(struct mtr_thread *t, enum mtf_call call, uint64_t token,
                       uint64_t size);
/* A free, or realloc, that was not done (enum mtf_wrong); TOKEN: 0, or of the
   block that it was about. */
void mtr_put_wrong(struct mtr_thread *t, enum mtf_call call,
                   enum mtf_wrong wrong, uint64_t token, uint64_t value);
/* Before the event that ends a block of which BYTES have memory. */
void mtr_put_present(struct mtr_thread *t, uint64_t bytes);
/* A call that is no allocation but matters to a replay. */
void mtr_put_extension(struct mtr_thread *t, enum mtf_extension which,
                       uint64_t argument);

/* Counts the free of a block made while not recording. */
void mtr_count_untraced_free(struct mtr_thread *t);
/* The call that T was entered for is not recorded (mtr_drops). */
void mtr_count_dropped(struct mtr_thread *t);
/* mtr_count_dropped for an event that is no call of the malloc family: it is
   not counted. */
void mtr_pass_over(struct mtr_thread *t);

/* --- For the recorder ---------------------------------------------------- */

/* Fills in B, which T took: descriptor and spool head. Its events will have
   been published after TIME_LO. */
void mtr_buffer_begin(struct mtr_recorder *rec, struct mtr_thread *t,
                      struct mtr_buffer *b, uint64_t stream, uint64_t time_lo);
/* Says in T's buffer, which is about to be handed over, how many calls are in
   it. Decoding it for that would cost the saver as much as all else it does. */
void mtr_buffer_count(const struct mtr_thread *t);
/* The first bytes of a stream or buffer: BUFFER, THREAD_START. */
void mtr_put_buffer_state(struct mtr_thread *t, uint64_t now);
/* Counters of a thread's cold part: only its owner adds, the saver reads. */
static inline void mtr_count(uint64_t *counter, uint64_t n) {
    tcm_store_relaxed(counter, *counter + n);
}
void mtr_put_thread_start(struct mtr_thread *t);
/* With its name if it is the calling thread's (IS_SELF). */
void mtr_put_thread_end(struct mtr_thread *t, bool is_self);
/* A new token block in the middle of a buffer. */
void mtr_put_tokens(struct mtr_thread *t);
bool mtr_tokens_are_low(const struct mtr_thread *t);
/* Takes a block without an event: a BUFFER event follows. */
void mtr_take_tokens(struct mtr_thread *t);

/* --- For the recorder: gaps ----------------------------------------------- */

/* The position up to which B, which the caller holds, has MTR_ROOM. */
uint8_t *mtr_room_end(const struct mtr_buffer *b);
/* How long T may wait for a buffer at NOW, having waited since BEGAN. */
uint64_t mtr_gap_patience(struct mtr_recorder *rec, const struct mtr_thread *t,
                          uint64_t began, uint64_t now);
/* No buffer was to be had: from now on T's calls are dropped. false: they are
   not to be, but the recording is over. */
bool mtr_gap_begin(struct mtr_recorder *rec, struct mtr_thread *t);
/* True while there is nothing new that would end T's gap. */
bool mtr_gap_lasts(struct mtr_recorder *rec, const struct mtr_thread *t);
/* Ends the record of a gap in T's buffer at NOW, for a buffer that T lets go.
   Returns how many bytes behind pos belong to it. */
uint32_t mtr_gap_close(struct mtr_thread *t, uint64_t now);
/* That buffer was let go, with those bytes. */
void mtr_gap_let_go(struct mtr_thread *t);
/* Calls are recorded again, or T ends; there is room. */
void mtr_gap_end(struct mtr_thread *t, uint64_t now);

#endif
