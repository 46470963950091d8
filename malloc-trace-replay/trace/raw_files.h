/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of a raw trace that are not named by the user: the parts of a
 * flight recording, and the spool.
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
 * The parts of a flight recording: files OUTPUT.k0 to OUTPUT.k7, each a trace
 * by itself, in the order in which they were recorded.
 */

struct tool_parts {
    char *base; /* OUTPUT; NULL: no flight recording */
    unsigned count;
    uint32_t part[MTF_PARTS];         /* numbers of the parts, rising */
    struct tool_input *in[MTF_PARTS]; /* of the parts behind the present one */
    unsigned at;                      /* index of the present part */
    uint64_t past_bytes, past_stored; /* read of the parts before it */
};

/*
 * Finds the parts of the recording NAME, which is the name of one part, or of
 * the OUTPUT that only parts exist of. BUFFER: MTF_READER_BUFFER bytes of
 * scratch memory. False: no memory. True with count 0: NAME is no flight
 * recording.
 */
bool tool_parts_find(struct tool_parts *p, const char *name, uint8_t *buffer);
/* Tells whether no part follows the present one; also true without parts. */
bool tool_parts_at_last(const struct tool_parts *p);
/* Tells, once, that a part is missing between the present part and the next. */
bool tool_parts_skip(struct tool_parts *p);
/* Closes IN, the input of the present part, and returns that of the next. */
struct tool_input *tool_parts_advance(struct tool_parts *p,
                                      struct tool_input *in);
/* Stored bytes of the parts behind the present one. */
uint64_t tool_parts_left_bytes(const struct tool_parts *p);
/* Closes the inputs of the parts behind the present one. */
void tool_parts_close(struct tool_parts *p);

/* --- Spool ---------------------------------------------------------------- */

/*
 * Reads the spool of a raw trace: finds its buffers in use, and yields them as
 * data items, by thread and offset.
 *
 * Invariants: memory is a page, one buffer, and 64 bytes for each buffer found;
 * holes of the file are skipped, so a huge sparse file costs nothing.
 */

/* A buffer of the spool that is in use. */
struct tool_spool_entry {
    uint64_t position;            /* of its head in the spool */
    struct mtf_spool_buffer head; /* size 0: damaged */
};

struct tool_spool {
    int fd; /* -1: none */
    char *name;
    uint64_t size;
    enum mtf_status status; /* of page 0 */
    bool locked;            /* by a running recording */
    struct mtf_raw_info info;
    bool has_mark; /* its library writes one */
    struct mtf_spool_mark mark;
    uint64_t emptied;    /* greatest mark.saved in a buffer's head; known, like
                         emptied_at, after tool_spool_scan */
    uint64_t emptied_at; /* position of that buffer */
    struct tool_spool_entry *entries;
    size_t count, capacity, next;
    uint64_t bytes;        /* of events yielded */
    uint64_t used;         /* of events yielded, with the heads of buffers */
    struct mtf_item rest;  /* DATA to be yielded next, likewise */
    struct mtf_item fault; /* DAMAGE to be yielded next, if its kind is set */
    uint8_t page[MTF_SPOOL_UNIT]; /* page 0 */
    uint8_t *buffer; /* the present one: MTF_SEGMENT_MAX and padding */
};

void tool_spool_init(struct tool_spool *s);
void tool_spool_close(struct tool_spool *s);

/* Opens NAME if it is a regular file. True with s->fd -1: it is not there, or
   is no regular file. False: failed, see errno. */
bool tool_spool_open(struct tool_spool *s, const char *name);
/* Copies a spool that is compressed or comes through a pipe to an unnamed
   temporary file, because its buffers are read by offset. False: failed, see
   errno. */
bool tool_spool_copy(struct tool_spool *s, struct tool_input *in);

/* Finds the buffers in use. RANDOM: of the recording. Returns MTF_OK,
   MTF_SYSTEM (see errno) or MTF_NO_MEMORY. */
enum mtf_status tool_spool_scan(struct tool_spool *s, uint64_t random);
/* Yields the next item (data or damage); false at the end. */
bool tool_spool_next(struct tool_spool *s, struct mtf_item *item);
/* Makes the next item one of damage. */
void tool_spool_set_fault(struct tool_spool *s, enum mtf_status status,
                          uint64_t offset, uint64_t skipped);

#endif
