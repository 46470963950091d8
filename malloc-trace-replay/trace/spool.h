/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The spool of a raw trace as a reader sees it: opened, looked through for
 * buffers in use, and these yielded as data items by thread and offset.
 *
 * Invariants: memory is a page, one buffer, and 64 bytes for each buffer found;
 * holes in the file are passed over, so that a huge sparse file costs nothing.
 * Threads: one user at a time.
 */
#ifndef TOOL_TRACE_SPOOL_H
#define TOOL_TRACE_SPOOL_H

#include "base/compiler.h"
#include "common/input.h"
#include "traceformat/raw_reader.h"

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
