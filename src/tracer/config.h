/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is to be recorded, and of which process: the environment's settings and
 * what children need to know. Ordinary memory, which a child of fork inherits.
 *
 * Threads: read by all. trace_process.c fills it in before the first recording
 * begins; whoever starts a recording brings the identity up to date. Of the
 * rest, `present` and `token_end` are changed by any thread, atomically.
 */
#ifndef TCM_TRACER_CONFIG_H
#define TCM_TRACER_CONFIG_H

#include "base/compiler.h"
#include "tracer/host.h"

#include <limits.h>

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
    void (*answer)(void); /* makes control_server.h's thread; set with HOST */
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

#endif
