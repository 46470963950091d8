/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of the recorder share. Words used throughout:
 *
 *   buffer    4 or 64 KiB with a spool head, filled by one thread
 *   stream    all bytes a thread ever publishes; its buffers are pieces of it
 *   look      the saver reads a thread's buffer and position
 *   round     the saver looks at all threads, saves what is new, and writes a
 *             barrier; a poll saves full buffers only
 *   idle      the saver sleeps long; the next event of any thread wakes it
 *   lazy      a recording that has only its spool yet, no saver and no file
 *   end mode  after the library's destructor: every event is saved at once
 *   session   one recording of this process; they are numbered from 1. A
 *             thread's record is of one session, and useless in the next
 *
 * Memory: struct mtr_recorder and every mtr_thread lie in pages that the child
 * of any fork finds zeroed, so a child sees state MTR_OFF, free locks and
 * nothing recorded, without any handler having run. What a child needs to know
 * lies in mtr_config (recording.h).
 *
 * Locks, in order: late, registry, pool (base/lock.h). Late alone is held
 * across system calls that can block. Fork takes none of them: the child finds
 * them zeroed, with what they guard. Start, stop and flush by call come one at
 * a time (`busy`, the same).
 *
 * There is one recorder and one configuration. Functions that api calls find
 * the recorder by mtr_recorder, which is NULL in most programs, and hand it on;
 * mtr_config is read everywhere.
 */
#ifndef TCM_TRACER_RECORDER_H
#define TCM_TRACER_RECORDER_H

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
    MTR_OFF = 0,  /* no recording; a wiped child */
    MTR_ARMED,    /* begins with the first event */
    MTR_STARTING, /* one thread is setting it up; with %p others wait for it */
    MTR_LAZY,     /* spool alone */
    MTR_RUNNING,  /* with a saver */
    MTR_ENDED,    /* end mode */
    MTR_STOPPED,  /* by call or at its size; may begin again */
    MTR_FAILED    /* stopped by a failure of ours; may begin again by call */
};

static inline bool mtr_state_is_on(uint32_t state) {
    return state >= MTR_ARMED && state <= MTR_ENDED;
}

enum mtr_output_kind {
    MTR_OUTPUT_FILE = 0, /* regular, or nothing there yet: replaced */
    MTR_OUTPUT_FIFO,     /* opened when its reader comes */
    MTR_OUTPUT_DEVICE,   /* anything else at the name: opened as it is */
    MTR_OUTPUT_FD,       /* /dev/fd/N and its like */
    MTR_OUTPUT_UNKNOWN   /* there was no descriptor left to look with */
};

/* Longest text of TCMALLOC_TRACE_STATS. */
#define MTR_SUMMARY_MAX 768u

/* What the saver counted up to its last round, for status requests. */
struct mtr_live {
    uint64_t events, mallocs, memaligns, reallocs, frees, failed;
    uint64_t segments, raw_bytes, stored_bytes, rounds;
};

/*
 * Who saves. One thread at a time does: that which made HELD of NONE or COMING
 * (mtr_saver_hold), or the saver.
 *
 *   NONE --need--> HELD --> COMING --the thread runs--> HELD --> SAVER
 *     ^             ^          ^  |                      |         |
 *     +--calls------+          +--+--calls: HELD         +--> NONE <
 *
 * The thread that makes another takes locks of the C library, and these may be
 * held by threads that allocate (in dlopen, that of thread-local storage): so
 * nobody who allocates waits while COMING, but does what the saver would have
 * done. HELD lasts as long as work of the recorder alone, and is waited for.
 */
enum mtr_saves {
    MTR_SAVES_NONE = 0,
    MTR_SAVES_HELD,  /* a thread that saves, or sets up to do so */
    MTR_SAVES_SAVER, /* set up */
    MTR_SAVES_COMING /* the thread is being made */
};

/* Between program threads and the saver. Words are futexes. */
struct mtr_saver_link {
    uint32_t wake;    /* counts calls to the saver */
    uint32_t idle;    /* 1: the next event wakes the saver */
    uint32_t wanted;  /* rounds asked for */
    uint32_t done;    /* of these, rounds made */
    uint32_t finish;  /* 1: the library's destructor runs */
    uint32_t stop;    /* 1: the recording is to end now */
    uint32_t started; /* who saves: enum mtr_saves */
    uint32_t arrived; /* savers so far that run */
    uint32_t due;     /* 1: the next call that may make a saver does */
    uint32_t end_events;
};

struct mtr_recorder {
    struct mtr_control control; /* first: mtr_control points here */
    uint32_t state;             /* enum mtr_state, futex */
    uint32_t pid; /* of the recording; in a vfork child it is its parent's */
    uint32_t message_length;  /* the thread that prints it takes it */
    uint32_t summary_due;     /* 1: the saver made one, not yet printed */
    uint32_t session;         /* 0: none yet; locks are set up */
    uint32_t busy;            /* 1: start, stop or flush; 2: and waited for */
    uint32_t own_threads;     /* of the recorder's, as they count themselves */
    pthread_t saver_thread;   /* 0: none, or nobody need wait for its end */
    bool exited;              /* the library's destructor ran */
    uint32_t exit_tid;        /* on this thread; it waits for the saver */
    bool pattern_per_process; /* the one that was given has %p */
    int pattern_error;        /* what is wrong with that one */
    uint64_t first_token;
    uint64_t random;
    uint64_t start_ns;
    uint64_t start_cpu_ns; /* processor time of the process before */
    uint64_t wall_ns;
    bool keeps; /* a flight recording: parts, of which the last are kept */
    uint32_t header_length;
    uint32_t name_number; /* OUTPUT.n; 0: OUTPUT */
    enum mtr_output_kind kind;
    int folder_plus_1; /* descriptor of the output's folder, 0: not held */
    /* The stream of the early events, until the thread whose they are enters;
       the child of any fork has none. */
    struct mtr_thread *adopted;
    uintptr_t adopted_by;
    struct tcm_lock late_lock;
    struct mtr_thread *late;
    struct mtr_registry registry;
    struct mtr_pool pool;
    struct mtr_spool spool;
    struct mtr_saver_link link;
    struct mtr_live live;
    char message[256];
    uint8_t header[MTF_RAW_HEADER_MAX];
    char pattern[PATH_MAX]; /* given by call; "": that of mtr_config */
    char output[PATH_MAX];  /* this process's, without number */
    char name[PATH_MAX];    /* with number */
};
/* NULL until a recording was wanted. */
extern struct mtr_recorder *mtr_recorder;

/* Whether every process has a file of its own under this name. */
static inline bool mtr_is_per_process(const struct mtr_recorder *rec) {
    return rec->pattern[0] != '\0' ? rec->pattern_per_process
                                   : mtr_config.per_process;
}

/*
 * Not 0 while this thread is inside the recorder: the frame of the function
 * that went in. A malloc of a signal handler that comes now is not recorded,
 * but counted as dropped.
 *
 * A handler may also leave by a jump, out of the recorder for good (so may the
 * child of a vfork, which is killed in there). Then a later call finds the
 * mark, from a frame that is not below the marked one, where all that the
 * marked function calls, and any handler, would be. (A handler on a stack of
 * its own may be anywhere, and is asked for.)
 */
extern TCM_TLS uint32_t mtr_inside;
/* The value of mtr_freeing then. */
extern TCM_TLS uint8_t mtr_inside_freeing;
/* A frame's address without its lowest and highest bits, which is enough to
   tell which of two on a stack is below; not 0. (Thread-local storage is
   scarce.) */
static inline uint32_t mtr_frame_of(const void *address) {
    uint32_t frame = (uint32_t)((uintptr_t)address >> 4);
    return frame != 0 ? frame : 1;
}
#define mtr_frame() mtr_frame_of(__builtin_frame_address(0))
/* FRAME is the caller's, which sets the mark itself if this is false. */
bool mtr_is_inside(uint32_t frame);
static inline void mtr_go_in(uint32_t frame) {
    mtr_inside = frame;
    mtr_inside_freeing = mtr_freeing;
}
static inline void mtr_go_out(void) {
    mtr_inside = 0;
}

/* True when the recording that the thread is part of is over, even if the
   next one is on already. */
static inline bool mtr_thread_is_over(struct mtr_recorder *rec,
                                      const struct mtr_thread_cold *cold) {
    return !mtr_state_is_on(tcm_load_acquire(&rec->state)) ||
           tcm_load_relaxed(&rec->session) != cold->session;
}
/* The trace's header, in OUT (MTF_RAW_HEADER_MAX bytes), of part *PART if PART
   is not NULL, with START bytes in the parts before; its length. */
size_t mtr_build_header(const struct mtr_recorder *rec, void *out,
                        const uint32_t *part, uint64_t start);
/* mtr_recorder, made if need be. NULL: no memory. */
struct mtr_recorder *mtr_recorder_need(void);
/* For the child of a fork, where the kernel did not wipe the memory. */
void mtr_recorder_wipe(struct mtr_recorder *rec);
/* Prints the message that waits, if any. */
void mtr_message_flush(struct mtr_recorder *rec);
/* Text on descriptor 2, if that is what it was at the start. */
void mtr_say(const char *text, size_t length);
/* Puts "tcmalloc: WHAT NAME: ERROR" into TEXT of CAP bytes, as a line; returns
   its length. NAME may be NULL and ERROR 0. */
size_t mtr_compose(char *text, size_t cap, const char *what, const char *name,
                   int error);
/* Says the same at once; on a thread of the program. */
void mtr_complain(const char *what, const char *name, int error);

#endif
