/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Set-up, the end of the program, and fork, as api reports them.
 */
#include "tracer/tracer.h"

#include "base/linux/os_process.h"
#include "base/linux/os_thread.h"
#include "tracer/own_thread.h"
#include "tracer/recorder.h"
#include "tracer/saver/saver.h"
#include "tracer/session.h"
#include "tracer/stream/thread_early.h"
#include "tracer/trace_process.h"

#include <errno.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Control words after set-up, if this process is not recorded. Never
   written. */
static struct mtr_control control_off = {.known = 1};

/* --- Set-up -------------------------------------------------------------- */

/*
 * The environment is changed only in api's constructor: setenv may be the
 * caller of malloc, and would not see that its environment has moved.
 */
static bool is_to_own;
static uint32_t number_to_own;

static void own_later(uint32_t name_number) {
    is_to_own = true;
    number_to_own = name_number;
}

static void set_up(const struct mtr_host *host, bool by_call) {
    struct mtr_control *off = &control_off;
    mtr_process_configure(host);
    mtr_config.ensure_control = mtr_control_server_ensure;
    mtr_own_init();
    bool is_one_for_all = mtr_config.named && !mtr_config.per_process;
    /* Forked by a constructor. A library that is loaded late gets here from its
       own constructor, in any process. */
    if (is_one_for_all && by_call && tcm_os_is_forked()) {
        mtr_process_disown();
        own_later(MTR_NO_NUMBER);
    } else if (is_one_for_all && !mtr_config.wanted) {
        /* Its children are not the first process, recorded or not. */
        mtr_process_identify(tcm_os_pid());
        own_later(MTR_NO_NUMBER);
    }
    struct mtr_recorder *rec = mtr_config.wanted ? mtr_recorder_get() : NULL;
    if (rec == NULL) {
        tcm_store_seq_cst(&mtr_control, off);
        return;
    }
    rec->state = MTR_ARMED;
    rec->control.recording = 1;
    if (!mtr_config.per_process) {
        bool ok = mtr_start_armed(rec);
        own_later(ok ? rec->name_number : 0);
    } else {
        mtr_config.makes_no_thread = mtr_own_calls_program();
        if (mtr_early_has_events())
            (void)mtr_start_armed(rec);
    }
    /* A thread that sees the new control words sees the recording behind
       them. */
    tcm_store_seq_cst(&mtr_control, &rec->control);
}

void mtr_init(const struct mtr_host *host, bool by_call) {
    static uint32_t begun;
    int saved = errno;
    if (tcm_swap_acq_rel(&begun, 1u) == 0) {
        mtr_inside_begin(mtr_frame());
        set_up(host, by_call);
        mtr_control_server_ensure();
        mtr_inside_end();
    }
    if (!by_call && is_to_own && environ != NULL) {
        is_to_own = false;
        mtr_process_set_owner(number_to_own);
    }
    errno = saved;
}

/*
 * The environment is there once the C library has begun, before all
 * constructors. Events in the static buffer have no call sites. In a static
 * program, which has no loader, some allocations come between the two: hardly
 * more than the buffer holds, but too early for set-up.
 */
bool mtr_init_is_due(void) {
    static enum { UNKNOWN, NOT, LATE, AT_ONCE } wanted;
    if (environ == NULL || mtr_is_inside(mtr_frame()))
        return false;
    mtr_inside_begin(mtr_frame());
    if (wanted == UNKNOWN) {
        bool at_once = tcm_env_get("TCMALLOC_TRACE_SITES") != NULL &&
                       getauxval(AT_BASE) != 0;
        wanted = !mtr_process_is_named() ? NOT : at_once ? AT_ONCE : LATE;
        if (wanted == NOT)
            mtr_early_disable();
    }
    bool due = wanted != NOT && mtr_early_must_end(wanted == AT_ONCE);
    mtr_inside_end();
    return due;
}

/* --- End ----------------------------------------------------------------- */

/*
 * How long the end of the program waits for a saver that has ended the
 * recording itself, by a failure or at its limit, and may be writing the
 * footer. It waits as it does for a saver that a call asks to end; but a failed
 * output may hang, so not for ever.
 */
#define LAST_WORDS_NS 5000000000u

void mtr_exit(void) {
    struct mtr_recorder *rec = mtr_recorder;
    if (rec == NULL)
        return;
    /* The child of a vfork ends, its parent goes on. */
    if (tcm_load_acquire(&rec->state) == MTR_LAZY &&
        !mtr_process_is_confined() && tcm_os_pid() != rec->pid)
        return;
    int saved = errno;
    /* A handler that interrupted the recorder may call exit. Its thread stays
       inside: it does not return to what it left half done. */
    uint32_t inside = mtr_inside;
    uint8_t freeing = mtr_inside_freeing;
    mtr_inside_begin(mtr_frame());
    mtr_exit_begin(rec);
    if (tcm_load_acquire(&rec->state) == MTR_LAZY && !mtr_saver_end_here(rec))
        (void)mtr_saver_await(rec, LAST_WORDS_NS);
    if (tcm_load_acquire(&rec->state) == MTR_RUNNING &&
        tcm_load_relaxed(&rec->link.finish) == 0) {
        rec->exit_self = &errno;
        tcm_store_release(&rec->link.finish, 1u);
        mtr_saver_round(rec);
    }
    uint32_t state = tcm_load_acquire(&rec->state);
    if (state == MTR_FAILED || state == MTR_STOPPED) {
        bool is_stop = tcm_load_acquire(&rec->link.stop) != 0;
        mtr_saver_await_end(rec, tcm_load_acquire(&rec->session),
                            is_stop ? UINT64_MAX : LAST_WORDS_NS);
        if (tcm_load_acquire(&rec->link.save_owner) == 0)
            mtr_own_join(&rec->saver_thread);
    }
    mtr_summary_flush(rec);
    mtr_message_flush(rec);
    mtr_inside = inside;
    mtr_inside_freeing = freeing;
    errno = saved;
}

/* --- Fork ---------------------------------------------------------------- */

/*
 * Fork takes no lock of the recorder: what the locks guard is zeroed in the
 * child, or is memory that the child never looks at. So a thread that waits for
 * buffers under the lock of the late stream keeps no other thread from forking.
 */

void mtr_fork_note(uint64_t fork) {
    mtr_config.fork = fork;
}

bool mtr_has_inherited(void) {
    return mtr_recorder != NULL && mtr_recorder->fork != 0;
}

void mtr_fork_child(struct mtr_thread **slot) {
    struct mtr_recorder *rec = mtr_recorder;
    mtr_early_fork_child();
    if (rec == NULL)
        return;
    mtr_recorder_wipe(rec);
    mtr_registry_wipe(slot);
    mtr_child_begin(rec);
    /* Not in a handler that has interrupted the allocator or the recorder. */
    if (tcm_locks_held != 0 || mtr_is_inside(mtr_frame()))
        return;
    int saved = errno;
    mtr_inside_begin(mtr_frame());
    mtr_control_server_fork_child();
    mtr_inside_end();
    errno = saved;
}
