/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One loop: keep buffers ready, make the round or poll that is due, sleep.
 *
 * Why look first and take the full queue afterwards: an event published before
 * the barrier's time T is in a buffer that is its thread's own, or in the
 * queue, when the round begins. If its thread hands that buffer over before we
 * look at the thread, it is in the queue before we take that. So each such
 * event is seen, whatever the threads do.
 */
#include "tracer/saver.h"

#include "base/bits.h"
#include "base/clock.h"
#include "base/os_mem.h"
#include "base/os_thread.h"
#include "base/testpoint.h"
#include "tracer/saver_account.h"
#include "tracer/saver_phase.h"
#include "tracer/trace_clock.h"
#include "tracer/trace_name.h"
#include "tracer/trace_process.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#define MS          1000000u
#define ROUND_NS    (10u * MS)
#define POLL_NS     (1u * MS)
#define IDLE_NS_MAX (1000u * MS)
#define SAMPLE_NS   (100u * MS)
#define HEAD_BYTES  ((uint32_t)sizeof(struct mtf_spool_buffer))

/* For a saver that is being made, in a call that frees: it may be that it
   cannot be made before the call returns, which then is dropped. */
#define FREE_WAIT_NS 1000000000u

static struct mtr_saver the_saver;

/* STARTED tells those that wait how far the saver is. */
static void publish_started(struct mtr_recorder *rec, uint32_t started) {
    TCM_ASSERT(started <= 2 && tcm_load_relaxed(&rec->link.started) != 0);
    tcm_store_release(&rec->link.started, started);
    tcm_futex_wake(&rec->link.started, INT32_MAX);
}

/* --- Called by others ---------------------------------------------------- */

void mtr_saver_wake(struct mtr_recorder *rec) {
    /* The count changes before the call: a saver that was about to sleep on
       the old value does not. */
    tcm_add_acq_rel(&rec->link.wake, 1u);
    tcm_futex_wake(&rec->link.wake, 1);
}

static bool is_over(struct mtr_recorder *rec) {
    return !mtr_state_is_on(tcm_load_acquire(&rec->state));
}

bool mtr_saver_round(struct mtr_recorder *rec) {
    uint32_t mine = tcm_add_acq_rel(&rec->link.wanted, 1u) + 1;
    mtr_saver_wake(rec);
    for (;;) {
        uint32_t done = tcm_load_acquire(&rec->link.done);
        if ((int32_t)(done - mine) >= 0)
            return true;
        if (is_over(rec) || !mtr_saver_need(rec))
            return false;
        tcm_futex_wait(&rec->link.done, done, UINT64_MAX);
    }
}

void mtr_saver_await_gone(struct mtr_recorder *rec, uint64_t timeout_ns) {
    /* Mostly so, and a program without a clock goes on. */
    uint32_t started = tcm_load_acquire(&rec->link.started);
    if (started == 0)
        return;
    uint64_t now = mtr_clock_ns();
    uint64_t end =
        timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    while ((started = tcm_load_acquire(&rec->link.started)) != 0 &&
           (now = mtr_clock_ns()) < end)
        tcm_futex_wait(&rec->link.started, started,
                       end == UINT64_MAX ? end : end - now);
}

size_t mtr_saver_summary(char *text, size_t cap) {
    size_t n = the_saver.summary_length < cap ? the_saver.summary_length : cap;
    memcpy(text, the_saver.texts.summary, n);
    return n;
}

/* --- Saving -------------------------------------------------------------- */

static bool save(struct mtr_saver *s, struct mtr_buffer *b, uint32_t upto,
                 uint64_t time_hi) {
    if (upto <= b->saved)
        return true;
    TCM_ASSERT(b->saved >= HEAD_BYTES && upto <= b->size);
    TCM_ASSERT(b->thread != MTF_THREAD_NONE && b->stream <= UINT64_MAX / 2);
    struct mtf_raw_place place = {
        .thread = b->thread,
        .offset = b->stream + b->saved - HEAD_BYTES,
        .buffer_start = b->stream,
        .time_lo = b->time_lo,
        .time_hi = time_hi,
    };
    const uint8_t *fresh = b->base + b->saved;
    size_t fresh_bytes = upto - b->saved;
    /* The part of a flight recording that has the buffer's beginning may be
       gone before this one is. */
    if (b->part != s->output.part && b->saved != HEAD_BYTES) {
        place.offset = b->stream;
        place.time_lo = b->taken_ns;
        b->saved = HEAD_BYTES;
    }
    b->part = s->output.part;
    if (!mtf_raw_write_data(&s->writer, &place, b->base + b->saved,
                            upto - b->saved))
        return false;
    mtr_count_events(&s->counts, fresh, fresh_bytes);
    b->saved = upto;
    TCM_ASSERT(b->mark <= s->writer.raw_bytes);
    b->mark = s->writer.raw_bytes;
    s->dirty = true;
    return true;
}

/* A buffer is free again when its last byte is with the output. The spool is
   told before the first one loses its events. */
void mtr_saver_recycle(struct mtr_saver *s) {
    uint64_t saved = s->writer.settled_bytes;
    bool any = false;
    struct mtr_buffer *b;
    while ((b = s->written_head) != NULL && b->mark <= saved && !b->in_round) {
        if (!any)
            mtr_spool_tell_saved(s->rec, saved);
        TCM_ASSERT(b->saved == b->used);
        TCM_ASSERT((b->next == NULL) == (b == s->written_tail));
        s->written_head = b->next;
        if (b->next == NULL)
            s->written_tail = NULL;
        mtr_pool_recycle(&s->rec->pool, b, saved);
        any = true;
    }
    if (any)
        mtr_pool_notify(&s->rec->pool);
}

/*
 * The time to the next look for full buffers, after one that FOUND some:
 * shorter when these were more than a quarter of what is kept ready, longer
 * when few. A timer that fires costs as much as saving some thousand events, so
 * looking every POLL_NS would cost a slow program more than its events do. A
 * thread that finds the pool low calls, whatever the pace. (The saver alone
 * changes `ready`.)
 */
static void set_pace(struct mtr_saver *s, const uint32_t found[2]) {
    const struct mtr_stack *kept = s->rec->pool.free;
    TCM_ASSERT(s->poll_ns <= ROUND_NS);
    bool many = false, few = true;
    for (unsigned i = 0; i < 2; i++) {
        many = many || found[i] * 4 > kept[i].ready;
        few = few && found[i] * 8 <= kept[i].ready;
    }
    if (many)
        s->poll_ns = tcm_max_u64(s->poll_ns / 2, POLL_NS);
    else if (few)
        s->poll_ns = tcm_min_u64(s->poll_ns * 2, ROUND_NS);
}

static bool save_full(struct mtr_saver *s) {
    struct mtr_buffer *b = mtr_pool_take_full(&s->rec->pool);
    uint32_t found[2] = {0, 0};
    uint64_t now = b == NULL ? 0 : mtr_clock_ns();
    if (b != NULL)
        s->last_full = now;
    bool ok = true;
    while (b != NULL) {
        struct mtr_buffer *next = b->next;
        found[b->size == MTR_LARGE_BYTES ? MTR_LARGE : MTR_SMALL]++;
        ok = ok && save(s, b, b->used, now);
        b->next = NULL;
        if (s->written_tail != NULL)
            s->written_tail->next = b;
        else
            s->written_head = b;
        s->written_tail = b;
        if (ok)
            mtr_saver_recycle(s);
        b = next;
    }
    set_pace(s, found);
    return ok;
}

/* What is in the compressor keeps buffers from those that wait for one. */
static bool poll_full(struct mtr_saver *s) {
    if (!save_full(s))
        return false;
    if (s->written_head != NULL &&
        tcm_load_relaxed(&s->rec->pool.waiters) != 0) {
        if (!mtf_raw_writer_flush(&s->writer))
            return false;
        mtr_saver_recycle(s);
    }
    return true;
}

/*
 * The buffers with something new, and how much of it: a list. BEGIN is a time
 * before the look: in a buffer that has nothing new, what comes is later than
 * that. (A buffer of which nothing was saved yet may still be in the hands of
 * its owner, which writes its time.)
 */
static struct mtr_buffer *look(struct mtr_recorder *rec, uint64_t begin) {
    struct mtr_buffer *list = NULL, **tail = &list;
    struct mtr_registry *r = &rec->registry;
    tcm_lock(&r->lock);
    for (struct tcm_dlist *l = r->live.next; l != &r->live; l = l->next) {
        struct mtr_thread_record *t =
            TCM_CONTAINER_OF(l, struct mtr_thread_record, cold.link);
        /* Of a recording before this one; its thread has not come by yet. */
        if (t->cold.session != rec->session)
            continue;
        tcm_lock(&rec->pool.lock);
        struct mtr_buffer *b = t->cold.buffer;
        /* Acquire: pairs with mtr_publish; the bytes below are there. */
        uint8_t *pos = tcm_load_acquire(&t->hot.pos);
        uint32_t seen = b == NULL ? 0 : (uint32_t)(pos - b->base);
        TCM_ASSERT(b == NULL || (seen >= HEAD_BYTES && seen <= b->size));
        TCM_ASSERT(b == NULL || !b->in_round);
        if (b != NULL && seen > b->saved) {
            b->seen = seen;
            b->in_round = true;
            b->next_seen = NULL;
            *tail = b;
            tail = &b->next_seen;
        } else if (b != NULL && b->saved > HEAD_BYTES) {
            b->time_lo = begin;
        }
        tcm_unlock(&rec->pool.lock);
    }
    tcm_unlock(&r->lock);
    return list;
}

static bool write_notices(struct mtr_saver *s, uint64_t now) {
    struct mtr_recorder *rec = s->rec;
    if (rec->spool.notice_due) {
        rec->spool.notice_due = false;
        if (!mtf_raw_write_notice(&s->writer, now, MTF_NOTICE_NO_SPOOL,
                                  "buffers are in private memory"))
            return false;
    }
    return true;
}

/* The next part of a flight recording. Threads go on in new buffers, so that
   few are repeated in it. */
static bool begin_part(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    if (!mtr_output_next_part(&s->output))
        return false;
    size_t n = mtr_build_header(rec, s->texts.part_header, &s->output.part,
                                s->writer.raw_bytes);
    if (!mtf_raw_write_part(&s->writer, s->texts.part_header, n) ||
        !mtr_output_place(&s->output))
        return false;
    tcm_lock(&rec->pool.lock);
    tcm_store_relaxed(&rec->pool.renewal, rec->pool.renewal + 1);
    tcm_unlock(&rec->pool.lock);
    tcm_fence_seq_cst();
    mtr_registry_stop_all(rec);
    TCM_TESTPOINT("part_begun");
    return true;
}

/* A full round. The fence keeps the looks at positions behind the reading of
   the clock. */
bool mtr_saver_make_round(struct mtr_saver *s) {
    uint64_t begin = mtr_clock_ns();
    TCM_ASSERT(s->ready && tcm_load_relaxed(&s->rec->link.started) != 0);
    tcm_fence_seq_cst();
    TCM_TESTPOINT("round_began");
    struct mtr_buffer *list = look(s->rec, begin);
    uint64_t looked = mtr_clock_ns();
    bool ok = save_full(s);
    for (struct mtr_buffer *b = list; b != NULL; b = b->next_seen) {
        ok = ok && save(s, b, b->seen, looked);
        b->time_lo = begin;
        b->in_round = false;
    }
    s->last_round = looked;
    if (!ok)
        return false;
    if (s->dirty) {
        s->rounds++;
        s->quiet_rounds = 0;
        if (!write_notices(s, looked))
            return false;
        if (looked - s->last_sample >= SAMPLE_NS &&
            !mtr_saver_write_sample(s, looked))
            return false;
        if (!mtf_raw_write_barrier(&s->writer, begin))
            return false;
        s->dirty = false;
        if (mtr_output_part_is_full(&s->output) && !begin_part(s))
            return false;
        mtr_saver_publish(s);
    } else {
        s->quiet_rounds++;
    }
    mtr_saver_recycle(s);
    TCM_TESTPOINT("round_ended");
    return true;
}

/* --- Buffers ahead of need ----------------------------------------------- */

/* More buffers of SIZE. false: no memory. */
static bool grow(struct mtr_recorder *rec, enum mtr_size size) {
    size_t bytes =
        size == MTR_LARGE ? MTR_LARGE_BYTES : MTR_READY_SMALL * MTR_SMALL_BYTES;
    bytes = tcm_align_up(bytes, tcm_os_page_size());
    void *p = mtr_spool_grow(rec, bytes);
    return p != NULL && mtr_pool_add(&rec->pool, size, p, bytes);
}

void mtr_saver_keep_ready(struct mtr_recorder *rec) {
    bool any = false;
    uint32_t small = mtr_pool_missing(&rec->pool, MTR_SMALL);
    uint32_t large = mtr_pool_missing(&rec->pool, MTR_LARGE);
    /* Most programs never fill a small one. */
    if (tcm_load_relaxed(&rec->pool.buffers) == 0)
        large = 0;
    /* Small ones come in pieces. */
    for (; small > MTR_READY_SMALL / 2;
         small -= small < MTR_READY_SMALL ? small : MTR_READY_SMALL)
        any |= grow(rec, MTR_SMALL);
    for (uint32_t n = 0; n < large; n++)
        any |= grow(rec, MTR_LARGE);
    if (any)
        mtr_pool_notify(&rec->pool);
}

/* --- The loop ------------------------------------------------------------ */

/* Quiet: the next event of any thread wakes us. Its order with the owners'
   stores to limit is explained at their end, in thread_life.c. */
static void become_idle(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    tcm_store_seq_cst(&rec->link.idle, 1u);
    tcm_fence_seq_cst();
    mtr_registry_stop_all(rec);
    s->interval = ROUND_NS;
}

static bool do_due(struct mtr_saver *s, uint64_t now) {
    struct mtr_recorder *rec = s->rec;
    uint32_t wanted = tcm_load_acquire(&rec->link.wanted);
    bool asked = wanted != rec->link.done;
    uint32_t state = tcm_load_relaxed(&rec->state);
    bool ok;
    if (tcm_load_acquire(&rec->link.stop) != 0)
        return mtr_saver_stop(s, MTF_END_STOP);
    if (asked && state == MTR_RUNNING &&
        tcm_load_acquire(&rec->link.finish) == 1) {
        tcm_store_relaxed(&rec->link.finish, 2u);
        ok = mtr_saver_enter_end_mode(s);
    } else if (state == MTR_ENDED) {
        ok = !asked || mtr_saver_end_mode_round(s, false);
    } else if (asked || now - s->last_round >= s->interval ||
               mtr_output_part_is_full(&s->output)) {
        ok = mtr_saver_make_round(s);
        if (s->quiet_rounds == 1)
            become_idle(s);
        else if (s->quiet_rounds > 1)
            s->interval = tcm_min_u64(2 * s->interval, IDLE_NS_MAX);
    } else {
        ok = poll_full(s);
    }
    if (ok && mtr_saver_at_limit(s) && state != MTR_ENDED)
        ok = mtr_saver_stop(s, MTF_END_LIMIT);
    if (ok && asked) {
        tcm_store_release(&rec->link.done, wanted);
        tcm_futex_wake(&rec->link.done, INT32_MAX);
    }
    return ok;
}

static void sleep_until_due(struct mtr_saver *s, uint32_t seq) {
    struct mtr_recorder *rec = s->rec;
    if (tcm_load_relaxed(&rec->state) == MTR_ENDED) {
        tcm_futex_wait(&rec->link.wake, seq, IDLE_NS_MAX);
        return;
    }
    uint64_t now = mtr_clock_ns();
    uint64_t due = s->last_round + s->interval;
    if (now - s->last_full < ROUND_NS)
        due = tcm_min_u64(due, now + s->poll_ns);
    if (due > now)
        tcm_futex_wait(&rec->link.wake, seq, due - now);
    if (tcm_load_relaxed(&rec->link.wake) != seq)
        s->poll_ns = POLL_NS;
    /* Woken by an event after quiet: the round comes when it is due from now
       on, not when it was. */
    if (s->quiet_rounds != 0 && tcm_load_relaxed(&rec->link.idle) == 0) {
        s->quiet_rounds = 0;
        s->interval = ROUND_NS;
        s->last_round = mtr_clock_ns();
    }
}

/* Looks only when nothing was published since the last look. What exit handlers
   still do, should there be any, is end mode. */
static bool end_if_alone(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    bool ended = tcm_load_relaxed(&rec->state) == MTR_ENDED;
    if ((s->quiet_rounds == 0 && !ended) || !mtr_own_are_alone(rec, &s->statm))
        return true;
    s->alone = true;
    return ended || mtr_saver_enter_end_mode(s);
}

/* Until the recording is over; false: by a failure. */
static bool run(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    if (!s->ready && !mtr_saver_wait_for_reader(s))
        return false;
    for (;;) {
        uint32_t seq = tcm_load_acquire(&rec->link.wake);
        mtr_saver_keep_ready(rec);
        if (!do_due(s, mtr_clock_ns()) || (!s->over && !end_if_alone(s)))
            return false;
        if (s->over || s->alone)
            return true;
        sleep_until_due(s, seq);
    }
}

static void *saver_main(void *arg) {
    struct mtr_saver *s = &the_saver;
    struct mtr_recorder *rec = arg;
    mtr_own_begin(rec, "malloc-trace");
    bool goes_on = tcm_load_acquire(&rec->state) == MTR_ENDED;
    if (!goes_on)
        mtr_saver_begin(s, rec);
    s->interval = ROUND_NS;
    s->poll_ns = POLL_NS;
    s->last_round = mtr_clock_ns();
    bool ok = goes_on ? mtr_saver_take_over(s) : mtr_saver_set_up(s);
    if (ok && !goes_on) {
        tcm_store_release(&rec->state, (uint32_t)MTR_RUNNING);
        tcm_futex_wake(&rec->state, INT32_MAX);
    } else if (!ok) {
        /* Nothing of it is worth anything yet. */
        if (s->made_spool)
            mtr_spool_remove(rec);
        mtr_fail(rec, "cannot record to", s->output.error);
    }
    /* Publishes all of the set-up to the thread that waits for it. */
    publish_started(rec, 2);
    if (ok && !run(s))
        mtr_saver_give_up(s);
    if (s->alone) {
        mtr_saver_rest(s);
        publish_started(rec, 0);
    } else {
        mtr_saver_leave(s);
    }
    mtr_own_end(rec, s->alone);
    return NULL;
}

bool mtr_saver_create(struct mtr_recorder *rec, int *error) {
    /* Of the recording before, if that ended by itself. */
    mtr_own_join(&rec->saver_thread);
    return mtr_own_create(&rec->saver_thread, saver_main, rec, error);
}

/* --- On a thread of the program ------------------------------------------ */

/* Where no saver is worth making or none may be made: at the end of a short
   process, in calls that free, in the child of a vfork. */

/* The calling thread saves, if no other does. No handler of the program's may
   run, or leave, in the middle; and SIGXFSZ is none of its business. */
static bool begin_here(struct mtr_recorder *rec, sigset_t *mask) {
    uint32_t expected = 0;
    sigset_t all;
    if (!tcm_cas_acq_rel(&rec->link.started, &expected, 1u))
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, mask);
    return true;
}

static void end_here(struct mtr_recorder *rec, const sigset_t *mask) {
    publish_started(rec, 0);
    pthread_sigmask(SIG_SETMASK, mask, NULL);
}

/* Waits until the thread that changed link.started to 1 is done. false: it
   takes too long for a call that frees. */
static bool await_other(struct mtr_recorder *rec) {
    uint64_t end = tcm_clock_ns() + FREE_WAIT_NS;
    while (tcm_load_acquire(&rec->link.started) == 1) {
        uint64_t now = tcm_clock_ns();
        if (mtr_freeing != 0 && now >= end)
            return false;
        tcm_futex_wait(&rec->link.started, 1,
                       mtr_freeing != 0 ? end - now : UINT64_MAX);
    }
    return true;
}

bool mtr_saver_stock_here(struct mtr_recorder *rec) {
    struct mtr_pool *pool = &rec->pool;
    sigset_t mask;
    if (mtr_process_is_confined())
        return false;
    if (!begin_here(rec, &mask))
        return await_other(rec);
    uint32_t state = tcm_load_acquire(&rec->state);
    if (state == MTR_LAZY || state == MTR_ENDED) {
        if (grow(rec, MTR_SMALL))
            mtr_pool_notify(pool);
        mtr_spool_close(rec);
        /* Nobody will make room below it. */
        tcm_lock(&pool->lock);
        pool->bound =
            tcm_max_u64(pool->bound, pool->full_bytes + 2 * MTR_LARGE_BYTES);
        tcm_unlock(&pool->lock);
    }
    if (state == MTR_LAZY && tcm_os_pid() == rec->pid)
        tcm_store_relaxed(&rec->link.due, 1u);
    end_here(rec, &mask);
    return true;
}

void mtr_saver_round_here(struct mtr_recorder *rec) {
    struct mtr_saver *s = &the_saver;
    sigset_t mask;
    if (mtr_process_is_confined() || !begin_here(rec, &mask))
        return;
    if (tcm_load_acquire(&rec->state) != MTR_ENDED) {
        end_here(rec, &mask);
        return;
    }
    if (mtr_saver_resume(s) && mtr_saver_end_mode_round(s, true)) {
        mtr_saver_rest(s);
        end_here(rec, &mask);
        return;
    }
    mtr_saver_give_up(s);
    mtr_saver_leave(s);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

bool mtr_saver_end_here(struct mtr_recorder *rec) {
    struct mtr_saver *s = &the_saver;
    sigset_t mask;
    /* What was published is in the spool. */
    if (mtr_process_is_confined())
        return true;
    if (!begin_here(rec, &mask))
        return false;
    if (tcm_load_acquire(&rec->state) != MTR_LAZY) {
        end_here(rec, &mask);
        return false;
    }
    mtr_saver_begin(s, rec);
    mtr_folder_hold(rec);
    bool ok = mtr_saver_set_up_here(s);
    /* A saver has a table of its own, which is empty. */
    bool done = ok || s->output.error != EMFILE;
    if (ok && !mtr_saver_enter_end_mode(s)) {
        mtr_saver_give_up(s);
        ok = false;
    } else if (!ok && done) {
        mtr_fail(rec, "cannot record to", s->output.error);
    }
    if (ok || !done) {
        mtr_saver_rest(s);
        end_here(rec, &mask);
    } else {
        mtr_saver_leave(s);
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
    }
    return done;
}
