/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event streams of the recorded threads: segments are queued as they are
 * read, and decoded one interval at a time into small arrays of events.
 *
 * An interval is the run of events between two times of a stream, in which they
 * were published. The sorter (order.h) compares the next event of each thread
 * by its interval and its number in the interval.
 *
 * An event is *in hand* from the time its segment is queued until it is written
 * to the output. A thread is in hand while it has a decoded interval.
 *
 * Memory: segments until their events are written; at most DEMUX_BATCH decoded
 * events for each thread, fewer once all arrays take DEMUX_ARRAYS_MAX bytes.
 * The events of a longer interval are counted ahead, because the estimated time
 * of an event needs their number. After the first missing allocation, up to 64
 * bytes for each aligned group of 64 tokens that has one in hand.
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
/* Bytes of all arrays of events. Above DEMUX_ARRAYS_KEPT a thread without
   events frees its array; above DEMUX_ARRAYS_MAX no array grows beyond
   DEMUX_BATCH_MIN events. */
#define DEMUX_ARRAYS_KEPT ((size_t)16 << 20)
#define DEMUX_ARRAYS_MAX  ((size_t)64 << 20)

/* A decoded event. WORD: kind | call << 5 | size << 11. */
struct demux_event {
    uint64_t token; /* that it makes, or names */
    uint64_t word;
    uint64_t extra; /* REALLOC: the token made; other kinds: see demux.c */
};

/* Kind of an array entry beyond enum mtf_event_kind: in the late stream, the
   thread of the events that follow. */
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
/* Tells whether e->token names a block that exists before the event. */
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

/* A segment in hand. */
struct demux_chunk {
    struct demux_chunk *next; /* of the same thread */
    struct tcm_dlist by_age;  /* in the list of all threads' segments */
    uint64_t window;          /* barriers read before it */
    uint64_t time_lo, time_hi;
    size_t length;
    bool indexed;   /* demux.births has the tokens that it makes */
    uint8_t data[]; /* and 16 bytes of padding */
};

/* Heaps that a thread can be in at once (order.c). */
enum { DEMUX_HEAPS = 2 };

struct demux_thread {
    uint32_t id;
    uint32_t out_id; /* thread of the next event: id, except in the late
                        stream */

    /* the interval in hand; in_hand is false when the thread has no event */
    bool in_hand;
    bool open_end;    /* hi is that of its segment, not of a time in it */
    bool checked;     /* the next event is known to wait for nothing */
    bool none;        /* the allocation that the next event names is missing */
    bool ended;       /* THREAD_END was written */
    bool has_sites;   /* an event of call sites was read */
    bool counted;     /* has had an event of the malloc family */
    bool lost;        /* coding state unknown until the next buffer */
    uint64_t dropped; /* sum of its GAP events */
    uint64_t lo, hi;
    uint64_t est_width; /* ns from lo that estimated times are spread over */
    uint64_t i, n;      /* the next event's number, and the interval's events */
    uint64_t window;    /* barriers read before the next event's segment */
    struct demux_event *events;
    uint32_t *sites; /* call site of each entry; NULL: no event had one yet */
    uint32_t at, count, room; /* next, used and allocated entries of `events` */

    /* state of decoding */
    struct mtf_site_state site;
    struct mtf_raw_state state;
    const uint8_t *p, *end;
    struct demux_chunk *first, *last; /* FIRST is being decoded */
    uint64_t next_lo;

    struct mtf_stream stream; /* places segments; has no decoding state here */

    /* for demux_makes */
    struct demux_index *index; /* NULL: no segment was indexed yet */
    struct demux_thread *next_new;
    bool is_new; /* is in the list of threads with new segments */

    /* the sorter's */
    size_t heap_at[DEMUX_HEAPS]; /* index in each heap; see order.c */
    bool waits;                  /* for the birth of waits_for */
    bool late_wait; /* the late stream, and its event waits for the events of
                       its thread */
    uint64_t waits_for;
    struct demux_thread *next_waiter, **waiter_at; /* of struct emit_waiters */
    struct tcm_dlist stall_link; /* in a list of struct order_stall, or none */
};

struct demux {
    struct demux_thread **threads; /* by first appearance */
    struct tool_ids ids;
    struct tcm_dlist by_age; /* segments of all threads, the oldest first */
    /* Tokens that events in hand make, 64 to a word: the key is the word's
       number plus 1, the value has a bit for each token. */
    struct tool_map births;
    struct demux_thread *new_threads; /* with new segments; by next_new */

    struct slots *slots; /* for prefetching, and for inherited blocks */
    uint64_t barriers;   /* read so far */
    uint64_t last_time;  /* the greatest time read */
    uint64_t held_bytes, held_peak; /* of segments in hand */
    size_t array_bytes;             /* of all threads' decoded events */

    uint64_t gap_bytes, undecodable_bytes, bad_places;
    uint64_t hidden_zero; /* segments that ended early with a zero byte */
    uint64_t present_events;
    uint64_t wrong_frees;
    uint64_t inherited_frees; /* of blocks that the parent made */
    /* Definitions of call sites that were read and not yet written: u8 length
       and bytes of each. */
    uint8_t *site_defs;
    size_t site_defs_length, site_defs_room;
    bool no_sites;    /* call sites are left out */
    bool begins_late; /* tool_raw_begins_late */
    bool failed;      /* no memory */
};

void demux_init(struct demux *d, struct slots *slots);
void demux_fini(struct demux *d);

/* Returns the thread with ID, NULL if it has not appeared. */
struct demux_thread *demux_find(const struct demux *d, uint32_t id);
/* Like demux_find, and makes the thread if needed. NULL: no memory. */
struct demux_thread *demux_thread(struct demux *d, uint32_t id);

/* Queues the events of ITEM (MTF_ITEM_DATA) and returns their thread. NULL: the
   item has nothing new, or no memory (D has failed). */
struct demux_thread *demux_add(struct demux *d, const struct mtf_item *item);

/*
 * Makes the next interval of T ready, once all events of the one before are
 * written. False, and t->in_hand is false: T has no more events in hand.
 */
bool demux_next_interval(struct demux *d, struct demux_thread *t);
/* Lowers the hi of T's interval if a segment that was added behind it has an
   earlier time. Returns true if it did. */
bool demux_tighten(const struct demux *d, struct demux_thread *t);
/* Decodes more of T's interval, when all decoded events are written and
   i < n. False: there are no more, and n is set to i. */
bool demux_refill(struct demux *d, struct demux_thread *t);

/* Tells whether an event in hand makes TOKEN. Called when an event waits for an
   allocation that may be missing. True without memory, and D has failed. */
bool demux_makes(struct demux *d, uint64_t token);
/* Adds the definition of a call site to site_defs. */
void demux_site_def(struct demux *d, const struct mtf_event *e);
/* Removes the tokens that the COUNT events at V make from `births`: the events,
   of an indexed segment, are written. */
void demux_written(struct demux *d, const struct demux_event *v,
                   uint32_t count);

/* Returns the oldest segment in hand, or NULL. */
static inline const struct demux_chunk *demux_oldest(const struct demux *d) {
    if (tcm_dlist_empty(&d->by_age))
        return NULL;
    return TCM_CONTAINER_OF(d->by_age.next, struct demux_chunk, by_age);
}

#endif
