/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/ending.h"

#include "base/check.h"
#include "base/linux/os_thread.h"
#include "base/testpoint.h"

void mtr_fail(struct mtr_recorder *rec, const char *what, int error) {
    const char *name = rec->name[0] != '\0' ? rec->name : rec->output;
    size_t n =
        mtr_compose(rec->message, sizeof(rec->message), what, name, error);
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
