/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/thread_early.h"

#include "base/os_thread.h"
#include "tracer/recorder.h"
#include "tracer/sites.h"
#include "tracer/thread_gap.h"
#include "tracer/thread_life.h"
#include "tracer/trace_clock.h"

#include <string.h>

#define HEAD_BYTES sizeof(struct mtf_spool_buffer)

static struct mtr_thread_record early;
static uint8_t early_bytes[MTR_SMALL_BYTES] TCM_ALIGNED(TCM_CACHE_LINE);
static uint32_t early_owner; /* kernel thread id, 0: nobody yet */
static uint64_t early_first_token;
static uint64_t early_time_ns; /* before the first of them */
static struct mtr_thread *early_adopted;

bool mtr_early_is(const struct mtr_thread *t) {
    return t == &early.hot;
}

static bool is_owner(void) {
    return tcm_load_relaxed(&early_owner) == tcm_os_tid();
}

static void set_early_limit(struct mtr_thread *t) {
    uint8_t *end = t->cold->room_end + MTR_ROOM;
    TCM_ASSERT(mtr_early_is(t) && is_owner() && t->pos <= end);
    uint64_t left = t->cold->token_end - t->next_token;
    t->limit = (uint64_t)(end - t->pos) <= left ? end : t->pos + left;
}

static void begin(struct mtr_thread *t) {
    t->cold = &early.cold;
    t->pos = early_bytes + HEAD_BYTES;
    early.cold.room_end =
        early_bytes + MTR_SMALL_BYTES - MTR_BUFFER_SLACK - MTR_ROOM;
    early_time_ns = mtr_clock_ns();
    mtr_take_tokens(t);
    early_first_token = t->next_token;
    mtr_put_buffer_state(t, mtr_clock_ns());
    mtr_put_thread_start(t);
}

static bool is_full(const struct mtr_thread *t) {
    return t->pos > t->cold->room_end;
}

bool mtr_early_is_full(void) {
    return early.hot.cold != NULL && is_owner() && is_full(&early.hot);
}

struct mtr_thread *mtr_early_enter(struct mtr_thread **slot) {
    struct mtr_thread *t = &early.hot;
    uint32_t nobody = 0;
    if (tcm_cas_acquire(&early_owner, &nobody, tcm_os_tid()))
        begin(t);
    else if (!is_owner())
        t = NULL;
    /* Full: what comes until set-up is not recorded. */
    if (t == NULL || is_full(t)) {
        early.hot.limit = NULL;
        *slot = &mtr_no_thread;
        return NULL;
    }
    if (mtr_tokens_are_low(t))
        mtr_put_tokens(t);
    set_early_limit(t);
    /* Set-up changes the control and then takes the limit away, in the order of
       seq_cst operations: its store replaces ours, or we see its change. */
    tcm_fence_seq_cst();
    if (!mtr_is_early())
        tcm_store_relaxed(&t->limit, NULL);
    *slot = t;
    return t;
}

void mtr_early_end(void) {
    tcm_fence_seq_cst();
    tcm_store_relaxed(&early.hot.limit, NULL);
}

bool mtr_early_has_events(void) {
    return early.hot.cold != NULL && early_adopted == NULL && is_owner();
}

uint64_t mtr_early_first_token(void) {
    return early_first_token;
}

uint64_t mtr_early_time_ns(void) {
    return early_time_ns;
}

void mtr_early_adopt(struct mtr_recorder *rec) {
    struct mtr_thread *t = mtr_registry_add(rec, 0, NULL);
    early.hot.limit = NULL;
    if (t == NULL)
        return;
    struct mtr_thread_cold *cold = t->cold;
    bool low;
    struct mtr_buffer *b =
        mtr_pool_exchange(&rec->pool, cold->session, NULL, MTR_SMALL, &t->pos,
                          &cold->buffer, &low);
    if (b == NULL) {
        mtr_registry_remove(rec, t);
        return;
    }
    const struct mtr_thread *from = &early.hot;
    size_t n = (size_t)(from->pos - early_bytes) - HEAD_BYTES;
    TCM_ASSERT(b->size >= MTR_SMALL_BYTES && n < b->size - HEAD_BYTES);
    t->next_token = from->next_token;
    t->last_8th = from->last_8th;
    t->last_freed = from->last_freed;
    mtr_set_alloc_call(t, from->alloc_call);
    t->free_call = from->free_call;
    cold->token_end = early.cold.token_end;
    cold->token_count = early.cold.token_count;
    cold->time_ns = early.cold.time_ns;
    cold->untraced = early.cold.untraced;
    cold->slow_times = early.cold.slow_times;
    cold->room_end = mtr_room_end(b);
    /* The first event's time is the early buffer's, so is the interval's. */
    mtr_buffer_begin(rec, t, b, 0, rec->start_ns);
    memcpy(t->pos, early_bytes + HEAD_BYTES, n);
    mtr_publish(t, t->pos, (unsigned)n);
    early_adopted = t;
}

struct mtr_thread *mtr_early_claim_adopted(struct mtr_thread **slot) {
    struct mtr_thread *t = early_adopted;
    if (t == NULL || !is_owner())
        return NULL;
    early_adopted = NULL;
    early_owner = UINT32_MAX;
    mtr_registry_own(t, slot);
    return t;
}
