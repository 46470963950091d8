/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder of a simulated program (order_history.h): streams with buffers
 * and times, and a saver that looks at them one after another.
 *
 * Threads: none shared.
 */
#ifndef TESTS_UNIT_TOOLS_ORDER_RECORDER_H
#define TESTS_UNIT_TOOLS_ORDER_RECORDER_H

#include "order_history.h"

#include "prng.h"

#define RECORDER_STREAMS (HISTORY_THREADS_MAX + 1)

struct rec_stream {
    uint32_t id; /* 0: not in use */
    struct encoder e;
    size_t saved;
    uint64_t start;   /* of the buffer, in the stream */
    uint64_t look_lo; /* time_lo of the next segment */
    uint64_t begin_ns;
    uint32_t as_thread;
    bool lose; /* this buffer does not reach the file */
};

struct rec_full {
    struct mtf_raw_place place;
    uint8_t *bytes; /* of the whole buffer */
    size_t from, to;
    uint64_t begin_ns;
    bool lose;
};

struct recorder {
    struct history *h;
    const struct history_options *o;
    struct prng prng; /* of the saver: the program does not depend on it */
    uint64_t now;
    uint64_t last_ns; /* greatest time that a coarse clock gave */
    uint64_t token;
    struct rec_stream streams[RECORDER_STREAMS]; /* the first: late */
    struct rec_full *full;
    size_t full_count, full_room;
    struct mtf_raw_writer writer;
    uint64_t saver_at, barrier_time;
    unsigned saver_next; /* stream to look at; all done: barrier is due */
    bool in_round;
};

#define RECORDER_GROW(array, count, room)                                      \
    do {                                                                       \
        if ((count) == (room)) {                                               \
            (room) = (room) == 0 ? 256 : (room)*2;                             \
            (array) = realloc((array), (room) * sizeof(*(array)));             \
        }                                                                      \
    } while (0)

/* Time that the recorder reads from its clock at time NOW. */
uint64_t recorder_clock(struct recorder *r, uint64_t now);

void recorder_begin(struct recorder *r, struct history *h,
                    const struct history_options *o);
/* Opens the stream of a new thread, whose clock says CLOCK. */
struct rec_stream *recorder_open(struct recorder *r, uint32_t id,
                                 uint64_t clock);
/* Closes the stream S, after the thread's last event. */
void recorder_close(struct recorder *r, struct rec_stream *s, uint64_t clock);

/* Prepares for an event of THREAD, which makes a token if BORN. */
void recorder_prepare(struct recorder *r, struct rec_stream *s, uint32_t thread,
                      uint64_t clock, bool born);
/* Adds the event that is put next to the history, and returns it. */
struct history_event *recorder_event(struct recorder *r,
                                     const struct rec_stream *s,
                                     uint32_t thread, unsigned kind);
void recorder_time(struct recorder *r, struct rec_stream *s, uint64_t clock);

void recorder_saver_step(struct recorder *r);
/* The program is gone: what is left is in the spool, or saved once more. */
void recorder_finish(struct recorder *r);

#endif
