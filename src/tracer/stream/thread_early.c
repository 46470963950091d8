/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/stream/thread_early.h"

#include "base/linux/os_process.h"
#include "base/linux/os_thread.h"
#include "tracer/recorder.h"
#include "tracer/stream/thread_life.h"
#include "tracer/stream/thread_sites.h"
#include "tracer/trace_clock.h"
#include "tracer/trace_process.h"

#include <string.h>

#define HEAD_BYTES sizeof(struct mtf_spool_buffer)

/* A variable of glibc since 2.32; the first pthread_create clears it before it
   allocates for the thread. */
extern char __libc_single_threaded __attribute__((weak));

static struct mtr_thread_record early;
static uint8_t early_bytes[MTR_SMALL_BYTES] TCM_ALIGNED(TCM_CACHE_LINE);
#define CLAIMED UINTPTR_MAX   /* the events are adopted */
static uintptr_t early_owner; /* its thread_key, 0, or CLAIMED */
static uint32_t early_pid;    /* process of the owner */
static uint64_t early_dropped;
static bool early_is_unwanted;
static bool early_is_forked; /* this is the child of a fork */
static uint64_t early_first_token;
static uint64_t early_time_ns; /* before the first event */

bool mtr_early_is(const struct mtr_thread *t) {
    return t == &early.hot;
}

/* Tells threads apart without a system call, which a filter may forbid. The
   child of a vfork has the key of the thread that made it. */
static uintptr_t thread_key(void) {
    return (uintptr_t)&mtr_inside;
}

static bool is_owner(void) {
    return tcm_load_relaxed(&early_owner) == thread_key();
}

/* True if the buffer was begun by this process, or by a vfork child in its
   memory; false in such a child, and in a child that was forked without
   handlers. */
static bool is_of_this_process(void) {
    uint32_t pid = tcm_os_pid();
    if (early_pid != pid && tcm_os_is_forked())
        return false;
    early_pid = pid;
    return true;
}

static void begin(struct mtr_thread *t) {
    t->cold = &early.cold;
    t->pos = early_bytes + HEAD_BYTES;
    early.cold.room_end =
        early_bytes + MTR_SMALL_BYTES - MTR_BUFFER_SLACK - MTR_ROOM;
    early_pid = tcm_os_pid();
    early_time_ns = mtr_clock_ns();
    mtr_take_tokens(t);
    early_first_token = t->next_token;
    t->first_token = early.cold.first_token = t->next_token;
    mtr_put_buffer_state(t, mtr_clock_ns());
    mtr_put_thread_start(t);
}

static size_t used(const struct mtr_thread *t) {
    return (size_t)(t->pos - early_bytes);
}

/* A constructor may fork before any allocation, so that no handler runs in the
   child; or vfork, whose child must not make set-up. */
static bool is_over_at_first(bool at_once) {
    bool is_child = tcm_os_is_forked();
    if (is_child && tcm_os_shares_memory())
        return false;
    return is_child || at_once;
}

/* Calls that allocate may fill a quarter of the buffer: the rest is for frees
   of what they allocated, which come without any of them. */
bool mtr_early_must_end(bool at_once) {
    bool makes_threads = TCM_NEWER_LIBC && &__libc_single_threaded != NULL &&
                         !__libc_single_threaded;
    if (early_is_forked)
        return true;
    if (tcm_load_relaxed(&early_owner) == 0)
        return is_over_at_first(at_once || makes_threads);
    return is_owner() &&
           (at_once || makes_threads ||
            used(&early.hot) > MTR_SMALL_BYTES / 4) &&
           is_of_this_process();
}

void mtr_early_disable(void) {
    early_is_unwanted = true;
}

void mtr_early_fork_child(void) {
    early_is_forked = true;
    early_dropped = 0;
    early_owner = 0;
}

uint64_t mtr_early_take_dropped(void) {
    uintptr_t owner = tcm_load_relaxed(&early_owner);
    bool are_lost = owner != 0 && owner != CLAIMED;
    return tcm_swap_acq_rel(&early_dropped, (uint64_t)0) + are_lost;
}

/* The limit stays NULL: each call checks whether set-up is due. */
struct mtr_thread *mtr_early_enter(struct mtr_thread **slot) {
    struct mtr_thread *t = &early.hot;
    uintptr_t nobody = 0;
    bool may_begin = !early_is_forked && !early_is_unwanted;
    if (may_begin && tcm_cas_acquire(&early_owner, &nobody, thread_key()))
        begin(t);
    if (early_is_unwanted || !is_owner() || t->pos > t->cold->room_end) {
        tcm_add_relaxed(&early_dropped, (uint64_t)1);
        *slot = &mtr_no_thread;
        return NULL;
    }
    if (mtr_tokens_are_low(t))
        mtr_put_tokens(t);
    *slot = t;
    return t;
}

void mtr_early_count_missed(void) {
    if (!early_is_unwanted)
        tcm_add_relaxed(&early_dropped, (uint64_t)1);
}

bool mtr_early_has_events(void) {
    return early.hot.cold != NULL && is_owner() && is_of_this_process();
}

uint64_t mtr_early_first_token(void) {
    return early_first_token;
}

uint64_t mtr_early_time_ns(void) {
    return early_time_ns;
}

void mtr_early_adopt(struct mtr_recorder *rec) {
    struct mtr_thread *t = mtr_registry_add(rec, 0, NULL);
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
    t->last_size = from->last_size;
    t->last_freed = from->last_freed;
    mtr_set_alloc_call(t, from->alloc_call);
    t->free_call = from->free_call;
    cold->token_end = early.cold.token_end;
    cold->token_count = early.cold.token_count;
    cold->time_ns = early.cold.time_ns;
    cold->untraced = early.cold.untraced;
    cold->slow_times = early.cold.slow_times;
    cold->tid = early.cold.tid;
    cold->room_end = mtr_room_end(b);
    /* The time of the first event is that of the early buffer, as is the
       interval's. */
    mtr_buffer_begin(rec, t, b, 0, rec->start_ns);
    memcpy(t->pos, early_bytes + HEAD_BYTES, n);
    mtr_publish(t, t->pos, (unsigned)n);
    early_owner = CLAIMED;
    rec->adopted = t;
    tcm_store_relaxed(&rec->adopted_by, thread_key());
}

/* Another thread may read adopted_by while the adopter writes it; it finds a
   key that is not its own, or 0. */
struct mtr_thread *mtr_early_claim_adopted(struct mtr_recorder *rec,
                                           struct mtr_thread **slot) {
    if (tcm_load_relaxed(&rec->adopted_by) != thread_key())
        return NULL;
    struct mtr_thread *t = rec->adopted;
    tcm_store_relaxed(&rec->adopted_by, (uintptr_t)0);
    mtr_registry_set_owner(t, slot);
    return t;
}
