/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large blocks of which a part is written: present_target WHAT. Prints the
 * largest resident memory that the process had, in KiB.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MIB   ((size_t)1 << 20)
#define LARGE (256 * MIB)

/* In no register, so that no call is left out. */
static char *volatile block;

static void make(char *p, size_t written) {
    if (p == NULL)
        exit(3);
    block = p;
    memset(p, 1, written);
}

/* A tenth of each piece that it grows by. */
static void grow(void) {
    for (size_t size = MIB; size <= LARGE; size += MIB) {
        make(realloc(block, size), 0);
        memset(block + size - MIB, 1, MIB / 10);
    }
}

static void give(void) {
    errno = 77;
    free(block);
    block = NULL;
    if (errno != 77)
        exit(4);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    struct rusage usage;
    if (!strcmp(what, "tenth") || !strcmp(what, "live")) {
        make(malloc(LARGE), LARGE / 10);
    } else if (!strcmp(what, "calloc")) {
        make(calloc(LARGE / 16, 16), 0);
    } else if (!strcmp(what, "grow")) {
        grow();
    } else if (!strcmp(what, "shrink")) {
        make(malloc(LARGE), LARGE / 10);
        make(realloc(block, LARGE / 5), 0);
    } else if (!strcmp(what, "move")) {
        make(malloc(LARGE), LARGE / 10);
        make(realloc(block, 2 * LARGE), 0);
    } else if (!strcmp(what, "zero")) {
        make(malloc(LARGE), LARGE / 10);
        block = realloc(block, 0);
    } else if (!strcmp(what, "sparse")) {
        make(malloc(8 * LARGE), 8 * LARGE / 10);
    } else if (!strcmp(what, "full")) {
        make(malloc(64 * MIB), 64 * MIB);
    } else if (!strcmp(what, "small")) {
        make(malloc(200 * 1024), 1);
    } else {
        return 2;
    }
    if (strcmp(what, "live") != 0 && strcmp(what, "zero") != 0)
        give();
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 1;
    printf("%ld\n", usage.ru_maxrss);
    return 0;
}
