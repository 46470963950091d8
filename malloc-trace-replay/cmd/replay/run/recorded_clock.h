/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A clock that shows the allocator recorded time: an hour of the recorded run
 * passes in the seconds of its replay.
 *
 * clock_calls.c, linked into replay alone, implements the C library's functions
 * that tell time or wait for it with the functions of the last section here.
 *
 * Each of the system's clocks differs from this one by a constant. It runs free
 * (real time plus an offset) or is led: it shows the time of the place that the
 * replay has reached in the trace. Before the first place it advances in long
 * steps, so that the trace begins at the same time in each run.
 *
 * A wait registers its deadline. The led clock stops at each deadline, wakes
 * the thread, and goes on when that thread waits again, blocks elsewhere, or
 * has ended. So a background thread of the allocator runs as often as it did in
 * recorded time.
 *
 * A call of the allocator that polls the clock would never see a led clock
 * move. So a wait within an operation takes real time, which moves the clock;
 * and a thread that reads one time some thousand times moves it by each further
 * reading.
 *
 * Invariants: no function here allocates. A led clock never goes back for any
 * thread.
 * Threads: any may read and wait. replay_clock_lead, _advance and _release are
 * called by one thread at a time, outside of the allocator.
 *   line     raised by the thread that leads, by each thread that runs
 *            operations, and by threads that wait for time in a call (release);
 *            read by any (acquire): a thread that sees a time sees the wakes
 *            for it
 *   waits    the list of registered waits, under `lock`; an entry lies on the
 *            stack of the thread that waits
 *   due      of a wait: set under `lock` (release) before the thread is woken
 *   soonest  the least deadline in the list, under `lock`; read without it, so
 *            a wait that begins while the clock passes its deadline looks at
 *            the clock once more after it registered
 *   thread   records of threads, and the list of the replay's own ones, under
 *            `lock`
 */
#ifndef TOOL_CMD_REPLAY_RUN_RECORDED_CLOCK_H
#define TOOL_CMD_REPLAY_RUN_RECORDED_CLOCK_H

#include "base/bits.h"
#include "base/compiler.h"
#include "base/dlist.h"
#include "cmd/replay/feed/translate.h"
#include "cmd/replay/run/around.h"

#include <time.h>

/* Longest real time in which a woken thread has to wait again, less the time in
   which the process was stopped. */
#define REPLAY_CLOCK_PATIENCE_NS 1000000000u

struct replay_clock_account {
    uint64_t waits;      /* waits that began while the clock was led */
    uint64_t served;     /* waits among them that ended by their deadline */
    uint64_t stragglers; /* woken threads that did not wait again in time */
    char straggler[16];  /* thread name of the first of them */
    uint64_t call_ns;    /* time that passed within calls */
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

/* False in builds with sanitizers, whose runtimes have functions of the same
   names, and on processors for which the real clock is one of the functions of
   clock_calls.c: then these are not defined, and the clock is not led. */
bool replay_clock_is_supported(void);
/* Ends the long steps in a process that does not lead the clock. */
void replay_clock_run_free(void);
/* Leads the clock from now on: it stands until replay_clock_advance. */
void replay_clock_lead(void);
/* True while the calling thread makes a thread of the replay, not of the
   allocator. */
extern __thread bool replay_makes_thread;

/* A thread of the replay itself, on the stack of that thread. */
struct replay_clock_own {
    struct tcm_dlist link;
    uint32_t tid;
};

/* Begin and end of a thread of the replay, which is not waited for. The first
   thread of the process is known to be one. */
void replay_clock_own_begin(struct replay_clock_own *own);
void replay_clock_own_end(struct replay_clock_own *own);

/* Waits until the threads of the allocator wait or are blocked. Work that they
   were given takes no recorded time. */
void replay_clock_settle(void);
/* True if a thread may have been given work since the last call. */
bool replay_clock_take_wake(void);
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

/* Stop a clock that runs free, and let it go on from where it stood: memory is
   measured meanwhile. The caller must not call the allocator in between, which
   might wait for time. No effect on a clock that is led. */
void replay_clock_hold(void);
void replay_clock_resume(void);

void replay_clock_tell(struct replay_clock_account *account);

/* Notes that each call for memory is held for a moment from now on, to be
   counted: a thread that sleeps in one is at work. */
void replay_clock_count_calls(void);
bool replay_clock_counts_calls(void);

/* --- For the functions of the C library ----------------------------------- */

#define REPLAY_SECOND_NS 1000000000u

static inline struct timespec replay_timespec_of(uint64_t ns) {
    return (struct timespec){(time_t)(ns / REPLAY_SECOND_NS),
                             (long)(ns % REPLAY_SECOND_NS)};
}

static inline bool replay_timespec_is_valid(const struct timespec *ts) {
    return ts->tv_nsec >= 0 && ts->tv_nsec < (long)REPLAY_SECOND_NS;
}

/* Relative time in ns, cut to some 200 years; 0 if negative. */
static inline uint64_t replay_timespec_ns(const struct timespec *ts) {
    if (ts->tv_sec < 0)
        return 0;
    return tcm_min_u64((uint64_t)ts->tv_sec,
                       UINT64_MAX / REPLAY_SECOND_NS / 4) *
               REPLAY_SECOND_NS +
           (uint64_t)ts->tv_nsec;
}

/* True if clock ID is a constant away from CLOCK_MONOTONIC, and so on the
   line. */
bool replay_clock_covers(clockid_t id);
/* Time of the line, that of CLOCK_MONOTONIC as the allocator sees it. */
uint64_t replay_clock_now(void);
uint64_t replay_clock_real_ns(clockid_t id);
/* Works like clock_gettime, for the allocator. */
int replay_clock_tell_time(clockid_t id, struct timespec *ts);
/* Time of the line when clock ID reaches AT; NS from now. */
uint64_t replay_clock_deadline_at(clockid_t id, const struct timespec *at);
uint64_t replay_clock_deadline_in(uint64_t ns);
/* Clock that a condition variable compares AT with. */
clockid_t replay_clock_of(const struct timespec *at);

/* Waits on objects of the C library are cut into slices of real time: a wake
   that comes between the registration of a wait and its sleep is lost, and the
   clock may begin or end to be led. This is the first slice, the shortest. */
#define REPLAY_SLICE_NS 1000000u

struct replay_wait {
    struct tcm_dlist link;
    uint64_t deadline_ns; /* time of the line */
    /* Within an operation: time of the line and real time when it began. */
    uint64_t from_ns, real_from_ns;
    uint32_t due;
    void (*wake)(void *object);
    void *object;
    struct replay_clock_thread *thread;
};

/* Registers the wait W of the calling thread, which must end it. At its
   deadline WAKE(OBJECT) wakes the thread; NULL: it looks by itself, in
   slices. */
void replay_wait_begin(struct replay_wait *w, uint64_t deadline_ns,
                       void (*wake)(void *object), void *object);
void replay_wait_end(void *wait);
/* True if the deadline of W is over. */
bool replay_wait_is_over(const struct replay_wait *w);
/* Real time that W may sleep at once; *SLICE is that of the next call. */
uint64_t replay_wait_slice_ns(const struct replay_wait *w, uint64_t *slice);
/* Sleeps until DEADLINE_NS of the line. Returns 0, or EINTR; errno stays. */
int replay_clock_sleep_until(uint64_t deadline_ns);

/* Notes that the caller made a thread, or woke one. */
void replay_clock_note_wake(void);

/* Record of a thread that the caller makes next, to run MAIN with ARG; the
   thread counts as at work from now on. NULL: there are too many. */
struct replay_clock_thread *replay_clock_thread_new(void *(*main)(void *),
                                                    void *arg);
/* Main function of that thread, with the record. */
void *replay_clock_thread_main(void *record);
/* Gives the record back: the thread could not be made. */
void replay_clock_thread_drop(struct replay_clock_thread *t);

#endif
