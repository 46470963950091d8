/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads of a recording and their records.
 *
 * Invariants: a record in the list is of the thread whose slot owns it; one of
 * an earlier session stays there until its thread enters the recorder.
 * Threads: any. The list is changed under the registry's lock; the owner alone
 * changes its record, except for the limit (thread_buf.h).
 */
#ifndef TCM_TRACER_STREAM_THREAD_REGISTRY_H
#define TCM_TRACER_STREAM_THREAD_REGISTRY_H

#include "base/dlist.h"
#include "base/lock.h"
#include "tracer/stream/buf_pool.h"
#include "tracer/stream/thread_buf.h"

struct mtr_buffer;
struct mtr_recorder;
struct mts_thread;

/* The cold part of a thread's state, beside struct mtr_thread in one record. */
struct mtr_thread_cold {
    struct mtr_buffer *buffer; /* changed under the pool lock */
    uint32_t session;          /* it belongs to */
    uint8_t *room_end;         /* pos up to here: MTR_ROOM bytes are free */
    uint64_t first_token;      /* of the recording */
    uint64_t token_end;        /* of the current block */
    uint32_t token_count;      /* of the next block */
    uint32_t as_thread;        /* late stream: thread of the events now */
    uint32_t id;               /* of the thread in the trace */
    uint32_t tid;              /* the kernel's; 0: of no one thread */
    uint32_t long_frees;       /* without short ones between, to the last */
    uintptr_t long_free_end;   /* of that one */
    uint64_t long_free_token;  /* the next token then */
    uint64_t time_ns;          /* last time in the stream */
    uint64_t untraced, dropped, waits, wait_ns, slow_times;
    /* Calls in the buffer: `frees` less those that the hot state has; `mallocs`
       those of earlier blocks of tokens, with all other calls that took one. */
    struct mtr_event_counts counts;
    uint64_t count_token;     /* the first of this block in the buffer */
    uint64_t other_tokens;    /* of the buffer, that are of no malloc */
    bool is_counted;          /* all that is in the buffer */
    uint64_t gap_ns;          /* the gap began then */
    uint64_t gap_dropped;     /* in it, and in no published event yet */
    uint64_t gap_untraced;    /* the same */
    uint32_t pool_seq;        /* of the pool when it had no buffer for us */
    uint8_t gap_bytes;        /* of the events behind pos that tell of it */
    bool gap_passed;          /* it has something that is no call */
    uint64_t stopped_cpu_ns;  /* at the end; the saver's */
    struct mts_thread *sites; /* NULL: allocations have none */
    struct tcm_dlist link;    /* registry */
};

/* Smaller tokens are of no or an older recording. */
static TCM_ALWAYS_INLINE uint64_t mtr_first_token(const struct mtr_thread *t) {
    return t->cold->first_token;
}

/* Sums over ended threads; what live ones count is added when asked for. */
struct mtr_totals {
    uint64_t untraced, dropped, waits, wait_ns, slow_times;
};

struct mtr_registry {
    struct tcm_lock lock;
    uint32_t next_id;  /* never used again in this process */
    uint32_t first_id; /* next_id, less the threads of this session */
    struct tcm_dlist live;
    struct mtr_thread_record *free;
    uint32_t slab;      /* being cut up */
    uint32_t slab_used; /* records cut from it */
    struct mtr_totals ended;
    uint64_t missed; /* calls of signal handlers in the recorder's midst */
};

struct mtr_thread_record {
    struct mtr_thread hot;
    struct mtr_thread_cold cold;
} TCM_ALIGNED(TCM_CACHE_LINE);

void mtr_registry_init(struct mtr_registry *r);
/* Calls all threads into mtr_enter with their next event. */
void mtr_registry_stop_all(struct mtr_recorder *rec);
void mtr_registry_totals(struct mtr_recorder *rec, struct mtr_totals *out,
                         uint32_t *threads);
/* Fork: forget all threads; their records become free memory, but that which
   SLOT points to. */
void mtr_registry_wipe(struct mtr_thread **slot);
/* A new record with ID (0: the next one), without buffer, owned by SLOT. NULL:
   no memory. */
struct mtr_thread *mtr_registry_add(struct mtr_recorder *rec, uint32_t id,
                                    struct mtr_thread **slot);
/* SLOT, or nothing if NULL, points to T from now on. */
void mtr_registry_own(struct mtr_thread *t, struct mtr_thread **slot);
bool mtr_registry_is_owner(const struct mtr_thread *t,
                           struct mtr_thread **slot);
/* SESSION begins, with *EARLY_TOKEN, or with the next token if that is NULL.
   Nothing is counted yet. Other records stay in the list until their threads
   enter the recorder. */
void mtr_registry_begin(struct mtr_recorder *rec, uint32_t session,
                        const uint64_t *early_token);
/* Leaves the id that was given last out of the count: no thread of the program
   has it. The caller has held the late lock since. */
void mtr_registry_leave_out(struct mtr_recorder *rec);
/* Counts what threads without a record lost. */
void mtr_registry_count_dropped(struct mtr_recorder *rec, uint64_t dropped);
/* Gives the record back, after handing over its buffer if it still has one: the
   recording may be about to end, and save what is in it. T has no gap that it
   could still write. */
void mtr_registry_remove(struct mtr_recorder *rec, struct mtr_thread *t);

#endif
