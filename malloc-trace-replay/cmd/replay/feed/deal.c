/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/feed/deal.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "cmd/replay/feed/op.h"
#include "common/collections.h"
#include "traceformat/trace_event.h"

#include <stdlib.h>
#include <string.h>

/* Most words that an operation becomes. */
#define DEAL_WORDS_MAX (REPLAY_LONG_WORDS + 4)

/* A recorded thread that has not ended. */
struct deal_lane {
    uint32_t number;  /* never used again; 0: no lane */
    uint32_t thread;  /* as recorded */
    uint32_t after;   /* ends of threads before its first operation */
    uint32_t needs;   /* windows that its first segment needs; 0: those that the
                         skew demands */
    uint32_t site;    /* call site that the current segment names */
    uint32_t segment; /* the current segment, if `segment_of` equals the
                         dealer's */
    uint64_t segment_of;
    uint64_t window_of; /* window that the next three fields belong to */
    int64_t bytes, rise, fall;
    uint32_t *cell; /* free cells of the lane */
    size_t cells, room;
};

struct deal_cell {
    uint32_t lane, index; /* lane that writes the cell */
    uint16_t generation;
    uint16_t writes; /* writes dealt since all uses of the cell were known to be
                        done */
};

/* Writes after which a free cell is kept until its batch is done. Its
   generation has 16 bits, and a thread that waits for a generation must not
   take one of 2^16 writes before for it. */
#define WRITES_MOST ((uint16_t)1 << 15)

struct deal_slot {
    uint32_t cell;
    uint64_t size;
};

/* A cell that another thread freed, or whose writer ended: it becomes free when
   BATCH is done. */
struct deal_late_cell {
    uint32_t cell, batch;
};

/* A window with operations. */
struct deal_window {
    uint64_t place;     /* number, with windows that have no operations */
    int64_t rise, fall; /* sums over the threads */
    int64_t end_bytes;  /* live bytes at the end */
};

/* A batch that is not dealt yet. */
struct deal_held {
    struct deal_held *next;
    struct replay_batch *head; /* without segments and words */
    uint64_t *word;
};

struct replay_deal {
    struct replay_ring *ring;
    uint32_t skew;
    uint32_t index;   /* index of the lane of the operations that follow */
    uint64_t present; /* REPLAY_PRESENT word of the next operation; 0: none */
    uint32_t site;    /* call site of the next allocations; 0: unknown */

    struct deal_lane *lane; /* by index */
    size_t lanes;
    uint32_t lane_numbers; /* numbers that lanes were given so far */
    uint32_t ends;         /* lanes that have ended */
    /* 1 + place of the last window that ended for a birth */
    uint64_t birth_place;
    struct deal_slot *slot;
    size_t slots;
    struct deal_cell *cell;
    size_t cell_room;
    uint32_t cells; /* cells that exist */
    uint8_t *ended; /* by line: free cells whose writer has ended */
    size_t ended_room;
    uint32_t *line; /* lines of cells without a writer */
    size_t lines, line_room;
    struct deal_late_cell *late; /* queue, in the order of batches */
    size_t late_first, late_count, late_room;

    /* Windows. */
    uint32_t window;                /* number of the current one */
    bool window_used;               /* the current window has operations */
    uint64_t segment_of, window_of; /* change with each segment and window; see
                                       struct deal_lane */
    int64_t live_bytes;
    struct deal_window now;
    /* Windows that need not be finished when the current one is entered, their
       sums, and the live bytes at their beginning. */
    struct deal_window *past;
    size_t past_first, past_count, past_room;
    int64_t past_rise, past_fall, begin_bytes;
    uint32_t needs; /* windows that must be finished */
    int64_t least_peak, most_peak;

    /* The current batch: words in the order of the trace, and their
       segments. */
    uint32_t count, segments;
    struct replay_segment segment[REPLAY_SEGMENTS];
    uint64_t word[REPLAY_BATCH_WORDS];
    uint16_t segment_at[REPLAY_BATCH_WORDS];

    struct replay_batch staging;

    /* Batches that are not dealt yet, in their order. */
    bool holds;
    struct deal_held *held, *last_held;
    size_t held_words;
};

TCM_STATIC_ASSERT(REPLAY_SEGMENTS <= UINT16_MAX, "numbers of segments fit");

struct replay_deal *replay_deal_new(struct replay_ring *ring, uint32_t skew) {
    TCM_ASSERT(skew != 0);
    struct replay_deal *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return NULL;
    d->ring = ring;
    d->skew = skew;
    d->segment_of = d->window_of = 1;
    return d;
}

void replay_deal_free(struct replay_deal *d) {
    if (d == NULL)
        return;
    for (struct deal_held *next, *h = d->held; h != NULL; h = next) {
        next = h->next;
        free(h);
    }
    for (size_t i = 0; i < d->lanes; i++)
        free(d->lane[i].cell);
    free(d->lane);
    free(d->slot);
    free(d->cell);
    free(d->ended);
    free(d->line);
    free(d->late);
    free(d->past);
    free(d);
}

struct replay_batch *replay_deal_staging(struct replay_deal *d) {
    return &d->staging;
}

/* Makes room for NEED entries of SIZE in ARRAY, of which *ROOM exist; new ones
   are zero. False: out of memory. */
static bool extend_zeroed(void *array, size_t *room, size_t need, size_t size) {
    char *p;
    size_t had = *room;
    if (need <= had)
        return true;
    if (!tool_array_reserve(array, room, need, size))
        return false;
    memcpy(&p, array, sizeof(p));
    memset(p + had * size, 0, (*room - had) * size);
    return true;
}

/* --- Batches -------------------------------------------------------------- */

/* Copies the segments, and the words segment by segment, to batch B. */
static void batch_scatter(struct replay_deal *d, struct replay_batch *b) {
    uint32_t at[REPLAY_SEGMENTS];
    uint32_t first = 0;
    for (uint32_t i = 0; i < d->segments; i++) {
        d->segment[i].first = at[i] = first;
        first += d->segment[i].words;
    }
    TCM_ASSERT(first == d->count);
    for (uint32_t i = 0; i < d->count; i++)
        b->word[at[d->segment_at[i]]++] = d->word[i];
    memcpy(b->segment, d->segment, d->segments * sizeof(*d->segment));
    memset(b->word + d->count, 0, REPLAY_BATCH_PAD * sizeof(*b->word));
    b->words = d->count;
    b->segments = d->segments;
}

/* Puts the current batch into the ring. IS_STATE: all staged operations are in
   this batch or before it. */
static void batch_flush(struct replay_deal *d, bool last, bool is_state) {
    if (d->segments == 0 && !last)
        return;
    struct replay_batch *b = replay_ring_fill(d->ring);
    replay_batch_copy_head(b, &d->staging);
    batch_scatter(d, b);
    b->slots = d->cells;
    b->caches = 0;
    b->last = last;
    b->is_state = is_state;
    b->sampled &= is_state;
    TCM_ASSERT(b->last == 0 || is_state);
    d->ring->result.windows = d->window + d->window_used;
    replay_ring_filled(d->ring);
    d->count = d->segments = 0;
    d->segment_of++;
}

/* --- Threads -------------------------------------------------------------- */

/* Returns the current lane, which is made if there is none. NULL: out of
   memory. */
static struct deal_lane *lane_now(struct replay_deal *d) {
    if (!extend_zeroed(&d->lane, &d->lanes, (size_t)d->index + 1,
                       sizeof(*d->lane)))
        return NULL;
    struct deal_lane *l = &d->lane[d->index];
    if (l->number == 0) {
        l->number = ++d->lane_numbers;
        l->after = d->ends;
    }
    return l;
}

/* Returns the segment that the next words of lane L go to. */
static struct replay_segment *segment_now(struct replay_deal *d,
                                          struct deal_lane *l) {
    if (l->segment_of == d->segment_of)
        return &d->segment[l->segment];
    TCM_ASSERT(d->segments < REPLAY_SEGMENTS);
    l->segment_of = d->segment_of;
    l->site = 0;
    l->segment = d->segments++;
    d->window_used = true;
    struct replay_segment *s = &d->segment[l->segment];
    *s = (struct replay_segment){.lane = l->number,
                                 .index = (uint32_t)(l - d->lane),
                                 .thread = l->thread,
                                 .window = d->window,
                                 .needs = l->needs != 0 ? l->needs : d->needs,
                                 .after = l->after};
    l->needs = 0;
    return s;
}

static void segment_put(struct replay_deal *d, const struct deal_lane *l,
                        uint64_t w) {
    TCM_ASSERT(d->count < REPLAY_BATCH_WORDS);
    d->segment[l->segment].words++;
    d->segment_at[d->count] = (uint16_t)l->segment;
    d->word[d->count++] = w;
}

/* Sum modulo 2^64, as sizes of a hostile trace may overflow. */
static int64_t wrapping_sum(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Counts a change of live bytes by lane L. */
static void live_change(struct replay_deal *d, struct deal_lane *l,
                        int64_t bytes) {
    struct replay_segment *s = &d->segment[l->segment];
    s->net_bytes = wrapping_sum(s->net_bytes, bytes);
    if (s->net_bytes > s->rise_bytes)
        s->rise_bytes = s->net_bytes;
    d->live_bytes = wrapping_sum(d->live_bytes, bytes);
    if (l->window_of != d->window_of) {
        l->window_of = d->window_of;
        l->bytes = l->rise = l->fall = 0;
    }
    l->bytes = wrapping_sum(l->bytes, bytes);
    if (l->bytes > l->rise) {
        d->now.rise =
            wrapping_sum(d->now.rise, wrapping_sum(l->bytes, -l->rise));
        l->rise = l->bytes;
    } else if (l->bytes < -l->fall) {
        d->now.fall =
            wrapping_sum(d->now.fall, -wrapping_sum(l->bytes, l->fall));
        l->fall = -l->bytes;
    }
}

/* --- Windows -------------------------------------------------------------- */

/* Widens the bounds of the peak by the window that ends: see deal.h. */
static void bound_peak(struct replay_deal *d) {
    int64_t least = wrapping_sum(d->begin_bytes, -d->past_fall);
    int64_t most =
        wrapping_sum(d->begin_bytes, wrapping_sum(d->past_rise, d->now.rise));
    if (least > d->least_peak)
        d->least_peak = least;
    if (most > d->most_peak)
        d->most_peak = most;
    d->ring->result.least_peak_bytes = (uint64_t)d->least_peak;
    d->ring->result.most_peak_bytes = (uint64_t)d->most_peak;
}

/* Keeps the window that ends. False: out of memory. */
static bool window_keep(struct replay_deal *d) {
    /* Moves the windows to the front when there is room for all. */
    if (d->past_first > d->past_count) {
        memcpy(d->past, d->past + d->past_first,
               d->past_count * sizeof(*d->past));
        d->past_first = 0;
    }
    if (!tool_array_reserve(&d->past, &d->past_room,
                            d->past_first + d->past_count + 1,
                            sizeof(*d->past)))
        return false;
    d->now.end_bytes = d->live_bytes;
    d->past[d->past_first + d->past_count++] = d->now;
    d->past_rise = wrapping_sum(d->past_rise, d->now.rise);
    d->past_fall = wrapping_sum(d->past_fall, d->now.fall);
    return true;
}

/* Drops windows that are finished before the next one may be entered. */
static void windows_forget(struct replay_deal *d) {
    while (d->past_count != 0 &&
           d->past[d->past_first].place + d->skew <= d->now.place) {
        const struct deal_window *w = &d->past[d->past_first++];
        d->past_count--;
        d->begin_bytes = w->end_bytes;
        d->past_rise = wrapping_sum(d->past_rise, -w->rise);
        d->past_fall = wrapping_sum(d->past_fall, -w->fall);
    }
    d->needs = d->window - (uint32_t)d->past_count;
}

/* Ends the window; the next one begins PLACES later. False: out of memory. */
static bool window_end(struct replay_deal *d, uint64_t places) {
    bool bounded = d->skew != REPLAY_SKEW_NONE, good = true;
    if (d->window_used) {
        if (bounded) {
            bound_peak(d);
            good = window_keep(d);
        }
        d->window++;
        d->window_used = false;
        d->window_of++;
        /* A segment lies in one window. */
        d->segment_of++;
    }
    d->now = (struct deal_window){.place = d->now.place + places};
    if (bounded && good)
        windows_forget(d);
    return good;
}

/* Ends the last window: all threads have finished all windows. */
static bool windows_end(struct replay_deal *d) {
    bool good = window_end(d, 1);
    if (d->skew != REPLAY_SKEW_NONE && d->live_bytes > d->least_peak)
        d->ring->result.least_peak_bytes = (uint64_t)d->live_bytes;
    return good;
}

/* --- Cells ---------------------------------------------------------------- */

/* Gives a line of cells to lane L. False: out of memory. */
static TCM_NOINLINE bool line_take(struct replay_deal *d, struct deal_lane *l) {
    uint32_t first;
    if (!tool_array_reserve(&l->cell, &l->room, l->cells + REPLAY_CELLS_AT_ONCE,
                            sizeof(*l->cell)))
        return false;
    if (d->lines != 0) {
        first = d->line[--d->lines] * REPLAY_CELLS_AT_ONCE;
    } else {
        first = d->cells;
        size_t line = first / REPLAY_CELLS_AT_ONCE;
        if (first > UINT32_MAX - 2 * REPLAY_CELLS_AT_ONCE ||
            !extend_zeroed(&d->cell, &d->cell_room,
                           first + REPLAY_CELLS_AT_ONCE, sizeof(*d->cell)) ||
            !extend_zeroed(&d->ended, &d->ended_room, line + 1,
                           sizeof(*d->ended)))
            return false;
        d->cells += REPLAY_CELLS_AT_ONCE;
    }
    for (uint32_t i = REPLAY_CELLS_AT_ONCE; i-- > 0;) {
        struct deal_cell *c = &d->cell[first + i];
        c->lane = l->number;
        c->index = (uint32_t)(l - d->lane);
        l->cell[l->cells++] = first + i;
    }
    return true;
}

static void cell_write(struct replay_deal *d, uint32_t cell) {
    struct deal_cell *c = &d->cell[cell];
    TCM_ASSERT(c->writes < WRITES_MOST);
    c->generation++;
    c->writes++;
}

/* Takes a cell for an allocation by lane L, the next write to the cell. False:
   out of memory. */
static bool cell_take(struct replay_deal *d, struct deal_lane *l,
                      uint32_t *cell) {
    if (l->cells == 0 && !line_take(d, l))
        return false;
    *cell = l->cell[--l->cells];
    TCM_ASSERT(d->cell[*cell].lane == l->number);
    cell_write(d, *cell);
    return true;
}

/* Frees CELL. False: out of memory. */
static bool cell_give(struct replay_deal *d, uint32_t cell) {
    const struct deal_cell *c = &d->cell[cell];
    struct deal_lane *l = &d->lane[c->index];
    if (l->number == c->lane) {
        if (!tool_array_reserve(&l->cell, &l->room, l->cells + 1,
                                sizeof(*l->cell)))
            return false;
        l->cell[l->cells++] = cell;
        return true;
    }
    uint32_t line = cell / REPLAY_CELLS_AT_ONCE;
    if (++d->ended[line] < REPLAY_CELLS_AT_ONCE)
        return true;
    d->ended[line] = 0;
    if (!tool_array_reserve(&d->line, &d->line_room, d->lines + 1,
                            sizeof(*d->line)))
        return false;
    d->line[d->lines++] = line;
    return true;
}

/* Frees CELL when the current batch is done. False: out of memory. */
static bool cell_give_late(struct replay_deal *d, uint32_t cell) {
    if (d->late_count == d->late_room) {
        size_t had = d->late_room, part = had - d->late_first;
        if (!tool_array_reserve(&d->late, &d->late_room, had + 1,
                                sizeof(*d->late)))
            return false;
        /* The wrapped part of the queue stays behind the rest. */
        memmove(d->late + d->late_room - part, d->late + d->late_first,
                part * sizeof(*d->late));
        d->late_first = had == 0 ? 0 : d->late_room - part;
    }
    size_t at = (d->late_first + d->late_count++) % d->late_room;
    d->late[at] = (struct deal_late_cell){cell, d->ring->filled};
    return true;
}

static bool cells_collect(struct replay_deal *d) {
    uint32_t taken = tcm_load_acquire(&d->ring->taken);
    while (d->late_count != 0 &&
           (int32_t)(taken - d->late[d->late_first].batch) > 0) {
        uint32_t cell = d->late[d->late_first].cell;
        d->cell[cell].writes = 0;
        if (!cell_give(d, cell))
            return false;
        d->late_first = (d->late_first + 1) % d->late_room;
        d->late_count--;
    }
    return true;
}

/* --- Operations ----------------------------------------------------------- */

static bool slot_known(struct replay_deal *d, uint32_t slot) {
    return extend_zeroed(&d->slot, &d->slots, (size_t)slot + 1,
                         sizeof(*d->slot));
}

/* Deals an allocation of SIZE bytes for a slot: W, and the MORE words at
   REST. */
static bool deal_alloc(struct replay_deal *d, struct deal_lane *l, uint64_t w,
                       const uint64_t *rest, unsigned more, uint64_t size) {
    uint32_t slot = replay_word_slot(w), cell;
    if (!slot_known(d, slot) || !cell_take(d, l, &cell))
        return false;
    d->slot[slot] = (struct deal_slot){cell, size};
    segment_put(d, l, (w & ~(uint64_t)UINT32_MAX) | cell);
    for (unsigned i = 0; i < more; i++)
        segment_put(d, l, rest[i]);
    live_change(d, l, (int64_t)size);
    return true;
}

/* Makes the next operation of lane L wait for the block of another thread in
   CELL. */
static void put_await(struct replay_deal *d, struct deal_lane *l,
                      uint32_t cell) {
    segment_put(d, l,
                replay_word(REPLAY_AWAIT, cell, d->cell[cell].generation));
}

static bool deal_free(struct replay_deal *d, struct deal_lane *l, uint64_t w,
                      const uint64_t *rest, unsigned more) {
    struct deal_slot s = d->slot[replay_word_slot(w)];
    bool own = d->cell[s.cell].lane == l->number;
    if (!own)
        put_await(d, l, s.cell);
    segment_put(d, l, (w & ~(uint64_t)UINT32_MAX) | s.cell);
    for (unsigned i = 0; i < more; i++)
        segment_put(d, l, rest[i]);
    live_change(d, l, -(int64_t)s.size);
    return own && d->cell[s.cell].writes < WRITES_MOST
               ? cell_give(d, s.cell)
               : cell_give_late(d, s.cell);
}

static bool deal_realloc(struct replay_deal *d, struct deal_lane *l,
                         const uint64_t *w) {
    struct deal_slot *s = &d->slot[replay_word_slot(w[0])];
    uint32_t from = s->cell, to = from;
    bool own = d->cell[from].lane == l->number;
    if (own && d->cell[from].writes < WRITES_MOST) {
        cell_write(d, from);
    } else {
        if (!cell_take(d, l, &to) || !cell_give_late(d, from))
            return false;
        if (!own)
            put_await(d, l, from);
        segment_put(d, l, replay_word(REPLAY_INTO, to, 0));
    }
    segment_put(d, l, (w[0] & ~(uint64_t)UINT32_MAX) | from);
    segment_put(d, l, w[1]);
    segment_put(d, l, w[2]);
    live_change(d, l, (int64_t)(w[1] - s->size));
    *s = (struct deal_slot){to, w[1]};
    return true;
}

static bool deal_long(struct replay_deal *d, struct deal_lane *l,
                      const uint64_t *w) {
    unsigned call = (unsigned)replay_word_size(w[0]);
    if (mtf_call_is_realloc(call) && !replay_long_is_new(w[2]))
        return deal_realloc(d, l, w);
    if (mtf_call_is_free(call))
        return deal_free(d, l, w[0], w + 1, REPLAY_LONG_WORDS - 1);
    return deal_alloc(d, l, w[0], w + 1, REPLAY_LONG_WORDS - 1, w[1]);
}

static bool deal_thread_end(struct replay_deal *d, uint32_t index) {
    uint32_t back = d->index;
    d->index = index;
    struct deal_lane *l = lane_now(d);
    d->index = back;
    if (l == NULL)
        return false;
    segment_now(d, l)->ends = ++d->ends;
    bool good = true;
    for (size_t i = 0; good && i < l->cells; i++)
        good = cell_give_late(d, l->cell[i]);
    free(l->cell);
    *l = (struct deal_lane){0};
    return good;
}

/* Begins operations of INDEX's lane, recorded thread THREAD. The first lane
   born at a place of the trace begins a window and waits for all operations
   before; for other lanes the skew is that of one window. Further births at
   that place wait only for ends of lanes before them: otherwise thousands of
   short threads would run one after another. */
static bool deal_switch(struct replay_deal *d, uint32_t index,
                        uint32_t thread) {
    bool is_born = index >= d->lanes || d->lane[index].number == 0;
    bool is_first = is_born && d->skew != REPLAY_SKEW_NONE &&
                    d->birth_place != d->now.place + 1;
    d->index = index;
    if (is_first && !window_end(d, 0))
        return false;
    struct deal_lane *l = lane_now(d);
    if (l == NULL)
        return false;
    l->thread = thread;
    if (is_first) {
        l->needs = d->window;
        d->birth_place = d->now.place + 1;
    }
    return true;
}

static bool deal_operation(struct replay_deal *d, const uint64_t *w) {
    struct deal_lane *l = lane_now(d);
    if (l == NULL)
        return false;
    (void)segment_now(d, l);
    if (d->site != l->site)
        segment_put(d, l, replay_word(REPLAY_SITE, d->site, 0));
    l->site = d->site;
    if (d->present != 0)
        segment_put(d, l, d->present);
    d->present = 0;
    switch (replay_word_code(w[0])) {
    case REPLAY_MALLOC:
    case REPLAY_CALLOC:
    case REPLAY_NEW:
    case REPLAY_NEW_ARRAY:
        return deal_alloc(d, l, w[0], NULL, 0, replay_word_size(w[0]));
    case REPLAY_LONG:
        return deal_long(d, l, w);
    case REPLAY_TRIM:
        segment_put(d, l, w[0]);
        segment_put(d, l, w[1]);
        return true;
    default:
        return deal_free(d, l, w[0], NULL, 0);
    }
}

/* Deals the operation at W. False: out of memory. */
static bool deal_words(struct replay_deal *d, const uint64_t *w) {
    if (d->count > REPLAY_BATCH_WORDS - DEAL_WORDS_MAX ||
        d->segments == REPLAY_SEGMENTS)
        batch_flush(d, false, false);
    switch (replay_word_code(w[0])) {
    case REPLAY_SWITCH:
        return deal_switch(d, replay_word_slot(w[0]),
                           (uint32_t)replay_word_size(w[0]));
    case REPLAY_THREAD_END:
        return deal_thread_end(d, replay_word_slot(w[0]));
    case REPLAY_PRESENT:
        d->present = w[0];
        return true;
    case REPLAY_SITE:
        d->site = replay_word_slot(w[0]);
        return true;
    case REPLAY_WINDOW:
        return window_end(d, replay_word_size(w[0]));
    default:
        return deal_operation(d, w);
    }
}

/* Words of the operation at W. */
static size_t words_of(const uint64_t *w) {
    unsigned code = replay_word_code(*w);
    return code == REPLAY_LONG   ? REPLAY_LONG_WORDS
           : code == REPLAY_TRIM ? REPLAY_TRIM_WORDS
                                 : 1;
}

/* Words from the prefetch of a slot to that of the cell in it, and from there
   to the operation that needs both: a free of an old block would wait for two
   misses of the caches, one after the other. */
#define AHEAD 12u
TCM_STATIC_ASSERT(2 * AHEAD <= REPLAY_BATCH_PAD, "reads stay within the batch");

/* Prefetches what operations behind W need. Words there may be no operations,
   so any number may stand for a slot. */
static TCM_ALWAYS_INLINE void deal_prefetch(const struct replay_deal *d,
                                            const uint64_t *w) {
    uint32_t near = replay_word_slot(w[AHEAD]);
    uint32_t far = replay_word_slot(w[2 * AHEAD]);
    if (far < d->slots)
        __builtin_prefetch(&d->slot[far], 1);
    if (near < d->slots)
        __builtin_prefetch(&d->cell[d->slot[near].cell], 1);
}

static bool batch_deal(struct replay_deal *d) {
    struct replay_batch *b = &d->staging;
    bool good = cells_collect(d);
    const uint64_t *w = b->word, *end = w + b->words;
    for (; good && w < end; w += words_of(w)) {
        deal_prefetch(d, w);
        good = deal_words(d, w);
    }
    TCM_ASSERT(!good || w == end);
    if (b->last)
        good &= windows_end(d);
    /* The next batch has different figures in `staging`, and may come late. */
    batch_flush(d, b->last != 0, true);
    return good;
}

/* --- Held batches --------------------------------------------------------- */

static bool batch_hold(struct replay_deal *d) {
    const struct replay_batch *b = &d->staging;
    size_t head = offsetof(struct replay_batch, segment);
    struct deal_held *h =
        malloc(sizeof(*h) + head + b->words * sizeof(*b->word));
    if (h == NULL)
        return false;
    char *behind = (char *)(h + 1);
    h->next = NULL;
    h->head = (struct replay_batch *)behind;
    h->word = (uint64_t *)(behind + head);
    replay_batch_copy_head(h->head, b);
    memcpy(h->word, b->word, b->words * sizeof(*b->word));
    if (d->last_held != NULL)
        d->last_held->next = h;
    else
        d->held = h;
    d->last_held = h;
    d->held_words += b->words;
    return true;
}

/* Takes the first batch that is held; NULL: there is none. */
static struct deal_held *held_take(struct replay_deal *d) {
    struct deal_held *h = d->held;
    if (h == NULL)
        return NULL;
    d->held = h->next;
    if (h->next == NULL)
        d->last_held = NULL;
    TCM_ASSERT(d->held_words >= h->head->words);
    d->held_words -= h->head->words;
    return h;
}

bool replay_deal_batch(struct replay_deal *d) {
    return d->holds ? batch_hold(d) : batch_deal(d);
}

void replay_deal_hold(struct replay_deal *d) {
    d->holds = true;
}

size_t replay_deal_held_words(const struct replay_deal *d) {
    return d->held_words;
}

bool replay_deal_release(struct replay_deal *d) {
    bool good = true;
    d->holds = false;
    for (struct deal_held *h; good && (h = held_take(d)) != NULL; free(h)) {
        replay_batch_copy_head(&d->staging, h->head);
        memcpy(d->staging.word, h->word, h->head->words * sizeof(*h->word));
        good = batch_deal(d);
    }
    TCM_ASSERT(!good || d->held_words == 0);
    return good;
}

void replay_deal_pass(struct replay_deal *d) {
    for (struct deal_held *h; (h = held_take(d)) != NULL; free(h)) {
        struct replay_batch *b = replay_ring_fill(d->ring);
        const uint64_t *w = h->word, *end = w + h->head->words;
        replay_batch_copy_head(b, h->head);
        b->words = 0;
        for (; w < end; w += words_of(w)) {
            if (replay_word_code(*w) == REPLAY_WINDOW)
                continue;
            memcpy(b->word + b->words, w, words_of(w) * sizeof(*w));
            b->words += (uint32_t)words_of(w);
        }
        /* Without windows the batch may be one that nothing is in. */
        if (b->words == 0 && !b->last && !b->sampled)
            continue;
        memset(b->word + b->words, 0, REPLAY_BATCH_PAD * sizeof(*b->word));
        replay_ring_filled(d->ring);
    }
    TCM_ASSERT(d->held_words == 0);
}
