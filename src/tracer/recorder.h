/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder: what its parts share.
 *
 * Terms:
 *
 *   buffer    4 or 64 KiB with a spool head, filled by one thread
 *   stream    all bytes that a thread ever publishes, cut into its buffers
 *   look      a reading of a thread's buffer and position by the saver
 *   round     the saver looks at all threads, saves what is new, and writes a
 *             barrier; a poll saves full buffers only
 *   idle      the saver sleeps long; the next event of any thread wakes it
 *   lazy      a recording that has only its spool, no saver and no file yet
 *   end mode  after the library's destructor: every event is saved at once
 *   session   one recording of this process, numbered from 1. A thread's record
 *             belongs to one session and is void in the next
 *   gap       calls that a thread has counted instead of recorded
 *
 * Memory: struct mtr_recorder and every struct mtr_thread lie in pages that the
 * child of any fork finds zeroed. So a child sees state MTR_OFF, free locks and
 * nothing recorded, even if no handler has run. mtr_config (recording.h) has
 * what a child needs to know.
 *
 * Locks, in order: late, registry, pool (base/lock.h). Only the late lock is
 * held across system calls that may block. Fork takes none: the child finds
 * them zeroed, with what they guard, as it does `busy`, by which calls of
 * start, stop and flush exclude each other.
 *
 * There is one recorder and one configuration. Functions that api calls read
 * mtr_recorder, which is NULL in most programs, and pass the recorder on;
 * mtr_config is read everywhere.
 */
#ifndef TCM_TRACER_RECORDER_H
#define TCM_TRACER_RECORDER_H

#include "base/linux/os_file.h"
#include "base/lock.h"
#include "traceformat/raw_layout.h"
#include "tracer/stream/buf_pool.h"
#include "tracer/recording.h"
#include "tracer/saver/spool_file.h"
#include "tracer/stream/thread_life.h"
#include "tracer/stream/thread_registry.h"

#include <limits.h>
#include <pthread.h>

enum mtr_state {
    MTR_OFF = 0,  /* no recording; a forked child */
    MTR_ARMED,    /* the recording begins with the first event */
    MTR_STARTING, /* one thread is setting it up; with %p the others wait */
    MTR_LAZY,     /* it has its spool alone */
    MTR_RUNNING,  /* it has a saver */
    MTR_ENDED,    /* end mode */
    MTR_STOPPED,  /* by call or at its limit; may begin again */
    MTR_FAILED    /* stopped by a failure; may begin again by call */
};

static inline bool mtr_state_is_on(uint32_t state) {
    return state >= MTR_ARMED && state <= MTR_ENDED;
}

enum mtr_output_kind {
    MTR_OUTPUT_FILE = 0, /* a regular file, or nothing yet: replaced */
    MTR_OUTPUT_FIFO,     /* a FIFO, opened when its reader comes */
    MTR_OUTPUT_DEVICE,   /* anything else at the name, opened as it is */
    MTR_OUTPUT_FD,       /* /dev/fd/N and its like */
    MTR_OUTPUT_UNKNOWN   /* unknown: no descriptor was free to find out */
};

/* errno of an output that someone else has cut; the kernel has no such. */
enum { MTR_ECUT = TCM_EFOREIGN + 1 };

/* Longest text of TCMALLOC_TRACE_STATS. */
#define MTR_SUMMARY_MAX 768u

/* Counts of the saver up to its last round, for status requests. */
struct mtr_live {
    uint64_t events, mallocs, memaligns, reallocs, frees, failed;
    uint64_t segments, raw_bytes, stored_bytes, rounds;
};

/*
 * Owner of the saver's work: one thread at a time saves. It is the saver
 * thread, or the thread that has changed the word from FREE or CREATING to
 * HELD.
 *
 *   FREE --ensure--> HELD --> CREATING --the thread runs--> HELD --> THREAD
 *     ^               ^            ^  |                        |        |
 *     +--calls--------+            +--+--calls: HELD           +-> FREE <
 *
 * Creating a thread takes locks of the C library that an allocating thread may
 * hold (in dlopen, that of thread-local storage). So an allocating thread that
 * finds CREATING does the saver's work itself instead of waiting. HELD lasts
 * only while the recorder works, so threads wait for its end. The child of a
 * vfork may hold it, too, and be killed: then the next thread that waits ends
 * the recording (mtr_save_await).
 */
enum mtr_save_owner {
    MTR_SAVE_FREE = 0,
    MTR_SAVE_HELD,    /* a thread saves or sets up the saver */
    MTR_SAVE_THREAD,  /* the saver thread, which is set up */
    MTR_SAVE_CREATING /* the saver thread is being created */
};
/* Parts of the owner's word beside HELD, for the child of a vfork: its id, and
   the bit if it took the work from CREATING. */
#define MTR_SAVE_KIND          0x7fu
#define MTR_SAVE_FROM_CREATING 0x80u
#define MTR_SAVE_PID_SHIFT     8u

/* Words between the program's threads and the saver; each may be a futex. */
struct mtr_saver_link {
    uint32_t wake;       /* counts calls to the saver */
    uint32_t idle;       /* 1: the next event wakes the saver */
    uint32_t wanted;     /* requested rounds */
    uint32_t done;       /* number of the last request that was done */
    uint32_t answers;    /* futex of threads that wait for a round */
    uint32_t finish;     /* 1: the destructor runs; 2: seen */
    uint32_t stop;       /* 1: the recording is to end now */
    uint32_t save_owner; /* enum mtr_save_owner, and in HELD who holds */
    uint32_t arrived;    /* saver threads that have started so far */
    uint32_t due;        /* 1: the next call that may create a saver does */
    uint32_t end_events;
};

struct mtr_recorder {
    struct mtr_control control; /* first member: mtr_control points here */
    uint32_t state;             /* enum mtr_state, futex */
    uint32_t pid;               /* in a vfork child its parent */
    uint32_t message_length;    /* the printing thread takes it */
    uint32_t summary_due;       /* 1: a summary waits to be printed */
    uint32_t session;           /* 0: none yet; else locks are set up */
    uint32_t busy;              /* 1: start, stop; 2: others wait */
    uint32_t own_threads;       /* threads of the recorder */
    pthread_t saver_thread;     /* 0: there is none to join */
    bool exited;                /* the library's destructor runs, or has run */
    const int *exit_self;       /* errno of the destructor's thread, if it
                                   waits: gettid may be forbidden by now */
    bool pattern_per_process;   /* PATTERN has %p */
    int pattern_error;          /* errno of PATTERN, 0: usable */
    uint64_t first_token;
    uint64_t fork; /* MTF_TAG_FORK; 0: the recording did not begin with one */
    uint64_t random;
    uint64_t start_ns;
    uint64_t start_cpu_ns; /* processor time of the process at the start, less
                              that of looks */
    uint64_t wall_ns;
    bool keeps; /* flight recording: of its parts the last are kept */
    uint32_t header_length;
    uint32_t name_number; /* OUTPUT.n; 0: OUTPUT */
    enum mtr_output_kind kind;
    int folder_plus_1; /* descriptor of the output's folder, 0: closed */
    /* The stream that begins with the early events, until the thread that made
       them enters; NULL in the child of any fork. */
    struct mtr_thread *adopted;
    uintptr_t adopted_by;
    struct tcm_lock late_lock;
    uint64_t late_mask; /* signals of the late lock's holder */
    struct mtr_thread *late;
    struct mtr_registry registry;
    struct mtr_pool pool;
    struct mtr_spool spool;
    struct mtr_saver_link link;
    struct mtr_live live;
    struct mtr_looks looks;
    char message[256];
    uint8_t header[MTF_RAW_HEADER_MAX];
    char pattern[PATH_MAX]; /* given by call; "": use that of mtr_config */
    char output[PATH_MAX];  /* of this process, without a number */
    char name[PATH_MAX];    /* with its number */
};
/* NULL until a recording is wanted. */
extern struct mtr_recorder *mtr_recorder;

/* True if every process has a file of its own under this name. */
static inline bool mtr_is_per_process(const struct mtr_recorder *rec) {
    return rec->pattern[0] != '\0' ? rec->pattern_per_process
                                   : mtr_config.per_process;
}

/*
 * Frame of the function that entered the recorder; 0: this thread is outside.
 * While it is set, malloc in a signal handler is not recorded, but counted as
 * dropped.
 *
 * The mark stays if a handler jumps out of the recorder, or if the child of a
 * vfork is killed inside. A later call finds such a mark stale if its own frame
 * is not below the marked one: all that the marked function calls, and any
 * handler, would be below. (A handler on an alternate stack may be anywhere:
 * the kernel says whether one runs.)
 */
extern TCM_TLS uint32_t mtr_inside;
/* The value of mtr_freeing when mtr_inside was set. */
extern TCM_TLS uint8_t mtr_inside_freeing;
/* The address of a frame without its lowest and highest bits; not 0. It tells
   which of two frames on a stack is below. (Thread-local storage is scarce.) */
static inline uint32_t mtr_frame_of(const void *address) {
    uint32_t frame = (uint32_t)((uintptr_t)address >> 4);
    return frame != 0 ? frame : 1;
}
#define mtr_frame() mtr_frame_of(__builtin_frame_address(0))
/* True if the calling thread is inside. FRAME is the caller's; if this is false
   the caller may go on with mtr_inside_begin. Clears the mark of a function
   that a jump has left. */
bool mtr_is_inside(uint32_t frame);
static inline void mtr_inside_begin(uint32_t frame) {
    mtr_inside = frame;
    mtr_inside_freeing = mtr_freeing;
}
static inline void mtr_inside_end(void) {
    mtr_inside = 0;
}

/* True if the recording that the thread is part of is over, even if the next
   one is on. */
static inline bool mtr_thread_is_over(struct mtr_recorder *rec,
                                      const struct mtr_thread_cold *cold) {
    return !mtr_state_is_on(tcm_load_acquire(&rec->state)) ||
           tcm_load_relaxed(&rec->session) != cold->session;
}
/* Puts the header of the trace into OUT (MTF_RAW_HEADER_MAX bytes); returns its
   length. If PART is not NULL it is that of part *PART, with START bytes in the
   parts before. */
size_t mtr_build_header(const struct mtr_recorder *rec, void *out,
                        const uint32_t *part, uint64_t start);
/* mtr_recorder, which is created if it is NULL. NULL: no memory. */
struct mtr_recorder *mtr_recorder_get(void);
/* Zeroes REC in the child of a fork, if the kernel has not done so. */
void mtr_recorder_wipe(struct mtr_recorder *rec);
/* Prints the message that waits, if any, on stderr. */
void mtr_message_flush(struct mtr_recorder *rec);
/* Prints TEXT on descriptor 2, if that is the file that it was at the start. */
void mtr_print_stderr(const char *text, size_t length);
/* Puts the line "tcmalloc: PROBLEM NAME: ERROR" into TEXT of CAP bytes; returns
   its length. NAME may be NULL and ERROR 0. */
size_t mtr_format_message(char *text, size_t cap, const char *problem,
                          const char *name, int error);
/* Prints such a line at once; on a thread of the program. */
void mtr_warn(const char *problem, const char *name, int error);

#endif
