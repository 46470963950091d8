/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a recording: start, the saver's start, children. Its end is
 * mtr_switch_off (saver_phase.c).
 *
 *   mtr_init --> ARMED --> STARTING --> LAZY -----> RUNNING --> ENDED
 *                  ^        ^  |        (spool)     (saver)       |
 *   fork child: OFF   start-+  +------> FAILED, STOPPED <---------+
 *
 * With %p the recording begins with the first event, and so does that of a
 * forked child; without it at once, and children stay OFF. By call it may begin
 * in OFF, STOPPED and FAILED, each time as a new session.
 */
#include "tracer/session.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_thread.h"
#include "base/testpoint.h"
#include "tracer/saver/saver.h"
#include "tracer/stream/thread_early.h"
#include "tracer/stream/thread_life.h"
#include "tracer/trace_clock.h"
#include "tracer/trace_name.h"
#include "tracer/trace_process.h"

#include <errno.h>
#include <string.h>

/* --- The saver ----------------------------------------------------------- */

/*
 * Whether a saver that is missing may be made now. While a recording is being
 * set up only the thread that does so may (STARTS), as soon as all that the
 * saver needs is there: others may come from the recording before, and not know
 * yet that it is over. None is missing in a recording that has had one, but in
 * end mode.
 */
static bool saver_is_due(struct mtr_recorder *rec, bool starts) {
    uint32_t state = tcm_load_acquire(&rec->state);
    return state == MTR_LAZY || state == MTR_ENDED ||
           (starts && state == MTR_STARTING);
}

/* Whether this call may make threads. The child of a vfork may not: its threads
   end with it. (A confined process is not asked for its id: it gets no thread
   anyway.) */
static bool may_make_thread(const struct mtr_recorder *rec) {
    return mtr_freeing == 0 &&
           (mtr_process_is_confined() || tcm_os_pid() == rec->pid);
}

/* The thread itself, by the thread that holds. */
static bool create_saver(struct mtr_recorder *rec, int *error) {
    mtr_saver_release(rec, MTR_SAVES_COMING);
    mtr_config.host->enter_private();
    bool ok = mtr_saver_create(rec, error);
    mtr_config.host->leave_private();
    if (!ok)
        mtr_saver_hold_coming(rec);
    return ok;
}

/* By the thread that holds. */
static bool make_saver(struct mtr_recorder *rec, bool starts, bool allowed) {
    int error = EPERM;
    /* Not for one that ended in the meantime, whose saver is gone. */
    bool ok = saver_is_due(rec, starts);
    if (ok) {
        /* Calls find buffers meanwhile. */
        if (allowed && tcm_load_relaxed(&rec->state) == MTR_LAZY) {
            mtr_spool_keep_ready(rec);
            mtr_spool_close(rec);
        }
        ok = allowed && create_saver(rec, &error);
        /* While the thread was being made another may have ended the program's
           recording, which then needs none. */
        bool can_do_without =
            allowed && tcm_load_relaxed(&rec->state) == MTR_ENDED;
        if (!ok && !can_do_without && saver_is_due(rec, starts)) {
            mtr_fail(rec, "cannot start a thread to record to", error);
            mtr_pool_close(&rec->pool);
        }
    }
    if (!ok)
        mtr_saver_release(rec, MTR_SAVES_NONE);
    return ok;
}

/* No handler of a signal may leave in the middle: what is held would stay
   so. */
static bool try_to_make_saver(struct mtr_recorder *rec, bool starts) {
    bool allowed = starts || !mtr_process_is_confined();
    uint64_t mask = allowed ? tcm_block_signals() : 0;
    uint32_t none = MTR_SAVES_NONE;
    bool ok = true;
    if (tcm_cas_acq_rel(&rec->link.started, &none, (uint32_t)MTR_SAVES_HELD))
        ok = make_saver(rec, starts, allowed);
    if (allowed)
        tcm_restore_signals(mask);
    return ok;
}

/* False: there is none, and none may be made by this call; or one is being made
   by another (enum mtr_saves). */
static bool need_saver(struct mtr_recorder *rec, bool starts) {
    uint32_t started;
    while ((started = tcm_load_acquire(&rec->link.started)) !=
           MTR_SAVES_SAVER) {
        if (started == MTR_SAVES_COMING)
            return false;
        if (started == MTR_SAVES_HELD)
            tcm_futex_wait(&rec->link.started, MTR_SAVES_HELD, UINT64_MAX);
        else if (!saver_is_due(rec, starts) || !may_make_thread(rec) ||
                 !try_to_make_saver(rec, starts))
            return false;
    }
    bool ok = mtr_state_is_on(tcm_load_acquire(&rec->state));
    /* One that begins by call, too. */
    if (ok && mtr_config.control && may_make_thread(rec))
        mtr_config.answer();
    return ok;
}

bool mtr_saver_need(struct mtr_recorder *rec) {
    return need_saver(rec, false);
}

bool mtr_saver_await(struct mtr_recorder *rec, uint64_t timeout_ns) {
    uint64_t end = tcm_clock_ns() + timeout_ns, now;
    while (!mtr_saver_need(rec)) {
        if (tcm_load_acquire(&rec->link.started) != MTR_SAVES_COMING ||
            (now = tcm_clock_ns()) >= end)
            return false;
        tcm_futex_wait(&rec->link.started, MTR_SAVES_COMING, end - now);
    }
    return true;
}

bool mtr_saver_round(struct mtr_recorder *rec) {
    uint32_t round = tcm_add_acq_rel(&rec->link.wanted, 1u) + 1;
    mtr_saver_wake(rec);
    for (;;) {
        uint32_t done = tcm_load_acquire(&rec->link.done);
        if ((int32_t)(done - round) >= 0)
            return true;
        if (!mtr_state_is_on(tcm_load_acquire(&rec->state)) ||
            !mtr_saver_need(rec))
            return false;
        tcm_futex_wait(&rec->link.done, done, UINT64_MAX);
    }
}

/* --- Start --------------------------------------------------------------- */

/* The spool alone; no thread, no file, no descriptor that stays. false: there
   can be none, and a saver is to be made at once. Buffers are in private memory
   until then: other threads, which wait for the end of STARTING, must not wait
   for a thread that is being made. */
static bool start_lazy(struct mtr_recorder *rec) {
    if (rec->kind != MTR_OUTPUT_FILE) {
        (void)mtr_spool_stock(rec, MTR_SMALL);
        return false;
    }
    mtr_folder_hold(rec);
    bool made = mtr_spool_create(rec);
    mtr_folder_let_go(rec);
    bool ok = mtr_spool_stock(rec, MTR_SMALL);
    mtr_spool_close(rec);
    return made && ok;
}

static void prepare_first_session(struct mtr_recorder *rec) {
    mtr_registry_init(&rec->registry);
    mtr_pool_init(&rec->pool, 0);
    tcm_lock_init(&rec->late_lock, TCM_RANK_TRACE_LATE);
}

/* The next session: everything that a recording has of its own. */
static bool begin_session(struct mtr_recorder *rec, bool adopt) {
    uint32_t session = rec->session + 1;
    TCM_ASSERT(tcm_load_relaxed(&rec->state) == MTR_STARTING);
    TCM_ASSERT(tcm_load_relaxed(&rec->link.started) == 0);
    if (session == 1)
        prepare_first_session(rec);
    if (rec->pid == 0)
        rec->pid = tcm_os_pid();
    mtr_process_identify(rec->pid);
    uint64_t early_token = adopt ? mtr_early_first_token() : 0;
    mtr_registry_begin(rec, session, adopt ? &early_token : NULL);
    /* A thread that comes from the recording before may be writing the head of
       its last buffer there. */
    tcm_store_relaxed(&rec->random, mtr_config.self.random);
    rec->start_ns = adopt ? mtr_early_time_ns() : mtr_clock_ns();
    rec->start_cpu_ns = tcm_clock_process_cpu_ns();
    mtr_pool_open(&rec->pool, session, mtr_config.bound_bytes);
    memset(&rec->spool, 0, sizeof(rec->spool));
    tcm_store_relaxed(&rec->link.stop, 0u);
    tcm_store_relaxed(&rec->link.finish, 0u);
    tcm_store_relaxed(&rec->link.idle, 0u);
    tcm_store_relaxed(&rec->link.due, 0u);
    tcm_store_relaxed(&rec->link.end_events, 0u);
    rec->name[0] = '\0';
    rec->name_number = 0;
    memset(&rec->live, 0, sizeof(rec->live));
    TCM_TESTPOINT("session_begun");
    int error = mtr_name_expand(rec);
    if (error != 0) {
        mtr_fail(rec, "cannot record to", error);
        return false;
    }
    rec->wall_ns = tcm_clock_wall_ns();
    rec->header_length = (uint32_t)mtr_build_header(rec, rec->header, NULL, 0);
    TCM_ASSERT(rec->header_length <= sizeof(rec->header));
    return true;
}

bool mtr_begin_recording(struct mtr_recorder *rec) {
    bool ok = begin_session(rec, false) && need_saver(rec, true);
    uint32_t starting = MTR_STARTING;
    mtr_config.starts++;
    /* There can be no saver here, which is no failure. */
    if (!ok && tcm_cas_acq_rel(&rec->state, &starting, (uint32_t)MTR_STOPPED))
        tcm_futex_wake(&rec->state, INT32_MAX);
    return ok;
}

/* For the footer, and for a reader of the spool. */
static void count_early_drops(struct mtr_recorder *rec) {
    uint64_t dropped = mtr_early_take_dropped();
    mtr_registry_count_dropped(rec, dropped);
    mtr_pool_count_lost(&rec->pool, rec->session, dropped, 0);
}

static void take_early(struct mtr_recorder *rec, bool adopt) {
    mtr_config.starts++;
    if (adopt)
        mtr_early_adopt(rec);
    count_early_drops(rec);
}

/* With %p, up to LAZY. */
static bool begin_lazy(struct mtr_recorder *rec, bool *wants_saver) {
    bool adopt = mtr_early_has_events();
    if (!begin_session(rec, adopt))
        return false;
    *wants_saver = !start_lazy(rec);
    tcm_store_release(&rec->state, (uint32_t)MTR_LAZY);
    tcm_futex_wake(&rec->state, INT32_MAX);
    take_early(rec, adopt);
    return true;
}

/* The rest, for which no other thread waits. */
static bool go_on(struct mtr_recorder *rec, bool wants_saver) {
    if (!may_make_thread(rec)) {
        tcm_store_relaxed(&rec->link.due,
                          wants_saver || mtr_config.control ? 1u : 0u);
        return true;
    }
    if (wants_saver)
        return need_saver(rec, false) ||
               mtr_state_is_on(tcm_load_acquire(&rec->state));
    /* A forked child answers from its first event on. */
    mtr_config.answer();
    return true;
}

/* Without %p, in set-up. */
static bool begin_at_once(struct mtr_recorder *rec) {
    bool adopt = mtr_early_has_events();
    uint32_t starting = MTR_STARTING;
    bool ok = begin_session(rec, adopt) && need_saver(rec, true);
    if (ok)
        take_early(rec, adopt);
    else if (tcm_cas_acq_rel(&rec->state, &starting, (uint32_t)MTR_ARMED))
        tcm_futex_wake(&rec->state, INT32_MAX);
    return ok;
}

static bool refuse_confined(struct mtr_recorder *rec) {
    prepare_first_session(rec);
    mtr_config.wanted = false;
    mtr_switch_off(rec, MTR_FAILED);
    return false;
}

/* Others wait while STARTING: so no handler of a signal may leave in the
   middle, and no thread is made. (A confined process may not block signals.) */
bool mtr_start_armed(struct mtr_recorder *rec) {
    uint32_t state = MTR_ARMED;
    bool is_confined = mtr_process_is_confined();
    bool lazy = mtr_config.per_process, wants_saver = false;
    uint64_t mask = is_confined ? 0 : tcm_block_signals();
    bool begins = tcm_cas_acq_rel(&rec->state, &state, (uint32_t)MTR_STARTING);
    bool ok =
        begins && !is_confined && (!lazy || begin_lazy(rec, &wants_saver));
    if (!is_confined)
        tcm_restore_signals(mask);
    if (begins) {
        if (is_confined)
            ok = refuse_confined(rec);
        else if (ok)
            ok = lazy ? go_on(rec, wants_saver) : begin_at_once(rec);
        if (!ok)
            mtr_message_flush(rec);
        return ok;
    }
    while ((state = tcm_load_acquire(&rec->state)) == MTR_STARTING)
        tcm_futex_wait(&rec->state, MTR_STARTING, UINT64_MAX);
    return state == MTR_LAZY || state == MTR_RUNNING || state == MTR_ENDED;
}

/* --- Children ------------------------------------------------------------ */

bool mtr_child_begin(struct mtr_recorder *rec) {
    uint32_t off = MTR_OFF;
    tcm_store_relaxed(&rec->control.known, 1u);
    if (!mtr_config.wanted || !mtr_config.per_process)
        return false;
    if (tcm_load_relaxed(&rec->pid) == 0)
        tcm_store_relaxed(&rec->pid, tcm_os_pid());
    if (tcm_cas_acq_rel(&rec->state, &off, (uint32_t)MTR_ARMED))
        tcm_store_seq_cst(&rec->control.recording, 1u);
    return true;
}
