/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums over the allocations of processed traces, by what asked for them.
 *
 * A realloc counts as a call with its whole new size, and ends the old block.
 * Lifetimes are of blocks that ended; their times are those of the trace, which
 * has one about every millisecond.
 *
 * Where a trace has sites of samples alone, each stands for as many allocations
 * as its chance says: one of a size that is chosen with probability p counts
 * 1/p times. Tallies of sites are estimates then.
 *
 * Invariants: the sums over all tallies are those of the traces, but for those
 * of samples. Memory grows with live blocks, keys and threads.
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_TALLY_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_TALLY_H

#include "common/collections.h"
#include "model/sites.h"
#include "traceformat/raw_reader.h"

enum tally_by { TALLY_BY_SITE, TALLY_BY_SIZE, TALLY_BY_THREAD };

/* The site of what was not freed, where sites are of frees. */
#define TALLY_NOT_FREED UINT32_MAX

/* Of one key, or a sum of several. */
struct tally {
    uint64_t key; /* site, with place of the thread << 32 if asked for; size;
                     or place of the thread */
    uint64_t calls, bytes;
    uint64_t live, live_bytes;       /* at the moment asked for */
    uint64_t at_peak, at_peak_bytes; /* when most bytes were alive */
    uint64_t ended;                  /* blocks; of these: */
    uint64_t temporary;              /* ended by the thread's next event */
    uint64_t foreign;                /* ended by another thread */
    uint64_t life_ns, life_ns_max;   /* sum, longest */
    uint64_t life_bytes_max;         /* allocated meanwhile */
    double life_bytes;               /* sum */
    uint64_t stay_ns;          /* up to the end, of those alive then; sum */
    uint64_t most, most_bytes; /* alive when most bytes of it were */
    uint64_t largest, failed;
    uint64_t samples; /* calls that were seen, of estimates */
    /* while reading */
    uint64_t peak_stamp, kept, kept_bytes;
    double rest;   /* of calls that samples stand for, half a one at most */
    bool followed; /* by the history */
};

/* Where live blocks are counted. */
enum tally_moment { TALLY_AT_END, TALLY_AT_PEAK, TALLY_AT_TIME, TALLY_AT_MARK };

struct tally_thread {
    uint32_t id, trace; /* traces from 0 */
    uint64_t events;
    char name[32];
};

struct tally_block; /* of a slot */

struct tally_object {
    uint64_t birth_ns, death_ns, size, life_bytes;
    uint32_t thread, freed_by, site;
    bool ended;
};

/* By the caller, before tally_read; all else 0. */
struct tally_options {
    enum tally_by by;
    bool threads; /* of sites: those of each thread by themselves */
    bool freed;   /* of sites: where blocks were freed */
    enum tally_moment moment;
    uint64_t moment_ns; /* since the start */
    const char *mark;
    /* Each object at its end, those alive at the end last; NULL: not wanted.
       False: stop. */
    bool (*object)(void *ctx, const struct tally_object *o);
    void *ctx;
    struct history *history; /* NULL: not wanted */
};

struct tallies {
    struct tally_options options;
    struct tally *tally;
    size_t count, room;
    struct tool_map place; /* by key plus 1: place plus 1 */
    struct tool_sites sites;
    struct tally_thread *thread; /* in order of traces and appearance */
    size_t threads, thread_room;
    struct mtf_raw_info header; /* of the last raw trace */
    bool have_header;
    bool begun;   /* a block of this trace was seen */
    bool running; /* one of the traces was still being recorded */
    unsigned traces;
    const char *name[TOOL_SITE_TRACES]; /* of the traces */
    uint64_t start_ns, end_ns;          /* of the last one */
    uint64_t sited;                     /* calls with a site */
    bool sampled;        /* one of the traces has sites of samples alone */
    uint64_t mean;       /* bytes between samples, of the last one; 0: none */
    struct tally exact;  /* of all calls, samples or not */
    uint64_t peak_bytes; /* sum over traces */
    uint64_t peak_ns;    /* of the last one */
    int status;          /* enum tool_status */

    /* while reading */
    struct tally_block *block;
    size_t blocks;
    struct tool_map thread_place; /* by id plus 1: place plus 1 */
    size_t first;                 /* tally of the trace at hand */
    struct tally all;             /* of it */
    uint64_t time_ns, live_bytes, all_bytes, peaks, highest;
    bool ending;
    uint32_t current, site;
    uint32_t current_place; /* of the thread */
    bool moment_found, growing;
    uint64_t most_slots;
    bool stopped;
};

/* Reads the trace NAME, processed or raw ("-": standard input), and
   adds it to those before. NAME is kept. False: a message is out; T->status is
   then TOOL_FAILED, and otherwise may be TOOL_DAMAGED, with a message too. */
bool tally_read(struct tallies *t, const char *name);

/* Reads as tally_read does, in steps, each a block. FOLLOW: a trace that is
   being recorded is followed. NULL: a message is out. */
struct tally_reader;
struct tally_reader *tally_open(struct tallies *t, const char *name,
                                bool follow);
enum tally_step {
    TALLY_SOME, /* a block was read */
    TALLY_ALL,  /* so was all that there is of a trace that is followed */
    TALLY_END
};
enum tally_step tally_step(struct tally_reader *r);
/* Whether the next step may sleep until more is recorded. */
bool tally_may_sleep(const struct tally_reader *r);
/* Finishes the tallies as if the trace ended here. For a forked child: R cannot
   be read on afterwards. Returns what tally_read returns. */
bool tally_stop_here(struct tally_reader *r);
/* Frees R, after TALLY_END. Returns what tally_read returns. */
bool tally_close(struct tally_reader *r);
void tally_fini(struct tallies *t);
/* Adds FROM to TO. */
void tally_add(struct tally *to, const struct tally *from);

#endif
