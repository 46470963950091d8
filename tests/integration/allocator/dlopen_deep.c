/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library that must be found by the RUNPATH of another one, which loads it
 * with RTLD_DEEPBIND (OPENER). Blocks of the C library's functions come to its
 * free, and its blocks go to that of the program.
 */
#include <stdlib.h>
#include <string.h>

#ifdef OPENER
#include <dlfcn.h>

void *deep_open(int flags);

void *deep_open(int flags) {
    return dlopen("libdeep.so", flags | RTLD_DEEPBIND);
}
#else
char *deep_text(const char *text);

char *deep_text(const char *text) {
    for (unsigned i = 0; i < 100; i++)
        free(strdup(text));
    char *copy = malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}
#endif
