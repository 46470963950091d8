/* SPDX-License-Identifier: BSD-3-Clause */
/* Loses as many blocks of 1000 bytes as each line of its input says, and gives
   as many others back; ends with the input. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) void lose(void);
__attribute__((noinline)) void give_back(void);

static void *volatile sink;

void lose(void) {
    sink = malloc(1000);
    sink = NULL;
}

void give_back(void) {
    sink = malloc(500);
    free(sink);
}

int main(void) {
    char line[32];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        for (int i = 0; i < atoi(line); i++) {
            lose();
            give_back();
        }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
