/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Few bytes that make a trace of any size: loops over threads and tokens, so
 * that the same pattern can be had small and large.
 *
 * A byte of flags (COST_*), then records of six bytes: what to do (modulo 16),
 * whose, which token, how many, time, width. What stands between two records
 * COST_LOOP, and at the beginning and the end, is done as often as the scale
 * says; names and times depend on the how manieth time it is.
 */
#ifndef TESTS_FUZZ_COST_SCRIPT_H
#define TESTS_FUZZ_COST_SCRIPT_H

#include "tests/unit/traceformat/raw_build.h"

#define COST_RECORD 6u

enum { COST_COMPRESSED = 1, COST_FOOTER = 2, COST_SPOOL = 4 };

enum cost_what {
    COST_LOOP,
    COST_SEGMENT, /* what the thread has is saved: time, width */
    COST_ALLOC,   /* how many, from the token on */
    COST_FREE,    /* the same */
    COST_REALLOC, /* the token; how many: the new one */
    COST_TIME,    /* an event of the stream */
    COST_BARRIER, /* time */
    COST_AS,      /* AS_THREAD, how many; token: whose */
    COST_THREAD,  /* it starts, or it ends with a name of how many letters */
    COST_MARK,    /* of how many letters */
    COST_GAP,     /* of how many */
    COST_SAMPLE,  /* time */
    COST_OTHER,   /* FAILED, UNTRACED, ALIGNED */
    COST_BUFFER,  /* saves, and begins a new one: time */
    COST_CLOCK,   /* goes on */
    COST_BYTE     /* TOKEN as a byte of the stream */
};

/* Which one: the high two bits of the second and third byte. */
enum cost_name {
    COST_FIXED = 0 << 6,  /* the same each time */
    COST_NEXT = 1 << 6,   /* one after the other */
    COST_SPARSE = 2 << 6, /* the same, far from each other */
    COST_TURNED = 3 << 6  /* threads: from the last to the first; tokens: the
                             one after, and the first behind the last */
};

/* Whose: the late stream's. Width: unknown. */
#define COST_LATE    0xFFu
#define COST_UNKNOWN 0xFFu

/* Writes the trace, or spool, of SCRIPT to OUT. */
void cost_script_run(const uint8_t *script, size_t length, unsigned scale,
                     struct bytes *out);

#endif
