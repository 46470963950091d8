/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine that figures come from, and what disturbs them there.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_MACHINE_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_MACHINE_H

#include "common/json.h"

struct machine {
    char host[65], processor[128], kernel[96], c_library[32];
    char huge_pages[16]; /* always, madvise, never; "": unknown */
    char governor[32];   /* of processor 0; "": unknown */
    uint64_t cpus, memory_bytes;
};

void machine_look(struct machine *m);
void machine_json(const struct machine *m, const char *key,
                  struct tool_json *j);
/* Whether figures of both may be compared as if of one. */
bool machine_is_alike(const struct machine *a, const struct machine *b);

/* Counters of the system since it started. */
struct machine_load {
    double busy_s, steal_s; /* of all processors */
    double own_s;           /* of this process and its ended children */
    uint64_t throttled, swapped_pages;
    uint64_t at_ns;
};
void machine_load(struct machine_load *l);

enum { MACHINE_NOTES = 8 };
struct machine_notes {
    char text[MACHINE_NOTES][160];
    unsigned count;
};
/* What may disturb figures that will be taken: one line each. */
void machine_before(const struct machine *m, struct machine_notes *n);
/* What did, between two looks. */
void machine_during(const struct machine *m, const struct machine_load *from,
                    const struct machine_load *to, struct machine_notes *n);

#endif
