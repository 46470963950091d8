/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a thread enters its stream: does it record, with which record, and up to
 * where may it write before it enters again?
 */
#include "tracer/stream/thread_life.h"

#include "base/check.h"
#include "traceformat/raw_writer.h"
#include "tracer/recorder.h"
#include "tracer/saver/saver.h"
#include "tracer/session.h"
#include "tracer/stream/thread_early.h"
#include "tracer/trace_clock.h"
#include "tracer/tracer.h"

#include <errno.h>

#define HEAD_BYTES ((uint32_t)sizeof(struct mtf_spool_buffer))

/* A small buffer that is full sooner than BUSY_NS is followed by a large one, a
   large one that lasts longer than QUIET_NS by a small one. */
#define BUSY_NS  100000000u
#define QUIET_NS 2000000000u

static TCM_TLS uint8_t late_is_held;

/* --- From one buffer to the next ----------------------------------------- */

static enum mtr_size next_size(const struct mtr_buffer *old, uint64_t now) {
    if (old == NULL)
        return MTR_SMALL;
    TCM_ASSERT(now >= old->taken_ns);
    uint64_t lasted = now - old->taken_ns;
    if (old->size == MTR_LARGE_BYTES)
        return lasted > QUIET_NS ? MTR_SMALL : MTR_LARGE;
    return lasted < BUSY_NS ? MTR_LARGE : MTR_SMALL;
}

/* Hands OLD over for a new buffer; waits while none is free. NULL: the
   recording is over, or T may not wait. */
static struct mtr_buffer *take_buffer(struct mtr_recorder *rec,
                                      struct mtr_thread *t,
                                      struct mtr_buffer *old,
                                      enum mtr_size size) {
    struct mtr_thread_cold *cold = t->cold;
    struct mtr_pool *pool = &rec->pool;
    uint64_t began = 0;
    struct mtr_buffer *b;
    for (;;) {
        uint32_t seq = tcm_load_acquire(&pool->seq);
        bool low;
        b = mtr_pool_exchange(pool, cold->session, old, size, &t->pos,
                              &cold->buffer, &low);
        if ((b != NULL && !low) || mtr_thread_is_over(rec, cold))
            break;
        TCM_TESTPOINT("buffers_are_low");
        uint32_t state = tcm_load_acquire(&rec->state);
        if (state == MTR_LAZY && b != NULL)
            break;
        cold->pool_seq = seq;
        /* The recording is lazy, or in end mode without a saver. A saver that
           is being created may wait for a lock of the C library that this
           thread holds. */
        if (state != MTR_RUNNING && !mtr_saver_ensure(rec)) {
            if (b != NULL || mtr_thread_is_over(rec, cold) ||
                !mtr_saver_stock_here(rec))
                break;
            continue;
        }
        if (state != MTR_LAZY)
            mtr_saver_wake(rec);
        if (b != NULL || !mtr_is_recording())
            break;
        uint64_t now = mtr_clock_ns();
        uint64_t wait_ns =
            mtr_gap_wait_ns(rec, t, began == 0 ? now : began, now);
        if (wait_ns == 0)
            break;
        if (began == 0)
            began = now;
        TCM_TESTPOINT("buffer_waits");
        mtr_pool_wait(pool, seq, wait_ns);
    }
    if (began != 0) {
        tcm_add_owned(&cold->waits, 1);
        tcm_add_owned(&cold->wait_ns, mtr_clock_ns() - began);
    }
    return b;
}

/* Gives T its first or next buffer; may wait. false: the recording ended
   meanwhile, or no buffer is free and T may not wait. */
static bool exchange_buffer(struct mtr_recorder *rec, struct mtr_thread *t) {
    struct mtr_thread_cold *cold = t->cold;
    struct mtr_buffer *old = cold->buffer;
    uint64_t stream = 0;
    tcm_store_relaxed(&t->limit, NULL);
    tcm_fence_seq_cst();
    uint64_t now = mtr_clock_ns();
    if (old != NULL) {
        old->used = (uint32_t)(t->pos - old->base) + mtr_gap_close(t, now);
        stream = old->stream + old->used - HEAD_BYTES;
        mtr_buffer_count(t);
        TCM_ASSERT(old->used >= HEAD_BYTES && old->used <= old->size);
        TCM_ASSERT(old->thread == cold->id);
    }
    struct mtr_buffer *b = take_buffer(rec, t, old, next_size(old, now));
    if (b == NULL)
        return false;
    TCM_ASSERT(b != old && b == cold->buffer);
    if (old != NULL)
        mtr_gap_reset(t);
    now = mtr_clock_ns();
    mtr_buffer_begin(rec, t, b, stream, now);
    cold->room_end = mtr_room_end(b);
    cold->as_thread = 0;
    if (mtr_tokens_are_low(t))
        mtr_take_tokens(t);
    mtr_put_buffer_state(t, now);
    if (mtr_drops(t))
        mtr_gap_end(t, now);
    return true;
}

/* --- Entering ------------------------------------------------------------ */

/*
 * Sets the limit up to which hot events need not enter. false: the recording is
 * over.
 */
static bool set_limit(struct mtr_recorder *rec, struct mtr_thread *t) {
    struct mtr_thread_cold *cold = t->cold;
    uint8_t *end = cold->room_end + MTR_ROOM;
    uint64_t left = cold->token_end - t->next_token;
    TCM_ASSERT(t->pos <= end && t->next_token <= cold->token_end);
    TCM_ASSERT(cold->buffer == NULL ||
               (t->pos > cold->buffer->base &&
                end < cold->buffer->base + cold->buffer->size));
    TCM_ASSERT(!mtr_drops(t));
    uint8_t *limit = (uint64_t)(end - t->pos) <= left ? end : t->pos + left;
    tcm_store_relaxed(&t->limit, limit);
    /*
     * The saver sets idle (or ends the recording), makes a fence, then stores 0
     * to limit. If that 0 precedes our store to limit, we see idle here;
     * otherwise the 0 stays. This fence also follows the taking of tokens: the
     * thread that begins the next recording stores its session, makes a fence
     * and reads the first token. So either its first token is above those we
     * took, or we see its session and use none of them.
     */
    tcm_fence_seq_cst();
    TCM_TESTPOINT("limit_set");
    if (tcm_load_relaxed(&rec->link.idle) != 0 &&
        tcm_swap_acq_rel(&rec->link.idle, 0u) != 0)
        mtr_saver_wake(rec);
    uint32_t state = tcm_load_relaxed(&rec->state);
    if ((state != MTR_RUNNING && state != MTR_LAZY) ||
        tcm_load_relaxed(&rec->link.due) != 0)
        tcm_store_relaxed(&t->limit, NULL);
    if (!mtr_thread_is_over(rec, cold))
        return true;
    tcm_store_relaxed(&t->limit, NULL);
    return false;
}

bool mtr_make_room(struct mtr_recorder *rec, struct mtr_thread *t,
                   unsigned bytes) {
    if (!mtr_drops(t) && t->pos + bytes <= t->cold->room_end + MTR_ROOM)
        return true;
    return !mtr_early_is(t) && exchange_buffer(rec, t) && set_limit(rec, t);
}

/* True if the saver has cleared T's limit because nothing happened for a while:
   its next barrier comes after the quiet, so without a time the next event
   could be of any time in it. */
static bool was_quiet(struct mtr_recorder *rec, const struct mtr_thread *t) {
    return tcm_load_relaxed(&t->limit) == NULL &&
           tcm_load_relaxed(&rec->state) == MTR_RUNNING;
}

/* Gives T room and a token, or makes it drop its call. false: the recording
   ended meanwhile. */
static bool make_ready(struct mtr_recorder *rec, struct mtr_thread *t) {
    struct mtr_thread_cold *cold = t->cold;
    /* The word stays set until there is a saver. */
    if (mtr_freeing == 0 && tcm_load_relaxed(&rec->link.due) != 0 &&
        mtr_saver_ensure(rec))
        tcm_store_relaxed(&rec->link.due, 0u);
    if (mtr_drops(t) && mtr_gap_lasts(rec, t))
        return true;
    if (cold->buffer == NULL || t->pos > cold->room_end || mtr_drops(t) ||
        cold->buffer->generation != tcm_load_relaxed(&rec->pool.generation) ||
        cold->buffer->renewal != tcm_load_relaxed(&rec->pool.renewal)) {
        bool is_new = cold->buffer == NULL && cold->time_ns == 0;
        if (!exchange_buffer(rec, t))
            return mtr_gap_begin(rec, t);
        if (is_new && t->cold->id != MTF_THREAD_LATE)
            mtr_put_thread_start(t);
    } else {
        if (was_quiet(rec, t)) {
            tcm_fence_seq_cst();
            mtr_put_time(t, mtr_clock_ns());
        }
        if (mtr_tokens_are_low(t))
            mtr_put_tokens(t);
        if (t->pos > cold->room_end && !exchange_buffer(rec, t))
            return mtr_gap_begin(rec, t);
    }
    return set_limit(rec, t);
}

/* True if the process records. Begins a recording that is to begin with the
   first event. */
static bool recording_now(struct mtr_recorder *rec) {
    if (rec == NULL)
        return false;
    uint32_t state = tcm_load_acquire(&rec->state);
    /* A start by call sets the flag last, and the host goes by the flag: a
       thread that wrote earlier would do so without object words. */
    if (TCM_LIKELY(state == MTR_RUNNING || state == MTR_LAZY ||
                   state == MTR_ENDED))
        return tcm_load_seq_cst(&rec->control.recording) != 0;
    if (state == MTR_OFF && !mtr_child_begin(rec))
        return false;
    if (state == MTR_ARMED || state == MTR_OFF ||
        (state == MTR_STARTING && mtr_is_recording()))
        return mtr_start_armed(rec);
    /* The recording is over, or was begun by call and is not on yet. */
    if (state != MTR_STARTING)
        mtr_message_flush(rec);
    return false;
}

/* Gives T's record back, with the gap so far in its buffer. */
static void give_back_record(struct mtr_recorder *rec, struct mtr_thread *t) {
    if (t->cold->buffer != NULL && mtr_drops(t))
        mtr_gap_end(t, mtr_clock_ns());
    mtr_registry_remove(rec, t);
}

/* Enters the stream of SLOT's thread, inside the recorder. ID 0: an ordinary
   thread. */
static struct mtr_thread *enter(struct mtr_thread **slot, uint32_t id) {
    struct mtr_thread *t = *slot;
    struct mtr_recorder *rec = mtr_recorder;
    TCM_ASSERT(mtr_inside != 0 && t != NULL);
    /* Replace a state from before set-up, and one that fork has wiped, which is
       not ours any more. */
    if (mtr_early_is(t) || t == &mtr_no_thread) {
        t = NULL;
    } else if (t->cold == NULL) {
        mtr_registry_set_owner(t, NULL);
        t = NULL;
    }
    TCM_ASSERT(t == NULL || mtr_registry_is_owner(t, slot));
    if (!recording_now(rec)) {
        if (t != NULL)
            give_back_record(rec, t);
        *slot = &mtr_no_thread;
        return NULL;
    }
    TCM_TESTPOINT("recording_is_on");
    if (t == NULL && id == 0)
        t = mtr_early_claim_adopted(rec, slot);
    if (t != NULL && t->cold->session != tcm_load_relaxed(&rec->session)) {
        give_back_record(rec, t);
        t = NULL;
    }
    bool is_new = t == NULL;
    if (is_new)
        t = mtr_registry_add(rec, id, slot);
    /* The recording that was on may have ended before we took the session of
       the next one, which is not on before its flag is set. */
    if (t == NULL ||
        (is_new && tcm_load_seq_cst(&rec->control.recording) == 0) ||
        !make_ready(rec, t)) {
        if (t != NULL)
            give_back_record(rec, t);
        *slot = &mtr_no_thread;
        return NULL;
    }
    *slot = t;
    return t;
}

/* Counts a call of a signal handler that has interrupted the recorder. Takes no
   lock. */
static void count_missed(void) {
    struct mtr_recorder *rec = mtr_recorder;
    if (mtr_is_early())
        mtr_early_count_missed();
    else if (rec != NULL && mtr_is_recording())
        tcm_add_relaxed(&rec->registry.missed, (uint64_t)1);
}

/* mtr_enter without its fast path. ID 0: an ordinary thread. */
static struct mtr_thread *enter_slow(struct mtr_thread **slot, uint32_t id) {
    if (TCM_UNLIKELY(mtr_inside != 0)) {
        /* A jump has left the stream in any state, apart from what was
           published: the saver takes that, and the thread goes on with another
           stream. So does a handler that is mistaken for such a jump. */
        *slot = &mtr_no_thread;
        if (mtr_is_inside(mtr_frame())) {
            count_missed();
            return NULL;
        }
        TCM_TESTPOINT("left_by_jump");
    }
    int saved = errno;
    mtr_inside_begin(mtr_frame());
    struct mtr_thread *t =
        mtr_is_early() ? mtr_early_enter(slot) : enter(slot, id);
    mtr_inside_end();
    errno = saved;
    return t;
}

struct mtr_thread *mtr_enter(struct mtr_thread **slot) {
    struct mtr_thread *t = *slot;
    if (TCM_LIKELY(t->pos < tcm_load_relaxed(&t->limit) &&
                   t->pos <= t->cold->room_end))
        return t;
    return enter_slow(slot, 0);
}

void mtr_leave_slow(void) {
    struct mtr_recorder *rec = mtr_recorder;
    if (rec == NULL || mtr_is_inside(mtr_frame()))
        return;
    int saved = errno;
    while (tcm_load_acquire(&rec->state) == MTR_ENDED &&
           !mtr_saver_round(rec) && !mtr_saver_round_here(rec))
        TCM_TESTPOINT("other_saves");
    errno = saved;
}

/* --- Marks --------------------------------------------------------------- */

/* Bytes of a mark besides its text: its head, and a time in several events. */
#define MARK_EXTRA 48u

/* The length of TEXT that fits, without half a character at the end. */
static size_t cut_to_fit(const char *text, size_t length) {
    if (length <= MTF_EXTENDED_MAX)
        return length;
    size_t n = MTF_EXTENDED_MAX;
    while (n > MTF_EXTENDED_MAX - 4 && ((uint8_t)text[n] & 0xC0) == 0x80)
        n--;
    return ((uint8_t)text[n] & 0xC0) == 0x80 ? MTF_EXTENDED_MAX : n;
}

void mtr_put_mark(struct mtr_thread *t, const char *text, size_t length) {
    int saved = errno;
    size_t n = cut_to_fit(text, length);
    TCM_ASSERT(n <= length && n <= MTF_EXTENDED_MAX);
    if (mtr_make_room(mtr_recorder, t, (unsigned)n + MARK_EXTRA)) {
        /* Earlier events of the thread are not later than the mark. */
        tcm_fence_seq_cst();
        mtr_put_time(t, mtr_clock_ns());
        mtr_publish(t, t->pos,
                    mtf_raw_put_bytes(t->pos, MTF_RAW_MARK, text, (unsigned)n));
    } else if (mtr_gap_begin(mtr_recorder, t)) {
        mtr_skip_event(t);
    }
    errno = saved;
}

/* --- The end of a thread ------------------------------------------------- */

uint32_t mtr_thread_end(struct mtr_thread **slot) {
    struct mtr_recorder *rec = mtr_recorder;
    if (TCM_UNLIKELY(mtr_inside != 0) && !mtr_is_inside(mtr_frame()))
        *slot = &mtr_no_thread;
    struct mtr_thread *t = *slot;
    if (rec == NULL || t->cold == NULL || mtr_early_is(t)) {
        *slot = &mtr_no_thread;
        return 0;
    }
    /* A new state if the next recording has begun. */
    t = mtr_enter(slot);
    if (t == NULL)
        return 0;
    uint32_t id = t->cold->id;
    TCM_ASSERT(mtr_registry_is_owner(t, slot) && mtr_inside == 0);
    int saved = errno;
    mtr_inside_begin(mtr_frame());
    /* The thread's cache is given up after this. */
    tcm_fence_seq_cst();
    uint64_t now = mtr_clock_ns();
    /* A thread that never got a buffer has its calls in the count of the
       footer. */
    if (t->cold->buffer != NULL) {
        if (mtr_drops(t))
            mtr_gap_end(t, now);
        mtr_put_time(t, now);
        mtr_put_thread_end(t, true);
        /* An upper bound of the end: without it the time of the next barrier is
           the nearest, and threads that ended long before another one began
           look as if they might have overlapped. */
        tcm_fence_seq_cst();
        mtr_put_time(t, mtr_clock_ns());
        tcm_store_relaxed(&t->limit, NULL);
    }
    give_back_record(rec, t);
    *slot = &mtr_no_thread;
    mtr_inside_end();
    errno = saved;
    mtr_leave();
    return id;
}

void mtr_thread_end_dead(struct mtr_thread *t) {
    struct mtr_recorder *rec = mtr_recorder;
    if (rec == NULL || t->cold == NULL || mtr_early_is(t) ||
        mtr_is_inside(mtr_frame()))
        return;
    int saved = errno;
    mtr_inside_begin(mtr_frame());
    if (t->cold->buffer != NULL && !mtr_thread_is_over(rec, t->cold) &&
        mtr_make_room(rec, t, MTR_ROOM)) {
        mtr_put_time(t, mtr_clock_ns());
        mtr_put_thread_end(t, false);
        tcm_fence_seq_cst();
        mtr_put_time(t, mtr_clock_ns());
    }
    give_back_record(rec, t);
    mtr_inside_end();
    errno = saved;
    mtr_leave();
}

/* --- After the end ------------------------------------------------------- */

/*
 * A thread that holds the C library's lock of stacks may free, and so wait for
 * the late lock; creating a thread takes the lock of stacks. So the holder of
 * the late lock counts as one that frees, and creates no saver. Its signals are
 * blocked until the call ends: a handler could not have the lock either.
 */
static void late_lock(struct mtr_recorder *rec) {
    uint64_t mask = mtr_signals_block_in_call();
    tcm_lock(&rec->late_lock);
    rec->late_mask = mask;
    TCM_ASSERT(mtr_freeing < UINT8_MAX);
    mtr_freeing++;
}

static void late_unlock(struct mtr_recorder *rec) {
    TCM_ASSERT(mtr_freeing != 0);
    mtr_freeing--;
    uint64_t mask = rec->late_mask;
    tcm_unlock(&rec->late_lock);
    mtr_signals_restore(mask);
}

/* Begins the first recording of the process, which initializes the late
   lock. */
static bool begin_late(struct mtr_recorder *rec) {
    int saved = errno;
    mtr_inside_begin(mtr_frame());
    mtr_freeing++;
    bool ok = recording_now(rec);
    mtr_freeing--;
    mtr_inside_end();
    errno = saved;
    return ok;
}

struct mtr_thread *mtr_late_enter(uint32_t *id) {
    struct mtr_recorder *rec = mtr_recorder;
    if (!mtr_is_recording() || rec == NULL)
        return NULL;
    if (mtr_is_inside(mtr_frame())) {
        count_missed();
        return NULL;
    }
    if (tcm_load_acquire(&rec->session) == 0 && !begin_late(rec))
        return NULL;
    late_lock(rec);
    if (rec->late == NULL)
        rec->late = &mtr_no_thread;
    struct mtr_thread *t = enter_slow(&rec->late, MTF_THREAD_LATE);
    if (t == NULL) {
        late_unlock(rec);
        return NULL;
    }
    if (*id == 0) {
        tcm_lock(&rec->registry.lock);
        *id = ++rec->registry.next_id;
        tcm_unlock(&rec->registry.lock);
    }
    if (t->cold->as_thread != *id && !mtr_drops(t)) {
        t->cold->as_thread = *id;
        mtr_put(t, mtf_inline_payload(MTF_RAW_AS_THREAD, *id));
    }
    TCM_ASSERT(t == rec->late && t->cold->id == MTF_THREAD_LATE);
    late_is_held = 1;
    return t;
}

void mtr_late_leave(void) {
    if (late_is_held == 0)
        return;
    late_is_held = 0;
    tcm_lock_assert_held(&mtr_recorder->late_lock);
    late_unlock(mtr_recorder);
    mtr_leave();
}
