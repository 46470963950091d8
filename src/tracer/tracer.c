/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Set-up, the end of the program, fork: what api tells the recorder.
 */
#include "tracer/tracer.h"

#include "base/os_thread.h"
#include "tracer/control_server.h"
#include "tracer/own_thread.h"
#include "tracer/recorder.h"
#include "tracer/saver.h"
#include "tracer/session.h"
#include "tracer/thread_early.h"
#include "tracer/trace_process.h"

#include <errno.h>
#include <sys/auxv.h>
#include <unistd.h>

/* After set-up, if this process is not recorded. Never written. */
static struct mtr_control control_off = {.known = 1};

/* --- Set-up -------------------------------------------------------------- */

static void set_up(const struct mtr_host *host, bool by_call) {
    struct mtr_control *off = &control_off;
    mtr_process_configure(host);
    /* A constructor forked before any call: its child is not the first. */
    if (by_call && !mtr_config.per_process && mtr_process_is_forked())
        mtr_config.wanted = false;
    mtr_config.answer = mtr_control_server_need;
    mtr_own_init();
    /* Its children are not the first process, whether it is recorded yet. */
    if (mtr_config.named && !mtr_config.wanted && !mtr_config.per_process) {
        mtr_process_identify(tcm_os_pid());
        mtr_process_own(MTR_NO_NUMBER);
    }
    struct mtr_recorder *rec = mtr_config.wanted ? mtr_recorder_need() : NULL;
    if (rec == NULL) {
        tcm_store_seq_cst(&mtr_control, off);
        return;
    }
    rec->state = MTR_ARMED;
    rec->control.recording = 1;
    bool ok = true;
    if (!mtr_config.per_process) {
        ok = mtr_start_armed(rec);
        mtr_process_own(ok ? rec->name_number : 0);
    } else if (mtr_early_has_events()) {
        ok = mtr_start_armed(rec);
    }
    /* A thread that sees the new control sees the recording behind it. */
    tcm_store_seq_cst(&mtr_control, &rec->control);
}

void mtr_init(const struct mtr_host *host, bool by_call) {
    if (mtr_config.set_up)
        return;
    mtr_config.set_up = true;
    int saved = errno;
    mtr_inside = 1;
    set_up(host, by_call);
    mtr_early_end();
    mtr_control_server_need();
    mtr_inside = 0;
    errno = saved;
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
/* The environment is there when the C library has begun, before all
   constructors; threads can be made then, too. In a static program, which has
   no loader, some allocations come between: there only one that finds the
   static buffer full, which happens in constructors, is late enough. */
bool mtr_init_is_due(void) {
    return !mtr_config.set_up && mtr_inside == 0 && environ != NULL &&
           (getauxval(AT_BASE) != 0 || mtr_early_is_full());
}
#else
bool mtr_init_is_due(void) {
    return false; /* threads may need a constructor of libpthread's */
}
#endif

/* --- End ----------------------------------------------------------------- */

/*
 * A saver that ended the recording itself, by a failure or at its size, may be
 * writing the footer. The program waits for it, as it does for one that it asks
 * to end; but what failed once may hang, so not for ever.
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
    mtr_inside = 1;
    mtr_busy_begin(rec);
    rec->exited = true;
    if (tcm_load_acquire(&rec->state) == MTR_LAZY && !mtr_saver_end_here(rec))
        mtr_saver_need(rec);
    if (tcm_load_acquire(&rec->state) == MTR_RUNNING &&
        tcm_load_relaxed(&rec->link.finish) == 0) {
        tcm_store_release(&rec->link.finish, 1u);
        mtr_saver_round(rec);
    }
    uint32_t state = tcm_load_acquire(&rec->state);
    if (state == MTR_FAILED || state == MTR_STOPPED) {
        mtr_saver_await_gone(rec, LAST_WORDS_NS);
        if (tcm_load_acquire(&rec->link.started) == 0)
            mtr_own_join(&rec->saver_thread);
    }
    mtr_summary_flush(rec);
    mtr_message_flush(rec);
    mtr_busy_end(rec);
    mtr_inside = 0;
    errno = saved;
}

/* --- Fork ---------------------------------------------------------------- */

/*
 * Fork takes no lock of the recorder: what they guard is wiped in the child,
 * or is memory that it never looks at. So a thread that waits for buffers with
 * the lock of the late stream keeps no other from forking.
 */

void mtr_fork_child(struct mtr_thread **slot) {
    struct mtr_recorder *rec = mtr_recorder;
    if (rec == NULL)
        return;
    mtr_recorder_wipe(rec);
    mtr_registry_wipe(slot);
    mtr_child_begin(rec);
}
