/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a recording is on: the words that every thread looks at.
 *
 * How a recording comes to be seen. The plain paths of malloc and free do not
 * ask whether one is on: a thread that records, or may have to, has its cache
 * shut (core/thread_cache.h), so that every call takes a path that asks. Only
 * its owner opens a cache, and looks at mtr_is_recording again afterwards; a
 * start sets the flag, then has the host shut all caches (all sequentially
 * consistent). So either the owner sees the flag and shuts its cache again, or
 * the start's store comes after the owner's. A stop clears the flag only.
 */
#ifndef TCM_TRACER_RECORDING_H
#define TCM_TRACER_RECORDING_H

#include "base/atomic.h"
#include "base/compiler.h"

/*
 * Control state, in memory that the child of any fork finds zeroed; the pointer
 * is never NULL (before set-up it leads to a constant).
 */
struct mtr_control {
    uint32_t recording; /* 1: threads are to record; seq_cst, see above */
    uint32_t early;     /* 1: before mtr_init: into the static buffer; then
                           `recording` is 1 too */
    uint32_t end_mode;  /* 1: each event is saved before the program goes on */
    uint32_t known;     /* 0: a child, and mtr_enter has not looked yet whether
                           it is to be recorded */
};
extern struct mtr_control *mtr_control;

/* Before mtr_init. */
static inline bool mtr_is_early(void) {
    return tcm_load_relaxed(&tcm_load_relaxed(&mtr_control)->early) != 0;
}

/*
 * The one question whether threads record: a recording is on, or the
 * environment, not read yet, may ask for one. What a thread has (its stream, a
 * shut cache) follows with the thread's next slow path. The pointer changes
 * when the first recording is begun by call, and its reading is part of the
 * protocol too.
 */
static inline bool mtr_is_recording(void) {
    struct mtr_control *control = tcm_load_seq_cst(&mtr_control);
    return tcm_load_seq_cst(&control->recording) != 0;
}

#endif
