/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a struct tool_raw holds, for the two files that make it up: tool_raw.c,
 * which reads, and tool_raw_known.c, which tells.
 *
 * Threads: one user at a time.
 */
#ifndef TOOL_TRACE_RAW_STATE_H
#define TOOL_TRACE_RAW_STATE_H

#include "common/ahead.h"
#include "trace/parts.h"
#include "trace/raw.h"
#include "trace/spool.h"

enum phase {
    PHASE_FILE,
    PHASE_SPOOL_START,
    PHASE_SPOOL,
    PHASE_END,
    PHASE_FAILED
};

struct tool_raw {
    char *name;
    enum phase phase;
    struct tool_input *in;    /* NULL: the spool alone */
    struct tool_ahead *ahead; /* of IN; NULL: read directly */
    bool read_ahead;          /* wanted, also for parts to come */
    struct tool_parts parts;  /* of a flight recording; in[at] is IN */
    uint8_t *buffer;          /* of the reader */
    struct mtf_raw_reader reader;
    struct tool_spool spool;
    struct mtf_raw_info info; /* of the trace */
    bool have_info;
    bool growing;
    bool begins_late;
    uint64_t last_barrier; /* growing: offset of the last one; 0: none */
    bool use_spool;
    unsigned checks; /* made of what the spool knows */
    bool footer;     /* one came, and no events after it */
    uint64_t footer_offset;
    uint64_t account[MTF_ACCOUNT_LIMIT]; /* of the last one, by field */
    bool has_account[MTF_ACCOUNT_LIMIT];
    bool forced_stop; /* it, or the spool, says so */
    uint64_t damages;
    uint64_t barrier;         /* number of the last one, 0 none */
    uint64_t barrier_damages; /* told up to there */
    struct mtf_item cut;   /* DAMAGE held back, see read_file; kind 0: none */
    struct mtf_item after; /* what came after it, to be yielded next */
    struct mtf_item failed;
    char text[512];
};

/* Bytes taken of IN so far. */
uint64_t tool_raw_file_bytes(const struct tool_raw *t);
/* Behind the file, with a spool that was looked through: ITEM tells of the next
   thing that the two do not agree about; false: there is none (any more). */
bool tool_raw_next_dispute(struct tool_raw *t, struct mtf_item *item);

#endif
