/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder as api sees it: set-up, end, fork, and whether a recording is
 * on. The events of a call are in thread_buf.h, the way to them in
 * thread_life.h.
 *
 * How a recording comes to be seen. The plain paths of malloc and free do not
 * ask whether one is on: a thread that records, or may have to, has its cache
 * shut (core/thread_cache.h), so that every call takes a path that asks. Only
 * its owner opens a cache, and looks at mtr_is_recording again afterwards; a
 * start sets the flag, then has the host shut all caches (all sequentially
 * consistent). So either the owner sees the flag and shuts its cache again, or
 * the start's store comes after the owner's. A stop clears the flag only.
 *
 * Threads: any, unless said otherwise. Nothing here changes errno, allocates
 * from the program's heap or takes more than 2 KiB of stack.
 */
#ifndef TCM_TRACER_TRACER_H
#define TCM_TRACER_TRACER_H

#include "base/compiler.h"
#include "tracer/thread_buf.h"
#include "tracer/thread_gap.h"
#include "tracer/thread_life.h"
#include "tracer/trace_control.h"
#include "tracer/trace_process.h"

/* A block with pages of its own, longer than MTR_PRESENT_ABOVE. */
struct mtr_large_block {
    uintptr_t start;
    size_t bytes;
    uint64_t
        token; /* 0, or of an earlier recording: made while not recording */
};

/* What the recorder needs of its host; set once by mtr_init. */
struct mtr_host {
    /* Between the two, malloc and free of the calling thread are served by the
       private arena and are not recorded. They nest. A recorder thread enters
       first thing and never leaves. */
    void (*enter_private)(void);
    void (*leave_private)(void);
    /* A recording is on: shut the caches of all threads. */
    void (*recording_started)(void);
    /* Puts the allocator's counters into OUT; returns how many, at most CAP. */
    unsigned (*sample)(struct mtf_account_value *out, unsigned cap);
    /* Puts the large blocks that are alive into OUT, at most CAP of them;
       returns how many. */
    size_t (*large_blocks)(struct mtr_large_block *out, size_t cap);
    /* Whether P is an address in the heap, which can be read. */
    bool (*has_memory)(const void *p);
    /* The token of the block that is in use at P, if that is not much longer
       than BYTES; 0: it has none. */
    uint64_t (*token_of)(const void *p, size_t bytes);
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
    uint32_t recording; /* 1: threads are to record; seq_cst, see above */
    uint32_t early;     /* 1: before mtr_init: into the static buffer; then
                           `recording` is 1 too */
    uint32_t end_mode;  /* 1: each event is saved before the program goes on */
    uint32_t known;     /* 0: a child, and mtr_enter has not looked yet whether
                           it is to be recorded */
};
extern struct mtr_control *mtr_control;

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
