/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records are cut from slabs whose addresses lie in ordinary memory: the child
 * of a fork finds the slabs zeroed and cuts them again, so chains of forks use
 * little more memory than one process.
 */
#include "tracer/stream/thread_registry.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "sites/call_sites.h"
#include "tracer/recorder.h"
#include "tracer/trace_process.h"

#include <string.h>

TCM_STATIC_ASSERT(sizeof(struct mtr_thread_record) % TCM_CACHE_LINE == 0,
                  "records of two threads share no cache line");

/* Slab i has SLAB_BYTES << i bytes; all slabs together have 4 GiB, room for
   about 11 million threads. */
#define SLAB_BYTES ((size_t)64 << 10)
#define SLABS      16u

/*
 * A slab of records. A record's owner, the slot that points to it, is stored in
 * memory that survives a fork. In the child all records are free, but its only
 * thread still has its slot, and enters the recorder only when the record's
 * limit says so. Until then the record must go to no other thread, even without
 * a fork handler. Records of owners that do not exist in the child stay used
 * until a handler forgets them.
 */
struct slab {
    struct mtr_thread_record *records; /* zeroed in children */
    uint8_t *sites;                    /* zeroed in children; NULL: no sites */
    struct mtr_thread ***owners;       /* kept by children; NULL: nobody */
};
static struct slab slabs[SLABS];
/* The kernel cannot zero pages in children: the fork handler does. */
static bool wipe_by_hand;

void mtr_registry_init(struct mtr_registry *r) {
    memset(r, 0, sizeof(*r));
    tcm_lock_init(&r->lock, TCM_RANK_TRACE_REGISTRY);
    tcm_dlist_init(&r->live);
}

/* Session and first token change under the lock, so that a new record has both
   of the same recording. Their order is explained at set_limit in
   thread_life.c. */
void mtr_registry_begin(struct mtr_recorder *rec, uint32_t session,
                        const uint64_t *early_token) {
    struct mtr_registry *r = &rec->registry;
    tcm_lock(&r->lock);
    TCM_ASSERT(session == rec->session + 1);
    TCM_ASSERT(r->next_id >= r->first_id);
    tcm_store_seq_cst(&rec->session, session);
    tcm_fence_seq_cst();
    TCM_TESTPOINT("session_counted");
    mts_begin(mtr_config.self.pid, mtr_config.self.random);
    rec->first_token = early_token != NULL
                           ? *early_token
                           : tcm_load_relaxed(&mtr_config.token_end);
    memset(&r->ended, 0, sizeof(r->ended));
    tcm_store_relaxed(&r->missed, (uint64_t)0);
    r->first_id = r->next_id;
    r->streams = 0;
    r->has_saver = false;
    tcm_store_relaxed(&r->is_single, false);
    tcm_unlock(&r->lock);
}

void mtr_registry_has_saver(struct mtr_registry *r) {
    tcm_lock(&r->lock);
    r->has_saver = true;
    tcm_store_relaxed(&r->is_single, r->streams == 1);
    tcm_unlock(&r->lock);
}

static uint32_t slab_records(uint32_t i) {
    return (uint32_t)((SLAB_BYTES << i) / sizeof(struct mtr_thread_record));
}

static bool make_slab(uint32_t i) {
    size_t bytes = SLAB_BYTES << i;
    size_t owner_bytes =
        tcm_align_up(slab_records(i) * sizeof(void *), tcm_os_page_size());
    size_t site_bytes =
        tcm_align_up(slab_records(i) * mts_thread_bytes(), tcm_os_page_size());
    struct slab s = {.records = tcm_os_map(bytes),
                     .owners = tcm_os_map(owner_bytes)};
    if (s.records == NULL || s.owners == NULL) {
        tcm_os_unmap(s.records, s.records == NULL ? 0 : bytes);
        tcm_os_unmap(s.owners, s.owners == NULL ? 0 : owner_bytes);
        return false;
    }
    /* Without this memory allocations have no sites. */
    if (mts_settings.mode != MTS_NO_SITES)
        s.sites = tcm_os_map(site_bytes);
    if (!tcm_os_wipe_on_fork(s.records, bytes) ||
        (s.sites != NULL && !tcm_os_wipe_on_fork(s.sites, site_bytes)))
        wipe_by_hand = true;
    slabs[i] = s;
    return true;
}

/* The place of T's owner. */
static struct mtr_thread ***owner_of(const struct mtr_thread *t) {
    const struct mtr_thread_record *record =
        TCM_CONTAINER_OF(t, const struct mtr_thread_record, hot);
    for (uint32_t i = 0; i < SLABS && slabs[i].records != NULL; i++) {
        uintptr_t offset = (uintptr_t)record - (uintptr_t)slabs[i].records;
        if (offset < SLAB_BYTES << i)
            return &slabs[i].owners[offset / sizeof(*record)];
    }
    TCM_CHECK(false);
    return NULL;
}

/* Like those of the pool, for threads of the program. */
static uint64_t lock_blocked(struct mtr_registry *r) {
    uint64_t mask = mtr_signals_block_in_call();
    tcm_lock(&r->lock);
    TCM_TESTPOINT("registry_locked");
    return mask;
}

static void unlock_blocked(struct mtr_registry *r, uint64_t mask) {
    tcm_unlock(&r->lock);
    mtr_signals_restore(mask);
}

/* The next record that has no owner but SLOT; NULL: no memory. */
static struct mtr_thread_record *cut_record(struct mtr_registry *r,
                                            struct mtr_thread **slot) {
    tcm_lock_assert_held(&r->lock);
    for (; r->slab < SLABS; r->slab++, r->slab_used = 0) {
        if (slabs[r->slab].records == NULL && !make_slab(r->slab))
            return NULL;
        const struct slab *s = &slabs[r->slab];
        while (r->slab_used < slab_records(r->slab)) {
            struct mtr_thread **owner = s->owners[r->slab_used++];
            if (owner == NULL || owner == slot)
                return &s->records[r->slab_used - 1];
        }
    }
    return NULL;
}

/* The state of call sites of record R; NULL: none. */
static struct mts_thread *sites_of(const struct mtr_thread_record *r) {
    for (uint32_t i = 0; i < SLABS && slabs[i].records != NULL; i++) {
        uintptr_t offset = (uintptr_t)r - (uintptr_t)slabs[i].records;
        if (offset < SLAB_BYTES << i && slabs[i].sites != NULL)
            return (struct mts_thread *)(void *)(slabs[i].sites +
                                                 offset / sizeof(*r) *
                                                     mts_thread_bytes());
    }
    return NULL;
}

void mtr_registry_set_owner(struct mtr_thread *t, struct mtr_thread **slot) {
    *owner_of(t) = slot;
}

bool mtr_registry_is_owner(const struct mtr_thread *t,
                           struct mtr_thread **slot) {
    return *owner_of(t) == slot;
}

struct mtr_thread *mtr_registry_add(struct mtr_recorder *rec, uint32_t id,
                                    struct mtr_thread **slot) {
    struct mtr_registry *r = &rec->registry;
    uint64_t mask = lock_blocked(r);
    struct mtr_thread_record *record = r->free;
    if (record != NULL)
        r->free = (struct mtr_thread_record *)(void *)record->hot.pos;
    else
        record = cut_record(r, slot);
    if (record != NULL) {
        TCM_ASSERT(*owner_of(&record->hot) == NULL ||
                   *owner_of(&record->hot) == slot);
        *owner_of(&record->hot) = slot;
        memset(record, 0, sizeof(*record));
        record->cold.id = id != 0 ? id : ++r->next_id;
        TCM_ASSERT(record->cold.id != MTF_THREAD_NONE &&
                   r->next_id < MTF_THREAD_LATE);
        record->hot.first_token = rec->first_token;
        record->cold.first_token = rec->first_token;
        record->hot.cold = &record->cold;
        record->cold.session = tcm_load_relaxed(&rec->session);
        record->cold.sites = sites_of(record);
        if (record->cold.sites != NULL) {
            mts_thread_begin(record->cold.sites, record->cold.id);
            record->hot.alloc_call = MTR_CALL_SITED;
            if (mts_settings.free_sites)
                record->hot.flags |= MTR_THREAD_FREE_SITES;
        }
        if (mtr_config.check_frees)
            record->hot.flags |= MTR_THREAD_CHECKS;
        /* No token reaches this: the fast paths of free and realloc are off. */
        if (record->hot.flags != 0)
            record->hot.first_token = UINT64_MAX;
        tcm_dlist_push_back(&r->live, &record->cold.link);
        r->streams++;
        tcm_store_relaxed(&r->is_single, r->has_saver && r->streams == 1);
    }
    unlock_blocked(r, mask);
    /* Before the thread reads its first time: mtr_registry_is_single. */
    tcm_fence_seq_cst();
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

void mtr_registry_count_dropped(struct mtr_recorder *rec, uint64_t dropped) {
    struct mtr_registry *r = &rec->registry;
    tcm_lock(&r->lock);
    r->ended.dropped += dropped;
    tcm_unlock(&r->lock);
}

void mtr_registry_remove(struct mtr_recorder *rec, struct mtr_thread *t) {
    struct mtr_registry *r = &rec->registry;
    struct mtr_thread_record *record =
        TCM_CONTAINER_OF(t, struct mtr_thread_record, hot);
    struct mtr_buffer *b = record->cold.buffer;
    TCM_ASSERT(t->cold == &record->cold);
    if (b != NULL) {
        TCM_ASSERT(b->thread == record->cold.id);
        TCM_ASSERT(!mtr_drops(t));
        b->used = (uint32_t)(t->pos - b->base);
        mtr_buffer_count(t);
        mtr_pool_hand_over(&rec->pool, record->cold.session, b,
                           &record->cold.buffer);
    }
    uint64_t mask = lock_blocked(r);
    if (record->cold.session == tcm_load_relaxed(&rec->session))
        add_counts(&r->ended, &record->cold);
    tcm_dlist_remove(&record->cold.link);
    if (record->cold.sites != NULL)
        mts_thread_leave(record->cold.sites);
    *owner_of(t) = NULL;
    memset(record, 0, sizeof(*record));
    record->hot.pos = (uint8_t *)r->free;
    r->free = record;
    unlock_blocked(r, mask);
}

void mtr_registry_clear_limits(struct mtr_recorder *rec) {
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
    out->dropped += tcm_load_relaxed(&r->missed);
    TCM_ASSERT(r->next_id >= r->first_id);
    *threads = r->next_id - r->first_id;
    for (struct tcm_dlist *l = r->live.next; l != &r->live; l = l->next) {
        const struct mtr_thread_cold *cold =
            TCM_CONTAINER_OF(l, struct mtr_thread_cold, link);
        if (cold->session == tcm_load_relaxed(&rec->session))
            add_counts(out, cold);
    }
    tcm_unlock(&r->lock);
}

void mtr_registry_uncount_last(struct mtr_recorder *rec) {
    struct mtr_registry *r = &rec->registry;
    tcm_lock(&r->lock);
    r->first_id++;
    TCM_ASSERT(r->first_id <= r->next_id);
    tcm_unlock(&r->lock);
}

void mtr_registry_wipe(struct mtr_thread **slot) {
    for (uint32_t i = 0; i < SLABS && slabs[i].records != NULL; i++) {
        if (wipe_by_hand)
            memset(slabs[i].records, 0, SLAB_BYTES << i);
        if (wipe_by_hand && slabs[i].sites != NULL)
            memset(slabs[i].sites, 0, slab_records(i) * mts_thread_bytes());
        for (uint32_t k = 0; k < slab_records(i); k++) {
            if (slabs[i].owners[k] != NULL && slabs[i].owners[k] != slot)
                slabs[i].owners[k] = NULL;
        }
    }
}
