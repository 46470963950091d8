/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gates: what ends a comparison with the status of a missed budget.
 *
 * --budget 'METRIC<=RATIO,...': the most that a contestant may take, as a ratio
 * to the baseline.
 *
 * --save-baseline and --against: counts of the requests in a trace, of what
 * this project's allocator does while it is replayed, and of the memory that
 * allocators take and give back as recorded time passes. No times: on any
 * machine, busy or not, the same trace gives the same counts. What threads or
 * time decide differs between recordings of a program, so each figure is the
 * least and the most of several.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_GATE_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_GATE_H

#include "cmd/malloc_trace/compare/compare_traces.h"

#include <stdio.h>

struct compare_gate {
    const char *save, *against; /* files; each NULL: not given */
    double tolerance;           /* a ratio */
    struct compare_files *files;
    size_t recordings; /* of a command, at most; 0: as many as suffice */
    const char *trace; /* the only trace, a file that stays; NULL: there are
                          several, or it will be removed */
};

/*
 * Counts the traces of G->files: memory under each contestant of C and under
 * this project's library, which is added if it is missing. A command is
 * recorded several times for G->save, and for G->against again while a count is
 * larger than before. Writes the counts to G->save, and says so on OUT; or
 * compares them with those in G->against, which is read first, names on OUT
 * each that differs by more than the tolerance, and which functions made the
 * difference, or how to find them. Returns an exit status: TOOL_DAMAGED where
 * nothing can be judged: a trace is incomplete (G->save is not written then),
 * the program was not seen, G->against has counts of another number of traces
 * or none, or a stop was requested; TOOL_BUDGET if a count is larger than it
 * may be; else TOOL_DAMAGED where G->against has instructions or memory that
 * are not counted now.
 */
int compare_gate(struct comparison *c, const struct compare_gate *g, FILE *out);

struct compare_budget {
    double limit[METRICS]; /* 0: none */
};

/* false: TEXT is no budget; no message. */
bool compare_budget_parse(struct compare_budget *b, const char *text);
/*
 * Judges each limit for each contestant: kept, where the interval ends at or
 * below the limit; missed, where it begins above; else not decided. Noise
 * neither misses nor keeps a limit. Returns an exit status: TOOL_BUDGET if one
 * is missed, or with STRICT not decided; else TOOL_DAMAGED if a contestant has
 * no interval to judge.
 */
int compare_budget_judge(const struct compare_budget *b,
                         const struct comparison *c, bool strict, FILE *out);

#endif
