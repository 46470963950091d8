/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads of a recording, their records, and their end.
 *
 * Records are cut from slabs whose addresses lie in ordinary memory: the child
 * of a fork finds them zeroed and cuts them anew, so chains of forks use no
 * more memory than one process.
 */
#include "tracer/recorder.h"

#include "base/os_mem.h"
#include "base/testpoint.h"
#include "tracer/saver.h"
#include "tracer/trace_clock.h"

#include <errno.h>
#include <string.h>

TCM_STATIC_ASSERT(sizeof(struct mtr_thread_record) % TCM_CACHE_LINE == 0,
                  "records of two threads share no cache line");

/* Slab i has SLAB_BYTES << i bytes; all together hold 2^24 threads. */
#define SLAB_BYTES ((size_t)64 << 10)
#define SLABS      16u

static struct mtr_thread_record *slabs[SLABS];
/* Kernels without wipe-on-fork: the fork handlers do it. */
static bool wipe_by_hand;

static TCM_TLS uint8_t late_is_held;

void mtr_registry_init(struct mtr_registry *r) {
    memset(r, 0, sizeof(*r));
    tcm_lock_init(&r->lock, TCM_RANK_TRACE_REGISTRY);
    tcm_dlist_init(&r->live);
}

/* Session and first token under the lock, so that a new record has both of the
   same recording. Their order is explained at set_limit, in thread_buf.c. */
void mtr_registry_begin(struct mtr_recorder *rec, uint32_t session,
                        bool adopt) {
    struct mtr_registry *r = &rec->registry;
    tcm_lock(&r->lock);
    tcm_store_seq_cst(&rec->session, session);
    tcm_fence_seq_cst();
    TCM_TESTPOINT("session_counted");
    rec->first_token = adopt ? mtr_early_first_token()
                             : tcm_load_relaxed(&mtr_config.token_end);
    memset(&r->ended, 0, sizeof(r->ended));
    r->first_id = r->next_id;
    tcm_unlock(&r->lock);
}

static struct mtr_thread_record *cut_record(struct mtr_registry *r) {
    if (r->slab < SLABS &&
        (r->slab_used + 1) * sizeof(struct mtr_thread_record) >
            SLAB_BYTES << r->slab) {
        r->slab++;
        r->slab_used = 0;
    }
    if (r->slab == SLABS)
        return NULL;
    size_t bytes = SLAB_BYTES << r->slab;
    if (slabs[r->slab] == NULL) {
        slabs[r->slab] = tcm_os_map(bytes);
        if (slabs[r->slab] == NULL)
            return NULL;
        if (!tcm_os_wipe_on_fork(slabs[r->slab], bytes))
            wipe_by_hand = true;
    }
    return &slabs[r->slab][r->slab_used++];
}

struct mtr_thread *mtr_registry_add(struct mtr_recorder *rec, uint32_t id) {
    struct mtr_registry *r = &rec->registry;
    tcm_lock(&r->lock);
    struct mtr_thread_record *record = r->free;
    if (record != NULL)
        r->free = (struct mtr_thread_record *)(void *)record->hot.pos;
    else
        record = cut_record(r);
    if (record != NULL) {
        memset(record, 0, sizeof(*record));
        record->cold.id = id != 0 ? id : ++r->next_id;
        record->hot.first_token = rec->first_token;
        record->hot.cold = &record->cold;
        record->cold.session = tcm_load_relaxed(&rec->session);
        tcm_dlist_push_back(&r->live, &record->cold.link);
    }
    tcm_unlock(&r->lock);
    TCM_TESTPOINT("thread_registered");
    return record == NULL ? NULL : &record->hot;
}

static void add_counts(struct mtr_totals *to,
                       const struct mtr_thread_cold *cold) {
    to->untraced += tcm_load_relaxed(&cold->untraced);
    to->dropped += tcm_load_relaxed(&cold->dropped);
    to->waits += tcm_load_relaxed(&cold->waits);
    to->wait_ns += tcm_load_relaxed(&cold->wait_ns);
    to->slow_times += tcm_load_relaxed(&cold->slow_times);
}

void mtr_registry_remove(struct mtr_recorder *rec, struct mtr_thread *t) {
    struct mtr_registry *r = &rec->registry;
    struct mtr_thread_record *record =
        TCM_CONTAINER_OF(t, struct mtr_thread_record, hot);
    struct mtr_buffer *b = record->cold.buffer;
    if (b != NULL) {
        b->used = (uint32_t)(t->pos - b->base);
        mtr_pool_hand_over(&rec->pool, record->cold.session, b,
                           &record->cold.buffer);
    }
    tcm_lock(&r->lock);
    if (record->cold.session == tcm_load_relaxed(&rec->session))
        add_counts(&r->ended, &record->cold);
    tcm_dlist_remove(&record->cold.link);
    memset(record, 0, sizeof(*record));
    record->hot.pos = (uint8_t *)r->free;
    r->free = record;
    tcm_unlock(&r->lock);
}

void mtr_registry_stop_all(struct mtr_recorder *rec) {
    struct mtr_registry *r = &rec->registry;
    tcm_lock(&r->lock);
    for (struct tcm_dlist *l = r->live.next; l != &r->live; l = l->next) {
        struct mtr_thread_record *record =
            TCM_CONTAINER_OF(l, struct mtr_thread_record, cold.link);
        tcm_store_relaxed(&record->hot.limit, NULL);
    }
    tcm_unlock(&r->lock);
    TCM_TESTPOINT("limits_are_null");
}

void mtr_registry_totals(struct mtr_recorder *rec, struct mtr_totals *out,
                         uint32_t *threads) {
    struct mtr_registry *r = &rec->registry;
    tcm_lock(&r->lock);
    *out = r->ended;
    *threads = r->next_id - r->first_id;
    for (struct tcm_dlist *l = r->live.next; l != &r->live; l = l->next) {
        const struct mtr_thread_cold *cold =
            TCM_CONTAINER_OF(l, struct mtr_thread_cold, link);
        if (cold->session == tcm_load_relaxed(&rec->session))
            add_counts(out, cold);
    }
    tcm_unlock(&r->lock);
}

void mtr_registry_wipe(void) {
    if (!wipe_by_hand)
        return;
    for (unsigned i = 0; i < SLABS && slabs[i] != NULL; i++)
        memset(slabs[i], 0, SLAB_BYTES << i);
}

/* --- The end of a thread ------------------------------------------------- */

uint32_t mtr_thread_end(struct mtr_thread **slot) {
    struct mtr_recorder *rec = mtr_recorder;
    struct mtr_thread *t = *slot;
    if (rec == NULL || t->cold == NULL || mtr_early_is(t)) {
        *slot = &mtr_no_thread;
        return 0;
    }
    /* Another state than before if the next recording has begun. */
    t = mtr_enter(slot);
    if (t == NULL)
        return 0;
    uint32_t id = t->cold->id;
    int saved = errno;
    mtr_inside = 1;
    /* The thread's cache is given up after this. */
    tcm_fence_seq_cst();
    uint64_t now = mtr_clock_ns();
    /* One that never got a buffer has its calls in the footer's count. */
    if (t->cold->buffer != NULL) {
        if (mtr_drops(t))
            mtr_gap_end(t, now);
        mtr_put_time(t, now);
        mtr_put_thread_end(t);
        tcm_store_relaxed(&t->limit, NULL);
    }
    mtr_registry_remove(rec, t);
    *slot = &mtr_no_thread;
    mtr_inside = 0;
    errno = saved;
    mtr_leave();
    return id;
}

/* --- After the end ------------------------------------------------------- */

struct mtr_thread *mtr_late_enter(uint32_t *id) {
    struct mtr_recorder *rec = mtr_recorder;
    if (!mtr_is_recording() || rec == NULL || mtr_inside != 0)
        return NULL;
    tcm_lock(&rec->late_lock);
    if (rec->late == NULL)
        rec->late = &mtr_no_thread;
    struct mtr_thread *t = mtr_enter_slow(&rec->late, MTF_THREAD_LATE);
    if (t == NULL) {
        tcm_unlock(&rec->late_lock);
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
    late_is_held = 1;
    return t;
}

void mtr_late_leave(void) {
    if (late_is_held == 0)
        return;
    late_is_held = 0;
    tcm_unlock(&mtr_recorder->late_lock);
    mtr_leave();
}
