/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The streams of the threads: segments as they come, decoded an interval at a
 * time into small arrays of events.
 *
 * An interval is the run of events between two times of a stream; its events
 * were published between these. The next event of each thread, with interval
 * and place in it, is what the sorter (order.h) works on.
 *
 * Memory: segments until their events are written, and at most DEMUX_BATCH
 * decoded events a thread, and fewer once those of all threads together take
 * DEMUX_ARRAYS_MAX bytes. An interval longer than that is scanned ahead without
 * keeping its events, because the estimated time of an event needs the number
 * of events of its interval. Once an allocation was missed, at most 64 bytes
 * for each aligned group of 64 tokens of which one is in hand.
 * Threads: none shared.
 */
#ifndef TOOL_SORT_DEMUX_H
#define TOOL_SORT_DEMUX_H

#include "base/dlist.h"
#include "common/collections.h"
#include "sort/sort_slots.h"
#include "traceformat/raw_reader.h"
#include "traceformat/site_codec.h"

#define DEMUX_BATCH     2048u
#define DEMUX_BATCH_MIN 32u
/* Beyond the first, a thread without events gives its array back; beyond the
   second none gets more than the least. */
#define DEMUX_ARRAYS_KEPT ((size_t)16 << 20)
#define DEMUX_ARRAYS_MAX  ((size_t)64 << 20)

/* A decoded event. WORD: kind | call << 5 | size << 11. */
struct demux_event {
    uint64_t token; /* made, or named */
    uint64_t word;
    uint64_t extra; /* REALLOC: the token made; others: see demux.c */
};

/* Kinds of events in the array beyond enum mtf_event_kind. */
enum { DEMUX_EVENT_AS_THREAD = 31 };

static inline unsigned demux_event_kind(const struct demux_event *e) {
    return (unsigned)e->word & 31;
}
static inline unsigned demux_event_call(const struct demux_event *e) {
    return (unsigned)(e->word >> 5) & 63;
}
static inline uint64_t demux_event_size(const struct demux_event *e) {
    return e->word >> 11;
}
/* Tells whether the block of e->token must exist before this event. */
static inline bool demux_event_names(const struct demux_event *e) {
    switch (demux_event_kind(e)) {
    case MTF_EVENT_FREE:
    case MTF_EVENT_REALLOC:
    case MTF_EVENT_FREE_SIZE:
    case MTF_EVENT_REALLOC_END:
        return true;
    default:
        return false;
    }
}

struct demux_chunk {
    struct demux_chunk *next; /* of its thread */
    struct tcm_dlist by_age;  /* of all threads, as they came */
    uint64_t window;          /* barriers read before it */
    uint64_t time_lo, time_hi;
    size_t length;
    bool seen;      /* the tokens it makes are in demux.births */
    uint8_t data[]; /* and 16 bytes of padding */
};

enum { DEMUX_HEAPS = 2 };

struct demux_thread {
    uint32_t id;
    uint32_t out_id; /* late stream: of the event to come; else id */

    /* the interval in hand; in_hand is false when the thread has no event */
    bool in_hand;
    bool open_end;    /* hi is that of its segment, not of a time in it */
    bool checked;     /* the next event is known to wait for nothing */
    bool none;        /* the allocation that the next event names is missing */
    bool ended;       /* THREAD_END was written */
    bool has_sites;   /* an event of call sites came */
    bool counted;     /* has had an event of the malloc family */
    bool lost;        /* coding state unknown until the next buffer */
    uint64_t dropped; /* sum of its GAP events */
    uint64_t lo, hi;
    uint64_t est_width; /* of the range for estimated times, from lo */
    uint64_t i, n;      /* the next event's number, and how many there are */
    uint64_t window;    /* of the segment of the next event */
    struct demux_event *events;
    uint32_t *sites; /* of each that allocates; NULL: none has one so far */
    uint32_t at, count, room;
    struct mtf_site_state site; /* where decoding goes on */

    /* where decoding goes on */
    struct mtf_raw_state state;
    const uint8_t *p, *end;
    struct demux_chunk *first, *last; /* FIRST is the one being decoded */
    uint64_t next_lo;
    uint64_t out_time; /* last time given to one of its events */

    struct mtf_stream stream; /* placement alone; its state is not used */

    /* for demux_makes */
    struct demux_place *looked; /* NULL: nowhere yet */
    struct demux_thread *next_new;
    bool is_new; /* is in the list of threads with new segments */

    /* the sorter's */
    size_t heap_at[DEMUX_HEAPS];
    bool waits; /* for the birth of waits_for */
    bool late_wait;
    uint64_t waits_for;
    struct demux_thread *next_waiter, **waiter_at; /* of emit */
    struct tcm_dlist look; /* in a list of struct order_stall, or none */
};

struct demux {
    struct demux_thread **threads; /* all, in order of appearance */
    struct tool_ids ids;
    struct tcm_dlist by_age; /* segments of all threads */
    /* Tokens in hand, 64 a word: the key is the word's number plus 1, the value
       has a bit for each. */
    struct tool_map births;
    struct demux_thread *fresh; /* have new segments; list by next_new */

    const struct slots *slots; /* for prefetching */
    uint64_t barriers;
    uint64_t last_time; /* the greatest time read */
    uint64_t held_bytes, held_peak;
    size_t array_bytes; /* of all threads' decoded events */

    uint64_t gap_bytes, undecodable_bytes, doubled_bytes, bad_places;
    uint64_t hidden_zero;  /* segments that ended early with a zero byte */
    uint64_t other_events; /* kinds of later versions */
    uint64_t present_events;
    /* Definitions of call sites that were read and are to be written: u8 length
       and bytes of each. */
    uint8_t *site_defs;
    size_t site_defs_length, site_defs_room;
    bool no_sites;    /* call sites are left out */
    bool begins_late; /* tool_raw_begins_late */
    bool failed;      /* no memory */
};

void demux_init(struct demux *d, const struct slots *slots);
void demux_fini(struct demux *d);

/* The thread of ID, NULL if it has not appeared. */
struct demux_thread *demux_find(const struct demux *d, uint32_t id);
/* The same, made if need be; NULL: no memory. */
struct demux_thread *demux_thread(struct demux *d, uint32_t id);

/* Queues the events of ITEM (MTF_ITEM_DATA); returns its thread, NULL if there
   was nothing new in it (or no memory: failed). */
struct demux_thread *demux_add(struct demux *d, const struct mtf_item *item);

/*
 * Makes the next interval ready, once all events of the one in hand are done.
 * False, and in_hand false: nothing is in hand.
 */
bool demux_next_interval(struct demux *d, struct demux_thread *t);
/* After another segment came for T, which has an interval in hand: true if that
   lowers its hi. */
bool demux_tighten(const struct demux *d, struct demux_thread *t);
/* Decodes more of the interval in hand, when all decoded events are done and
   i < n. False: there are none after all (n is set to i). */
bool demux_refill(struct demux *d, struct demux_thread *t);

/* Tells whether TOKEN is made by an event in hand that is not written yet:
   asked when an event waits for an allocation that may be missing. Without
   memory true, and D is failed. */
bool demux_makes(struct demux *d, uint64_t token);
/* Adds a definition of a call site to those that are to be written. */
void demux_site_def(struct demux *d, const struct mtf_event *e);
/* The COUNT events at V, of a segment that was looked at, are written. */
void demux_written(struct demux *d, const struct demux_event *v,
                   uint32_t count);

/* The oldest segment of which events are in hand, or NULL. */
static inline const struct demux_chunk *demux_oldest(const struct demux *d) {
    if (tcm_dlist_empty(&d->by_age))
        return NULL;
    return TCM_CONTAINER_OF(d->by_age.next, struct demux_chunk, by_age);
}

#endif
