/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration of the recorder, its host, and the words that say whether a
 * recording is on.
 *
 * Threads: any. The control words are in memory that the child of any fork
 * finds zeroed; the configuration is in ordinary memory, which the child
 * inherits.
 */
#ifndef TCM_TRACER_RECORDING_H
#define TCM_TRACER_RECORDING_H

#include "base/atomic.h"
#include "base/compiler.h"

#include <limits.h>

struct mtf_account_value;
struct mtf_memory;

/* --- The host ------------------------------------------------------------ */

/* A live block that the recorder looks at (thread_looks.h). */
struct mtr_looked_block {
    uintptr_t start;
    size_t bytes;
    uint64_t token; /* too small: of an earlier recording */
};

/* Functions of the host, the allocator; api passes them to mtr_init. */
struct mtr_host {
    /* From enter_private to leave_private the private arena serves malloc and
       free of the calling thread, and they are not recorded. The calls nest. A
       thread of the recorder enters first and never leaves. */
    void (*enter_private)(void);
    void (*leave_private)(void);
    /* A recording has begun: shuts the caches of all threads. */
    void (*recording_started)(void);
    /* True if one of the next two would wait for longer than NS: the holder of
       a lock was stopped, or ends the process in a signal handler. */
    bool (*is_stuck)(uint64_t ns);
    /* Puts the allocator's counters into OUT, at most CAP; returns how many. */
    unsigned (*sample)(struct mtf_account_value *out, unsigned cap);
    /* Puts the looked blocks into OUT, at most CAP; returns how many. */
    size_t (*looked_blocks)(struct mtr_looked_block *out, size_t cap);
    /* True if P is an address in the heap, which can be read. */
    bool (*has_memory)(const void *p);
    /* The token of the block in use at P, if the block is not much longer than
       BYTES; 0: it has none. */
    uint64_t (*token_of)(const void *p, size_t bytes);
    /* Makes the memory table of the heap. false: there is no memory for it, or
       the system does not tell. The caller holds no lock. */
    bool (*memory)(struct mtf_memory *out);
};

/* --- Configuration ------------------------------------------------------- */

/*
 * The configuration is ordinary memory, which a child of fork inherits. All
 * threads read it. trace_process.c fills it in before the first recording
 * begins; the thread that starts a recording updates the identity. Of the rest
 * any thread changes `present` and `token_end`, atomically.
 */

/* Value of owner_name: the image that owns the name has no file yet. */
#define MTR_NO_NUMBER UINT32_MAX

/* A process, told apart from others that get its number later. */
struct mtr_identity {
    uint32_t pid;
    uint64_t start; /* clock ticks since boot */
    uint64_t random;
};

struct mtr_config {
    const struct mtr_host *host;
    void (*ensure_control)(void); /* mtr_control_server_ensure; set with HOST */
    bool named;                   /* the environment names an output */
    bool wanted;                  /* recorded; with per_process children, too */
    int pattern_error;            /* errno of the pattern, 0: usable */
    bool per_process;             /* %p in the name */
    bool makes_no_thread;         /* not from a call of malloc */
    bool compress;
    bool stats;
    bool drops;          /* TCMALLOC_TRACE_OVERFLOW=drop */
    bool control;        /* there is a control socket */
    bool present;        /* present bytes are recorded */
    bool filtered;       /* the image began with a filter of system calls */
    bool confined;       /* it has installed its first one since */
    bool check_frees;    /* each free is checked */
    bool continues;      /* a recorded image exec'd this one */
    uint32_t owner_name; /* number of the file of that image */
    uint32_t named_pid;  /* process that NAMED was set in */
    uint32_t starts;     /* recordings that this image has begun */
    uint64_t bound_bytes;
    uint64_t limit_bytes; /* most bytes of the output, 0: no limit */
    uint64_t keep_bytes;  /* bytes that a flight recording keeps, 0: all */
    uint64_t token_end;   /* end of the tokens taken in all recordings */
    uint64_t fork; /* MTF_TAG_FORK: of the fork that is on, or that made this
                      process; 0: none, or a recording has begun since */
    struct mtr_identity self;
    struct mtr_identity parent;
    uint64_t stderr_dev, stderr_ino; /* of descriptor 2 at the start, or 0 */
    char executable[64];
    /* "linked jemalloc": what would serve malloc without this library, as in
       MTF_TAG_ALLOCATOR; "": the C library, or not known */
    char allocator[64];
    char pattern[PATH_MAX]; /* absolute, with its % sequences */
};
extern struct mtr_config mtr_config;

/* --- Is a recording on? -------------------------------------------------- */

/*
 * How threads notice that a recording has begun or ended. The fast paths of
 * malloc and free do not check for one: a thread that may have to record has
 * its cache shut (core/thread_cache.h), so that every call takes a path that
 * does. Only its owner opens a cache, and reads mtr_is_recording again
 * afterwards. A start sets the flag, then has the host shut all caches. All of
 * these accesses are sequentially consistent: either the owner sees the flag
 * and shuts its cache again, or the start's store to the cache follows the
 * owner's. A stop only clears the flag.
 */

/*
 * Control words. mtr_control is never NULL: before set-up it points to a
 * constant.
 */
struct mtr_control {
    uint32_t recording; /* 1: threads record; seq_cst, see above */
    uint32_t early;     /* 1: before mtr_init; `recording` is 1 too */
    uint32_t end_mode;  /* 1: each call returns when its event is saved */
    uint32_t known;     /* 0: a forked child that mtr_enter decides on */
};
extern struct mtr_control *mtr_control;

/* True before mtr_init. The acquire pairs with the store that publishes the
   words of a recorder. */
static inline bool mtr_is_early(void) {
    return tcm_load_relaxed(&tcm_load_acquire(&mtr_control)->early) != 0;
}

/*
 * True if threads record: a recording is on, or the environment, which was not
 * read yet, may ask for one. What a thread has (its stream, a shut cache)
 * follows at the thread's next slow path. The pointer changes when the first
 * recording is begun by call; its load is part of the protocol above, too.
 */
static inline bool mtr_is_recording(void) {
    struct mtr_control *control = tcm_load_seq_cst(&mtr_control);
    return tcm_load_seq_cst(&control->recording) != 0;
}

#endif
