/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several processes in one log, each with its own addresses.
 */
#ifndef TOOL_FORMATS_FORMAT_PROCESSES_H
#define TOOL_FORMATS_FORMAT_PROCESSES_H

#include "common/hash.h"
#include "formats/format.h"

/* All zero at first. */
struct format_processes {
    uint64_t last;        /* process id of the last event */
    uint64_t bits;        /* high bits of its ids */
    struct tool_map rest; /* number by process id plus 1 */
};

/* Makes the ids of E, which are below 2^48, those of process PID. False: too
   many processes, or an id is too large. */
bool format_of_process(struct format_processes *p, uint64_t pid,
                       struct format_event *e);
void format_processes_fini(struct format_processes *p);

#endif
