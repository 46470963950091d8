/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way of a thread into its stream, with each call that it records, and out
 * of it at its end.
 *
 * Threads: any.
 */
#ifndef TCM_TRACER_STREAM_THREAD_LIFE_H
#define TCM_TRACER_STREAM_THREAD_LIFE_H

#include "base/compiler.h"

struct mtr_recorder;
struct mtr_thread;

/*
 * Bytes that mtr_enter reserves: enough for all events of one call (sticky
 * call, two times, present bytes, one extended event).
 */
#define MTR_ROOM 96u

/*
 * Prepares the stream of the calling thread for one call's events: registers
 * the thread if it is new, hands over a full buffer and takes an empty one,
 * takes a new token block (with its time). May wait for the saver when buffers
 * are full; so never under an allocator lock. *SLOT is the thread's state
 * pointer (mtr_no_thread before) and is updated.
 *
 * Returns the state to write to, or NULL: this thread does not record now (off,
 * failed, a forked child); *SLOT is then mtr_no_thread.
 */
struct mtr_thread *mtr_enter(struct mtr_thread **slot);

/* The rest of mtr_leave (tracer.h), in end mode. */
void mtr_leave_slow(void);

/*
 * Above 0 in a call that frees and does not allocate, and under the late lock,
 * for which such a call may wait. The C library frees while it holds the lock
 * of its threads' stacks, which making a thread takes, too: so in such a call
 * no thread is made. (In calls that allocate it holds no lock that making a
 * thread takes, except recursive ones of the loader. They are why no call
 * waits for a thread that another is making.)
 */
extern TCM_TLS uint8_t mtr_freeing;

/*
 * mtr_enter for a thread that is past its last destructor round, which has no
 * state of its own: the shared late stream, locked until mtr_late_leave. ID is
 * from mtr_thread_end, 0 if the thread never recorded (it gets one).
 */
struct mtr_thread *mtr_late_enter(uint32_t *id);
void mtr_late_leave(void);

/* The thread ends: its name and end are recorded, its buffer is handed over,
 *SLOT becomes mtr_no_thread. Returns its id for mtr_late_enter, 0 if none. */
uint32_t mtr_thread_end(struct mtr_thread **slot);
/* The same for T, the state of another thread that is gone without its end: no
   name is recorded, and the time is that of the call. */
void mtr_thread_end_dead(struct mtr_thread *t);

/* For the recorder: room for BYTES of events in the buffer of T, which was
   entered. false: there is none. */
bool mtr_make_room(struct mtr_recorder *rec, struct mtr_thread *t,
                   unsigned bytes);

#endif
