/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a flight recording, by name: OUTPUT.k0 to OUTPUT.k7, each a
 * trace by itself, in the order in which they were recorded.
 *
 * Threads: one user at a time.
 */
#ifndef TOOL_TRACE_PARTS_H
#define TOOL_TRACE_PARTS_H

#include "base/compiler.h"
#include "common/input.h"
#include "traceformat/raw_reader.h"

struct tool_parts {
    char *base; /* OUTPUT; NULL: no flight recording */
    unsigned count;
    uint32_t part[MTF_PARTS];         /* numbers, rising */
    struct tool_input *in[MTF_PARTS]; /* those behind AT */
    unsigned at;                      /* the one being read */
    uint64_t past_bytes, past_stored; /* of those before it */
};

/*
 * Finds the parts that belong to NAME, which is one of them, or of which only
 * parts exist. BUFFER: MTF_READER_BUFFER bytes to work in. False: no memory;
 * true with count 0: NAME is something else.
 */
bool tool_parts_find(struct tool_parts *p, const char *name, uint8_t *buffer);
/* Nothing follows the part at hand; true without any part, too. */
bool tool_parts_at_last(const struct tool_parts *p);
/* True, once, if a part is missing between the one at hand and the next. */
bool tool_parts_skip(struct tool_parts *p);
/* Closes IN, the input of the part at hand, and returns that of the next. */
struct tool_input *tool_parts_advance(struct tool_parts *p,
                                      struct tool_input *in);
/* Stored bytes of the parts behind the one at hand. */
uint64_t tool_parts_left_bytes(const struct tool_parts *p);
/* Closes those that are still in IN. */
void tool_parts_close(struct tool_parts *p);

#endif
