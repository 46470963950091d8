/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A record of glibc's dj/malloc branch, whichever way it is written.
 */
#ifndef TOOL_FORMATS_DJ_RECORD_H
#define TOOL_FORMATS_DJ_RECORD_H

#include "formats/format.h"

enum {
    DJ_UNUSED,
    DJ_MALLOC,
    DJ_CALLOC,
    DJ_FREE,
    DJ_REALLOC,
    DJ_MEMALIGN,
    DJ_VALLOC,
    DJ_PVALLOC,
    DJ_POSIX_MEMALIGN,
    DJ_CALLS,
    DJ_MAGIC = 255
};

struct dj_record {
    uint32_t thread;
    unsigned type;
    uint64_t ptr1, ptr2, size;
    uint64_t size2; /* the alignment, if it is a call with one */
};

/* By type; what is no call has kind 0. */
struct dj_call {
    uint8_t kind, call;
};
extern const struct dj_call dj_calls[DJ_CALLS];

/* False: the record is no call. */
bool dj_fill(const struct dj_record *r, struct format_event *e);

#endif
