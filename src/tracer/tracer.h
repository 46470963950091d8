/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder's interface for api: set-up, end and fork here; recording.h: is
 * a recording on? thread_buf.h: the events of a call; thread_life.h: entering
 * and leaving a stream. No other header of the recorder includes this one.
 *
 * Threads: any, unless said otherwise. Nothing here changes errno, allocates
 * from the program's heap or takes more than 2 KiB of stack.
 */
#ifndef TCM_TRACER_TRACER_H
#define TCM_TRACER_TRACER_H

#include "base/compiler.h"
#include "tracer/recording.h"
#include "tracer/session.h"
#include "tracer/stream/thread_buf.h"
#include "tracer/stream/thread_life.h"
#include "tracer/trace_process.h"

/*
 * Set-up from the environment, by api's constructor, or earlier by a call for
 * which mtr_init_is_due (BY_CALL). May create the saver thread. A second call
 * only makes up for what BY_CALL left out: it changes the environment.
 */
void mtr_init(const struct mtr_host *host, bool by_call);
/* True if the calling thread, which allocates and holds no lock, has to make
   set-up; call it if mtr_is_early. Constructors of other libraries run before
   api's, and may allocate much, create threads and fork. */
bool mtr_init_is_due(void);
/* Called by the library's destructor: writes the footer and enters end mode. */
void mtr_exit(void);

/*
 * Ends a call that began with mtr_enter, after its events: in end mode waits
 * until they are saved. (mtr_late_leave and mtr_thread_end do this themselves.)
 * Not under a lock of the allocator.
 */
static inline void mtr_leave(void) {
    if (TCM_UNLIKELY(
            tcm_load_relaxed(&tcm_load_relaxed(&mtr_control)->end_mode) != 0))
        mtr_leave_slow();
}

/* Notes that a fork with the number FORK is on, under a lock that all forks
   take; 0: that it is over, in the parent. */
void mtr_fork_note(uint64_t fork);
/* True if blocks with tokens from before the recording may be those of its
   parent's. */
bool mtr_has_inherited(void);
/* Resets the recorder in the child of fork; a child for which no handler runs
   finds its memory zeroed instead. SLOT is that of the only thread. */
void mtr_fork_child(struct mtr_thread **slot);

#endif
