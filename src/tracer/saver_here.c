/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The saver's work on a thread of the program, where no saver is worth making
 * or none may be made: at the end of a short process, in calls that free, in
 * the child of a vfork.
 */
#include "tracer/saver.h"

#include "base/bits.h"
#include "base/clock.h"
#include "base/os_thread.h"
#include "tracer/saver_state.h"
#include "tracer/trace_name.h"
#include "tracer/trace_process.h"

#include <errno.h>
#include <signal.h>

/* For a saver that is being made, in a call that frees: it may be that it
   cannot be made before the call returns, which then is dropped. */
#define FREE_WAIT_NS 1000000000u

/* The calling thread saves, if nobody does. No handler of the program's shall
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
    mtr_saver_publish_started(rec, 0);
    pthread_sigmask(SIG_SETMASK, mask, NULL);
}

/* Until who changed link.started to 1 is done. false: it takes too long for a
   call that frees. */
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
        if (mtr_saver_grow(rec, MTR_SMALL))
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
    struct mtr_saver *s = &mtr_saver;
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
    struct mtr_saver *s = &mtr_saver;
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
