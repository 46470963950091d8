/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resident pages of this process without the replayer's own, read by the ioctl
 * PAGEMAP_SCAN (Linux 6.7), else from /proc/self/pagemap, else by mincore.
 *
 * Counted are anonymous memory, shared memory and the heap; not mapped files
 * and the stack of the first thread.
 *
 * Invariants: nothing here allocates. The replayer's own memory is that of
 * run/own_memory.h.
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_WATCH_MEMORY_PAGES_H
#define TOOL_CMD_REPLAY_WATCH_MEMORY_PAGES_H

#include "base/compiler.h"

enum memory_residency {
    MEMORY_PAGEMAP_SCAN,
    MEMORY_PAGEMAP,
    MEMORY_MINCORE,
    MEMORY_NOT_KNOWN
};
extern const char *const memory_residency_name[MEMORY_NOT_KNOWN + 2];

struct memory_pages {
    enum memory_residency how;
    int pagemap; /* -1: not open */
    /* Called for each run of resident measured pages, in ascending order. */
    void (*run)(void *ctx, uint64_t start, uint64_t end, bool is_huge);
    void *ctx;
    /* Resident and not measured, without the replayer's own, by the last walk;
       0 with mincore, which does not tell. */
    uint64_t other_bytes;
    /* Resident and the replayer's own, by the last walk; 0: not counted. */
    uint64_t own_bytes;
};

/* Chooses the best way from BEST on. */
void memory_pages_open(struct memory_pages *p, enum memory_residency best);
/* False: the system does not tell, or not all of it. */
bool memory_pages_walk(struct memory_pages *p);
/* Line that says what this way does not see; NULL: nothing. */
const char *memory_pages_missing(const struct memory_pages *p);
/* True if the kernel tells which pages are huge. */
static inline bool memory_pages_know_huge(const struct memory_pages *p) {
    return p->how == MEMORY_PAGEMAP_SCAN;
}
void memory_pages_close(struct memory_pages *p);

#endif
