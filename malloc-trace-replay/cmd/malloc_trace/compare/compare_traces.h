/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The traces of a comparison: recorded from a command, sorted where they are
 * raw, and checked.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_TRACES_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_TRACES_H

#include "cmd/malloc_trace/compare/compare_model.h"

/* Tells whether each of COUNT operands can be read for every run: standard
   input cannot. false: a message was printed, for TOOL_USAGE. */
bool compare_traces_can_repeat(char *const *operand, size_t count);

/* Adds the trace NAME. A raw one is sorted into the folder SORTED once, so that
   each run reads the sorted form. SORTED NULL: the trace is taken as it is and
   not scanned: its numbers of operations and threads, and whether it has
   times, are unknown. false: a message was printed. */
bool compare_traces_add(struct comparison *c, const char *name,
                        const char *sorted);
/* Adds the COUNT traces of a command line, a single one as
   open_recordings_choose does, until a stop is requested. false: a message was
   printed, or it is. */
bool compare_traces_add_all(struct comparison *c, const char *const *operand,
                            size_t count, const char *sorted);

/* How a recorded command ended. */
struct compare_recorded {
    int status; /* as from wait */
    uint64_t wall_ns;
    bool ended_by_user; /* by a signal that this process got */
};

/* Tells whether the command failed by itself. How it ended goes to HOW, of SIZE
   bytes, then. */
bool compare_recorded_has_failed(const struct compare_recorded *r, char *how,
                                 size_t size);

/*
 * Records COMMAND, which has this process's descriptors, but OUT for standard
 * output. Adds the trace of the process with the most events, or with
 * ALL_PROCESSES those of all that have at least a twentieth of its events; a
 * warning names the others. FOLDER gets the recordings; SORTED: as of
 * compare_traces_add. SIGINT and SIGTERM end COMMAND alone: SIGINT first, where
 * the terminal has not sent it to all, and SIGTERM after a while. false: a
 * message was printed.
 */
bool compare_traces_record(struct comparison *c, char **command,
                           const char *folder, const char *sorted, int out,
                           bool all_processes, struct compare_recorded *r);

/* Sets the mode in which each trace is replayed, and whether recorded time
   passes there. false: a message was printed, or a stop was requested. */
bool compare_traces_set_modes(struct comparison *c);

#endif
