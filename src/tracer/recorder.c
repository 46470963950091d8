/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a recording: set-up, start, end, failure, fork.
 *
 *   mtr_init --> ARMED --> STARTING --> LAZY -----> RUNNING --> ENDED
 *                  ^        ^  |        (spool)     (saver)       |
 *   fork child: OFF   start-+  +------> FAILED, STOPPED <---------+
 *
 * With %p the recording begins with the first event, and so does that of a
 * forked child; without it at once, and children stay OFF. By call it may begin
 * in OFF, STOPPED and FAILED, each time as a new session.
 */
#include "tracer/recorder.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/os_file.h"
#include "base/os_mem.h"
#include "base/os_thread.h"
#include "base/raw_io.h"
#include "base/testpoint.h"
#include "traceformat/raw_writer.h"
#include "tracer/control_server.h"
#include "tracer/own_thread.h"
#include "tracer/saver.h"
#include "tracer/thread_early.h"
#include "tracer/trace_clock.h"
#include "tracer/trace_name.h"
#include "tracer/trace_process.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

struct mtr_recorder *mtr_recorder;

/* The kernel does not wipe our pages in children; the fork handlers do. */
static bool wipe_by_hand;

/* --- Messages ------------------------------------------------------------ */

/* Text on descriptor 2, if that is what it was at the start. */
static void say(const char *text, size_t length) {
    struct stat st;
    int saved = errno;
    if (length != 0 && !mtr_config.confined && fstat(2, &st) == 0 &&
        st.st_dev == mtr_config.stderr_dev &&
        st.st_ino == mtr_config.stderr_ino)
        tcm_io_write_all(2, text, length);
    errno = saved;
}

void mtr_message_flush(struct mtr_recorder *rec) {
    if (tcm_load_relaxed(&rec->message_length) == 0)
        return;
    /* Acquire: pairs with the release in mtr_fail; the text is there. One
       thread gets it. */
    uint32_t length = tcm_swap_acq_rel(&rec->message_length, 0u);
    say(rec->message, length);
}

void mtr_summary_flush(struct mtr_recorder *rec) {
    char text[MTR_SUMMARY_MAX];
    if (!mtr_config.stats || tcm_swap_acq_rel(&rec->summary_due, 0u) == 0)
        return;
    say(text, mtr_saver_summary(text, sizeof(text)));
}

/* The C library's text of an error, which takes no lock; NULL: it has none. */
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 32)
static const char *system_error_text(int error) {
    return strerrordesc_np(error);
}
#else
static const char *system_error_text(int error) {
    (void)error;
    return NULL;
}
#endif

static const char *error_text(int error) {
    return error == TCM_EFOREIGN ? TCM_EFOREIGN_TEXT : system_error_text(error);
}

/* The message in text of CAP bytes, as a line; its length. */
static size_t compose(char *text, size_t cap, const char *what,
                      const char *name, int error) {
    struct tcm_fmt f;
    tcm_fmt_init(&f, text, cap - 1);
    tcm_fmt_str(&f, "tcmalloc: ");
    tcm_fmt_str(&f, what);
    if (name != NULL) {
        tcm_fmt_char(&f, ' ');
        tcm_fmt_str(&f, name);
    }
    if (error != 0) {
        const char *reason = error_text(error);
        tcm_fmt_str(&f, ": ");
        tcm_fmt_str(&f, reason != NULL ? reason : "error ");
        if (reason == NULL)
            tcm_fmt_u64(&f, (uint64_t)error);
    }
    TCM_ASSERT(f.len + 1 < cap);
    text[f.len] = '\n';
    text[f.len + 1] = '\0';
    return f.len + 1;
}

void mtr_complain(const char *what, const char *name, int error) {
    char text[256];
    say(text, compose(text, sizeof(text), what, name, error));
}

void mtr_fail(struct mtr_recorder *rec, const char *what, int error) {
    const char *name = rec->name[0] != '\0' ? rec->name : rec->output;
    size_t n = compose(rec->message, sizeof(rec->message), what, name, error);
    mtr_config.wanted = false;
    mtr_spool_tell_stop(rec);
    tcm_store_release(&rec->message_length, (uint32_t)n);
    mtr_switch_off(rec, MTR_FAILED);
    TCM_TESTPOINT("recording_failed");
}

void mtr_switch_off(struct mtr_recorder *rec, enum mtr_state state) {
    TCM_ASSERT(state == MTR_STOPPED || state == MTR_FAILED);
    /* Seen by threads that look at the flag after they put their cache back,
       and then by those that wait. */
    tcm_store_seq_cst(&rec->control.recording, 0u);
    tcm_store_seq_cst(&rec->control.end_mode, 0u);
    tcm_store_seq_cst(&rec->state, (uint32_t)state);
    mtr_registry_stop_all(rec);
    /* The limits are gone before any position is looked at for the last time:
       a call that begins after a call that the trace lacks is lacking too. */
    tcm_fence_seq_cst();
    mtr_pool_notify(&rec->pool);
    tcm_futex_wake(&rec->state, INT32_MAX);
    tcm_add_acq_rel(&rec->link.done, 0u);
    tcm_futex_wake(&rec->link.done, INT32_MAX);
    TCM_TESTPOINT("switched_off");
}

/* --- Start --------------------------------------------------------------- */

size_t mtr_build_header(const struct mtr_recorder *rec, void *out,
                        const uint32_t *part, uint64_t start) {
    const struct mtr_config *c = &mtr_config;
    struct mtf_raw_header h = {
        .pid = c->self.pid,
        .parent_pid = c->parent.pid,
        .process_start = c->self.start,
        .random = rec->random,
        .parent_start = c->parent.start,
        .parent_random = c->parent.random,
        .wall_ns = rec->wall_ns,
        .start_ns = rec->start_ns,
        .first_token = rec->first_token,
        .page_size = (uint32_t)tcm_os_page_size(),
        .clock = MTF_CLOCK_MONOTONIC_NS,
        .settings =
            (uint8_t)((c->compress ? MTF_SETTING_COMPRESSED : 0) |
                      (c->drops ? MTF_SETTING_DROP : 0) |
                      (mtr_is_per_process(rec) ? MTF_SETTING_PER_PROCESS : 0)),
        .buffer_bound = c->bound_bytes,
    };
    const char *library = "libtcmalloc_minimal " TCM_VERSION;
    return part == NULL ? mtf_raw_build_header(out, &h, c->executable, library)
                        : mtf_raw_build_part_header(out, &h, c->executable,
                                                    library, *part, start);
}

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

/* Whether this call may make threads, and wait for one that is being made. The
   child of a vfork may not: its threads end with it. (A confined process is not
   asked for its id: it gets no thread anyway.) */
static bool may_make_thread(const struct mtr_recorder *rec) {
    return mtr_freeing == 0 &&
           (mtr_process_is_confined() || tcm_os_pid() == rec->pid);
}

/* By the thread that changed link.started to 1. */
static void make_saver(struct mtr_recorder *rec, bool starts) {
    /* Not for one that ended in the meantime, whose saver is gone. The state
       cannot leave LAZY and ENDED while the saver is being made. */
    bool ok = saver_is_due(rec, starts);
    TCM_ASSERT(tcm_load_relaxed(&rec->link.started) == 1);
    if (ok) {
        int error = EPERM;
        bool allowed = starts || !mtr_process_is_confined();
        /* Calls that cannot wait for it find buffers meanwhile. */
        if (allowed && tcm_load_relaxed(&rec->state) == MTR_LAZY) {
            mtr_saver_keep_ready(rec);
            mtr_spool_close(rec);
        }
        mtr_config.host->enter_private();
        ok = allowed && mtr_saver_create(rec, &error);
        mtr_config.host->leave_private();
        if (!ok) {
            mtr_fail(rec, "cannot start a thread to record to", error);
            mtr_pool_close(&rec->pool);
        }
    }
    if (!ok) {
        tcm_store_release(&rec->link.started, 0u);
        tcm_futex_wake(&rec->link.started, INT32_MAX);
    }
}

static bool need_saver(struct mtr_recorder *rec, bool starts) {
    uint32_t started;
    while ((started = tcm_load_acquire(&rec->link.started)) != 2) {
        if (started == 0 && !saver_is_due(rec, starts))
            return false;
        if (!may_make_thread(rec))
            return false;
        if (started == 1)
            tcm_futex_wait(&rec->link.started, 1, UINT64_MAX);
        else if (tcm_cas_acq_rel(&rec->link.started, &started, 1u))
            make_saver(rec, starts);
    }
    bool ok = mtr_state_is_on(tcm_load_acquire(&rec->state));
    /* One that begins by call, too. */
    if (ok)
        mtr_control_server_need();
    return ok;
}

bool mtr_saver_need(struct mtr_recorder *rec) {
    return need_saver(rec, false);
}

/* The spool alone; no thread, no file, no descriptor that stays. */
static bool start_lazy(struct mtr_recorder *rec) {
    size_t page = tcm_os_page_size();
    size_t bytes = tcm_align_up(MTR_READY_SMALL * MTR_SMALL_BYTES, page);
    if (rec->kind != MTR_OUTPUT_FILE)
        return false;
    mtr_folder_hold(rec);
    bool made = mtr_spool_create(rec);
    mtr_folder_let_go(rec);
    if (!made)
        return false;
    void *p = mtr_spool_grow(rec, bytes);
    bool ok = p != NULL && mtr_pool_add(&rec->pool, MTR_SMALL, p, bytes);
    mtr_spool_close(rec);
    return ok;
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
    mtr_registry_begin(rec, session, adopt);
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

static bool begin_armed(struct mtr_recorder *rec) {
    bool adopt = mtr_early_has_events();
    if (mtr_process_is_confined()) {
        prepare_first_session(rec);
        mtr_config.wanted = false;
        mtr_switch_off(rec, MTR_FAILED);
        return false;
    }
    if (!begin_session(rec, adopt))
        return false;
    if (mtr_config.per_process && start_lazy(rec)) {
        tcm_store_release(&rec->state, (uint32_t)MTR_LAZY);
        tcm_futex_wake(&rec->state, INT32_MAX);
        /* A forked child answers from its first event on. */
        if (may_make_thread(rec))
            mtr_control_server_need();
    } else if (!need_saver(rec, true)) {
        return false;
    }
    mtr_config.starts++;
    if (adopt)
        mtr_early_adopt(rec);
    return true;
}

bool mtr_start_armed(struct mtr_recorder *rec) {
    uint32_t state = MTR_ARMED;
    if (tcm_cas_acq_rel(&rec->state, &state, (uint32_t)MTR_STARTING)) {
        bool ok = begin_armed(rec);
        state = MTR_STARTING;
        /* It takes a saver, which another call may make. */
        if (!ok && tcm_cas_acq_rel(&rec->state, &state, (uint32_t)MTR_ARMED))
            tcm_futex_wake(&rec->state, INT32_MAX);
        if (!ok)
            mtr_message_flush(rec);
        return ok;
    }
    while ((state = tcm_load_acquire(&rec->state)) == MTR_STARTING &&
           mtr_freeing == 0)
        tcm_futex_wait(&rec->state, MTR_STARTING, UINT64_MAX);
    return state == MTR_LAZY || state == MTR_RUNNING || state == MTR_ENDED;
}

struct mtr_recorder *mtr_recorder_need(void) {
    struct mtr_recorder *rec = tcm_load_acquire(&mtr_recorder);
    size_t bytes =
        tcm_align_up(sizeof(struct mtr_recorder), tcm_os_page_size());
    if (rec != NULL)
        return rec;
    struct mtr_recorder *mine = tcm_os_map(bytes);
    if (mine == NULL)
        return NULL;
    if (!tcm_os_wipe_on_fork(mine, bytes))
        wipe_by_hand = true;
    mine->pid = tcm_os_pid();
    mine->control.known = 1;
    /* Publishes a zeroed record; pairs with the loads in trace_control.c. */
    if (tcm_cas_acq_rel(&mtr_recorder, &rec, mine))
        return mine;
    tcm_os_unmap(mine, bytes);
    return rec;
}

/* --- Children ------------------------------------------------------------ */

void mtr_recorder_wipe(struct mtr_recorder *rec) {
    if (wipe_by_hand)
        memset(rec, 0, sizeof(*rec));
}

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
