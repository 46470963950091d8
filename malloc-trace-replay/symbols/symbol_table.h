/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of code by address, from a file's symbols or from the map that a
 * just-in-time compiler writes for perf: lines of "START SIZE NAME", numbers in
 * hexadecimal.
 *
 * Threads: none shared.
 */
#ifndef TOOL_SYMBOLS_SYMBOL_TABLE_H
#define TOOL_SYMBOLS_SYMBOL_TABLE_H

#include "base/compiler.h"

struct symbol {
    uint64_t start, size; /* size 0: up to the next symbol */
    const char *name;
    uint32_t rank; /* the highest one at an address counts */
};

/* All zero is empty. */
struct symbol_table {
    struct symbol *symbol;
    size_t count, room;
    char *text; /* of a map: its bytes, which names point into */
};

/* The name is not copied. False: out of memory. */
bool symbol_table_add(struct symbol_table *t, const struct symbol *s);
/* Call after the last symbol_table_add and before symbol_table_find. */
void symbol_table_sort(struct symbol_table *t);
/* Reads the perf map NAME into T and sorts it. Lines of another form are
   skipped; of several for one address the last one counts. False: NAME cannot
   be read, and T is empty. */
bool symbol_table_read_map(struct symbol_table *t, const char *name);
/* The symbol that ADDRESS lies in; NULL: none. */
const struct symbol *symbol_table_find(const struct symbol_table *t,
                                       uint64_t address);
void symbol_table_fini(struct symbol_table *t);

#endif
