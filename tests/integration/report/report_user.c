/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks through the C library and through wrappers, from functions whose names
   end with the bytes that they ask for in all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACE __attribute__((noinline))

PLACE void *xmalloc(size_t size);
PLACE void *xrealloc(void *p, size_t size);
PLACE void copy_name_80(void);
PLACE void grow_table_3000(void);
PLACE void make_table_500(void);

static void *volatile sink;

PLACE void *xmalloc(size_t size) {
    void *p = malloc(size);
    sink = p;
    return p;
}

PLACE void *xrealloc(void *p, size_t size) {
    void *q = realloc(p, size);
    sink = q;
    return q;
}

PLACE void copy_name_80(void) {
    for (int i = 0; i < 10; i++) {
        sink = strdup("7 bytes");
        free(sink);
    }
}

PLACE void grow_table_3000(void) {
    void *table = xrealloc(NULL, 1000);
    free(xrealloc(table, 2000));
}

PLACE void make_table_500(void) {
    free(xmalloc(500));
}

int main(void) {
    copy_name_80();
    grow_table_3000();
    make_table_500();
    return 0;
}
