/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * STEPS reallocs of 300 blocks, up and down, near and far, with a malloc or a
 * free between; contents are checked. Prints what it did and a sum over the
 * addresses it got, relative to the first.
 */
#include "prng.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 300 };

static size_t some_size(struct prng *p) {
    switch (prng_below(p, 16)) {
    case 0:
        return 1 + prng_below(p, 600000); /* far sizes make long events */
    case 1:
    case 2:
        return 1 + prng_below(p, 20000);
    default:
        return 1 + prng_below(p, 400);
    }
}

int main(int argc, char **argv) {
    unsigned long steps = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    unsigned long mallocs = 0, reallocs = 0, frees = 0;
    static unsigned char *block[BLOCKS];
    static size_t size[BLOCKS];
    uintptr_t first = 0, sum = 0;
    struct prng p;
    prng_seed(&p, 7);
    for (unsigned long i = 0; i < steps; i++) {
        unsigned k = (unsigned)prng_below(&p, BLOCKS);
        size_t n = some_size(&p);
        if (block[k] == NULL) {
            block[k] = malloc(n);
            mallocs++;
        } else if (prng_below(&p, 8) == 0) {
            free(block[k]);
            block[k] = NULL;
            frees++;
            continue;
        } else {
            if (block[k][0] != (unsigned char)k ||
                block[k][size[k] - 1] != (unsigned char)k)
                return 1;
            block[k] = realloc(block[k], n);
            if (block[k] == NULL || block[k][0] != (unsigned char)k)
                return 1;
            reallocs++;
        }
        size[k] = n;
        block[k][0] = block[k][n - 1] = (unsigned char)k;
        if (first == 0)
            first = (uintptr_t)block[k];
        sum = sum * 31 + ((uintptr_t)block[k] - first);
    }
    for (unsigned k = 0; k < BLOCKS; k++) {
        frees += block[k] != NULL;
        free(block[k]);
    }
    printf("%lu %lu %lu %lx\n", mallocs, reallocs, frees, (unsigned long)sum);
    return 0;
}
