/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One loop: keep buffers ready, make the round or poll that is due, sleep.
 */
#include "tracer/saver/saver.h"

#include "base/bits.h"
#include "base/clock.h"
#include "base/linux/os_thread.h"
#include "base/testpoint.h"
#include "tracer/saver/saver_parts.h"
#include "tracer/stream/thread_life.h"
#include "tracer/trace_clock.h"
#include "tracer/trace_name.h"
#include "tracer/trace_process.h"

#include <errno.h>
#include <string.h>

#define IDLE_NS_MAX 1000000000u

static struct mtr_saver the_saver;

/* --- One at a time ------------------------------------------------------- */

/* STARTED tells those that wait who saves now, and publishes to the next one
   what this one did. */
void mtr_saver_release(struct mtr_recorder *rec, uint32_t started) {
    TCM_ASSERT(started <= MTR_SAVES_COMING);
    tcm_store_release(&rec->link.started, started);
    tcm_futex_wake(&rec->link.started, INT32_MAX);
}

/* Others hold meanwhile, and not for long. */
void mtr_saver_hold_coming(struct mtr_recorder *rec) {
    uint32_t started = MTR_SAVES_COMING;
    while (!tcm_cas_acq_rel(&rec->link.started, &started,
                            (uint32_t)MTR_SAVES_HELD)) {
        TCM_ASSERT(started == MTR_SAVES_HELD);
        tcm_futex_wait(&rec->link.started, started, UINT64_MAX);
        started = MTR_SAVES_COMING;
    }
}

/* --- Called by others ---------------------------------------------------- */

void mtr_saver_wake(struct mtr_recorder *rec) {
    /* The count changes before the call: a saver that was about to sleep on
       the old value does not. */
    tcm_add_acq_rel(&rec->link.wake, 1u);
    tcm_futex_wake(&rec->link.wake, 1);
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

void mtr_summary_flush(struct mtr_recorder *rec) {
    char text[MTR_SUMMARY_MAX];
    if (!mtr_config.stats || tcm_swap_acq_rel(&rec->summary_due, 0u) == 0)
        return;
    size_t n = the_saver.summary_length;
    TCM_ASSERT(n <= sizeof(text));
    memcpy(text, the_saver.texts.summary, n);
    mtr_say(text, n);
}

/* Publishes the end of all of it to the next start, and the summary. */
static void leave(struct mtr_saver *s, uint32_t started) {
    mtr_saver_leave(s);
    mtr_saver_release(s->rec, started);
    TCM_TESTPOINT("saver_left");
}

/* --- The loop ------------------------------------------------------------ */

/* Quiet: the next event of any thread wakes us. Its order with the owners'
   stores to limit is explained at their end, in thread_life.c. */
static void become_idle(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    tcm_store_seq_cst(&rec->link.idle, 1u);
    tcm_fence_seq_cst();
    mtr_registry_stop_all(rec);
    s->interval = MTR_ROUND_NS;
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
        ok = mtr_saver_poll(s);
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
    if (now - s->last_full < MTR_ROUND_NS)
        due = tcm_min_u64(due, now + s->poll_ns);
    if (due > now)
        tcm_futex_wait(&rec->link.wake, seq, due - now);
    if (tcm_load_relaxed(&rec->link.wake) != seq)
        s->poll_ns = MTR_POLL_NS;
    /* Woken by an event after quiet: the round comes when it is due from now
       on, not when it was. */
    if (s->quiet_rounds != 0 && tcm_load_relaxed(&rec->link.idle) == 0) {
        s->quiet_rounds = 0;
        s->interval = MTR_ROUND_NS;
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
        mtr_spool_keep_ready(rec);
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
    TCM_TESTPOINT("saver_arrives");
    mtr_saver_hold_coming(rec);
    /* Its maker goes on, and finds it held. */
    tcm_add_acq_rel(&rec->link.arrived, 1u);
    tcm_futex_wake(&rec->link.arrived, INT32_MAX);
    uint32_t state = tcm_load_acquire(&rec->state);
    bool goes_on = state == MTR_ENDED;
    /* The recording ended without it. */
    if (!mtr_state_is_on(state)) {
        mtr_saver_release(rec, MTR_SAVES_NONE);
        mtr_own_end(rec, false);
        return NULL;
    }
    if (!goes_on)
        mtr_saver_begin(s, rec);
    s->interval = MTR_ROUND_NS;
    s->poll_ns = MTR_POLL_NS;
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
    mtr_saver_release(rec, MTR_SAVES_SAVER);
    if (ok && !run(s))
        mtr_saver_give_up(s);
    if (s->alone) {
        mtr_saver_rest(s);
        mtr_saver_release(rec, MTR_SAVES_NONE);
    } else {
        leave(s, MTR_SAVES_NONE);
    }
    mtr_own_end(rec, s->alone);
    return NULL;
}

bool mtr_saver_create(struct mtr_recorder *rec, int *error) {
    /* The saver of the recording before, if that ended by itself. */
    mtr_own_join(&rec->saver_thread);
    uint32_t arrived = tcm_load_relaxed(&rec->link.arrived);
    TCM_TESTPOINT("saver_is_coming");
    if (TCM_REFUSED("pthread_create") ||
        !mtr_own_create(&rec->saver_thread, saver_main, rec, error))
        return false;
    while (tcm_load_acquire(&rec->link.arrived) == arrived)
        tcm_futex_wait(&rec->link.arrived, arrived, UINT64_MAX);
    return true;
}

/* --- On a thread of the program ------------------------------------------ */

/* Where no saver is worth making or none may be made: at the end of a short
   process, in calls that free, in the child of a vfork. */

/* The calling thread saves, if no other does. No handler of the program's may
   run, or leave, in the middle; and SIGXFSZ is none of its business. */
struct hold {
    uint64_t mask;
    uint32_t from; /* NONE or COMING, as it will be again */
};

static bool begin_here(struct mtr_recorder *rec, struct hold *hold) {
    hold->mask = tcm_block_signals();
    hold->from = MTR_SAVES_NONE;
    if (tcm_cas_acq_rel(&rec->link.started, &hold->from,
                        (uint32_t)MTR_SAVES_HELD))
        return true;
    if (hold->from == MTR_SAVES_COMING &&
        tcm_cas_acq_rel(&rec->link.started, &hold->from,
                        (uint32_t)MTR_SAVES_HELD))
        return true;
    tcm_restore_signals(hold->mask);
    return false;
}

static void end_here(struct mtr_recorder *rec, const struct hold *hold) {
    mtr_saver_release(rec, hold->from);
    tcm_restore_signals(hold->mask);
}

bool mtr_saver_stock_here(struct mtr_recorder *rec) {
    struct mtr_pool *pool = &rec->pool;
    struct hold hold;
    if (mtr_process_is_confined())
        return false;
    if (!begin_here(rec, &hold)) {
        tcm_futex_wait(&rec->link.started, MTR_SAVES_HELD, UINT64_MAX);
        return true;
    }
    uint32_t state = tcm_load_acquire(&rec->state);
    bool ok = true;
    if (state == MTR_LAZY || state == MTR_ENDED) {
        ok = mtr_spool_stock(rec, MTR_SMALL);
        if (ok)
            mtr_pool_notify(pool);
        mtr_spool_close(rec);
        /* Nobody will make room below it. */
        tcm_lock(&pool->lock);
        pool->bound =
            tcm_max_u64(pool->bound, pool->full_bytes + 2 * MTR_LARGE_BYTES);
        tcm_unlock(&pool->lock);
    }
    if (state == MTR_LAZY && hold.from == MTR_SAVES_NONE &&
        tcm_os_pid() == rec->pid)
        tcm_store_relaxed(&rec->link.due, 1u);
    end_here(rec, &hold);
    return ok;
}

bool mtr_saver_round_here(struct mtr_recorder *rec) {
    struct mtr_saver *s = &the_saver;
    struct hold hold;
    if (mtr_process_is_confined())
        return true;
    if (!begin_here(rec, &hold))
        return false;
    if (tcm_load_acquire(&rec->state) != MTR_ENDED) {
        end_here(rec, &hold);
        return true;
    }
    if (mtr_saver_resume(s) && mtr_saver_end_mode_round(s, true)) {
        mtr_saver_rest(s);
        end_here(rec, &hold);
        return true;
    }
    mtr_saver_give_up(s);
    leave(s, hold.from);
    tcm_restore_signals(hold.mask);
    return true;
}

bool mtr_saver_end_here(struct mtr_recorder *rec) {
    struct mtr_saver *s = &the_saver;
    struct hold hold;
    /* Published events are in the spool. */
    if (mtr_process_is_confined())
        return true;
    if (!begin_here(rec, &hold))
        return false;
    /* Outputs that are no file have their reader, or their descriptor, with
       the saver. */
    if (tcm_load_acquire(&rec->state) != MTR_LAZY ||
        rec->kind != MTR_OUTPUT_FILE) {
        end_here(rec, &hold);
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
        end_here(rec, &hold);
    } else {
        leave(s, hold.from);
        tcm_restore_signals(hold.mask);
    }
    return done;
}
