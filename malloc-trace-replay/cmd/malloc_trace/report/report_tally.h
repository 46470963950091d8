/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums over the allocations of traces, by site, size or thread, and live bytes
 * over time.
 *
 * A realloc counts as a call with its whole new size, and ends the old block.
 * Lifetimes are those of blocks that ended; the times of a trace come about
 * every millisecond.
 *
 * Where a trace has sites of samples only, a sample counts for several calls:
 * one of a size that is chosen with probability p counts 1/p times. Sums by
 * site are estimates then.
 *
 * Invariants: the sums over all tallies are those of the traces, except for
 * samples. Memory grows with live blocks, keys and threads.
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_TALLY_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_TALLY_H

#include "common/collections.h"
#include "model/sites.h"
#include "model/untouched.h"
#include "traceformat/raw_reader.h"

enum report_tally_by {
    REPORT_TALLY_BY_SITE,
    REPORT_TALLY_BY_SIZE,
    REPORT_TALLY_BY_THREAD
};

/* Key of blocks that were not freed, where sites are those of frees. */
#define REPORT_NOT_FREED UINT32_MAX

/* Figures of one key, or a sum of several. */
struct report_tally {
    uint64_t key; /* site, plus index of the thread << 32 if both are wanted;
                     size; or index of the thread */
    uint64_t calls, bytes;
    uint64_t live, live_bytes;       /* at the chosen moment */
    uint64_t at_peak, at_peak_bytes; /* when most bytes of all were live */
    uint64_t ended;                  /* blocks; of these: */
    uint64_t temporary;              /* ended by the thread's next event */
    uint64_t foreign;                /* ended by another thread */
    unsigned __int128 life_ns; /* sum; 64 bits hold 3 min of 10^8 blocks */
    uint64_t life_ns_max;      /* longest */
    uint64_t life_bytes_max;   /* allocated meanwhile, at most */
    double life_bytes;         /* allocated meanwhile, sum */
    unsigned __int128 stay_ns; /* from birth to the end, of live blocks; sum */
    uint64_t most, most_bytes; /* live when most bytes of this key were */
    uint64_t largest, failed;
    uint64_t samples; /* calls that were recorded, of estimates */
    /* while reading */
    uint64_t peak_stamp, kept, kept_bytes;
    double rest;   /* estimated calls not counted yet, between -1/2 and 1/2 */
    bool followed; /* by the history */
};

/* Moment at which live blocks are counted. */
enum report_moment {
    REPORT_AT_END,
    REPORT_AT_PEAK,
    REPORT_AT_TIME,
    REPORT_AT_MARK
};

struct report_thread {
    uint32_t id, trace; /* traces from 0 */
    uint64_t events;
    char name[32];
};

struct report_block; /* of a slot */

struct report_object {
    uint64_t birth_ns, death_ns, size, life_bytes;
    uint32_t thread, freed_by, site;
    bool ended;
};

struct report_tallies;

/* Set by the caller before report_tally_read. */
struct report_tally_options {
    enum report_tally_by by;
    bool threads; /* one tally for each site and thread */
    bool freed;   /* sites are those of frees */
    enum report_moment moment;
    uint64_t moment_ns; /* since the start */
    const char *mark;
    /* Called for each block when it ends, and at the end of the trace for live
       ones; NULL: not wanted. False: stop. */
    bool (*object)(void *ctx, const struct report_object *o);
    void *ctx;
    /* Called after the allocation with which T->all.calls reaches NEXT_SAMPLE,
       which it raises, and after each mark; NULL: not wanted. */
    void (*sample)(void *sample_ctx, struct report_tallies *t);
    void (*sample_mark)(void *sample_ctx, struct report_tallies *t);
    /* Called before the time becomes NS. */
    void (*sample_time)(void *sample_ctx, struct report_tallies *t,
                        uint64_t ns);
    void *sample_ctx;
    uint64_t next_sample;
    struct report_history *history; /* NULL: not wanted */
};

/* All zero, but for OPTIONS, before the first report_tally_read. */
struct report_tallies {
    struct report_tally_options options;
    struct report_tally *tally;
    size_t count, room;
    struct tool_map place; /* index plus 1, by key plus 1 */
    struct tool_sites sites;
    struct report_thread *thread; /* in order of traces and appearance */
    size_t threads, thread_room;
    struct mtf_raw_info header; /* of the last raw trace */
    bool have_header;
    bool begun;   /* a block of this trace was read */
    bool running; /* one of the traces was still being recorded */
    unsigned traces;
    const char *name[TOOL_SITE_TRACES]; /* of the traces */
    uint64_t start_ns, end_ns;          /* of the last one */
    uint64_t sited;                     /* calls with a site */
    bool sampled;  /* one of the traces has sites of samples only */
    uint64_t mean; /* bytes between samples, of the last one; 0: none */
    struct report_tally exact; /* of all calls, samples or not */
    uint64_t peak_bytes;       /* sum over traces */
    uint64_t peak_ns;          /* of the last one */
    int status;                /* enum tool_status */
    bool is_part;         /* a trace lacks the program's beginning or end */
    bool drops;           /* the recorder dropped events */
    uint64_t wrong_frees; /* calls that the recorder refused to carry out */

    /* while reading */
    struct report_block *block;
    size_t blocks, block_room;
    struct tool_map thread_place; /* index plus 1, by thread id plus 1 */
    size_t first;                 /* tally of the current trace */
    struct report_tally all;      /* sum of the current trace */
    struct untouched untouched;   /* by the samples of the process */
    uint64_t operations;          /* read so far */
    uint64_t time_ns, live_bytes, all_bytes, peaks, highest;
    bool ending;
    uint32_t current, site;
    uint32_t current_place; /* index of the current thread */
    bool moment_found, growing;
    uint64_t most_slots;
    bool stopped;
};

/* Reads the trace NAME, processed or raw ("-": standard input), and adds its
   sums to T. T keeps the pointer NAME. False: a message was printed and
   T->status is TOOL_FAILED. Otherwise T->status may be TOOL_DAMAGED, with a
   message too. */
bool report_tally_read(struct report_tallies *t, const char *name);

/* Like report_tally_read, in steps of a block each. FOLLOW: wait for more of a
   trace that is being recorded. NULL: a message was printed. */
struct report_reader;
struct report_reader *report_tally_open(struct report_tallies *t,
                                        const char *name, bool follow);
enum report_step {
    REPORT_STEP_SOME, /* a block was read */
    REPORT_STEP_ALL,  /* a block was read, the last one recorded so far */
    REPORT_STEP_END
};
enum report_step report_tally_step(struct report_reader *r);
/* True if the next step may sleep until more is recorded. */
bool report_tally_may_sleep(const struct report_reader *r);
/* Finishes the tallies as if the trace ended here. Call only in a forked child:
   R is unusable afterwards. Returns what report_tally_read returns. */
bool report_tally_stop_here(struct report_reader *r);
/* Frees R, after REPORT_STEP_END. Returns what report_tally_read returns. */
bool report_tally_close(struct report_reader *r);
void report_tally_fini(struct report_tallies *t);
/* Adds FROM to TO. */
void report_tally_add(struct report_tally *to, const struct report_tally *from);
/* Mean life of T's ended blocks; 0: there are none. */
static inline uint64_t report_tally_mean_ns(const struct report_tally *t) {
    return t->ended == 0 ? 0 : (uint64_t)(t->life_ns / t->ended);
}

/* --- Memory over time ----------------------------------------------------- */

#define REPORT_HISTORY_COLUMNS 512u
#define REPORT_HISTORY_KEYS    1024u

/*
 * Live bytes over the time of a trace, in all and of the keys with most.
 *
 * Columns are moments at equal distances from the start. When all are used,
 * every other one is dropped and the distance doubles. Of several traces the
 * first one is followed.
 *
 * A key is followed from the moment at which it has 1/REPORT_HISTORY_KEYS of
 * the highest sum so far; before that its columns are 0.
 */
struct report_history {
    uint64_t step_ns;
    unsigned columns; /* column I is at I times step_ns since the start */
    uint64_t total[REPORT_HISTORY_COLUMNS];
    struct report_history_key {
        uint32_t tally; /* its index */
        uint64_t live[REPORT_HISTORY_COLUMNS];
    } * key;
    size_t keys;
    bool full; /* more keys than REPORT_HISTORY_KEYS qualified */
    bool over; /* the trace has ended */
};

/* NULL: out of memory. */
struct report_history *report_history_new(void);
void report_history_free(struct report_history *h);

#endif
