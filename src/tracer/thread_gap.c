/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCMALLOC_TRACE_OVERFLOW=drop: a thread that finds no buffer goes on, and what
 * it does is counted instead of recorded, until there is one.
 *
 *   ... events | GAP 1 || BUFFER with the count | GAP n - 1 | events ...
 *              first dropped call               recorded again
 *
 * The first GAP stands in the full buffer, in MTR_GAP_ROOM behind its events,
 * so that a kill leaves a trace which knows that something is missing.
 *
 * Threads: all of it is done by the thread whose gap it is. Its limit is NULL
 * meanwhile, so each call comes by.
 */
#include "tracer/recorder.h"

#include "base/testpoint.h"
#include "tracer/trace_clock.h"

#include <string.h>

/* Below the bound the saver makes more buffers within a millisecond or so, if
   it runs. */
#define PATIENCE_NS 100000000u

#define GAP_BYTES 24u
/* Two gaps, the times and the end of a thread. */
TCM_STATIC_ASSERT(2 * (MTF_EXTENDED_HEAD_MAX + GAP_BYTES) + 5 * 8 +
                          MTF_EXTENDED_HEAD_MAX + 15 <=
                      MTR_GAP_ROOM,
                  "a gap and the end of its thread fit behind a full buffer");

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
    if (!mtr_config.drops || mtr_thread_is_over(rec, t->cold))
        return false;
    if (!mtr_drops(t)) {
        t->flags |= MTR_THREAD_DROPS;
        t->cold->gap_ns = mtr_clock_ns();
        TCM_TESTPOINT("gap_begins");
    }
    return true;
}

bool mtr_gap_lasts(struct mtr_recorder *rec, const struct mtr_thread *t) {
    return tcm_load_acquire(&rec->pool.seq) == t->cold->pool_seq &&
           !mtr_thread_is_over(rec, t->cold);
}

/* What was dropped and stands in no GAP yet, between the gap's begin and TO. */
static void put_gap(struct mtr_thread *t, uint64_t to) {
    struct mtr_thread_cold *cold = t->cold;
    uint8_t *p = t->pos + MTF_EXTENDED_HEAD_MAX;
    if (cold->dropped == cold->gap_dropped)
        return;
    mtf_store_le64(p, cold->dropped - cold->gap_dropped);
    mtf_store_le64(p + 8, cold->gap_ns);
    mtf_store_le64(p + 16, to);
    cold->gap_dropped = cold->dropped;
    mtr_publish_extended(t, MTF_RAW_GAP, GAP_BYTES);
}

void mtr_count_dropped(struct mtr_thread *t) {
    struct mtr_thread_cold *cold = t->cold;
    mtr_count(&cold->dropped, 1);
    /* Once in a gap, which ends with the buffer. */
    if (cold->buffer != NULL && !cold->gap_is_told) {
        cold->gap_is_told = true;
        put_gap(t, cold->gap_ns);
    }
}

void mtr_gap_end(struct mtr_thread *t, uint64_t now) {
    t->flags &= (uint8_t)~MTR_THREAD_DROPS;
    t->cold->gap_is_told = false;
    put_gap(t, now);
    TCM_TESTPOINT("gap_ends");
}
