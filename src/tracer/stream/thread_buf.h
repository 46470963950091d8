/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stream of a thread as its owner writes it (reserve, write, publish), and
 * its gaps, where no buffer was free.
 *
 *     struct mtr_thread            buffer (4 or 64 KiB, zeroed)
 *      pos   ------------------->  | head | BUFFER | event | event |0 0 0 ...
 *      limit ------------------------------------------------------------^
 *
 * Invariants: bytes before pos are published events; bytes from pos on are
 * zero, so a reader of the spool needs no position. pos < limit says that this
 * thread records, has room for one hot event and a token for it, and was not
 * called into the slow path; limit 0 means "slow path". So all-zero memory (a
 * forked child, mtr_no_thread) is a valid state that leads there.
 *
 * Threads: the owner stores everything here. The saver, and the thread that
 * starts or stops a recording, may also store 0 to limit, which calls the owner
 * into the slow path. The owner stores pos (release); the saver's load
 * (acquire) makes the bytes and the predictor state before it visible.
 *
 * Why behind a pointer: load, add and store of one address take no extra time
 * through a register, but do through the thread register.
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
 * Tokens: 64-bit names of blocks. In this process a token is the name that the
 * trace has for the block, with the highest bit set. The object word of a block
 * has its token:
 *
 *   value         stored by, and when
 *   token         the thread that allocates the block and records that, before
 *                 malloc returns
 *   marked token  the thread that frees the block and finds a token of this
 *                 recording, before the block is put on a free list: the token
 *                 with a highest byte of 0, which is one store of a byte on the
 *                 fast path
 *   0             while a recording is on, a thread that allocates the block
 *                 without recording that, or frees it and finds a token of no
 *                 or an older recording
 *
 * A realloc in place marks the word and stores the new token. No other code
 * stores to a block's word, so plain stores suffice: whatever passes the block
 * between threads (the program, or the allocator's locks) orders them. Core
 * zeroes the words of a span when it creates or returns their table. Loads by
 * others (the census of blocks, the check of wrong frees) are relaxed. A marked
 * token is below all tokens, as 0 is. A marked token of this recording belongs
 * to a free block, because the next allocation replaces the mark.
 */
#define MTR_TOKEN_LIVE ((uint64_t)1 << 63)

/* The name of TOKEN in the trace; 0: none. */
static TCM_ALWAYS_INLINE uint64_t mtr_token_name(uint64_t token) {
    return token & ~MTR_TOKEN_LIVE;
}

/* Marks the token in WORD: its block is freed. The member is bool because a
   store of a character may alias anything, and the fast path would load the
   stream's position again. */
union mtr_word {
    uint64_t token;
    bool byte[sizeof(uint64_t)];
};
static TCM_ALWAYS_INLINE void mtr_word_mark(uint64_t *word) {
    ((union mtr_word *)(void *)word)->byte[mtf_big_endian ? 0 : 7] = false;
}

/* In a word in place of MTR_TOKEN_LIVE: the recorder looks at the memory of the
   block (thread_looks.h). Such a word is below all tokens, so that fast paths
   pass it to the slow ones. */
#define MTR_TOKEN_LOOKED ((uint64_t)1 << 62)

static inline bool mtr_word_is_looked(uint64_t word) {
    return word >> 62 == 1;
}

/* The token in WORD of a block in use; a smaller value if it has none. */
static inline uint64_t mtr_word_token(uint64_t word) {
    return mtr_word_is_looked(word) ? word ^ (MTR_TOKEN_LIVE | MTR_TOKEN_LOOKED)
                                    : word;
}

/* The token whose mark WORD has, if it is FIRST or a later one of the
   recording; else 0. */
static inline uint64_t mtr_word_marked(uint64_t word, uint64_t first) {
    uint64_t token = word | MTR_TOKEN_LIVE;
    return word != 0 && token != word && token >= first &&
                   !mtr_word_is_looked(word)
               ? token
               : 0;
}

/* Bytes kept free behind limit: the 8-byte store of an event may begin at limit
   - 1, and all of it must lie inside the buffer, followed by a zero and by
   struct mtf_spool_given. */
#define MTR_BUFFER_SLACK (16u + (unsigned)sizeof(struct mtf_spool_given))

/* How far ahead of pos an allocation prefetches: the saver has zeroed these
   bytes on another processor. */
#define MTR_PREFETCH_AHEAD 256u

/*
 * State of a thread's stream, in private memory that the child of any fork
 * finds zeroed. The first cache line is what malloc and free touch.
 */
struct mtr_thread {
    uint8_t *pos;         /* next byte; read by the saver */
    uint8_t *limit;       /* slow path from here on; others may store 0 */
    uint64_t next_token;  /* of the next allocation */
    uint64_t last_size;   /* predictor: last size without its low 3 bits */
    uint64_t last_freed;  /* predictor: last freed token */
    uint64_t first_token; /* smaller tokens are untraced; UINT64_MAX: each
                             free is slow, cold has it */
    uint8_t alloc_call;   /* sticky calls */
    uint8_t free_call;
    uint8_t flags;                /* MTR_THREAD_ bits */
    uint8_t free_shift;           /* bytes - 1 of the usual free, */
    uint32_t free_max;            /* and its greatest zigzag distance */
    uint64_t frees;               /* FREE events in the buffer */
    struct mtr_thread_cold *cold; /* thread_registry.h */
} TCM_ALIGNED(TCM_CACHE_LINE);
/* The calls of this thread are counted instead of recorded
   (TCMALLOC_TRACE_OVERFLOW). */
#define MTR_THREAD_DROPS 1u
/* Frees have sites. */
#define MTR_THREAD_FREE_SITES 2u
/* Each free is checked (TCMALLOC_TRACE_CHECK_FREES). */
#define MTR_THREAD_CHECKS 4u
/* The alloc_call of a stream with call sites: not a call, so that each
   allocation leaves the fast path where that compares the sticky call. */
#define MTR_CALL_SITED 255u
TCM_STATIC_ASSERT(offsetof(struct mtr_thread, cold) == TCM_CACHE_LINE,
                  "hot state is one cache line");

/* The state of a thread that has no stream. Never written. */
extern struct mtr_thread mtr_no_thread;

/*
 * True if the call that T was entered for is not recorded, because no buffer is
 * free: a block that it allocates gets no token, and the call is counted once.
 * mtr_put_time skips times by itself.
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

/* Writes and publishes an event of one varint; PAYLOAD is not 0, because its
   type is not. The caller knows that t->pos < t->limit, or has reserved
   room. */
static TCM_ALWAYS_INLINE void mtr_put(struct mtr_thread *t, uint64_t payload) {
    uint8_t *pos = t->pos;
    size_t shift = mtf_varint_shift(payload);
    mtf_store_le64(pos, (payload << 1 | 1) << shift);
    mtr_publish(t, pos, shift + 1);
}

/* Records a free at a DISTANCE above free_max, and adapts the usual length. */
void mtr_put_free_long(struct mtr_thread *t, uint64_t distance);

/*
 * Varint words of the allocations whose sizes are at most MTR_NEAR away from
 * the rounded size before, by that distance plus MTR_NEAR. To compute such a
 * word takes twice as many instructions as the rest of the event.
 */
#define MTR_NEAR 1024u
extern TCM_LOCAL const uint32_t mtr_near_alloc[2 * MTR_NEAR + 1];

/* The two hot events. The caller has checked pos < limit and the sticky
   call. */
static TCM_ALWAYS_INLINE uint64_t mtr_put_alloc(struct mtr_thread *t,
                                                size_t size) {
    uint64_t token = t->next_token;
    uint64_t last = t->last_size;
    uint64_t near = size - last + MTR_NEAR;
    TCM_ASSERT(token >= t->first_token || t->first_token == UINT64_MAX);
    TCM_ASSERT(!mtr_drops(t) && last % 8 == 0);
    t->next_token = token + 1;
    t->last_size = size & ~(uint64_t)7;
    tcm_prefetch_write(t->pos + MTR_PREFETCH_AHEAD);
    if (TCM_UNLIKELY(near > 2 * MTR_NEAR)) {
        mtr_put(t, mtf_alloc_payload(size, last >> 3));
        return token;
    }
    uint8_t *pos = t->pos;
    uint64_t word = mtr_near_alloc[near];
    mtf_store_le64(pos, word);
    size_t shift = (unsigned)__builtin_ctzll(word);
    /* Keeps gcc 12 from adding to it as an int and extending the sum. */
    TCM_FORGET(shift);
    mtr_publish(t, pos, shift + 1);
    return token;
}

/*
 * Records a free. Its varint has the length that most recent frees needed, also
 * where a shorter one would do. Why: the branch predictor guesses that length,
 * so the next position does not wait for the token, which is often a cache
 * miss. Otherwise the address of every later event, and the loads behind those
 * stores, would depend on the token.
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
 * Change a sticky call. With a constant CALL each is two stores, so that
 * programs that mix calls (malloc and calloc, new and malloc) stay on the hot
 * path. The event has two bytes: with the 8-byte store of the event behind it,
 * it ends within MTR_BUFFER_SLACK of limit.
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
 * The other events are out of line. Each function publishes whole events, after
 * mtr_enter has reserved MTR_ROOM for all events of one call.
 */
/* Records the time NS, read by this thread; times never go back in a stream. */
void mtr_put_time(struct mtr_thread *t, uint64_t ns);
/*
 * Note the time NS, read after T took memory from levels that threads share, or
 * before it gives memory to them. Only other threads need these times, so while
 * no other thread has a stream few of them are written: see
 * mtr_registry_is_single.
 */
void mtr_put_took(struct mtr_thread *t, uint64_t ns);
void mtr_put_gives(struct mtr_thread *t, uint64_t ns);
/* Returns the time that mtr_put_gives kept last in B, and the bytes of B that
   were published before it as *GIVEN. 0: none, or it changes just now. Any
   thread. */
uint64_t mtr_buffer_given_time(const struct mtr_buffer *b, uint32_t *given);
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
/* Records a sized free whose size contradicts the block. */
void mtr_put_free_size(struct mtr_thread *t, enum mtf_call call, uint64_t token,
                       uint64_t size);
/* Records a free or realloc that was refused (enum mtf_wrong). TOKEN: of the
   block that it was about, or 0. */
void mtr_put_wrong(struct mtr_thread *t, enum mtf_call call,
                   enum mtf_wrong wrong, uint64_t token, uint64_t value);
/* Records that BYTES of a block have memory; the event that ends the block
   follows. */
void mtr_put_present(struct mtr_thread *t, uint64_t bytes);
/* Records a call that is no allocation but matters to a replay. */
void mtr_put_extension(struct mtr_thread *t, enum mtf_extension which,
                       uint64_t argument);

/* Counts the free of a block that was allocated while not recording. */
void mtr_count_untraced_free(struct mtr_thread *t);
/* Counts the call that T was entered for as dropped (mtr_drops). */
void mtr_count_dropped(struct mtr_thread *t);
/* mtr_count_dropped for an event that is not a call of the malloc family, which
   no number includes. */
void mtr_skip_event(struct mtr_thread *t);

/* --- For the recorder ---------------------------------------------------- */

/* Fills in the descriptor and the spool head of B, which T has taken. All of
   its events are published after TIME_LO. */
void mtr_buffer_begin(struct mtr_recorder *rec, struct mtr_thread *t,
                      struct mtr_buffer *b, uint64_t stream, uint64_t time_lo);
/* Stores in T's buffer, which is about to be handed over, how many calls it
   has. To decode the buffer for that would cost the saver as much as all its
   other work. */
void mtr_buffer_count(const struct mtr_thread *t);
/* Writes the BUFFER event, with which each buffer begins. */
void mtr_put_buffer_state(struct mtr_thread *t, uint64_t now);
void mtr_put_thread_start(struct mtr_thread *t);
/* IS_SELF: T is the calling thread's, whose name is recorded. */
void mtr_put_thread_end(struct mtr_thread *t, bool is_self);
/* Takes a new token block in the middle of a buffer. */
void mtr_put_tokens(struct mtr_thread *t);
bool mtr_tokens_are_low(const struct mtr_thread *t);
/* Takes a token block without an event: a BUFFER event follows. */
void mtr_take_tokens(struct mtr_thread *t);

/* --- For the recorder: gaps ----------------------------------------------- */

/* The position in B, which the caller holds, up to which MTR_ROOM bytes are
   free. */
uint8_t *mtr_room_end(const struct mtr_buffer *b);
/* How many nanoseconds T may wait for a buffer at NOW, having waited since
   BEGAN. */
uint64_t mtr_gap_wait_ns(struct mtr_recorder *rec, const struct mtr_thread *t,
                         uint64_t began, uint64_t now);
/* Begins a gap, because T gets no buffer: its calls are dropped from now on.
   false: calls may not be dropped, or the recording is over. */
bool mtr_gap_begin(struct mtr_recorder *rec, struct mtr_thread *t);
/* True while nothing has changed that could end T's gap. */
bool mtr_gap_lasts(struct mtr_recorder *rec, const struct mtr_thread *t);
/* Ends the record of a gap in T's buffer at NOW, before T hands the buffer
   over. Returns how many bytes behind pos belong to it. */
uint32_t mtr_gap_close(struct mtr_thread *t, uint64_t now);
/* Resets the gap after that buffer was handed over with those bytes. */
void mtr_gap_reset(struct mtr_thread *t);
/* Ends T's gap: calls are recorded again, or T ends. There is room. */
void mtr_gap_end(struct mtr_thread *t, uint64_t now);

#endif
