/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stand-in for symbol_modules.c and symbol_debug.c in a build without
 * elfutils: no module is found, so places are module and offset.
 */
#include "symbols/symbol_modules.h"

#include <stdlib.h>

struct symbol_modules {
    char none;
};

struct symbol_modules *symbol_modules_new(const struct tool_sites *sites,
                                          const char *folder) {
    (void)sites, (void)folder;
    return calloc(1, sizeof(struct symbol_modules));
}

void symbol_modules_free(struct symbol_modules *m) {
    free(m);
}

const char *symbol_modules_remedy(struct symbol_modules *m, uint32_t number) {
    (void)m, (void)number;
    return "build malloc-trace with elfutils";
}

unsigned symbol_modules_find(struct symbol_modules *m, uint32_t number,
                             uint64_t offset,
                             struct symbol_frame frame[SYMBOL_DEPTH]) {
    (void)m, (void)number, (void)offset, (void)frame;
    return 0;
}
