/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Histories of a simulated concurrent program with a known truth, for the tests
 * of the sorter.
 *
 * Threads, thread caches, a central list and a recorder with buffers, times and
 * a saver act in small steps of virtual time: a block is got before its
 * allocation is published, a free is published before its block goes back, a
 * clock is read before memory is given up and after it was got. Threads end and
 * others begin; what a thread does after its end goes to the late stream. What
 * they leave is the raw trace that a real recorder would write, and for each
 * event when it really happened and at which address.
 *
 * The program does not depend on the saver: the same seed with another
 * saver_seed, round_ns, jitter_ns or loss is the same run, saved otherwise.
 *
 * Threads: none shared.
 */
#ifndef TESTS_UNIT_TOOLS_ORDER_HISTORY_H
#define TESTS_UNIT_TOOLS_ORDER_HISTORY_H

#include "tests/lib/memory_source.h"
#include "tests/unit/traceformat/raw_build.h"
#include "traceformat/raw_reader.h"

/* Most threads at a time; each one that ends makes room for another. */
#define HISTORY_THREADS_MAX 16u

struct history_options {
    uint64_t seed;
    unsigned threads;
    unsigned events;       /* of all threads, about */
    unsigned buffer_bytes; /* of a thread's buffer */
    unsigned end_permille; /* chance of an action to be a thread's end */
    uint64_t skew_ns;      /* greatest error of the threads' clocks */
    uint64_t tick_ns;      /* time between two ticks of the clock; 0: exact */
    bool same_times;       /* with a tick: times are as the clock shows them */
    uint64_t saver_seed;
    unsigned round_ns;       /* between rounds of the saver */
    unsigned jitter_ns;      /* between reading a position and the clock */
    unsigned lose_percent;   /* buffers that do not reach the file */
    unsigned drop_percent;   /* segments that do not reach the file */
    unsigned double_percent; /* segments that are in the file twice */
    unsigned
        spool_percent; /* chance that a last buffer is in the spool alone */
};

/* An event; they are in the order in which they were published. */
struct history_event {
    uint32_t thread;
    uint32_t stream;      /* the thread, or MTF_THREAD_LATE */
    uint64_t offset;      /* in the stream */
    uint64_t time;        /* when it was published */
    uint8_t kind;         /* enum mtf_event_kind */
    uint64_t needs, born; /* tokens, 0 none */
    uint64_t size;
    uint64_t address;     /* of the block made */
    uint64_t old_address; /* of the block ended */
};

struct history {
    struct history_event *events;
    size_t event_count, event_room;
    struct bytes trace;      /* plain */
    size_t *barrier_ends;    /* offsets in it behind each barrier */
    uint64_t *barrier_times; /* and their times */
    size_t barrier_count, barrier_room;
    uint64_t greatest_token, greatest_address;
    uint64_t peak_bytes; /* most bytes that were live at a time */
};

void history_make(struct history *h, const struct history_options *o);
void history_free(struct history *h);

/* --- Reading a trace in memory -------------------------------------------- */

struct history_reader {
    struct memory_source memory;
    void *buffer;
    struct mtf_raw_reader reader;
};

void history_read_begin(struct history_reader *r, const void *bytes,
                        size_t length);
/* False: the end. */
bool history_read_next(struct history_reader *r, struct mtf_item *item);
void history_read_end(struct history_reader *r);

#endif
