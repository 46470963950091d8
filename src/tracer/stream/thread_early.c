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

/* Of glibc, since 2.32; cleared by the first pthread_create before it allocates
   for the thread. */
extern char __libc_single_threaded __attribute__((weak));

static struct mtr_thread_record early;
static uint8_t early_bytes[MTR_SMALL_BYTES] TCM_ALIGNED(TCM_CACHE_LINE);
#define CLAIMED UINTPTR_MAX   /* events are where they belong */
static uintptr_t early_owner; /* self() of it, 0: nobody yet, or CLAIMED */
static uint32_t early_pid;    /* its process */
static uint64_t early_dropped;
static bool early_is_unwanted;
static bool early_is_forked; /* the child of a fork, without early events */
static uint64_t early_first_token;
static uint64_t early_time_ns; /* before the first of them */

bool mtr_early_is(const struct mtr_thread *t) {
    return t == &early.hot;
}

/* Tells threads apart without a system call, which programs may have forbidden
   themselves. The child of a vfork is the thread that made it. */
static uintptr_t self(void) {
    return (uintptr_t)&mtr_inside;
}

static bool is_owner(void) {
    return tcm_load_relaxed(&early_owner) == self();
}

/* Whether the buffer was begun by this process, or by a child in its memory;
   false in such a child, and in one that was forked without handlers. */
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

/* A constructor may fork before any allocation, so that no handler tells the
   child; or vfork, whose child is not to set up anything. */
static bool is_over_at_first(bool at_once) {
    bool is_child = tcm_os_is_forked();
    if (is_child && tcm_os_shares_memory())
        return false;
    return is_child || at_once;
}

/* Events of calls that allocate have a quarter of the buffer: what may come
   without any, the frees of what they made, then has room. */
bool mtr_early_is_over(bool at_once) {
    bool makes_threads =
        &__libc_single_threaded != NULL && !__libc_single_threaded;
    if (early_is_forked)
        return true;
    if (tcm_load_relaxed(&early_owner) == 0)
        return is_over_at_first(at_once || makes_threads);
    return is_owner() &&
           (at_once || makes_threads ||
            used(&early.hot) > MTR_SMALL_BYTES / 4) &&
           is_of_this_process();
}

void mtr_early_give_up(void) {
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

/* The limit stays NULL: each call asks whether set-up is due. */
struct mtr_thread *mtr_early_enter(struct mtr_thread **slot) {
    struct mtr_thread *t = &early.hot;
    uintptr_t nobody = 0;
    bool may_begin = !early_is_forked && !early_is_unwanted;
    if (may_begin && tcm_cas_acquire(&early_owner, &nobody, self()))
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
    t->last_8th = from->last_8th;
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
    /* The first event's time is the early buffer's, so is the interval's. */
    mtr_buffer_begin(rec, t, b, 0, rec->start_ns);
    memcpy(t->pos, early_bytes + HEAD_BYTES, n);
    mtr_publish(t, t->pos, (unsigned)n);
    early_owner = CLAIMED;
    rec->adopted = t;
    tcm_store_relaxed(&rec->adopted_by, self());
}

/* Another thread may look while the adopter writes; it finds a thread that is
   not itself, or nobody. */
struct mtr_thread *mtr_early_claim_adopted(struct mtr_recorder *rec,
                                           struct mtr_thread **slot) {
    if (tcm_load_relaxed(&rec->adopted_by) != self())
        return NULL;
    struct mtr_thread *t = rec->adopted;
    tcm_store_relaxed(&rec->adopted_by, (uintptr_t)0);
    mtr_registry_own(t, slot);
    return t;
}
