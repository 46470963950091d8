/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine that figures come from, and what disturbs them there.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_MACHINE_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_MACHINE_H

#include "common/json.h"

struct compare_machine {
    char host[65], processor[128], kernel[96], c_library[32];
    char huge_pages[16]; /* always, madvise, never; "": unknown */
    char governor[32];   /* of processor 0; "": unknown */
    uint64_t cpus, memory_bytes;
};

void compare_machine_read(struct compare_machine *m);
void compare_machine_json(const struct compare_machine *m, const char *key,
                          struct tool_json *j);
/* Tells whether figures of both may be compared with each other. */
bool compare_machine_is_like(const struct compare_machine *a,
                             const struct compare_machine *b);

/* Counters of the system since it started. */
struct compare_machine_load {
    double busy_s, steal_s; /* of all processors */
    double own_s;           /* of this process and its ended children */
    uint64_t throttled, swapped_pages;
    uint64_t at_ns;
};
void compare_machine_load(struct compare_machine_load *l);

enum { COMPARE_MACHINE_NOTES = 8 };
struct compare_machine_notes {
    char text[COMPARE_MACHINE_NOTES][160];
    unsigned count;
};
/* Notes what may disturb figures that will be taken: one line each. */
void compare_machine_before(const struct compare_machine *m,
                            struct compare_machine_notes *n);
/* Notes what disturbed figures between two readings of the counters. */
void compare_machine_during(const struct compare_machine *m,
                            const struct compare_machine_load *from,
                            const struct compare_machine_load *to,
                            struct compare_machine_notes *n);

#endif
