/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stacks of a trace as one tree, from the outermost frames on, in which sibling
 * frames have different labels; and the largest stacks of each row.
 *
 * Invariants: a node stands behind its parent. The sums of all nodes are those
 * of the tallies. There are at most REPORT_STACKS_NODES nodes, also for a
 * damaged trace whose sites form circles: deeper frames then count for their
 * caller. The work grows with frames, not with the depth of stacks.
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_STACKS_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_STACKS_H

#include "cmd/malloc_trace/report/report_rows.h"
#include "common/json.h"
#include "common/text.h"

#define REPORT_STACKS_NODES ((size_t)1 << 22)

/* Most frames of a stack, with inlined functions, in files for other programs:
   more than any recorded stack has. */
#define REPORT_STACKS_DEPTH (4 * TOOL_SITE_DEPTH)

/* Label of frames, by which they are told apart. */
enum report_stacks_label {
    REPORT_STACKS_FUNCTION, /* "f", or "libx.so+0x12" */
    REPORT_STACKS_PLACE,    /* "0x1234: f (file.c:12)", as DHAT has it */
    REPORT_STACKS_SITE,     /* those of rows */
    REPORT_STACKS_LINE,
    REPORT_STACKS_FILE,
    REPORT_STACKS_MODULE,
    REPORT_STACKS_LANGUAGE
};

struct report_stacks_node {
    uint32_t parent; /* index of a node */
    uint32_t label;  /* in labels */
    uint32_t sum;    /* index plus 1; 0: this frame itself allocated nothing */
    uint32_t old;    /* like SUM, of the earlier trace */
};

struct report_stacks {
    struct report_texts labels;
    struct report_texts files;
    uint32_t *file; /* in files, by label; REPORT_TEXTS_NONE: not known */
    struct report_stacks_node *node; /* the first one is the root: no frame */
    struct report_tally *sum;
    size_t count, sums;
    uint8_t *user; /* 1 if a frame with it is the user's, by label; or NULL */
    uint64_t cut;  /* stacks that ran out of nodes */

    size_t node_room, sum_room, file_room, user_room;
    struct tool_map child; /* index of the node, by parent and label */
    /* during report_stacks_add */
    struct report_frames *frames; /* or NULL */
    uint32_t *of_name;            /* label plus 1, by number of the name */
    size_t of_name_room;
    uint32_t *of_frame; /* node plus 1, by index of the frame */
};

/* Part of the tallies to add. All zero: everything. */
struct report_stacks_part {
    const uint32_t *keep; /* by index of a tally: 0 leaves it out; or NULL */
    uint32_t *node;       /* filled with the node of each tally; or NULL */
    struct report_frames *frames; /* fills user; or NULL */
    bool old; /* the tallies are those of the earlier trace */
};

/* Adds stacks to S, which is all zero at first. False: out of memory. */
bool report_stacks_add(struct report_stacks *s, const struct report_tallies *t,
                       struct symbol_names *names,
                       enum report_stacks_label label,
                       const struct report_stacks_part *part);
/* Makes S of all stacks of T. False: out of memory. */
bool report_stacks_make(struct report_stacks *s, const struct report_tallies *t,
                        struct symbol_names *names,
                        enum report_stacks_label label);
void report_stacks_fini(struct report_stacks *s);

static inline const char *report_stacks_text(const struct report_stacks *s,
                                             uint32_t node) {
    return s->labels.text[s->node[node].label];
}

/* NAME, or in ROOM, if it is C++, without arguments in <> and (), in at most
   COLUMNS characters. */
const char *report_stacks_short(struct tool_text_line *room, const char *name,
                                size_t columns);
/* NAME as far as it fits in COLUMNS characters, maybe in ROOM. What a name of
   C++ loses first is the type of the result, then parameters, arguments in <>,
   and the middle; the function's own name stays. */
const char *report_stacks_fitting(struct tool_text_line *room, const char *name,
                                  size_t columns);

/* Fills PATH with the labels from NODE to the root, at most
   REPORT_STACKS_DEPTH; returns how many. */
size_t report_stacks_path(const struct report_stacks *s, uint32_t node,
                          uint32_t path[REPORT_STACKS_DEPTH]);

/* Fills STACK with the sites of SITE's stack, innermost first; returns how
   many. */
unsigned report_stacks_sites(const struct tool_sites *sites, uint32_t site,
                             uint32_t stack[TOOL_SITE_DEPTH]);

/* --- Largest stacks of rows ----------------------------------------------- */

struct report_callers_top {
    uint32_t node; /* the innermost frame; 0: none */
    double value;  /* its part of the row, by the figure that is sorted by */
};

struct report_callers {
    struct report_stacks stacks;
    struct report_callers_top *top; /* by row, PER_ROW each, largest first */
    size_t *count;                  /* of all different stacks, by row */
    size_t rows, per_row;
};

/* Finds the PER_ROW largest stacks of the first ROWS rows of R, which are
   sorted by SORT and were made of T. SKIP: of report_frames_init. False: out of
   memory. */
bool report_callers_make(struct report_callers *c, const struct report_rows *r,
                         const struct report_tallies *t,
                         struct symbol_names *names,
                         const struct report_skip *skip, enum report_sort sort,
                         size_t rows, size_t per_row);
void report_callers_fini(struct report_callers *c);
/* The stack INDEX of ROW, from 0; NULL: none. */
const struct report_callers_top *
report_callers_of(const struct report_callers *c, size_t row, size_t index);
/* Writes the stacks of ROW as an array "stacks" of J, their values named
   FIGURE. */
void report_callers_json(const struct report_callers *c, size_t row,
                         const char *figure, struct tool_json *j);
/* Text of the existing stack INDEX of ROW, from frame FIRST (0: the innermost)
   outwards, with " < " between frames. Beyond WIDTH columns it has only the
   user's frames, each once where it calls itself, the frame that tells the
   stack from the others of its row, and "..." for the rest. From malloc; NULL:
   no frames, or out of memory. */
char *report_callers_text(const struct report_callers *c, size_t row,
                          size_t index, unsigned first, size_t width);

#endif
