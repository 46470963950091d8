/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder as api sees it: set-up, the way into a thread's stream, thread
 * and process life. The hot part is in thread_buf.h.
 *
 * State word protocol. Each program thread has a word that its malloc tests
 * first: its thread cache, or NULL, which leads to the traced path. Only its
 * owner writes a cache into it, and afterwards looks at mtr_is_recording again
 * (sequentially consistent); starting sets the flag, then has the host write
 * NULL into every word under its registry lock. So either the owner sees the
 * flag and takes the cache out again, or the starter's NULL comes after the
 * owner's store. Stopping clears the flag only.
 *
 * Threads: any, unless said otherwise. Nothing here changes errno, allocates
 * from the program's heap or takes more than 2 KiB of stack.
 */
#ifndef MTR_TRACER_H
#define MTR_TRACER_H

#include "base/compiler.h"
#include "tracer/thread_buf.h"

/* What the recorder needs of its host; set once by mtr_init. */
struct mtr_host {
    /* Between the two, malloc and free of the calling thread are served by the
       private arena and are not recorded. They nest. A recorder thread enters
       first thing and never leaves. */
    void (*enter_private)(void);
    void (*leave_private)(void);
    /* Memory of the private arena; zeroed not promised. */
    void *(*private_alloc)(size_t bytes);
    void (*private_free)(void *p);
    /* Recording was switched on: write NULL into every thread's word. */
    void (*recording_started)(void);
    /* Puts (account field, value) pairs of the allocator's counters into out;
       returns how many. At most CAP. */
    unsigned (*sample)(uint16_t *fields, uint64_t *values, unsigned cap);
};

/*
 * Set-up from the environment, by api's constructor (or earlier, at a slow path
 * of malloc, as soon as the environment can be read). May create the saver
 * thread. The second call does nothing.
 */
void mtr_init(const struct mtr_host *host);
/* The library's destructor: footer, then end mode. */
void mtr_exit(void);

/*
 * Control state, in memory that the child of any fork finds zeroed; the pointer
 * is never NULL (before set-up it leads to a constant).
 */
struct mtr_control {
    uint32_t recording; /* 1: threads shall record; seq_cst, see above */
    uint32_t early;     /* 1: before mtr_init: into the static buffer */
    uint32_t end_mode;  /* 1: each event is saved before the program goes on */
    uint32_t known;     /* 0: a child, and mtr_enter has not looked yet whether
                           it shall be recorded */
};
extern struct mtr_control *mtr_control;

/* The pointer changes when the first recording is begun by call, and its
   reading is part of the protocol too. */
static inline bool mtr_is_recording(void) {
    struct mtr_control *control = tcm_load_seq_cst(&mtr_control);
    return tcm_load_seq_cst(&control->recording) != 0;
}

/*
 * Bytes that mtr_enter reserves: enough for all events of one call (sticky
 * call, two times, one extended event).
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

/*
 * After the events of a call that began with mtr_enter (mtr_late_leave and
 * mtr_thread_end do it themselves): in end mode it waits until they are saved.
 * Not under an allocator lock either.
 */
void mtr_leave_slow(void);
static inline void mtr_leave(void) {
    if (TCM_UNLIKELY(
            tcm_load_relaxed(&tcm_load_relaxed(&mtr_control)->end_mode) != 0))
        mtr_leave_slow();
}

/*
 * Above 0 in a call that frees and does not allocate. The C library frees while
 * it holds the lock of its threads' stacks, which making a thread takes, too:
 * so in such a call no thread is made, nor one waited for that is being made.
 * (In calls that allocate it holds no lock that making a thread takes, but for
 * recursive ones of the loader.)
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

/*
 * Control by the program or another process; trace_control.c. After mtr_init.
 * Each waits for those that came before it.
 *
 * start: PATH as TCMALLOC_TRACE_OUTPUT, NULL: that of the environment. True
 * when all calls that begin from now on are recorded; false: a recording is on,
 * cannot begin (a message waits), or the library's destructor ran.
 * stop: true when the trace is whole; calls that begin from now on are not in
 * it. false: none was on, or its end could not be written.
 * flush: true when all events so far are in the file.
 */
bool mtr_start(const char *path);
bool mtr_stop(void);
bool mtr_flush(void);
bool mtr_is_on(void);

/* Writes a mark, cut to MTF_EXTENDED_MAX bytes between two characters of UTF-8,
   with its time. T is from mtr_enter. */
void mtr_put_mark(struct mtr_thread *t, const char *text, size_t length);

/* In the child of fork: what no handler need do, at once. SLOT: that of the one
   thread there is. */
void mtr_fork_child(struct mtr_thread **slot);

#endif
