/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Growth of live blocks over a run: for a program that frees everything at its
 * end, or nothing, leaks are blocks that live on and become more.
 *
 * Live blocks of each tally are sampled while a trace is read, at equal
 * distances in allocations, and at each mark. Allocations are the clock because
 * the end of a program, where all is freed, has few. When the columns are used
 * up, every other one is dropped and the distance doubles.
 *
 * Time decides, too: the start of a program that allocates nearly all there,
 * and then runs, is in the second half of its allocations. So live blocks are
 * also sampled at equal distances in time, in which a pause between allocations
 * counts little: a program that leaks and then sleeps has a leak.
 *
 * A group of tallies, such as those of a function, grows if the lowest number
 * of its live blocks rises from each quarter to the next: over the marks of the
 * trace if it has two, else over the second half of the allocations since the
 * group's first block. A cache that was filled, or blocks that come and go, do
 * not.
 *
 * A container in one block, such as a vector, grows in bytes: by a factor each
 * time, so that quarters may pass in between. Its group grows if the lowest
 * bytes of the quarters never fall, over all allocations since its first block,
 * and rise by half from the second quarter to the last, and from the middle to
 * the end.
 *
 * Without marks, either kind of growth counts only if it goes on in time since
 * the group's first block: in its second half, or of bytes, whose last step may
 * be long ago, behind its first quarter. The last samples may be of a program
 * that frees all at its end, so that the highest of the lowest figures of parts
 * before and behind that moment are compared.
 *
 * Nor does a group grow that the program frees some time before its end: what
 * was live in its last pauses is kept, too. While a program frees everything at
 * its end it hardly pauses.
 *
 * Invariants: 1.5 KiB for each tally that has live blocks at a sample, and
 * 1 KiB more if the trace has marks.
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_LEAKS_LEAKS_GROWTH_H
#define TOOL_CMD_MALLOC_TRACE_LEAKS_LEAKS_GROWTH_H

#include "cmd/malloc_trace/report/report_tally.h"

#define LEAKS_COLUMNS 128u /* of a series, at most */
#define LEAKS_PAUSES  32u

struct leaks_cell {
    uint32_t blocks;
    float bytes;
};

struct leaks_series {
    struct leaks_cell **cell;   /* MOST by tally; NULL: all 0 */
    size_t tallies;             /* room in CELL */
    uint64_t at[LEAKS_COLUMNS]; /* allocations; of times, busy_ns */
    unsigned columns, most;
    uint64_t step;          /* from one column to the next, at least */
    uint64_t next, skipped; /* AT of the next one; of marks, those passed */
};

/* All zero before leaks_growth_begin. */
struct leaks_growth {
    struct leaks_series samples, times, marks;
    /* Pauses, the last ones: state in each; AT is the sum of all before it. */
    struct leaks_series pauses;
    struct leaks_pause {
        uint64_t from_ns, calls; /* its beginning; allocations before it */
    } pause[LEAKS_PAUSES];
    uint64_t pauses_ns;
    uint64_t pause_operations; /* before the last column */
    uint64_t busy_ns; /* until the last allocation, with short pauses */
    uint64_t seen_ns; /* its time */
    bool failed;      /* out of memory */
};

/* Growth of one group. Zero blocks: it does not grow. */
struct leaks_group {
    uint64_t blocks, bytes;
    unsigned from, to; /* columns between which it grew */
    bool larger;       /* in bytes; blocks are those that may have grown */
};

/* Makes T sample into G while it reads one trace. */
void leaks_growth_begin(struct leaks_growth *g, struct report_tallies *t);
void leaks_growth_fini(struct leaks_growth *g);
/* True if growth is that over marks. */
bool leaks_growth_has_marks(const struct leaks_growth *g);
/* True if there were marks, or at least LEAKS_COLUMNS / 2 allocations, to
   tell. */
bool leaks_growth_can_tell(const struct leaks_growth *g);
/* Fills GROUP, an array of COUNT groups. OF_TALLY: number of the group, by
   index in T. False: out of memory. */
bool leaks_growth_find(const struct leaks_growth *g,
                       const struct report_tallies *t, const uint32_t *of_tally,
                       struct leaks_group *group, size_t count);
/* Growth of the tally at index I alone, between the columns of its GROUP; 0 if
   it shrank. */
struct leaks_group leaks_growth_of_tally(const struct leaks_growth *g, size_t i,
                                         const struct leaks_group *group);

#endif
