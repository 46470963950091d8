/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A clock for the allocator that follows the trace: an hour of the recorded
 * run passes in the seconds that its replay takes.
 *
 * The C library's functions that tell time or wait for it are defined in this
 * program: clock_gettime, gettimeofday, time, timespec_get; nanosleep,
 * clock_nanosleep, usleep, sleep; pthread_cond_timedwait and _clockwait,
 * pthread_mutex_timedlock and _clocklock, sem_timedwait and _clockwait; poll,
 * ppoll, select, pselect, epoll_wait and _pwait with a timeout; syscall() with
 * the numbers of these and of futex. The loader finds a main program's
 * functions before those of every library, so the allocator under test calls
 * them. Clocks of processor time stay real. This program itself reads the real
 * clock (base/clock.h), which does not go through these functions.
 *
 * The clock is one line of time, which each of the system's clocks is a
 * constant away from. It runs free (the real time, and a shift) or is led: then
 * it stands at the place of the trace that the replay has reached.
 *
 * A wait for a time registers its deadline. When the led clock reaches one, the
 * clock stops there, the waiting thread is woken, and the clock goes on when
 * that thread waits again, is blocked elsewhere, or has ended. So a background
 * thread of the allocator runs as often as it did in recorded time.
 *
 * Not covered: alarms and timers of the kernel, waits of C11 threads, rwlocks
 * and message queues.
 *
 * Invariants: no function here allocates. A led clock never goes back for any
 * thread.
 * Threads: any may read and wait. replay_clock_lead, _advance and _release are
 * called by one thread at a time, outside of the allocator.
 *   line     written by the thread that leads, and, with recorded threads on
 *            threads of their own, raised by each (release); read by any
 *            (acquire): a thread that sees a time sees the wakes for it
 *   waits    the list of registered waits, under `lock`; an entry lies on the
 *            stack of the thread that waits
 *   due      of a wait: set under `lock` (release) before the thread is woken
 *   soonest  the least deadline in the list, under `lock`; read without it, so
 *            a wait that begins while the clock passes its deadline looks at
 *            the clock once more after it registered
 */
#ifndef TOOL_CMD_REPLAY_RUN_RECORDED_CLOCK_H
#define TOOL_CMD_REPLAY_RUN_RECORDED_CLOCK_H

#include "base/bits.h"
#include "base/compiler.h"
#include "cmd/replay/feed/translate.h"
#include "cmd/replay/run/around.h"

/* Longest real time in which a woken thread has to wait again. */
#define REPLAY_CLOCK_PATIENCE_NS 1000000000u

struct replay_clock_account {
    uint64_t waits;      /* waits that began while the clock was led */
    uint64_t served;     /* waits among them that ended by their deadline */
    uint64_t stragglers; /* woken threads that did not wait again in time */
    char straggler[16];  /* thread name of the first of them */
};

/* Recorded time of the operation OFFSET words behind the first one of a part of
   B that has WORDS. *STEP: time of the words that run in one go. */
static inline uint64_t replay_clock_place(const struct replay_batch *b,
                                          size_t offset, size_t words,
                                          uint64_t *step) {
    /* A longer time to the next batch is a pause behind the operations. */
    uint64_t span = tcm_min_u64(b->span_ns, REPLAY_WINDOW_NS);
    *step = words == 0 ? 0 : span * REPLAY_STOP_WORDS / words;
    return b->due_ns + (words == 0 ? 0 : span * offset / words);
}

/* False in builds with sanitizers and on processors for which the real clock is
   one of the functions above: then no other function here does anything. */
bool replay_clock_is_supported(void);
/* Leads the clock from now on: it stands until replay_clock_advance. */
void replay_clock_lead(void);
/* True while the calling thread makes a thread of the replay, not of the
   allocator. */
extern __thread bool replay_makes_thread;

/* Waits until the threads of the allocator wait or are blocked. Work that they
   were given takes no recorded time. */
void replay_clock_settle(void);
/* Sets the led clock to NS since replay_clock_lead, and serves all deadlines
   before NS in their order. Does nothing if NS is past. */
void replay_clock_advance(uint64_t ns);
/* Sets the calling thread's own time to NS since replay_clock_lead; serves no
   deadline. Threads without a time of their own have the latest one. */
void replay_clock_advance_thread(uint64_t ns);
/* Least deadline that a thread waits for, in ns since replay_clock_lead;
   UINT64_MAX: none. */
uint64_t replay_clock_next_deadline(void);
/* Lets the clock run free again, from where it stands. */
void replay_clock_release(void);

void replay_clock_tell(struct replay_clock_account *account);

#endif
