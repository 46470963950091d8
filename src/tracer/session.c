/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a recording: start, creation of the saver, children. Its end is
 * mtr_switch_off (saver_phase.c).
 *
 *   mtr_init --> ARMED --> STARTING --> LAZY -----> RUNNING --> ENDED
 *                  ^        ^  |        (spool)     (saver)       |
 *   fork child: OFF   start-+  +------> FAILED, STOPPED <---------+
 *
 * With %p the recording begins with the first event, in a forked child, too.
 * Without %p it begins at once, and children stay OFF. A call may begin one in
 * OFF, STOPPED and FAILED, each time as a new session.
 *
 * Starts and stops by call exclude each other in the busy section, and wait for
 * the saver, which is created for each recording and gone when its stop
 * returns. They wait for files, so they use no lock that fork takes; the child
 * finds `busy` zeroed. In the section signals are blocked, and nothing waits
 * for a reader of the output: what may take long is awaited outside, for one
 * session, where a handler may exit or jump.
 * Threads do not stop while one recording ends and the next begins: the session
 * in a thread's record (recorder.h) tells to which its buffer belongs.
 */
#include "tracer/session.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/linux/os_thread.h"
#include "tracer/own_thread.h"
#include "tracer/recorder.h"
#include "tracer/saver/saver.h"
#include "tracer/stream/thread_early.h"
#include "tracer/stream/thread_life.h"
#include "tracer/stream/thread_looks.h"
#include "tracer/trace_clock.h"
#include "tracer/trace_name.h"
#include "tracer/trace_process.h"

#include <errno.h>
#include <string.h>

/* How long a flush waits for a saver that is being created: the creating thread
   may wait for a lock of the C library that the caller of the flush holds. */
#define SAVER_WAIT_NS 5000000000u

/* --- The saver ----------------------------------------------------------- */

/*
 * True if a missing saver may be created now. While a recording is being set up
 * only the thread that sets it up (STARTS) may create it, as soon as everything
 * that the saver needs is there: other threads may come from the previous
 * recording, and not know yet that it is over. A recording that has had a saver
 * lacks one only in end mode.
 */
static bool saver_is_due(struct mtr_recorder *rec, bool starts) {
    uint32_t state = tcm_load_acquire(&rec->state);
    return state == MTR_LAZY || state == MTR_ENDED ||
           (starts && state == MTR_STARTING);
}

/* True if this call may create threads. Creating one calls the program's calloc
   if it has its own, perhaps under a lock that this call's callers hold. The
   child of a vfork may create none: its threads end with it. (A confined
   process is not asked for its id, because it gets no thread anyway.) */
static bool may_make_thread(const struct mtr_recorder *rec) {
    return mtr_freeing == 0 && !mtr_config.makes_no_thread &&
           (mtr_process_is_confined() || tcm_os_pid() == rec->pid);
}

/* Creates the saver thread. The calling thread holds the saver's work. */
static bool create_saver(struct mtr_recorder *rec, int *error) {
    mtr_save_owner_set(rec, MTR_SAVE_CREATING);
    mtr_config.host->enter_private();
    bool ok = mtr_saver_create(rec, error);
    mtr_config.host->leave_private();
    if (!ok)
        mtr_save_owner_hold_creating(rec);
    return ok;
}

/* Creates the saver, if it is still missing and ALLOWED. The calling thread
   holds the saver's work. false: there is none. */
static bool make_saver(struct mtr_recorder *rec, bool starts, bool allowed) {
    int error = EPERM;
    /* Not for a recording that has ended meanwhile, whose saver is gone. */
    bool ok = saver_is_due(rec, starts);
    if (ok) {
        /* Other calls find buffers meanwhile. */
        if (allowed && tcm_load_relaxed(&rec->state) == MTR_LAZY) {
            mtr_spool_keep_ready(rec);
            mtr_spool_close(rec);
        }
        ok = allowed && create_saver(rec, &error);
        /* Meanwhile another thread may have ended the program's recording,
           which then needs no saver. */
        bool can_do_without =
            allowed && tcm_load_relaxed(&rec->state) == MTR_ENDED;
        if (!ok && !can_do_without && saver_is_due(rec, starts)) {
            mtr_fail(rec, "cannot start a thread to record to", error);
            mtr_pool_close(&rec->pool);
        }
    }
    if (!ok)
        mtr_save_owner_set(rec, MTR_SAVE_FREE);
    return ok;
}

/* Creates the saver if nobody else saves. */
static bool try_to_make_saver(struct mtr_recorder *rec, bool starts) {
    bool allowed = starts || !mtr_process_is_confined();
    uint64_t mask = mtr_signals_block();
    uint32_t none = MTR_SAVE_FREE;
    bool ok = true;
    if (tcm_cas_acq_rel(&rec->link.save_owner, &none, (uint32_t)MTR_SAVE_HELD))
        ok = make_saver(rec, starts, allowed);
    mtr_signals_restore(mask);
    return ok;
}

/* mtr_saver_ensure; STARTS: by the thread that sets the recording up. */
static bool need_saver(struct mtr_recorder *rec, bool starts) {
    uint32_t owner;
    while ((owner = tcm_load_acquire(&rec->link.save_owner)) !=
           MTR_SAVE_THREAD) {
        if (owner == MTR_SAVE_CREATING)
            return false;
        if ((owner & MTR_SAVE_KIND) == MTR_SAVE_HELD)
            mtr_save_await(rec);
        else if (!saver_is_due(rec, starts) || !may_make_thread(rec) ||
                 !try_to_make_saver(rec, starts))
            return false;
    }
    bool ok = mtr_state_is_on(tcm_load_acquire(&rec->state));
    /* A recording that begins by call answers, too. */
    if (ok && mtr_config.control && may_make_thread(rec))
        mtr_config.ensure_control();
    return ok;
}

bool mtr_saver_ensure(struct mtr_recorder *rec) {
    return need_saver(rec, false);
}

bool mtr_saver_await(struct mtr_recorder *rec, uint64_t timeout_ns) {
    uint64_t end = tcm_clock_ns() + timeout_ns, now;
    while (!mtr_saver_ensure(rec)) {
        if (tcm_load_acquire(&rec->link.save_owner) != MTR_SAVE_CREATING ||
            (now = tcm_clock_ns()) >= end)
            return false;
        tcm_futex_wait(&rec->link.save_owner, MTR_SAVE_CREATING, end - now);
    }
    return true;
}

bool mtr_saver_round(struct mtr_recorder *rec) {
    uint32_t round = tcm_add_acq_rel(&rec->link.wanted, 1u) + 1;
    mtr_saver_wake(rec);
    for (;;) {
        /* Loaded before the answer itself: an answer that comes after these
           loads has changed the futex. */
        uint32_t answers = tcm_load_acquire(&rec->link.answers);
        uint32_t done = tcm_load_acquire(&rec->link.done);
        if ((int32_t)(done - round) >= 0)
            return true;
        if (!mtr_state_is_on(tcm_load_acquire(&rec->state)) ||
            !mtr_saver_ensure(rec))
            return false;
        TCM_TESTPOINT("round_waits");
        tcm_futex_wait(&rec->link.answers, answers, UINT64_MAX);
    }
}

/* --- Start --------------------------------------------------------------- */

/* The state after STARTING: waits for a thread that begins a recording with its
   first event. */
static uint32_t state_after_start(struct mtr_recorder *rec) {
    uint32_t state;
    while ((state = tcm_load_acquire(&rec->state)) == MTR_STARTING)
        tcm_futex_wait(&rec->state, MTR_STARTING, UINT64_MAX);
    return state;
}

/* Makes the spool alone: no thread, no file, no descriptor that stays. false:
   there can be no spool, and a saver has to be created at once. Until then
   buffers are in private memory, because other threads, which wait for the end
   of STARTING, must not wait for a thread that is being created. */
static bool start_lazy(struct mtr_recorder *rec) {
    if (rec->kind != MTR_OUTPUT_FILE) {
        (void)mtr_spool_stock(rec, MTR_SMALL);
        return false;
    }
    mtr_folder_keep_open(rec);
    bool made = mtr_spool_create(rec);
    mtr_folder_release(rec);
    bool ok = mtr_spool_stock(rec, MTR_SMALL);
    mtr_spool_close(rec);
    return made && ok;
}

static void prepare_first_session(struct mtr_recorder *rec) {
    mtr_registry_init(&rec->registry);
    mtr_pool_init(&rec->pool, 0);
    tcm_lock_init(&rec->late_lock, TCM_RANK_TRACE_LATE);
}

/* Begins the next session: resets everything that belongs to one recording.
   ADOPT: it begins with the early events. false: it failed. */
static bool begin_session(struct mtr_recorder *rec, bool adopt) {
    uint32_t session = rec->session + 1;
    TCM_ASSERT(tcm_load_relaxed(&rec->state) == MTR_STARTING);
    TCM_ASSERT(tcm_load_relaxed(&rec->link.save_owner) == 0);
    if (session == 1)
        prepare_first_session(rec);
    if (rec->pid == 0)
        rec->pid = tcm_os_pid();
    mtr_process_identify(rec->pid);
    uint64_t early_token = adopt ? mtr_early_first_token() : 0;
    mtr_registry_begin(rec, session, adopt ? &early_token : NULL);
    /* Atomic, because a thread of the previous recording may be writing the
       head of its last buffer with this number. */
    tcm_store_relaxed(&rec->random, mtr_config.self.random);
    rec->start_ns = adopt ? mtr_early_time_ns() : mtr_clock_ns();
    rec->fork = mtr_config.fork;
    mtr_config.fork = 0;
    rec->start_cpu_ns = tcm_clock_process_cpu_ns() - rec->looks.ns;
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

/* Begins a recording from MTR_STARTING, with a saver. false: it failed, and a
   message waits. */
static bool begin_by_call(struct mtr_recorder *rec) {
    mtr_config.fork = 0; /* calls since the fork are missing */
    bool ok = begin_session(rec, false) && need_saver(rec, true);
    uint32_t starting = MTR_STARTING;
    mtr_config.starts++;
    /* Not being able to have a saver here is no failure. */
    if (!ok && tcm_cas_acq_rel(&rec->state, &starting, (uint32_t)MTR_STOPPED))
        tcm_futex_wake(&rec->state, INT32_MAX);
    return ok;
}

/* Counts early drops for the footer, and for a reader of the spool. */
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

/* Begins a recording with %p, up to LAZY. */
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

/* Finishes the start of a lazy recording; no other thread waits for this. */
static bool finish_lazy_start(struct mtr_recorder *rec, bool wants_saver) {
    if (!may_make_thread(rec)) {
        tcm_store_relaxed(&rec->link.due,
                          wants_saver || mtr_config.control ? 1u : 0u);
        return true;
    }
    if (wants_saver)
        return need_saver(rec, false) ||
               mtr_state_is_on(tcm_load_acquire(&rec->state));
    /* A forked child answers from its first event on. */
    mtr_config.ensure_control();
    return true;
}

/* Begins a recording without %p, in set-up. Signals are blocked. */
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

/* Other threads wait while STARTING: so signals are blocked, and with %p no
   thread is created. */
bool mtr_start_armed(struct mtr_recorder *rec) {
    uint32_t state = MTR_ARMED;
    bool is_confined = mtr_process_is_confined();
    bool lazy = mtr_config.per_process, wants_saver = false;
    uint64_t mask = mtr_signals_block();
    bool begins = tcm_cas_acq_rel(&rec->state, &state, (uint32_t)MTR_STARTING);
    bool ok = begins && !is_confined &&
              (lazy ? begin_lazy(rec, &wants_saver) : begin_at_once(rec));
    mtr_signals_restore(mask);
    if (begins) {
        if (is_confined)
            ok = refuse_confined(rec);
        else if (ok && lazy)
            ok = finish_lazy_start(rec, wants_saver);
        if (!ok)
            mtr_message_flush(rec);
        return ok;
    }
    state = state_after_start(rec);
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

/* --- By call: one at a time ----------------------------------------------- */

/* Begins the section that one thread at a time may be in. Signals are blocked,
   so no handler of a thread waits for what its own thread holds. */
static uint64_t busy_begin(struct mtr_recorder *rec) {
    uint64_t mask = mtr_signals_block();
    uint32_t expected = 0;
    if (!tcm_cas_acquire(&rec->busy, &expected, 1u))
        while (tcm_swap_acquire(&rec->busy, 2u) != 0)
            tcm_futex_wait(&rec->busy, 2, UINT64_MAX);
    return mask;
}

static void busy_end(struct mtr_recorder *rec, uint64_t mask) {
    TCM_ASSERT(tcm_load_relaxed(&rec->busy) != 0);
    if (tcm_swap_release(&rec->busy, 0u) == 2)
        tcm_futex_wake(&rec->busy, INT32_MAX);
    mtr_signals_restore(mask);
}

/*
 * Waits for the section's end without entering it, and so without blocking
 * signals, which a confined process that exits may not do. 2 makes the end wake
 * this thread; a thread that waits to enter sets it again, because the end
 * wakes all. Acquire: what the section did is seen.
 */
static void busy_await(struct mtr_recorder *rec) {
    uint32_t now;
    while ((now = tcm_load_acquire(&rec->busy)) != 0)
        if (now == 2 || tcm_cas_acq_rel(&rec->busy, &now, 2u))
            tcm_futex_wait(&rec->busy, 2, UINT64_MAX);
}

/* A start enters the section, then reads EXITED; this stores EXITED, then reads
   `busy`. Both are sequentially consistent: either the start sees EXITED, or
   this waits for its end. */
void mtr_exit_begin(struct mtr_recorder *rec) {
    tcm_store_seq_cst(&rec->exited, true);
    tcm_fence_seq_cst();
    busy_await(rec);
}

/* --- By call: start ------------------------------------------------------- */

/* Sets the pattern of the recording from PATH or the environment. false: the
   environment names no output for this process. */
static bool take_pattern(struct mtr_recorder *rec, const char *path) {
    const struct mtr_config *c = &mtr_config;
    rec->pattern[0] = '\0';
    if (path == NULL)
        return c->named && (c->per_process || c->named_pid == tcm_os_pid());
    if (path[0] == '\0')
        return false;
    rec->pattern_error =
        mtr_process_pattern(path, rec->pattern, &rec->pattern_per_process);
    return true;
}

static bool may_start(struct mtr_recorder *rec) {
    tcm_fence_seq_cst();
    return !tcm_load_seq_cst(&rec->exited) &&
           !mtr_state_is_on(state_after_start(rec));
}

/* Enters the busy section when the previous recording's saver is gone, which
   may have to wait for a reader. false: a recording is on, or the program ends.
 */
static bool enter_to_start(struct mtr_recorder *rec, uint64_t *mask) {
    for (;;) {
        uint32_t session = tcm_load_acquire(&rec->session);
        if (!may_start(rec))
            return false;
        mtr_saver_await_end(rec, session, UINT64_MAX);
        *mask = busy_begin(rec);
        bool ok = may_start(rec);
        if (ok && tcm_load_acquire(&rec->link.save_owner) == MTR_SAVE_FREE)
            return true;
        busy_end(rec, *mask);
        if (!ok)
            return false;
    }
}

static bool start(struct mtr_recorder *rec, const char *path,
                  const char *sites) {
    mtr_summary_flush(rec);
    if (!take_pattern(rec, path) ||
        (sites != NULL && !mtr_process_choose_sites(sites)))
        return false;
    tcm_store_release(&rec->state, (uint32_t)MTR_STARTING);
    bool ok = begin_by_call(rec);
    if (ok) {
        mtr_config.wanted = path == NULL;
        TCM_TESTPOINT("start_is_ready");
        /* A thread that sees its cache shut also sees these stores
           (recording.h). */
        tcm_store_seq_cst(&mtr_control, &rec->control);
        tcm_store_seq_cst(&rec->control.recording, 1u);
        TCM_TESTPOINT("recording_begins");
        mtr_config.host->recording_started();
    } else {
        mtr_message_flush(rec);
    }
    return ok;
}

bool mtr_start(const char *path, const char *sites) {
    struct mtr_recorder *rec = mtr_recorder_get();
    if (rec == NULL || mtr_is_inside(mtr_frame()))
        return false;
    int saved = errno;
    uint64_t mask;
    mtr_inside_begin(mtr_frame());
    bool ok = enter_to_start(rec, &mask);
    if (ok) {
        ok = start(rec, path, sites);
        busy_end(rec, mask);
    }
    mtr_inside_end();
    errno = saved;
    return ok;
}

/* --- By call: stop, flush ------------------------------------------------- */

/* Asks the saver to end the recording; what it has to do first is not awaited.
   Returns the state. */
static uint32_t ask_to_stop(struct mtr_recorder *rec) {
    uint32_t state = state_after_start(rec);
    if (!mtr_state_is_on(state))
        return state;
    mtr_config.wanted = false;
    /* Nothing was recorded yet, and there is no file. */
    if (state == MTR_ARMED &&
        tcm_cas_acq_rel(&rec->state, &state, (uint32_t)MTR_STOPPED)) {
        tcm_store_seq_cst(&rec->control.recording, 0u);
        return MTR_ARMED;
    }
    if (state_after_start(rec) != MTR_RUNNING)
        mtr_saver_ensure(rec);
    tcm_store_release(&rec->link.stop, 1u);
    mtr_saver_wake(rec);
    return MTR_RUNNING;
}

static bool stop(struct mtr_recorder *rec) {
    uint64_t mask = busy_begin(rec);
    uint32_t state = ask_to_stop(rec);
    uint32_t session = tcm_load_relaxed(&rec->session);
    busy_end(rec, mask);
    /* Also after the stop of another thread. */
    if (tcm_load_acquire(&rec->link.stop) != 0)
        mtr_saver_await_end(rec, session, UINT64_MAX);
    if (state != MTR_RUNNING)
        return state == MTR_ARMED;
    mask = busy_begin(rec);
    /* Otherwise the saver is that of a later recording. */
    bool same = tcm_load_relaxed(&rec->session) == session;
    if (same)
        mtr_own_join(&rec->saver_thread);
    mtr_summary_flush(rec);
    mtr_message_flush(rec);
    bool ok = !same || tcm_load_acquire(&rec->state) == MTR_STOPPED;
    busy_end(rec, mask);
    return ok;
}

bool mtr_stop(void) {
    struct mtr_recorder *rec = tcm_load_acquire(&mtr_recorder);
    if (rec == NULL || mtr_is_inside(mtr_frame()))
        return false;
    int saved = errno;
    mtr_inside_begin(mtr_frame());
    bool ok = stop(rec);
    mtr_inside_end();
    errno = saved;
    return ok;
}

static bool flush(struct mtr_recorder *rec) {
    busy_await(rec);
    uint32_t session = tcm_load_acquire(&rec->session);
    uint32_t state = state_after_start(rec);
    if (state == MTR_LAZY && !mtr_saver_await(rec, SAVER_WAIT_NS))
        state = MTR_FAILED;
    if (state == MTR_ARMED)
        return true;
    if (!mtr_state_is_on(state))
        return false;
    if (mtr_saver_round(rec))
        return true;
    /* The recording ended meanwhile; if a stop ended it, everything is in the
       file when its saver is gone. */
    mtr_saver_await_end(rec, session, UINT64_MAX);
    return tcm_load_acquire(&rec->state) != MTR_FAILED;
}

bool mtr_flush(void) {
    struct mtr_recorder *rec = tcm_load_acquire(&mtr_recorder);
    if (rec == NULL || mtr_is_inside(mtr_frame()))
        return false;
    int saved = errno;
    mtr_inside_begin(mtr_frame());
    bool ok = flush(rec);
    mtr_inside_end();
    errno = saved;
    return ok;
}

/* The saver has chosen the name when a flush returns. The name stays for the
   rest of the session, which no start ends in the busy section. */
static bool file(struct mtr_recorder *rec, char *path, size_t size) {
    uint32_t session = tcm_load_acquire(&rec->session);
    while (session != 0) {
        if (mtr_state_is_on(state_after_start(rec)) && !flush(rec))
            return false;
        uint64_t mask = busy_begin(rec);
        uint32_t flushed = session;
        session = tcm_load_relaxed(&rec->session);
        size_t n = strlen(rec->name);
        bool same = session == flushed;
        bool ok = same && rec->kind == MTR_OUTPUT_FILE && n != 0 && n < size;
        if (ok)
            memcpy(path, rec->name, n + 1);
        busy_end(rec, mask);
        if (same)
            return ok;
    }
    return false;
}

bool mtr_file(char *path, size_t size) {
    struct mtr_recorder *rec = tcm_load_acquire(&mtr_recorder);
    if (rec == NULL || mtr_is_inside(mtr_frame()))
        return false;
    int saved = errno;
    mtr_inside_begin(mtr_frame());
    bool ok = file(rec, path, size);
    mtr_inside_end();
    errno = saved;
    return ok;
}

bool mtr_is_on(void) {
    return !mtr_is_early() && mtr_is_recording();
}
