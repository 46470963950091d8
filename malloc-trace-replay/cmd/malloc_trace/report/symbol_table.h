/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of code by address: the symbols of a file, or the map that a compiler
 * at run time writes for perf ("START SIZE NAME" a line, in hexadecimal).
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_SYMBOL_TABLE_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_SYMBOL_TABLE_H

#include "base/compiler.h"

struct symbol {
    uint64_t start, size; /* size 0: up to the next one */
    const char *name;
    uint32_t rank; /* of symbols at one place the greatest counts */
};

/* All zero is empty. */
struct symbol_table {
    struct symbol *symbol;
    size_t count, room;
    char *text; /* of a map: the file */
};

/* NAME is not copied. False: no memory. */
bool symbol_table_add(struct symbol_table *t, const struct symbol *s);
/* After the last one, and before symbols are looked for. */
void symbol_table_sort(struct symbol_table *t);
/* Reads a map of perf and sorts it; lines that are none are passed over; of
   code at one place the one that was written last counts. False: it cannot be
   read, T is empty. */
bool symbol_table_read_map(struct symbol_table *t, const char *name);
/* NULL: none. */
const struct symbol *symbol_table_find(const struct symbol_table *t,
                                       uint64_t address);
void symbol_table_fini(struct symbol_table *t);

#endif
