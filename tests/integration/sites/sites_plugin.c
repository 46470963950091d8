/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocates at one place, in blocks of SIZE bytes. Two builds of it differ in
   nothing else, so that they lie alike at the same addresses. */
#include <stdlib.h>

void *plugin_block(void);

void *plugin_block(void) {
    void *p = malloc(SIZE);
    __asm__ volatile("" : : "r"(p) : "memory");
    return p;
}
