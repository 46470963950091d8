/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts events by kind in the bytes that threads wrote, for the footer. The
 * saver does it because counting on the fast path would cost the program.
 */
#ifndef MTR_EVENT_COUNT_H
#define MTR_EVENT_COUNT_H

#include "base/compiler.h"

struct mtr_event_counts {
    uint64_t mallocs;   /* ALLOC */
    uint64_t memaligns; /* ALIGNED */
    uint64_t reallocs;  /* REALLOC, REALLOC_NEW, REALLOC_END */
    uint64_t frees;     /* FREE, FREE_SIZE */
    uint64_t failed;    /* FAILED */
};

/* Adds those of the N bytes at P, which are whole events; 8 bytes after them
   can be read. */
void mtr_count_events(struct mtr_event_counts *counts, const uint8_t *p,
                      size_t n);

#endif
