/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a thread enters its stream, with each call that it records, and leaves it
 * at its end.
 *
 * Threads: any.
 */
#ifndef TCM_TRACER_STREAM_THREAD_LIFE_H
#define TCM_TRACER_STREAM_THREAD_LIFE_H

#include "base/compiler.h"

struct mtr_recorder;
struct mtr_thread;

/*
 * Bytes that mtr_enter reserves, enough for all events of one call: sticky
 * call, two times, present bytes, one extended event.
 */
#define MTR_ROOM 96u

/*
 * Prepares the stream of the calling thread for the events of one call:
 * registers the thread if it is new, hands over a full buffer and takes an
 * empty one, takes a new token block (with its time). May wait for the saver
 * when buffers are full, so never call it under a lock of the allocator. *SLOT
 * is the thread's state pointer, mtr_no_thread before the first call, and is
 * updated.
 *
 * Returns the state to write to, or NULL: this thread does not record now
 * (recording is off or has failed, or this is a forked child); *SLOT is then
 * mtr_no_thread.
 */
struct mtr_thread *mtr_enter(struct mtr_thread **slot);

/* The slow part of mtr_leave (tracer.h), in end mode. */
void mtr_leave_slow(void);

/*
 * Above 0 in a call that frees and does not allocate, and under the late lock,
 * for which such a call may wait. No thread is created then: the C library
 * frees while it holds the lock of its threads' stacks, which creation takes.
 * (When it allocates, it holds no lock that creation takes, except recursive
 * ones of the loader; because of those no call waits for a thread that another
 * call is creating.)
 */
extern TCM_TLS uint8_t mtr_freeing;

/*
 * mtr_enter for a thread that is past its last round of destructors and has no
 * state of its own: the shared late stream, locked until mtr_late_leave. *ID is
 * from mtr_thread_end; 0: the thread never recorded, and gets an id.
 */
struct mtr_thread *mtr_late_enter(uint32_t *id);
void mtr_late_leave(void);

/* Ends the calling thread's stream: records its name and end, hands over its
   buffer, and makes *SLOT mtr_no_thread. Returns its id for mtr_late_enter, 0:
   none. */
uint32_t mtr_thread_end(struct mtr_thread **slot);
/* mtr_thread_end for T, the state of another thread, which is gone without
   having ended it: no name is recorded, and the time is that of this call. */
void mtr_thread_end_dead(struct mtr_thread *t);

/* Reserves BYTES for events in the buffer of T, which was entered. For the
   recorder. false: there is no room. */
bool mtr_make_room(struct mtr_recorder *rec, struct mtr_thread *t,
                   unsigned bytes);

/* Writes a mark with its time, cut to MTF_EXTENDED_MAX bytes between two
   characters of UTF-8. T is from mtr_enter. */
void mtr_put_mark(struct mtr_thread *t, const char *text, size_t length);

#endif
