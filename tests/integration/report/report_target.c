/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of known sizes at known places, some of which stay: N in a function's
   name is how many it makes. With an argument it lives until its input ends. */
#include <stdlib.h>
#include <unistd.h>

#define PLACE __attribute__((noinline)) void

PLACE kept_12(void);
PLACE freed_30(void);
PLACE calloced_9(void);

static void *volatile sink;

PLACE kept_12(void) {
    for (int i = 0; i < 12; i++)
        sink = malloc(100);
    sink = NULL;
}

PLACE freed_30(void) {
    for (size_t i = 0; i < 30; i++) {
        sink = malloc(50 + i);
        free(sink);
    }
}

PLACE calloced_9(void) {
    for (int i = 0; i < 9; i++)
        sink = calloc(7, 11);
}

int main(int argc, char **argv) {
    char c;
    (void)argv;
    kept_12();
    freed_30();
    calloced_9();
    while (argc > 1 && read(STDIN_FILENO, &c, 1) > 0)
        continue;
    return 0;
}
