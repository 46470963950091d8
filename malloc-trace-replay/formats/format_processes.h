/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several processes in one log: addresses of each are its own.
 */
#ifndef TOOL_FORMATS_FORMAT_PROCESSES_H
#define TOOL_FORMATS_FORMAT_PROCESSES_H

#include "common/hash.h"
#include "formats/format.h"

/* All zero: none yet. */
struct format_processes {
    uint64_t last;        /* process id of the last event */
    uint64_t bits;        /* what its ids have in their high bits */
    struct tool_map rest; /* process id plus 1 to number */
};

/* Makes ids of E, below 2^48, those of process PID. False: there are too many
   processes, or an id is too large. */
bool format_of_process(struct format_processes *p, uint64_t pid,
                       struct format_event *e);
void format_processes_fini(struct format_processes *p);

#endif
