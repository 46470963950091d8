/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The explanation of memory as text, JSON, CSV and a page.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_MEMORY_MEMORY_PRINT_H
#define TOOL_CMD_MALLOC_TRACE_MEMORY_MEMORY_PRINT_H

#include "cmd/malloc_trace/memory/memory_model.h"

#include <stdio.h>

/* Sets R's sentence on the moment M. false: out of memory. */
bool memory_print_sentence(struct memory_run *r, const struct memory_moment *m);
/* The moment of R that tables explain. */
const struct memory_moment *memory_print_moment(const struct memory_report *m,
                                                const struct memory_run *r);
/* Sets the remedies of all runs, for their explained moments. */
void memory_remedies_find(const struct memory_report *m);

void memory_print(const struct memory_report *m, FILE *out);
/* Write a file; "-" is standard output. false: a message was printed. */
bool memory_print_json(const struct memory_report *m, const char *path);
/* A line for each row of m->by, of all moments and allocators. */
bool memory_print_csv(const struct memory_report *m, const char *path);
bool memory_page(const struct memory_report *m, const char *path);

#endif
