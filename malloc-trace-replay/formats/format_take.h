/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The second half of the importer, which takes the events of a foreign trace,
 * keeps the live blocks and writes the records. format_import.h has the first
 * half, which reads.
 *
 * Live blocks lie in a table by their ids. All that is known of a block is in
 * one place, so that an event touches one cache line of the table.
 *
 * Invariants: at most half of the places are taken, and each block stands
 * behind its home with no empty place between.
 * Threads: one user at a time.
 */
#ifndef TOOL_FORMATS_FORMAT_TAKE_H
#define TOOL_FORMATS_FORMAT_TAKE_H

#include "base/check.h"
#include "common/collections.h"
#include "formats/format_import.h"
#include "formats/format_reader.h"
#include "traceformat/proc_writer.h"

/* --- Live blocks ---------------------------------------------------------- */

struct format_block {
    uint64_t id; /* 0: an empty place */
    uint64_t size;
    uint64_t birth; /* with `slot` a struct mtf_proc_object */
    uint32_t slot;
    /* The thread that made it; FORMAT_OWED: the free of the block before it at
       this id may come yet. */
    uint32_t maker;
};

#define FORMAT_OWED ((uint32_t)1 << 31)

TCM_STATIC_ASSERT(sizeof(struct format_block) == 32, "two in a cache line");

/* All zero is an empty table. */
struct format_blocks {
    struct format_block *place; /* NULL: none yet */
    size_t mask, count;
    uint64_t seed;
};

static inline uint64_t format_blocks_hash(const struct format_blocks *t,
                                          uint64_t id) {
    return tool_hash(id, t->seed);
}

/* The place of ID, whose hash is HASH, or the empty one where it would be. The
   table has places. */
static inline struct format_block *
format_blocks_place(const struct format_blocks *t, uint64_t id, uint64_t hash) {
    size_t i = hash & t->mask;
    while (t->place[i].id != 0 && t->place[i].id != id)
        i = (i + 1) & t->mask;
    return &t->place[i];
}

/* NULL: there is none. */
static inline struct format_block *
format_blocks_find(const struct format_blocks *t, uint64_t id) {
    if (t->count == 0)
        return NULL;
    struct format_block *b =
        format_blocks_place(t, id, format_blocks_hash(t, id));
    return b->id != 0 ? b : NULL;
}

bool format_blocks_grow(struct format_blocks *t);

/* Room for N more blocks, which may move the others. False: out of memory. */
static inline bool format_blocks_reserve(struct format_blocks *t, size_t n) {
    while (2 * (t->count + n) >= t->mask)
        if (!format_blocks_grow(t))
            return false;
    return true;
}

/* Puts BLOCK to its place, which is empty, or has what it replaces. There is
   room for it. */
static inline void format_blocks_put(struct format_blocks *t,
                                     struct format_block *place,
                                     const struct format_block *block) {
    TCM_ASSERT(block->id != 0 && (place->id == 0 || place->id == block->id));
    t->count += place->id == 0;
    *place = *block;
    TCM_ASSERT(2 * t->count <= t->mask + 1);
}

/* Takes B out. Others may move. */
static inline void format_blocks_remove(struct format_blocks *t,
                                        struct format_block *b) {
    size_t hole = (size_t)(b - t->place), i = hole;
    TCM_ASSERT(hole <= t->mask && b->id != 0 && t->count != 0);
    /* Blocks that the hole would cut off from their home move into it. */
    while (t->place[i = (i + 1) & t->mask].id != 0) {
        size_t home = format_blocks_hash(t, t->place[i].id) & t->mask;
        if (((i - home) & t->mask) >= ((i - hole) & t->mask)) {
            t->place[hole] = t->place[i];
            hole = i;
        }
    }
    t->place[hole].id = 0;
    t->count--;
}

void format_blocks_fini(struct format_blocks *t);

/* --- The importer --------------------------------------------------------- */

struct format_import {
    struct mtf_source source;
    struct tool_input *in;
    const struct format_type *format;
    void *state;
    struct format_reader reader;
    struct format_batch batch;
    bool tell, strict;
    bool ended;   /* the closing block is written */
    bool failed;  /* and never will be: no memory, an error, or refused */
    bool refused; /* the reason was told */
    bool no_memory;
    uint64_t told; /* messages */
    /* Strict: the first id that was used twice and whose free is still missing,
       and its place. Where threads are known it may come late. */
    uint64_t twice_id, twice_line, twice_from;
    bool threaded; /* threads are known */

    struct mtf_proc_writer *writer;
    uint8_t *out;
    size_t out_at, out_end, out_room;

    struct format_blocks blocks;

    struct tool_map threads; /* foreign id plus 1 to place in `seen` */
    uint8_t *seen;           /* bits */
    size_t seen_room;
    uint32_t thread, thread_count; /* places; 0: none yet */
    uint32_t number;               /* of the thread in the processed trace */
    uint64_t foreign;              /* id of that thread */

    bool noted; /* `present` is known of the block that is made next */
    uint64_t present;

    bool has_phases;
    unsigned phase;
    uint64_t phase_ops[MTF_PROC_PHASE_EPILOGUE + 1];

    bool timed;
    uint64_t first_ns, last_ns; /* as in the foreign trace */
    struct format_counts counts;
};

/* One event. */
void format_take_event(struct format_import *i, const struct format_event *e);
void format_take_batch(struct format_import *i, const struct format_batch *b);

/* Strict: refuses a trace in which an id was used twice and whose missing free
   did not come late. */
void format_take_end(struct format_import *i);

/* Prints a message with the place of the reader. */
void format_take_say(struct format_import *i, bool is_error, const char *fmt,
                     ...) TCM_PRINTF(3, 4);

/* Number of problems that are printed one by one. */
#define FORMAT_TOLD 5u

/* The trace cannot be imported; the first reason is told. */
#define format_refuse(i, ...)                                                  \
    do {                                                                       \
        if (!(i)->failed && ((i)->tell || (i)->strict))                        \
            format_take_say((i), true, __VA_ARGS__);                           \
        (i)->failed = (i)->refused = true;                                     \
    } while (0)

/* Something is lost here, and has been counted. */
#define format_lose(i, ...)                                                    \
    do {                                                                       \
        if ((i)->strict) {                                                     \
            format_refuse((i), __VA_ARGS__);                                   \
        } else if ((i)->tell && (i)->told++ < FORMAT_TOLD) {                   \
            format_take_say((i), false, __VA_ARGS__);                          \
        }                                                                      \
    } while (0)

#endif
