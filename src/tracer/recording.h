/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is recorded: the host, the configuration, and the words that say whether
 * a recording is on.
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

/* --- The host ------------------------------------------------------------ */

/* A block with pages of its own, longer than MTR_PRESENT_ABOVE. */
struct mtr_large_block {
    uintptr_t start;
    size_t bytes;
    uint64_t token; /* 0 or an earlier recording's: made while none was on */
};

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

/* --- Configuration ------------------------------------------------------- */

/* The number of a process whose image has no file yet. */
#define MTR_NO_NUMBER UINT32_MAX

/* The process that a recording belongs to. */
struct mtr_identity {
    uint32_t pid;
    uint64_t start; /* clock ticks since boot */
    uint64_t random;
};

struct mtr_config {
    const struct mtr_host *host;
    void (*answer)(void); /* makes control_server.c's thread; set with HOST */
    bool named;           /* the environment names an output for this process */
    bool wanted;          /* children are recorded too, with per_process */
    int pattern_error;    /* too long, or there is no current folder */
    bool per_process;     /* %p in the name */
    bool compress;
    bool stats;
    bool drops;          /* threads do not wait for buffers for long */
    bool control;        /* other processes may ask */
    bool present;        /* present bytes are recorded; any thread clears it */
    bool filtered;       /* this image began with a filter of system calls */
    bool confined;       /* it got its first one since */
    bool check_frees;    /* each free is looked at */
    bool continues;      /* this image continues its process's recording */
    uint32_t owner_name; /* and its predecessor's file had this number */
    uint32_t named_pid;  /* the process that NAMED was found for */
    uint32_t starts;     /* recordings begun since this image began */
    uint64_t bound_bytes;
    uint64_t limit_bytes; /* of the output, 0: none */
    uint64_t keep_bytes;  /* flight recording: what is kept, 0: all */
    uint64_t token_end;   /* tokens handed out so far, in all recordings */
    struct mtr_identity self;
    struct mtr_identity parent;
    uint64_t stderr_dev, stderr_ino; /* what descriptor 2 was, 0 0: nothing */
    char executable[64];
    char pattern[PATH_MAX]; /* absolute, with % sequences */
};
extern struct mtr_config mtr_config;

/* --- Is a recording on? -------------------------------------------------- */

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

/* Before mtr_init. */
static inline bool mtr_is_early(void) {
    return tcm_load_relaxed(&tcm_load_relaxed(&mtr_control)->early) != 0;
}

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

#endif
