/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that make up a raw trace beside its own: the parts of a flight
 * recording, and the spool.
 *
 * Threads: one user at a time.
 */
#ifndef TOOL_TRACE_RAW_FILES_H
#define TOOL_TRACE_RAW_FILES_H

#include "base/compiler.h"
#include "common/input.h"
#include "traceformat/raw_reader.h"

/* --- Parts ---------------------------------------------------------------- */

/*
 * The parts of a flight recording, by name: OUTPUT.k0 to OUTPUT.k7, each a
 * trace by itself, in the order in which they were recorded.
 */

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

/* --- Spool ---------------------------------------------------------------- */

/*
 * The spool of a raw trace as a reader sees it: opened, looked through for
 * buffers in use, and these yielded as data items by thread and offset.
 *
 * Invariants: memory is a page, one buffer, and 64 bytes for each buffer found;
 * holes in the file are passed over, so that a huge sparse file costs nothing.
 */

/* One buffer of the spool that is in use. */
struct tool_spool_entry {
    uint64_t position;            /* of its head in the spool */
    struct mtf_spool_buffer head; /* size 0: damaged */
};

struct tool_spool {
    int fd; /* -1: none */
    char *name;
    uint64_t size;
    enum mtf_status status; /* of page 0 */
    bool locked;            /* by a living recording */
    struct mtf_raw_info info;
    bool has_mark; /* it is of a library that writes one */
    struct mtf_spool_mark mark;
    uint64_t emptied;    /* the last mark.saved that a buffer has, and */
    uint64_t emptied_at; /* where; after tool_spool_scan */
    struct tool_spool_entry *entries;
    size_t count, capacity, next;
    uint64_t bytes;        /* of events yielded, and */
    uint64_t used;         /* with their heads; the rest is only reserved */
    struct mtf_item fault; /* DAMAGE to be yielded next, if its kind is set */
    uint8_t page[MTF_SPOOL_UNIT];
    uint8_t *buffer; /* the one at hand, MTF_SEGMENT_MAX and padding */
};

void tool_spool_init(struct tool_spool *s);
void tool_spool_close(struct tool_spool *s);

/* Opens NAME if it is a regular file; true also if it is none or not there
   (s->fd stays -1). False with errno on failure. */
bool tool_spool_open(struct tool_spool *s, const char *name);
/* A spool that comes through a pipe or compressed is copied to an unnamed
   temporary file, because its buffers are read by offset. */
bool tool_spool_copy(struct tool_spool *s, struct tool_input *in);

/* Finds the buffers in use. MTF_OK, MTF_SYSTEM (errno) or MTF_NO_MEMORY. */
enum mtf_status tool_spool_scan(struct tool_spool *s, uint64_t random);
/* Yields the next item (data or damage); false at the end. */
bool tool_spool_next(struct tool_spool *s, struct mtf_item *item);
/* Lets the next item tell of damage. */
void tool_spool_set_fault(struct tool_spool *s, enum mtf_status status,
                          uint64_t offset, uint64_t skipped);

#endif
