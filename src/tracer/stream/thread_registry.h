/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry: the threads of a recording and their records.
 *
 * Invariants: a record in the list belongs to the thread whose slot owns it; a
 * record of an earlier session stays there until its thread enters the
 * recorder.
 * Threads: any. The list changes under the registry's lock. Only the owner
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

/* The cold part of a thread's state, in one record with struct mtr_thread. */
struct mtr_thread_cold {
    struct mtr_buffer *buffer; /* changed under the pool's lock */
    uint32_t session;          /* session of the record */
    uint8_t *room_end;         /* up to here MTR_ROOM bytes are free */
    uint64_t first_token;      /* first token of the recording */
    uint64_t token_end;        /* end of the current token block */
    uint32_t token_count;      /* tokens of the next block */
    uint32_t as_thread;        /* late stream: thread of its events */
    uint32_t id;               /* number of the thread in the trace */
    uint32_t tid;              /* kernel's id; 0: several threads */
    const int *self;           /* the thread's errno, which names it */
    uint32_t long_frees;       /* long frees without short ones between */
    uintptr_t long_free_end;   /* end of the last long free */
    uint64_t long_free_token;  /* next token at the last long free */
    uint64_t time_ns;          /* last time in the stream */
    uint64_t untraced, dropped, waits, wait_ns, slow_times;
    /* Calls in the buffer: `frees` without those that the hot state counts;
       `mallocs`: of earlier token blocks, with all other calls that took a
       token. */
    struct mtr_event_counts counts;
    uint64_t count_token;     /* first token of this block in the buffer */
    uint64_t other_tokens;    /* tokens in the buffer that are not of malloc */
    bool is_counted;          /* COUNTS includes the whole buffer */
    uint64_t gap_ns;          /* the gap began at this time */
    uint64_t gap_dropped;     /* dropped in it, not published yet */
    uint64_t gap_untraced;    /* untraced in it, not published yet */
    uint32_t pool_seq;        /* pool's seq when no buffer was free */
    uint8_t gap_bytes;        /* bytes behind pos that belong to the gap */
    bool gap_passed;          /* the gap has an event that is no call */
    uint64_t stopped_cpu_ns;  /* used by the saver at the end */
    struct mts_thread *sites; /* NULL: no sites */
    /* Blocks of each group of sizes up to the next look (thread_looks.h), and
       the groups of which a look was drawn. */
    uint16_t look_in[MTF_PRESENT_GROUPS];
    uint64_t look_drawn;
    struct tcm_dlist link; /* in the registry's list */
};

/* The first token of T's recording. Blocks with smaller tokens were allocated
   while not recording, or in an older one. */
static TCM_ALWAYS_INLINE uint64_t mtr_first_token(const struct mtr_thread *t) {
    return t->cold->first_token;
}

/* Sums of counters: of ended threads in the registry; of all threads where they
   are returned. */
struct mtr_totals {
    uint64_t untraced, dropped, waits, wait_ns, slow_times;
};

struct mtr_registry {
    struct tcm_lock lock;
    uint32_t next_id;  /* the last id given; ids are never reused */
    uint32_t first_id; /* next_id less the threads of this session */
    uint32_t streams;  /* streams that this session has had so far */
    bool has_saver;    /* this session has one */
    bool is_single;    /* has_saver, and streams == 1 */
    struct tcm_dlist live;
    struct mtr_thread_record *free;
    uint32_t slab;      /* slab that records are cut from */
    uint32_t slab_used; /* records cut from it */
    struct mtr_totals ended;
    uint64_t missed; /* calls of interrupting signal handlers */
};

/* Looks at the memory of blocks (thread_looks.h). */
struct mtr_looks {
    uint32_t count[MTF_PRESENT_GROUPS]; /* of each group, less what passed */
    uint64_t ns;                        /* that all took */
    uint64_t pages_ns;                  /* the same for pages made again */
};

struct mtr_thread_record {
    struct mtr_thread hot;
    struct mtr_thread_cold cold;
} TCM_ALIGNED(TCM_CACHE_LINE);

void mtr_registry_init(struct mtr_registry *r);

/* Notes that the session has a saver, whose rounds bound the times of events
   from now on. */
void mtr_registry_has_saver(struct mtr_registry *r);

/*
 * True if there is a saver, only one thread has a stream, and no other had one
 * when the caller read NS: all times of others are greater. A second thread
 * clears the word, makes a fence and reads its first time; here the fence
 * follows the reading of NS, which the store of NS keeps before it. So this
 * sees the cleared word, or the second thread reads its times after NS.
 */
static inline bool mtr_registry_is_single(const struct mtr_registry *r,
                                          uint64_t ns) {
    volatile uint64_t stored = ns;
    (void)stored;
    tcm_fence_seq_cst();
    return tcm_load_relaxed(&r->is_single);
}

/* Clears the limits of all threads: the next event of each enters mtr_enter. */
void mtr_registry_clear_limits(struct mtr_recorder *rec);
void mtr_registry_totals(struct mtr_recorder *rec, struct mtr_totals *out,
                         uint32_t *threads);
/* For the child of a fork: forgets all threads and frees their records, except
   the record that SLOT points to. */
void mtr_registry_wipe(struct mtr_thread **slot);
/* A new record with ID (0: the next one), without a buffer, owned by SLOT.
   NULL: no memory. */
struct mtr_thread *mtr_registry_add(struct mtr_recorder *rec, uint32_t id,
                                    struct mtr_thread **slot);
/* Makes SLOT the owner of T; NULL: nobody. */
void mtr_registry_set_owner(struct mtr_thread *t, struct mtr_thread **slot);
bool mtr_registry_is_owner(const struct mtr_thread *t,
                           struct mtr_thread **slot);
/* Begins SESSION, whose first token is *EARLY_TOKEN, or the next one if
   EARLY_TOKEN is NULL, and resets the counts. Other records stay in the list
   until their threads enter the recorder. */
void mtr_registry_begin(struct mtr_recorder *rec, uint32_t session,
                        const uint64_t *early_token);
/* Leaves the id that was given last out of the count of threads, because it is
   not of the program. The caller has held the late lock since that id was
   given. */
void mtr_registry_uncount_last(struct mtr_recorder *rec);
/* Counts events that threads without a record have dropped. */
void mtr_registry_count_dropped(struct mtr_recorder *rec, uint64_t dropped);
/* Gives the record back, after handing over its buffer if it has one: the
   recording may be about to end, and save what the buffer has. T has no gap
   that it could still write. */
void mtr_registry_remove(struct mtr_recorder *rec, struct mtr_thread *t);

#endif
