/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The events of a stream that are not hot, its buffers and tokens, and its
 * gaps.
 *
 * A seq_cst fence stands before each clock read here whose value ends the
 * interval of earlier events: they are visible to the saver before the time is
 * read, so no barrier with a later time can lack them.
 */
#include "tracer/stream/thread_buf.h"

#include "base/bits.h"
#include "base/linux/os_syscall.h"
#include "base/linux/os_thread.h"
#include "base/check.h"
#include "traceformat/raw_writer.h"
#include "tracer/recorder.h"
#include "tracer/stream/thread_life.h"
#include "tracer/stream/thread_sites.h"
#include "tracer/trace_clock.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Most TIME events that are written at once: enough for a thread that slept 16
   days. */
#define TIME_EVENTS_MAX 5
#define HEAD_BYTES      ((uint32_t)sizeof(struct mtf_spool_buffer))

/* --- Words of allocations ------------------------------------------------ */

/* mtf_alloc_payload and mtf_varint_word as constants. D: distance of the size
   from the rounded size before. */
#define EIGHTHS(d)     (((d) + (int)MTR_NEAR) / 8 - (int)MTR_NEAR / 8)
#define LOW(d)         (((d) + (int)MTR_NEAR) % 8)
#define ZIGZAG(n)      ((n) < 0 ? -2 * (n)-1 : 2 * (n))
#define CHANGE(d)      ZIGZAG(EIGHTHS(d))
#define ROUNDED(d)     (CHANGE(d) << 3 | MTF_RAW_ALLOC)
#define EXACT(d)       ((CHANGE(d) << 3 | LOW(d)) << 3 | 4 | MTF_RAW_ALLOC)
#define PAYLOAD(d)     (LOW(d) == 0 ? ROUNDED(d) : EXACT(d))
#define VARINT_WORD(v) (((v) << 1 | 1) << ((v) >> 14 != 0 ? 2 : (v) >> 7 != 0))
#define WORD(d)        VARINT_WORD(PAYLOAD(d))
#define WORDS_4(d)     WORD(d), WORD((d) + 1), WORD((d) + 2), WORD((d) + 3)
#define WORDS_16(d)                                                            \
    WORDS_4(d), WORDS_4((d) + 4), WORDS_4((d) + 8), WORDS_4((d) + 12)
#define WORDS_64(d)                                                            \
    WORDS_16(d), WORDS_16((d) + 16), WORDS_16((d) + 32), WORDS_16((d) + 48)
#define WORDS_256(d)                                                           \
    WORDS_64(d), WORDS_64((d) + 64), WORDS_64((d) + 128), WORDS_64((d) + 192)
#define WORDS_1024(d)                                                          \
    WORDS_256(d), WORDS_256((d) + 256), WORDS_256((d) + 512),                  \
        WORDS_256((d) + 768)

const uint32_t mtr_near_alloc[2 * MTR_NEAR + 1] = {WORDS_1024(-1024),
                                                   WORDS_1024(0), WORD(1024)};

/* --- Events -------------------------------------------------------------- */

static void put_time(struct mtr_thread *t, uint64_t ns) {
    struct mtr_thread_cold *cold = t->cold;
    uint64_t delta = ns > cold->time_ns ? ns - cold->time_ns : 0;
    for (int i = 1; i < TIME_EVENTS_MAX && delta > MTF_ARGUMENT_MAX; i++) {
        mtr_put(t, mtf_inline_payload(MTF_RAW_TIME, MTF_ARGUMENT_MAX));
        cold->time_ns += MTF_ARGUMENT_MAX;
        delta -= MTF_ARGUMENT_MAX;
    }
    delta = tcm_min_u64(delta, MTF_ARGUMENT_MAX);
    TCM_ASSERT(!mtr_drops(t));
    mtr_put(t, mtf_inline_payload(MTF_RAW_TIME, delta));
    cold->time_ns += delta;
}

void mtr_put_time(struct mtr_thread *t, uint64_t ns) {
    if (mtr_drops(t))
        return;
    tcm_add_owned(&t->cold->slow_times, 1);
    put_time(t, ns);
}

/* Times of a thread without others are at most this far apart where it takes or
   gives memory: the times of its events are estimated between them. */
#define SINGLE_NS 500000u

static bool may_skip(const struct mtr_thread *t, uint64_t ns) {
    const struct mtr_thread_cold *cold = t->cold;
    return cold->buffer != NULL && !mtr_drops(t) &&
           ns < cold->time_ns + SINGLE_NS;
}

/* Memory of another thread comes by an acquire, so its stream is seen, too. */
void mtr_put_took(struct mtr_thread *t, uint64_t ns) {
    if (!may_skip(t, ns) ||
        !tcm_load_relaxed(&mtr_recorder->registry.is_single))
        mtr_put_time(t, ns);
}

/*
 * The next thread may take the memory before this one writes another time. So
 * the time is kept outside of the events, where the saver and readers of the
 * spool find it. The last one is enough: it bounds all events before it, and
 * is before the times of all other threads, because it was read before the
 * second thread entered.
 */
void mtr_put_gives(struct mtr_thread *t, uint64_t ns) {
    if (!may_skip(t, ns) ||
        !mtr_registry_is_single(&mtr_recorder->registry, ns)) {
        mtr_put_time(t, ns);
        return;
    }
    const struct mtr_buffer *b = t->cold->buffer;
    struct mtf_spool_given *g = mtr_buffer_given(b);
    /* A reader that finds the new time finds the 0, or what follows, when it
       looks at the place again. */
    tcm_store_relaxed(&g->given, 0u);
    tcm_store_release(&g->time_ns, ns);
    tcm_store_release(&g->given, (uint32_t)(t->pos - b->base));
}

uint64_t mtr_buffer_given_time(const struct mtr_buffer *b, uint32_t *given) {
    const struct mtf_spool_given *g = mtr_buffer_given(b);
    *given = tcm_load_acquire(&g->given);
    uint64_t ns = tcm_load_acquire(&g->time_ns);
    return *given != 0 && tcm_load_relaxed(&g->given) == *given ? ns : 0;
}

/* Publishes an event of N bytes, for which there was room. */
static void publish(struct mtr_thread *t, unsigned n) {
    const struct mtr_buffer *b = t->cold->buffer;
    TCM_ASSERT(b == NULL ||
               (t->pos >= b->base + HEAD_BYTES &&
                t->pos + n + MTR_BUFFER_SLACK <= b->base + b->size));
    mtr_publish(t, t->pos, n);
}

/* Takes a token for a call other than malloc. */
static uint64_t new_token(struct mtr_thread *t) {
    TCM_ASSERT(t->next_token < t->cold->token_end);
    t->cold->other_tokens++;
    return t->next_token++;
}

/* Length of frees. LONG_FREES long frees without short ones between them make
   their length the usual one: nearly all frees need it, and it costs the others
   a byte or two. The bytes since the last long free show whether there were
   short ones: more than the allocations since then can account for. More than 4
   bytes is never the usual length. */
#define LONG_FREES      16u
#define ALLOC_BYTES_MAX 3u
#define FREE_LEN_LIMIT  4u

static void set_free_len(struct mtr_thread *t, unsigned n) {
    TCM_ASSERT(n >= 1 && n <= FREE_LEN_LIMIT);
    t->free_shift = (uint8_t)(n - 1);
    t->free_max = (uint32_t)mtf_free_reach(n - 1);
    t->cold->long_frees = 0;
}

void mtr_put_free_long(struct mtr_thread *t, uint64_t distance) {
    struct mtr_thread_cold *cold = t->cold;
    uint8_t *pos = t->pos;
    TCM_ASSERT(distance > t->free_max);
    unsigned n = mtf_varint_put(pos, mtf_free_payload(distance));
    uint64_t allocs = t->next_token - cold->long_free_token;
    if (allocs > 2)
        allocs = 2; /* more would hide short frees */
    if ((uintptr_t)pos - cold->long_free_end > allocs * ALLOC_BYTES_MAX)
        cold->long_frees = 0;
    cold->long_free_end = (uintptr_t)(pos + n);
    cold->long_free_token = t->next_token;
    if (n <= FREE_LEN_LIMIT && ++cold->long_frees >= LONG_FREES)
        set_free_len(t, n);
    mtr_publish(t, pos, n);
}

uint64_t mtr_put_aligned(struct mtr_thread *t, enum mtf_call call, size_t size,
                         unsigned align_log2) {
    uint64_t token = new_token(t);
    t->cold->counts.memaligns++;
    publish(t, mtf_raw_put_aligned(t->pos, call, align_log2, size));
    return token;
}

uint64_t mtr_put_realloc(struct mtr_thread *t, enum mtf_call call, size_t size,
                         uint64_t old, bool moved) {
    uint64_t token = new_token(t);
    unsigned n = mtf_raw_put_realloc(t->pos, t->last_freed, t->last_size >> 3,
                                     call, old, size, moved);
    t->last_freed = old;
    t->last_size = size & ~(uint64_t)7;
    t->cold->counts.reallocs++;
    publish(t, n);
    return token;
}

uint64_t mtr_put_realloc_new(struct mtr_thread *t, enum mtf_call call,
                             size_t size, bool old_unknown) {
    uint64_t token = new_token(t);
    t->cold->counts.reallocs++;
    publish(t, mtf_raw_put_realloc_new(t->pos, call, old_unknown, size));
    return token;
}

void mtr_put_realloc_end(struct mtr_thread *t, enum mtf_call call,
                         uint64_t old) {
    unsigned n = mtf_raw_put_realloc_end(t->pos, call, mtr_token_name(old));
    t->last_freed = old;
    t->cold->counts.reallocs++;
    publish(t, n);
}

void mtr_put_failed(struct mtr_thread *t, enum mtf_call call, uint64_t size,
                    unsigned align_log2, uint64_t old) {
    t->cold->counts.failed++;
    publish(t, mtf_raw_put_failed(t->pos, call, align_log2, mtr_token_name(old),
                                  size));
}

void mtr_put_free_size(struct mtr_thread *t, enum mtf_call call, uint64_t token,
                       uint64_t size) {
    unsigned n =
        mtf_raw_put_free_size(t->pos, call, mtr_token_name(token), size);
    t->last_freed = token;
    t->cold->counts.frees++;
    publish(t, n);
}

void mtr_put_wrong(struct mtr_thread *t, enum mtf_call call,
                   enum mtf_wrong wrong, uint64_t token, uint64_t value) {
    if (mtr_drops(t))
        mtr_count_dropped(t);
    else
        publish(t, mtf_raw_put_wrong(t->pos, call, wrong, mtr_token_name(token),
                                     value));
}

void mtr_put_present(struct mtr_thread *t, uint64_t bytes) {
    TCM_ASSERT(!mtr_drops(t));
    mtr_put(t, mtf_present_payload(bytes));
}

void mtr_put_extension(struct mtr_thread *t, enum mtf_extension which,
                       uint64_t argument) {
    if (mtr_drops(t))
        mtr_skip_event(t);
    else
        publish(t,
                mtf_raw_put_pair(t->pos, MTF_RAW_EXTENSION, which, argument));
}

/* --- Buffers and tokens -------------------------------------------------- */

static void count_begin(struct mtr_thread *t) {
    struct mtr_thread_cold *cold = t->cold;
    cold->counts = (struct mtr_event_counts){0};
    cold->count_token = t->next_token;
    cold->other_tokens = 0;
    cold->is_counted = true;
    t->frees = 0;
}

void mtr_buffer_count(const struct mtr_thread *t) {
    const struct mtr_thread_cold *cold = t->cold;
    struct mtr_buffer *b = cold->buffer;
    TCM_ASSERT(!cold->is_counted ||
               cold->counts.mallocs + t->next_token - cold->count_token >=
                   cold->other_tokens);
    b->is_counted = cold->is_counted;
    b->counts = cold->counts;
    b->counts.mallocs += t->next_token - cold->count_token - cold->other_tokens;
    b->counts.frees += t->frees;
}

/* Writes the BUFFER event and resets the coding state: the event has all that a
   reader needs. */
void mtr_put_buffer_state(struct mtr_thread *t, uint64_t now) {
    struct mtr_thread_cold *cold = t->cold;
    const struct mtr_buffer *b = cold->buffer;
    TCM_ASSERT(b == NULL || t->pos == b->base + HEAD_BYTES);
    TCM_ASSERT(cold->token_end > t->next_token);
    TCM_ASSERT(cold->gap_untraced <= cold->untraced &&
               cold->gap_dropped <= cold->dropped);
    cold->time_ns = tcm_max_u64(now, cold->time_ns);
    t->last_size = 0;
    t->last_freed = t->next_token;
    set_free_len(t, 1);
    count_begin(t);
    mtr_site_new_buffer(t);
    struct mtf_raw_buffer_state s = {
        .time_ns = cold->time_ns,
        .next_token = mtr_token_name(t->next_token),
        .tokens_left = (uint32_t)(cold->token_end - t->next_token),
        .cpu = (uint16_t)tcm_os_cpu(),
        .alloc_call = mtr_alloc_call(t),
        .free_call = t->free_call,
        .untraced_frees = cold->untraced - cold->gap_untraced,
        .dropped = cold->dropped - cold->gap_dropped,
        .waits = cold->waits,
        .wait_ns = cold->wait_ns,
    };
    publish(t, mtf_raw_put_buffer(t->pos, &s));
}

/*
 * Tokens: 64-bit names of blocks, never reused. Threads take them in ranges
 * from one counter, so that the hot path needs no atomic operation. The counter
 * is in memory that a child inherits, so the child's tokens are above those in
 * the words of inherited blocks. Relaxed: tokens publish nothing.
 */
#define TOKENS_MIN 64u
#define TOKENS_MAX 4096u

static uint64_t take_tokens(struct mtr_thread_cold *cold) {
    uint32_t count = cold->token_count;
    if (count == 0)
        count = TOKENS_MIN;
    cold->token_count = count >= TOKENS_MAX ? TOKENS_MAX : 2 * count;
    uint64_t first = tcm_add_relaxed(&mtr_config.token_end, (uint64_t)count);
    TCM_ASSERT(tcm_is_pow2(count) && first >= cold->token_end);
    cold->token_end = first + count;
    return first;
}

void mtr_take_tokens(struct mtr_thread *t) {
    t->next_token = take_tokens(t->cold);
}

bool mtr_tokens_are_low(const struct mtr_thread *t) {
    uint64_t left = t->cold->token_end - t->next_token;
    TCM_ASSERT(left <= TOKENS_MAX);
    return left < t->cold->token_count / 8 || left == 0;
}

/* Takes a new token block and gives up the rest of the old one. The TIME event
   costs little here and narrows intervals for readers. */
void mtr_put_tokens(struct mtr_thread *t) {
    struct mtr_thread_cold *cold = t->cold;
    uint64_t old_end = cold->token_end;
    uint64_t first = take_tokens(cold);
    cold->counts.mallocs += t->next_token - cold->count_token;
    cold->count_token = first;
    tcm_fence_seq_cst();
    put_time(t, mtr_clock_ns());
    mtr_put(
        t, mtf_inline_payload(MTF_RAW_TOKENS,
                              mtf_tokens_argument(first - old_end,
                                                  t->cold->token_end - first)));
    t->next_token = first;
}

void mtr_put_thread_start(struct mtr_thread *t) {
    t->cold->tid = tcm_os_tid();
    t->cold->self = &errno;
    publish(t, mtf_raw_put_thread_start(t->pos, t->cold->tid));
}

void mtr_put_thread_end(struct mtr_thread *t, bool is_self) {
    char name[16] = "";
    if (is_self)
        tcm_syscall(SYS_prctl, PR_GET_NAME, name, 0, 0, 0);
    publish(t, mtf_raw_put_bytes(t->pos, MTF_RAW_THREAD_END, name,
                                 (unsigned)strnlen(name, 15)));
}

void mtr_buffer_begin(struct mtr_recorder *rec, struct mtr_thread *t,
                      struct mtr_buffer *b, uint64_t stream, uint64_t time_lo) {
    TCM_ASSERT(b == t->cold->buffer && t->pos == b->base + HEAD_BYTES);
    TCM_ASSERT(t->cold->id != MTF_THREAD_NONE);
    /* A kill while the head is being written leaves no head. */
    TCM_ASSERT(((struct mtf_spool_buffer *)(void *)b->base)->sync == 0);
    b->thread = t->cold->id;
    b->stream = stream;
    b->taken_ns = time_lo;
    b->time_lo = time_lo;
    b->mark = 0;
    b->counted = (struct mtr_event_counts){0};
    mtf_spool_put_buffer((struct mtf_spool_buffer *)(void *)b->base,
                         tcm_load_relaxed(&rec->random), b->size, t->cold->id,
                         stream, time_lo);
    TCM_TESTPOINT("buffer_has_head");
}

/* --- Gaps ----------------------------------------------------------------- */

/*
 * Gaps (TCMALLOC_TRACE_OVERFLOW=drop): a thread without a free buffer goes on,
 * and its calls are counted instead of recorded until it gets one. With %p also
 * a thread that has neither a saver to wait for nor memory for buffers.
 *
 *   ... events | UNTRACED m, GAP n || BUFFER | events ...
 *         pos --^                    recorded again
 *
 * Two events behind pos hold the numbers of a gap: unpublished, and updated in
 * place, so that the spool of a process killed in the gap has them. They are
 * published when the buffer is handed over; the saver needs them no earlier,
 * because totals are in the footer.
 *
 * A thread that was born in a gap has no buffer. Its numbers are in page 0 of
 * the spool, under the pool's lock, until it gets one.
 *
 * Threads: the thread whose gap it is. Its limit is NULL meanwhile, so each
 * call takes the slow path.
 */

/* Bytes kept free at the end of every buffer where threads may drop: for the
   events of a gap, and the end of the thread. */
#define GAP_ROOM 160u

/* Below the bound the saver makes more buffers within about a millisecond if it
   gets a processor; a thread waits this long for it before it drops. */
#define DROP_WAIT_NS 100000000u

/* UNTRACED, in the longest form of its varint, then GAP. */
#define UNTRACED_BYTES ((uint8_t)MTF_VARINT_MAX_BYTES)
#define GAP_BYTES      (UNTRACED_BYTES + MTF_RAW_GAP_LENGTH)
/* A gap, times, and the end of a thread. */
TCM_STATIC_ASSERT(GAP_BYTES + 5 * 8 + MTF_EXTENDED_HEAD + 15 <= GAP_ROOM,
                  "a gap and the end of its thread fit behind a full buffer");

uint8_t *mtr_room_end(const struct mtr_buffer *b) {
    bool may_drop = mtr_config.drops || mtr_config.per_process;
    return b->base + b->size - MTR_BUFFER_SLACK - MTR_ROOM -
           (may_drop ? GAP_ROOM : 0);
}

uint64_t mtr_gap_wait_ns(struct mtr_recorder *rec, const struct mtr_thread *t,
                         uint64_t began, uint64_t now) {
    if (!mtr_config.drops)
        return UINT64_MAX;
    if (mtr_drops(t) || mtr_pool_is_full(&rec->pool, t->cold->buffer) ||
        now - began >= DROP_WAIT_NS)
        return 0;
    return DROP_WAIT_NS - (now - began);
}

bool mtr_gap_begin(struct mtr_recorder *rec, struct mtr_thread *t) {
    if (!mtr_config.drops && !mtr_config.per_process)
        return false;
    if (mtr_thread_is_over(rec, t->cold))
        return false;
    TCM_ASSERT(t->limit == NULL);
    if (!mtr_drops(t)) {
        TCM_ASSERT(t->cold->gap_bytes == 0 && t->cold->gap_dropped == 0);
        t->flags |= MTR_THREAD_DROPS;
        t->cold->gap_ns = mtr_clock_ns();
        TCM_TESTPOINT("gap_begins");
    }
    return true;
}

bool mtr_gap_lasts(struct mtr_recorder *rec, const struct mtr_thread *t) {
    return (mtr_config.drops || mtr_freeing != 0) &&
           tcm_load_acquire(&rec->pool.seq) == t->cold->pool_seq &&
           !mtr_thread_is_over(rec, t->cold);
}

/* Writes the gap's numbers behind pos. The other bytes of an event are stored
   before its first one, and the first event of the two is stored last. */
static void write_gap(struct mtr_thread *t) {
    struct mtr_thread_cold *cold = t->cold;
    uint8_t *gap = t->pos + UNTRACED_BYTES;
    TCM_ASSERT(t->pos + GAP_BYTES + MTR_BUFFER_SLACK <=
               cold->buffer->base + cold->buffer->size);
    TCM_ASSERT(cold->gap_bytes == 0 || cold->gap_bytes == UNTRACED_BYTES ||
               cold->gap_bytes == GAP_BYTES);
    if (cold->gap_bytes == GAP_BYTES) {
        mtf_raw_set_gap_events(gap, cold->gap_dropped);
    } else if (cold->gap_dropped != 0 || cold->gap_passed) {
        mtf_raw_put_gap(gap, cold->gap_dropped, cold->gap_ns, cold->gap_ns);
        cold->gap_bytes = GAP_BYTES;
    } else {
        cold->gap_bytes = UNTRACED_BYTES;
    }
    tcm_fence_signal();
    mtf_varint_put_long(
        t->pos, mtf_inline_payload(MTF_RAW_UNTRACED, cold->gap_untraced));
}

static void count_lost(struct mtr_thread *t, uint64_t dropped,
                       uint64_t untraced) {
    struct mtr_thread_cold *cold = t->cold;
    TCM_ASSERT(mtr_drops(t) && t->limit == NULL);
    tcm_add_owned(&cold->dropped, dropped);
    tcm_add_owned(&cold->untraced, untraced);
    cold->gap_dropped += dropped;
    cold->gap_untraced += untraced;
    if (cold->buffer != NULL)
        write_gap(t);
    else
        mtr_pool_count_lost(&mtr_recorder->pool, cold->session, dropped,
                            untraced);
}

void mtr_count_dropped(struct mtr_thread *t) {
    count_lost(t, 1, 0);
}

/* One event for each, because they are rare, and a kill would lose a count kept
   back. */
void mtr_count_untraced_free(struct mtr_thread *t) {
    if (mtr_drops(t)) {
        count_lost(t, 0, 1);
        return;
    }
    tcm_add_owned(&t->cold->untraced, 1);
    mtr_put(t, mtf_inline_payload(MTF_RAW_UNTRACED, 1));
}

void mtr_skip_event(struct mtr_thread *t) {
    t->cold->gap_passed = true;
    count_lost(t, 0, 0);
}

uint32_t mtr_gap_close(struct mtr_thread *t, uint64_t now) {
    if (t->cold->gap_bytes == GAP_BYTES)
        mtf_raw_set_gap_end(t->pos + UNTRACED_BYTES, now);
    return t->cold->gap_bytes;
}

void mtr_gap_reset(struct mtr_thread *t) {
    struct mtr_thread_cold *cold = t->cold;
    cold->gap_dropped = cold->gap_untraced = 0;
    cold->gap_bytes = 0;
    cold->gap_passed = false;
}

void mtr_gap_end(struct mtr_thread *t, uint64_t now) {
    struct mtr_thread_cold *cold = t->cold;
    TCM_ASSERT(mtr_drops(t) && cold->buffer != NULL);
    TCM_ASSERT(now >= cold->gap_ns);
    t->flags &= (uint8_t)~MTR_THREAD_DROPS;
    /* Until now the gap was counted in page 0; it begins this buffer. */
    if (cold->gap_bytes == 0 && (cold->gap_dropped != 0 ||
                                 cold->gap_untraced != 0 || cold->gap_passed)) {
        mtr_pool_count_lost(&mtr_recorder->pool, cold->session,
                            -cold->gap_dropped, -cold->gap_untraced);
        write_gap(t);
    }
    uint32_t gap_bytes_ = mtr_gap_close(t, now);
    if (gap_bytes_ != 0)
        mtr_publish(t, t->pos, gap_bytes_);
    mtr_gap_reset(t);
    TCM_TESTPOINT("gap_ends");
}
