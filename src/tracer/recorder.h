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
 *
 * Memory: struct mtr_recorder and every mtr_thread lie in pages that the child
 * of any fork finds zeroed, so a child sees state MTR_OFF, free locks and
 * nothing recorded, without any handler having run. What a child needs to know
 * lies in struct mtr_config, ordinary memory that is written before the first
 * recording begins, and once again by each child that records itself.
 *
 * Locks, in order: late, registry, pool (base/lock.h). None is held across a
 * system call that can block.
 */
#ifndef MTR_RECORDER_H
#define MTR_RECORDER_H

#include "base/dlist.h"
#include "base/lock.h"
#include "traceformat/raw_layout.h"
#include "tracer/buf_pool.h"
#include "tracer/spool.h"
#include "tracer/tracer.h"

#include <limits.h>

enum mtr_state {
    MTR_OFF = 0,  /* no recording; a wiped child */
    MTR_ARMED,    /* shall begin with the first event */
    MTR_STARTING, /* one thread is setting it up */
    MTR_LAZY,     /* spool alone */
    MTR_RUNNING,  /* with a saver */
    MTR_ENDED,    /* end mode */
    MTR_FAILED    /* stopped for good by a failure of ours */
};

enum mtr_output_kind {
    MTR_OUTPUT_FILE = 0, /* regular, or nothing there yet: replaced */
    MTR_OUTPUT_FIFO,     /* opened when its reader comes */
    MTR_OUTPUT_DEVICE,   /* anything else at the name: opened as it is */
    MTR_OUTPUT_FD        /* /dev/fd/N and its like */
};

/* Who a recording belongs to. */
struct mtr_identity {
    uint32_t pid;
    uint64_t start; /* clock ticks since boot */
    uint64_t random;
};

struct mtr_config {
    const struct mtr_host *host;
    bool set_up;         /* mtr_init ran */
    bool wanted;         /* this process and, with per_process, its children */
    bool pattern_is_bad; /* too long, or there is no current folder */
    bool per_process;    /* %p in the name */
    bool compress;
    bool stats;
    bool continues;      /* this image continues its process's recording */
    uint32_t owner_name; /* and its predecessor's file had this number */
    uint64_t bound_bytes;
    uint64_t token_end; /* tokens handed out so far, in all recordings */
    struct mtr_identity self;
    struct mtr_identity parent;
    uint64_t stderr_dev, stderr_ino; /* what descriptor 2 was, 0 0: nothing */
    char executable[64];
    char pattern[PATH_MAX]; /* absolute, with % sequences */
};
extern struct mtr_config mtr_config;

/* The cold part of a thread's state, beside struct mtr_thread in one record. */
struct mtr_thread_cold {
    struct mtr_buffer *buffer; /* changed under the pool lock */
    uint8_t *room_end;         /* pos up to here: MTR_ROOM bytes are free */
    uint64_t token_end;        /* of the current block */
    uint32_t token_count;      /* of the next block */
    uint32_t as_thread;        /* late stream: whose the events are now */
    uint64_t time_ns;          /* last time in the stream */
    uint64_t untraced, dropped, waits, wait_ns, slow_times;
    struct tcm_dlist link; /* registry */
};

/* Sums over ended threads; what live ones count is added when asked for. */
struct mtr_totals {
    uint64_t untraced, dropped, waits, wait_ns, slow_times;
};

struct mtr_registry {
    struct tcm_lock lock;
    uint32_t next_id;
    struct tcm_dlist live;
    struct mtr_thread_record *free;
    uint32_t slab;      /* being cut up */
    uint32_t slab_used; /* records cut from it */
    struct mtr_totals ended;
};

/* Between program threads and the saver. Words are futexes. */
struct mtr_saver_link {
    uint32_t wake;    /* counts calls to the saver */
    uint32_t idle;    /* 1: the next event shall call */
    uint32_t wanted;  /* rounds asked for */
    uint32_t done;    /* of these, rounds made */
    uint32_t finish;  /* 1: the library's destructor runs */
    uint32_t started; /* 0 no, 1 being made, 2 set up */
    uint32_t end_events;
    uint32_t no_fifo_wait;
};

struct mtr_recorder {
    struct mtr_control control; /* first: mtr_control points here */
    uint32_t state;             /* enum mtr_state, futex */
    uint32_t message_length;    /* of message; taken by who prints it */
    uint64_t first_token;
    uint64_t random;
    uint64_t start_ns;
    uint32_t header_length;
    uint32_t name_number; /* OUTPUT.n; 0: OUTPUT */
    struct tcm_lock late_lock;
    struct mtr_thread *late;
    struct mtr_registry registry;
    struct mtr_pool pool;
    struct mtr_spool spool;
    struct mtr_saver_link link;
    char message[256];
    uint8_t header[MTF_RAW_HEADER_MAX];
    char output[PATH_MAX]; /* this process's, without number */
    char name[PATH_MAX];   /* with number */
};
/* NULL until mtr_init wanted a recording. */
extern struct mtr_recorder *mtr_recorder;

struct mtr_thread_record {
    struct mtr_thread hot;
    struct mtr_thread_cold cold;
} TCM_ALIGNED(TCM_CACHE_LINE);

/* True while this thread is inside the recorder: a malloc of a signal handler
   that comes now is not recorded. */
extern TCM_TLS uint8_t mtr_inside;

/* --- thread_registry.c: threads and their records ------------------------ */
void mtr_registry_init(struct mtr_registry *r);
/* Calls all threads into mtr_enter with their next event. */
void mtr_registry_stop_all(struct mtr_recorder *rec);
void mtr_registry_totals(struct mtr_recorder *rec, struct mtr_totals *out,
                         uint32_t *threads);
/* Fork: forget all threads; their records become free memory. */
void mtr_registry_wipe(void);
/* A new record with ID (0: the next one), without buffer. NULL: no memory. */
struct mtr_thread *mtr_registry_add(struct mtr_recorder *rec, uint32_t id);
/* Gives the record back; its buffer is with the pool already. */
void mtr_registry_remove(struct mtr_recorder *rec, struct mtr_thread *t);

/* --- thread_buf.c -------------------------------------------------------- */
/* mtr_enter's second half; ID 0: an ordinary thread. */
struct mtr_thread *mtr_enter_slow(struct mtr_thread **slot, uint32_t id);
/* T's first or next buffer; may wait. false: recording ended meanwhile. */
bool mtr_buffer_exchange(struct mtr_recorder *rec, struct mtr_thread *t);
/* Fills in B, which T took: descriptor and spool head. Its events will have
   been published after TIME_LO. */
void mtr_buffer_begin(struct mtr_recorder *rec, struct mtr_thread *t,
                      struct mtr_buffer *b, uint64_t stream, uint64_t time_lo);
/* The first bytes of a stream or buffer: BUFFER, THREAD_START. */
void mtr_put_buffer_state(struct mtr_thread *t, uint64_t now);
void mtr_put_thread_start(struct mtr_thread *t);
void mtr_put_thread_end(struct mtr_thread *t);
/* A new token block in the middle of a buffer. */
void mtr_put_tokens(struct mtr_thread *t);
bool mtr_tokens_are_low(const struct mtr_thread *t);
/* Takes a block without an event: a BUFFER event follows. */
void mtr_take_tokens(struct mtr_thread *t);

/* --- thread_early.c: before set-up --------------------------------------- */
/* mtr_enter before mtr_init: the static buffer, for one thread. */
struct mtr_thread *mtr_early_enter(struct mtr_thread **slot);
/* True for the static state. */
bool mtr_early_is(const struct mtr_thread *t);
/* The calling thread wrote early events, which a recording can begin with. */
bool mtr_early_has_events(void);
/* Token of the first early event; these are part of a recording that adopts
   them and of no other. */
uint64_t mtr_early_first_token(void);
uint64_t mtr_early_time_ns(void);
/* Makes them the beginning of the calling thread's stream. */
void mtr_early_adopt(struct mtr_recorder *rec);
/* The calling thread's adopted state, once; else NULL. */
struct mtr_thread *mtr_early_claim_adopted(void);

/* --- tracer.c ------------------------------------------------------------ */
/* From MTR_ARMED on to a recording; false: it failed. Any thread. */
bool mtr_start_armed(struct mtr_recorder *rec);
/* A wiped child's first call: arms it if children are recorded. */
bool mtr_child_begin(void);
/* Makes the saver if there is none, and waits until it is set up. */
bool mtr_saver_need(struct mtr_recorder *rec);
/* Stops for good; WHAT and errno ERROR (0: none) go to stderr when a thread of
   the program comes by. */
void mtr_fail(struct mtr_recorder *rec, const char *what, int error);
/* Prints the message that waits, if any. */
void mtr_message_flush(struct mtr_recorder *rec);
/* Text on descriptor 2, if that is what it was at the start. */
void mtr_say(const char *text, size_t length);

#endif
