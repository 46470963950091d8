/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder as api sees it: set-up, end and fork here; whether a recording
 * is on in recording.h; the events of a call in thread_buf.h, the way to them
 * in thread_life.h. No other header of the recorder includes this one.
 *
 * Threads: any, unless said otherwise. Nothing here changes errno, allocates
 * from the program's heap or takes more than 2 KiB of stack.
 */
#ifndef TCM_TRACER_TRACER_H
#define TCM_TRACER_TRACER_H

#include "base/compiler.h"
#include "tracer/recording.h"
#include "tracer/stream/thread_buf.h"
#include "tracer/stream/thread_life.h"
#include "tracer/trace_control.h"
#include "tracer/trace_process.h"

/*
 * Set-up from the environment, by api's constructor or earlier, BY_CALL for
 * which mtr_init_is_due. May create the saver thread. The second call does
 * nothing but what BY_CALL left: it changes the environment.
 */
void mtr_init(const struct mtr_host *host, bool by_call);
/* mtr_is_early: whether the calling thread, which allocates and holds no lock,
   is to make set-up. Constructors of other libraries run before api's, and may
   allocate much, make threads and fork. */
bool mtr_init_is_due(void);
/* The library's destructor: footer, then end mode. */
void mtr_exit(void);

/*
 * After the events of a call that began with mtr_enter (mtr_late_leave and
 * mtr_thread_end do it themselves): in end mode it waits until they are saved.
 * Not under an allocator lock either.
 */
static inline void mtr_leave(void) {
    if (TCM_UNLIKELY(
            tcm_load_relaxed(&tcm_load_relaxed(&mtr_control)->end_mode) != 0))
        mtr_leave_slow();
}

/* In the child of fork: what no handler need do, at once. SLOT: that of the one
   thread there is. */
void mtr_fork_child(struct mtr_thread **slot);

#endif
