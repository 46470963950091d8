/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The saver's loop: keep buffers ready, make the round or poll that is due,
 * sleep.
 */
#include "tracer/saver/saver.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_process.h"
#include "base/linux/os_thread.h"
#include "tracer/saver/saver_parts.h"
#include "tracer/stream/thread_life.h"
#include "tracer/trace_clock.h"
#include "tracer/trace_name.h"
#include "tracer/trace_process.h"

#include <errno.h>
#include <string.h>

#define IDLE_NS_MAX 1000000000u
#define STARVED_NS  1000000000u

static struct mtr_saver saver_state;

/* --- One at a time ------------------------------------------------------- */

/* True if some thread saves, or holds the saver's work. */
static bool is_saving(struct mtr_recorder *rec) {
    uint32_t owner = tcm_load_relaxed(&rec->link.save_owner) & MTR_SAVE_KIND;
    return owner == MTR_SAVE_HELD || owner == MTR_SAVE_THREAD;
}

/* Tells the threads that wait who saves now, and publishes to the next one what
   this one did (release). */
void mtr_save_owner_set(struct mtr_recorder *rec, uint32_t owner) {
    TCM_ASSERT(is_saving(rec));
    TCM_ASSERT(owner <= MTR_SAVE_CREATING && owner != MTR_SAVE_HELD);
    tcm_store_release(&rec->link.save_owner, owner);
    tcm_futex_wake(&rec->link.save_owner, INT32_MAX);
}

/* Time between looks at the child of a vfork that holds. */
#define HOLDER_POLL_NS 50000000u

/*
 * Takes the work over from the child of a vfork that was killed while it held,
 * as OWNER says: what it did is half done, so nothing is saved any more, and
 * the spool keeps what was published. Its stores are seen, because the kernel
 * has ended it before it says so.
 */
static void end_for_dead(struct mtr_recorder *rec, uint32_t owner) {
    uint32_t from = (owner & MTR_SAVE_FROM_CREATING) != 0 ? MTR_SAVE_CREATING
                                                          : MTR_SAVE_FREE;
    uint64_t mask = mtr_signals_block();
    if (tcm_cas_acq_rel(&rec->link.save_owner, &owner,
                        (uint32_t)MTR_SAVE_HELD)) {
        mtr_fail(rec, "recording stopped, a process was killed that wrote to",
                 0);
        /* If it was killed in these few instructions, the pool stays as it is.
         */
        if (!tcm_lock_is_stuck(&rec->pool.lock, HOLDER_POLL_NS))
            mtr_pool_close(&rec->pool);
        mtr_save_owner_set(rec, from);
    }
    mtr_signals_restore(mask);
}

void mtr_save_await(struct mtr_recorder *rec) {
    uint32_t owner;
    while (((owner = tcm_load_acquire(&rec->link.save_owner)) &
            MTR_SAVE_KIND) == MTR_SAVE_HELD) {
        uint32_t pid = owner >> MTR_SAVE_PID_SHIFT;
        tcm_futex_wait(&rec->link.save_owner, owner,
                       pid != 0 ? HOLDER_POLL_NS : UINT64_MAX);
        if (pid != 0 && tcm_os_process_is_gone(pid))
            end_for_dead(rec, owner);
    }
}

/* Other threads may hold meanwhile, but not for long. */
void mtr_save_owner_hold_creating(struct mtr_recorder *rec) {
    uint32_t owner = MTR_SAVE_CREATING;
    while (!tcm_cas_acq_rel(&rec->link.save_owner, &owner,
                            (uint32_t)MTR_SAVE_HELD)) {
        mtr_save_await(rec);
        owner = MTR_SAVE_CREATING;
    }
}

/* --- Called by others ---------------------------------------------------- */

void mtr_saver_wake(struct mtr_recorder *rec) {
    /* The count changes before the call: a saver that is about to sleep on the
       old value does not. */
    tcm_add_acq_rel(&rec->link.wake, 1u);
    tcm_futex_wake(&rec->link.wake, 1);
}

/* Each change of the owner wakes; the next recording's session is stored before
   its saver is created, so a thread that finds the next saver finds SESSION
   over. */
void mtr_saver_await_end(struct mtr_recorder *rec, uint32_t session,
                         uint64_t timeout_ns) {
    /* The usual case; a program that may not read a clock goes on, too. */
    uint32_t owner = tcm_load_acquire(&rec->link.save_owner);
    if (owner == 0)
        return;
    uint64_t now = mtr_clock_ns();
    uint64_t end =
        timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    while ((owner = tcm_load_acquire(&rec->link.save_owner)) != 0 &&
           tcm_load_acquire(&rec->session) == session &&
           (now = mtr_clock_ns()) < end) {
        TCM_TESTPOINT("end_awaited");
        tcm_futex_wait(&rec->link.save_owner, owner,
                       end == UINT64_MAX ? end : end - now);
    }
}

void mtr_summary_flush(struct mtr_recorder *rec) {
    char text[MTR_SUMMARY_MAX];
    if (!mtr_config.stats || tcm_swap_acq_rel(&rec->summary_due, 0u) == 0)
        return;
    size_t n = saver_state.summary_length;
    TCM_ASSERT(n <= sizeof(text));
    memcpy(text, saver_state.texts.summary, n);
    mtr_print_stderr(text, n);
}

/* Leaves the recording; publishes its end and the summary to the next start. */
static void leave_recording(struct mtr_saver *s, uint32_t owner) {
    mtr_saver_close(s);
    mtr_save_owner_set(s->rec, owner);
    TCM_TESTPOINT("saver_left");
}

/* --- The loop ------------------------------------------------------------ */

/* Becomes idle after quiet: the next event of any thread wakes the saver. The
   order of this store and the owners' stores to limit is explained at set_limit
   in thread_life.c. */
static void become_idle(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    tcm_store_seq_cst(&rec->link.idle, 1u);
    tcm_fence_seq_cst();
    mtr_registry_clear_limits(rec);
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
        ok = mtr_saver_make_round(s, asked);
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
        mtr_saver_answer(rec);
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
    /* Woken by an event after quiet: the next round is due one interval from
       now. */
    if (s->quiet_rounds != 0 && tcm_load_relaxed(&rec->link.idle) == 0) {
        s->quiet_rounds = 0;
        s->interval = MTR_ROUND_NS;
        s->last_round = mtr_clock_ns();
    }
}

/* True if threads have waited for a buffer for STARVED_NS and none could be
   made: they would wait until the program gives memory back, or for ever. */
static bool is_starved(struct mtr_saver *s, uint64_t now) {
    if (mtr_config.drops || !mtr_pool_is_starved(&s->rec->pool)) {
        s->starved_ns = 0;
        return false;
    }
    if (s->starved_ns == 0)
        s->starved_ns = now;
    return now - s->starved_ns >= STARVED_NS;
}

/* Enters end mode if no thread of the program is left. Checked only when
   nothing was published since the last look. What exit handlers still do, if
   any run, is end mode. false: the output failed. */
static bool end_if_alone(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    bool ended = tcm_load_relaxed(&rec->state) == MTR_ENDED;
    if ((s->quiet_rounds == 0 && !ended) || !mtr_own_are_last(rec, &s->statm))
        return true;
    s->alone = true;
    return ended || mtr_saver_enter_end_mode(s);
}

/* Runs until the recording is over; false: it failed. */
static bool run(struct mtr_saver *s) {
    struct mtr_recorder *rec = s->rec;
    if (!s->ready && !mtr_saver_wait_for_reader(s))
        return false;
    for (;;) {
        uint32_t seq = tcm_load_acquire(&rec->link.wake);
        mtr_spool_keep_ready(rec);
        uint64_t now = mtr_clock_ns();
        bool ok =
            is_starved(s, now) ? mtr_saver_stop_starved(s) : do_due(s, now);
        if (!ok || (!s->over && !end_if_alone(s)))
            return false;
        if (s->over || s->alone)
            return true;
        if (tcm_load_relaxed(&rec->pool.waiters) != 0)
            mtr_pool_notify(&rec->pool);
        sleep_until_due(s, seq);
    }
}

static void *saver_main(void *arg) {
    struct mtr_saver *s = &saver_state;
    struct mtr_recorder *rec = arg;
    mtr_own_begin(rec, "malloc-trace");
    TCM_TESTPOINT("saver_arrives");
    mtr_save_owner_hold_creating(rec);
    /* The creating thread goes on, and finds the work held. */
    tcm_add_acq_rel(&rec->link.arrived, 1u);
    tcm_futex_wake(&rec->link.arrived, INT32_MAX);
    uint32_t state = tcm_load_acquire(&rec->state);
    bool continues = state == MTR_ENDED;
    /* The recording has ended meanwhile. */
    if (!mtr_state_is_on(state)) {
        mtr_save_owner_set(rec, MTR_SAVE_FREE);
        mtr_own_end(rec, false);
        return NULL;
    }
    if (!continues)
        mtr_saver_begin(s, rec);
    s->interval = MTR_ROUND_NS;
    s->poll_ns = MTR_POLL_NS;
    s->last_round = mtr_clock_ns();
    bool ok = continues ? mtr_saver_take_over(s) : mtr_saver_set_up(s);
    if (ok && !continues) {
        mtr_registry_has_saver(&rec->registry);
        tcm_store_release(&rec->state, (uint32_t)MTR_RUNNING);
        tcm_futex_wake(&rec->state, INT32_MAX);
    } else if (!ok) {
        /* The new spool has no events yet. */
        if (s->made_spool)
            mtr_spool_remove(rec);
        mtr_fail(rec, "cannot record to", s->output.error);
    }
    /* Publishes the set-up to the thread that waits for it. */
    mtr_save_owner_set(rec, MTR_SAVE_THREAD);
    if (ok && !run(s))
        mtr_saver_give_up(s);
    if (s->alone) {
        mtr_saver_suspend(s);
        mtr_save_owner_set(rec, MTR_SAVE_FREE);
    } else {
        leave_recording(s, MTR_SAVE_FREE);
    }
    mtr_own_end(rec, s->alone);
    return NULL;
}

bool mtr_saver_create(struct mtr_recorder *rec, int *error) {
    /* Joins the saver of the previous recording, if that ended by itself. */
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

/* Saving on a thread of the program, where no saver is worth creating or none
   may be created: at the end of a short process, in calls that free, in the
   child of a vfork. */

/* The hold of a thread of the program that saves. Signals are blocked: no
   handler of the program may run, or leave by a jump, in the middle, and
   SIGXFSZ does not concern it. */
struct save_hold {
    uint64_t mask;
    uint32_t from; /* FREE or CREATING, restored at the end */
};

static bool save_here_begin(struct mtr_recorder *rec, struct save_hold *hold) {
    hold->mask = tcm_block_signals();
    hold->from = MTR_SAVE_FREE;
    /* Without %p the child of a vfork does not get here. */
    uint32_t pid = mtr_config.per_process ? tcm_os_pid() : rec->pid;
    uint32_t held = MTR_SAVE_HELD;
    if (pid != rec->pid)
        held |= pid << MTR_SAVE_PID_SHIFT;
    if (tcm_cas_acq_rel(&rec->link.save_owner, &hold->from, held))
        return true;
    if (pid != rec->pid)
        held |= MTR_SAVE_FROM_CREATING;
    if (hold->from == MTR_SAVE_CREATING &&
        tcm_cas_acq_rel(&rec->link.save_owner, &hold->from, held))
        return true;
    tcm_restore_signals(hold->mask);
    return false;
}

static void save_here_end(struct mtr_recorder *rec,
                          const struct save_hold *hold) {
    mtr_save_owner_set(rec, hold->from);
    tcm_restore_signals(hold->mask);
}

bool mtr_saver_stock_here(struct mtr_recorder *rec) {
    struct mtr_pool *pool = &rec->pool;
    struct save_hold hold;
    if (mtr_process_is_confined())
        return false;
    if (!save_here_begin(rec, &hold)) {
        mtr_save_await(rec);
        return true;
    }
    TCM_TESTPOINT("saves_here");
    uint32_t state = tcm_load_acquire(&rec->state);
    bool ok = true;
    if (state == MTR_LAZY || state == MTR_ENDED) {
        ok = mtr_spool_stock(rec, MTR_SMALL);
        if (ok)
            mtr_pool_notify(pool);
        mtr_spool_close(rec);
        /* Nobody will save and so make room below the bound. */
        tcm_lock(&pool->lock);
        pool->bound =
            tcm_max_u64(pool->bound, pool->full_bytes + 2 * MTR_LARGE_BYTES);
        tcm_unlock(&pool->lock);
    }
    if (state == MTR_LAZY && hold.from == MTR_SAVE_FREE &&
        tcm_os_pid() == rec->pid)
        tcm_store_relaxed(&rec->link.due, 1u);
    save_here_end(rec, &hold);
    return ok;
}

bool mtr_saver_round_here(struct mtr_recorder *rec) {
    struct mtr_saver *s = &saver_state;
    struct save_hold hold;
    if (mtr_process_is_confined())
        return true;
    if (!save_here_begin(rec, &hold))
        return false;
    if (tcm_load_acquire(&rec->state) != MTR_ENDED) {
        save_here_end(rec, &hold);
        return true;
    }
    if (mtr_saver_resume(s) && mtr_saver_end_mode_round(s, true)) {
        mtr_saver_suspend(s);
        save_here_end(rec, &hold);
        return true;
    }
    mtr_saver_give_up(s);
    leave_recording(s, hold.from);
    tcm_restore_signals(hold.mask);
    return true;
}

bool mtr_saver_end_here(struct mtr_recorder *rec) {
    struct mtr_saver *s = &saver_state;
    struct save_hold hold;
    /* Published events are in the spool. */
    if (mtr_process_is_confined())
        return true;
    if (!save_here_begin(rec, &hold))
        return false;
    /* For outputs other than files the saver has the reader, or the
       descriptor. */
    if (tcm_load_acquire(&rec->state) != MTR_LAZY ||
        rec->kind != MTR_OUTPUT_FILE) {
        save_here_end(rec, &hold);
        return false;
    }
    mtr_saver_begin(s, rec);
    mtr_folder_keep_open(rec);
    bool ok = mtr_saver_set_up_here(s);
    /* On EMFILE a saver can do it: it has a descriptor table of its own, which
       is empty. */
    bool done = ok || s->output.error != EMFILE;
    if (ok && !mtr_saver_enter_end_mode(s)) {
        mtr_saver_give_up(s);
        ok = false;
    } else if (!ok && done) {
        mtr_fail(rec, "cannot record to", s->output.error);
    }
    if (ok || !done) {
        mtr_saver_suspend(s);
        save_here_end(rec, &hold);
    } else {
        leave_recording(s, hold.from);
        tcm_restore_signals(hold.mask);
    }
    return done;
}
