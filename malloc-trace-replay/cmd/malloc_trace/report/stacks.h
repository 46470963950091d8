/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stacks of a trace's call sites as one tree, from the outermost frames on,
 * in which frames with the same label are the same: what flame graphs, and
 * formats of stacks, are made of.
 *
 * Invariants: a node stands behind its parent. The sums of all nodes are those
 * of the tallies. There are at most STACKS_NODES nodes, whatever circles the
 * sites of a damaged trace make: what is deeper then counts for the frame that
 * it was called from. The work grows with frames, not with the depth of stacks.
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_STACKS_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_STACKS_H

#include "cmd/malloc_trace/report/rows.h"
#include "cmd/malloc_trace/report/texts.h"

#define STACKS_NODES ((size_t)1 << 22)

/* Frames of one stack in files for other programs, with those of inlined
   functions: no stack that is recorded has more. */
#define STACKS_DEPTH (4 * TOOL_SITE_DEPTH)

/* What a frame is called, and by which it is told from others. */
enum stacks_label {
    STACKS_FUNCTION, /* "f", or "libx.so+0x12" */
    STACKS_PLACE,    /* "0x1234: f (file.c:12)", as DHAT has it */
    STACKS_SITE,     /* as rows by these */
    STACKS_LINE,
    STACKS_FILE,
    STACKS_MODULE,
    STACKS_LANGUAGE
};

struct stacks_node {
    uint32_t parent; /* place of a node */
    uint32_t label;  /* in labels */
    uint32_t sum;    /* place plus 1; 0: nothing was asked for just here */
    uint32_t old;    /* the same of what there was before */
};

struct stacks {
    struct texts labels;
    struct texts files;
    uint32_t *file;           /* of labels: in files; TEXTS_NONE: not known */
    struct stacks_node *node; /* the first is the root: no frame */
    struct tally *sum;
    size_t count, sums;
    uint64_t cut; /* stacks with more frames than there was room for */

    size_t node_room, sum_room, file_room;
    struct tool_map child; /* parent and label: place of the node */
    /* of the tallies at hand */
    uint32_t *of_name; /* by number of the name: label plus 1 */
    size_t of_name_room;
    uint32_t *of_frame; /* by place of the frame: its node plus 1 */
};

/* What of tallies is added, and how. All zero: everything. */
struct stacks_part {
    const uint32_t *keep; /* by place of a tally: 0: it is left out; or NULL */
    uint32_t *node; /* by place of a tally: its node is put there; or NULL */
    bool old;       /* it is what there was before */
};

/* Adds stacks to S, which is all zero at first. False: out of memory. */
bool stacks_add(struct stacks *s, const struct tallies *t, struct names *names,
                enum stacks_label label, const struct stacks_part *part);
/* Stacks of everything. False: out of memory. */
bool stacks_make(struct stacks *s, const struct tallies *t, struct names *names,
                 enum stacks_label label);
void stacks_fini(struct stacks *s);

static inline const char *stacks_text(const struct stacks *s, uint32_t node) {
    return s->labels.text[s->node[node].label];
}

/* The labels from NODE up to the root, at most STACKS_DEPTH; how many. */
size_t stacks_path(const struct stacks *s, uint32_t node,
                   uint32_t path[STACKS_DEPTH]);

/* The sites of the stack of SITE, innermost first; how many. */
unsigned stacks_sites(const struct tool_sites *sites, uint32_t site,
                      uint32_t stack[TOOL_SITE_DEPTH]);

#endif
