/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of an import: format_import.c reads them, format_take.c repairs
 * faults, keeps the live blocks, and writes the records of the processed trace.
 *
 * Live blocks are in a hash table by id, with linear probing: an event touches
 * one cache line of it.
 *
 * Invariants: at most half of the places of the table are used; all places
 * between the home of a block (its hash) and its place are used.
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
    uint64_t birth; /* birth and slot: a struct mtf_proc_object */
    uint32_t slot;
    uint32_t maker; /* thread that made the block; FORMAT_FREE_PENDING */
};

/* Bit of `maker`: the previous block at this id was freed by repair, and its
   own free may still come. */
#define FORMAT_FREE_PENDING ((uint32_t)1 << 31)

TCM_STATIC_ASSERT(sizeof(struct format_block) == 32, "two in a cache line");

/* All 0: an empty table. */
struct format_blocks {
    struct format_block *place; /* NULL in a new table */
    size_t mask, count;         /* places - 1, used places */
    uint64_t seed;
};

static inline uint64_t format_blocks_hash(const struct format_blocks *t,
                                          uint64_t id) {
    return tool_hash(id, t->seed);
}

/* The place of ID, or the empty place where it belongs. HASH is ID's hash. The
   table is not new. */
static inline struct format_block *
format_blocks_place(const struct format_blocks *t, uint64_t id, uint64_t hash) {
    size_t i = hash & t->mask;
    while (t->place[i].id != 0 && t->place[i].id != id)
        i = (i + 1) & t->mask;
    return &t->place[i];
}

/* The block with the id ID, or NULL. */
static inline struct format_block *
format_blocks_find(const struct format_blocks *t, uint64_t id) {
    if (t->count == 0)
        return NULL;
    struct format_block *b =
        format_blocks_place(t, id, format_blocks_hash(t, id));
    return b->id != 0 ? b : NULL;
}

/* Doubles the table. False: out of memory. */
bool format_blocks_grow(struct format_blocks *t);

/* Makes room for N more blocks; all blocks may move. False: out of memory. */
static inline bool format_blocks_reserve(struct format_blocks *t, size_t n) {
    while (2 * (t->count + n) >= t->mask)
        if (!format_blocks_grow(t))
            return false;
    return true;
}

/* Stores BLOCK at its PLACE, which is empty or has the block that it replaces.
   format_blocks_reserve made room. */
static inline void format_blocks_put(struct format_blocks *t,
                                     struct format_block *place,
                                     const struct format_block *block) {
    TCM_ASSERT(block->id != 0 && (place->id == 0 || place->id == block->id));
    t->count += place->id == 0;
    *place = *block;
    TCM_ASSERT(2 * t->count <= t->mask + 1);
}

/* Removes B. Other blocks may move. */
static inline void format_blocks_remove(struct format_blocks *t,
                                        struct format_block *b) {
    size_t hole = (size_t)(b - t->place), i = hole;
    TCM_ASSERT(hole <= t->mask && b->id != 0 && t->count != 0);
    /* a block that the hole would separate from its home moves into the hole */
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

/* --- Import --------------------------------------------------------------- */

struct format_import {
    struct mtf_source source;
    struct tool_input *in;
    const struct format_type *format;
    void *state;
    struct format_reader reader;
    struct format_batch batch;
    bool tell, strict;
    bool ended;   /* the closing block is written */
    bool failed;  /* the trace will have no closing block */
    bool refused; /* failed, and the reason is printed */
    bool no_memory;
    uint64_t messages; /* faults so far that may be printed */
    /* Strict: the first id allocated while in use, and its line and offset. It
       is no fault yet if threads are known: the free may come late. */
    uint64_t twice_id, twice_line, twice_from;
    bool threaded; /* the trace tells threads */

    struct mtf_proc_writer *writer;
    uint8_t *out;
    size_t out_at, out_end, out_room;

    struct format_blocks blocks;

    struct tool_map threads; /* from foreign number plus 1 to index in `seen` */
    uint8_t *seen;           /* bits SEEN_... by thread */
    size_t seen_room;
    uint32_t thread; /* index of the current thread; 0: none yet */
    uint32_t thread_count;
    uint32_t number;  /* current thread in the processed trace */
    uint64_t foreign; /* current thread in the foreign trace */

    bool noted; /* `present` counts for the next block made */
    uint64_t present;

    bool has_phases;
    unsigned phase;
    uint64_t phase_ops[MTF_PROC_PHASE_EPILOGUE + 1];

    bool timed;
    uint64_t first_ns, last_ns; /* times of the foreign trace */
    struct format_counts counts;
};

void format_take_event(struct format_import *i, const struct format_event *e);
void format_take_batch(struct format_import *i, const struct format_batch *b);

/* Called at the end of the input. Strict: refuses the trace if a free is still
   missing. */
void format_take_end(struct format_import *i);

/* Prints a message with the reader's line or offset. */
void format_take_print(struct format_import *i, bool is_error, const char *fmt,
                       ...) TCM_PRINTF(3, 4);

/* Faults that are printed. */
#define FORMAT_MESSAGES 5u

/* Ends the import without a trace. The first reason is printed. */
#define format_import_refuse(i, ...)                                           \
    do {                                                                       \
        if (!(i)->failed && ((i)->tell || (i)->strict))                        \
            format_take_print((i), true, __VA_ARGS__);                         \
        (i)->failed = (i)->refused = true;                                     \
    } while (0)

/* Prints a fault, which the caller has counted, or refuses the trace. */
#define format_import_fault(i, ...)                                            \
    do {                                                                       \
        if ((i)->strict) {                                                     \
            format_import_refuse((i), __VA_ARGS__);                            \
        } else if ((i)->tell && (i)->messages++ < FORMAT_MESSAGES) {           \
            format_take_print((i), false, __VA_ARGS__);                        \
        }                                                                      \
    } while (0)

#endif
