/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCMALLOC_TRACE_OVERFLOW=drop: a thread that finds no buffer goes on, and what
 * it does is counted instead of recorded, until there is one. With %p so does
 * one that has no saver to wait for, and no memory for buffers of its own.
 *
 *   ... events | UNTRACED m, GAP n || BUFFER | events ...
 *         pos --^                    recorded again
 *
 * What a gap has so far stands in two events behind pos: unpublished, and
 * changed in place, so that the spool of a process that is killed in the gap
 * has the numbers of that moment. They are published when the buffer is let go.
 * The saver does not see them before, and needs not: totals are in the footer.
 *
 * A thread that was born in the gap has no buffer. Its numbers are in page 0 of
 * the spool, under the pool's lock, until it has.
 *
 * Threads: all of it is done by the thread whose gap it is. Its limit is NULL
 * meanwhile, so each call takes the slow path.
 */
#include "tracer/stream/thread_gap.h"

#include "base/testpoint.h"
#include "tracer/recorder.h"
#include "tracer/stream/thread_life.h"
#include "tracer/trace_clock.h"

#include <string.h>

/* Bytes behind the room of every buffer, where threads may drop: what tells of
   a gap stands there, and the end of its thread. */
#define GAP_ROOM 160u

/* Below the bound the saver makes more buffers within a millisecond or so, if
   it runs. */
#define PATIENCE_NS 100000000u

/* UNTRACED, written in all the bytes that it can take, then GAP. */
#define UNTRACED_BYTES ((uint8_t)MTF_VARINT_MAX_BYTES)
#define TOLD_BYTES     (UNTRACED_BYTES + MTF_RAW_GAP_LENGTH)
/* A gap, the times and the end of a thread. */
TCM_STATIC_ASSERT(TOLD_BYTES + 5 * 8 + MTF_EXTENDED_HEAD + 15 <= GAP_ROOM,
                  "a gap and the end of its thread fit behind a full buffer");

uint8_t *mtr_room_end(const struct mtr_buffer *b) {
    bool may_drop = mtr_config.drops || mtr_config.per_process;
    return b->base + b->size - MTR_BUFFER_SLACK - MTR_ROOM -
           (may_drop ? GAP_ROOM : 0);
}

uint64_t mtr_gap_patience(struct mtr_recorder *rec, const struct mtr_thread *t,
                          uint64_t began, uint64_t now) {
    if (!mtr_config.drops)
        return UINT64_MAX;
    if (mtr_drops(t) || mtr_pool_is_full(&rec->pool, t->cold->buffer) ||
        now - began >= PATIENCE_NS)
        return 0;
    return PATIENCE_NS - (now - began);
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

/* What the gap has so far, behind pos. An event's bytes come before its first
   one, and the first event's last. */
static void tell(struct mtr_thread *t) {
    struct mtr_thread_cold *cold = t->cold;
    uint8_t *gap = t->pos + UNTRACED_BYTES;
    TCM_ASSERT(t->pos + TOLD_BYTES + MTR_BUFFER_SLACK <=
               cold->buffer->base + cold->buffer->size);
    TCM_ASSERT(cold->gap_bytes == 0 || cold->gap_bytes == UNTRACED_BYTES ||
               cold->gap_bytes == TOLD_BYTES);
    if (cold->gap_bytes == TOLD_BYTES) {
        mtf_raw_set_gap_events(gap, cold->gap_dropped);
    } else if (cold->gap_dropped != 0 || cold->gap_passed) {
        mtf_raw_put_gap(gap, cold->gap_dropped, cold->gap_ns, cold->gap_ns);
        cold->gap_bytes = TOLD_BYTES;
    } else {
        cold->gap_bytes = UNTRACED_BYTES;
    }
    tcm_fence_signal();
    mtf_varint_put_long(
        t->pos, mtf_inline_payload(MTF_RAW_UNTRACED, cold->gap_untraced));
}

static void count(struct mtr_thread *t, uint64_t dropped, uint64_t untraced) {
    struct mtr_thread_cold *cold = t->cold;
    TCM_ASSERT(mtr_drops(t) && t->limit == NULL);
    mtr_count(&cold->dropped, dropped);
    mtr_count(&cold->untraced, untraced);
    cold->gap_dropped += dropped;
    cold->gap_untraced += untraced;
    if (cold->buffer != NULL)
        tell(t);
    else
        mtr_pool_count_lost(&mtr_recorder->pool, cold->session, dropped,
                            untraced);
}

void mtr_count_dropped(struct mtr_thread *t) {
    count(t, 1, 0);
}

/* One event each: they are rare, and a count kept back would be lost by a
   kill. */
void mtr_count_untraced_free(struct mtr_thread *t) {
    if (mtr_drops(t)) {
        count(t, 0, 1);
        return;
    }
    mtr_count(&t->cold->untraced, 1);
    mtr_put(t, mtf_inline_payload(MTF_RAW_UNTRACED, 1));
}

void mtr_pass_over(struct mtr_thread *t) {
    t->cold->gap_passed = true;
    count(t, 0, 0);
}

uint32_t mtr_gap_close(struct mtr_thread *t, uint64_t now) {
    if (t->cold->gap_bytes == TOLD_BYTES)
        mtf_raw_set_gap_end(t->pos + UNTRACED_BYTES, now);
    return t->cold->gap_bytes;
}

void mtr_gap_let_go(struct mtr_thread *t) {
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
    /* It was counted in page 0 until now, and begins this buffer. */
    if (cold->gap_bytes == 0 && (cold->gap_dropped != 0 ||
                                 cold->gap_untraced != 0 || cold->gap_passed)) {
        mtr_pool_count_lost(&mtr_recorder->pool, cold->session,
                            -cold->gap_dropped, -cold->gap_untraced);
        tell(t);
    }
    uint32_t told = mtr_gap_close(t, now);
    if (told != 0)
        mtr_publish(t, t->pos, told);
    mtr_gap_let_go(t);
    TCM_TESTPOINT("gap_ends");
}
