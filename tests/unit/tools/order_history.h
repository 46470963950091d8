/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Histories of a simulated concurrent program with a known truth, for the tests
 * of the sorter.
 *
 * Threads, thread caches, a central list and a recorder with buffers, times and
 * a saver act in small steps of virtual time: a block is got before its
 * allocation is published, a free is published before its block goes back, a
 * clock is read before memory is given up and after it was got. What they leave
 * is the stream of segments and barriers that a real recorder would write, and
 * for each event when it really happened and at which address.
 *
 * Threads: none shared.
 */
#ifndef TESTS_UNIT_TOOLS_ORDER_HISTORY_H
#define TESTS_UNIT_TOOLS_ORDER_HISTORY_H

#include "traceformat/raw_reader.h"

struct history_options {
    uint64_t seed;
    unsigned threads;
    unsigned events;       /* about so many in all */
    unsigned buffer_bytes; /* of a thread's buffer */
    unsigned round_ns;     /* between rounds of the saver */
    uint64_t skew_ns;      /* clocks of threads are wrong by up to this */
    unsigned lose_percent; /* of the buffers do not reach the file */
    unsigned
        spool_percent; /* chance that a last buffer is in the spool alone */
};

struct history_event {
    uint32_t thread;
    uint8_t kind;         /* enum mtf_event_kind */
    bool lost;            /* its buffer is not in the trace */
    uint64_t needs, born; /* tokens, 0 none */
    uint64_t size;
    uint64_t address;     /* of the block made */
    uint64_t old_address; /* of the block ended */
    /* as the streams tell */
    uint64_t lo, hi, i, n;
    uint64_t window; /* barriers before its segment */
};

struct history_item {
    bool is_barrier;
    uint64_t time; /* barrier */
    struct mtf_item item;
    size_t data_at; /* of item.data in bytes */
};

struct history {
    struct history_event *events;
    size_t event_count, event_room;
    struct history_item *items;
    size_t item_count, item_room;
    uint8_t *bytes;
    size_t byte_count, byte_room;
    uint64_t last_time;
};

void history_make(struct history *h, const struct history_options *o);
void history_free(struct history *h);
/* The item as a reader would yield it. */
void history_item(const struct history *h, size_t i, struct mtf_item *item);

#endif
