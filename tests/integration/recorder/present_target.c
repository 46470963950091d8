/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large blocks of which a part is written: present_target WHAT. Prints how much
 * the largest resident memory grew by them, in KiB.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB   ((size_t)1 << 20)
#define LARGE (256 * MIB)

enum { SEVERAL = 64, ROUNDS = 200, SMALL = 2000 };

/* The peak of resident memory, in KiB. */
static long peak(void) {
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        exit(5);
    close(fd);
    text[n] = '\0';
    const char *at = strstr(text, "VmHWM:");
    return at == NULL ? 0 : strtol(at + 6, NULL, 10);
}

static void mark(const char *text) {
    void *p = dlsym(RTLD_DEFAULT, "malloc_trace_mark");
    if (p != NULL)
        ((void (*)(const char *))p)(text);
}

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

/* One block in forty is written, and only half of it. */
static void seldom(void) {
    for (int i = 0; i < 40; i++) {
        make(malloc(40 * MIB), i == 30 ? 20 * MIB : 100);
        free(block);
        block = NULL;
    }
}

/* With a block behind it, to memory that was in use, and within that to places
   that were written. */
static void copy(void) {
    char *volatile held = malloc(3 * LARGE);
    memset(held, 2, MIB);
    char *volatile behind = malloc(LARGE);
    make(malloc(LARGE), LARGE / 10);
    char *volatile last = malloc(LARGE);
    block[LARGE - 1] = 3;
    block[7] = 4;
    memset(block, 0, 4096);
    free(held);
    make(realloc(block, 2 * LARGE), 0);
    free(behind);
    free(last);
}

/* Reads all of it. */
static void check_copy(void) {
    for (size_t i = 0; i < LARGE; i++)
        if (block[i] != (i < 4096         ? 0
                         : i < LARGE / 10 ? 1
                         : i == LARGE - 1 ? 3
                                          : 0))
            exit(7);
}

static void give(void) {
    errno = 77;
    free(block);
    block = NULL;
    if (errno != 77)
        exit(4);
}

/* Blocks that live together, by one that stays. */
static void several(void) {
    char *volatile more[SEVERAL];
    for (int i = 0; i < SEVERAL; i++) {
        make(malloc(LARGE / SEVERAL), LARGE / SEVERAL / 10);
        more[i] = block;
    }
    for (int i = 1; i < SEVERAL; i++)
        free(more[i]);
    block = more[0];
}

/* Large blocks between many small ones. */
static void rounds(void) {
    char *volatile small[SMALL] = {NULL};
    for (unsigned i = 0; i < ROUNDS * SMALL; i++) {
        free(small[i * 7919 % SMALL]);
        small[i * 7919 % SMALL] = malloc(16 + i % 1000);
        if (i % SMALL != 0)
            continue;
        free(block);
        make(malloc(MIB), MIB / 10);
    }
}

/* Made before a window, resized in it, freed behind it. */
static void marked(void) {
    make(malloc(LARGE), LARGE / 10);
    mark("begin");
    char *volatile other = malloc(LARGE / 4);
    memset(other, 1, LARGE / 40);
    make(realloc(block, 2 * LARGE), LARGE / 5);
    mark("end");
    free(other);
}

/* Many blocks of SIZE bytes of which little is written, each where one was that
   was written wholly. */
static void again(size_t size, bool is_calloc) {
    for (int i = 0; i < ROUNDS; i++) {
        make(malloc(size), size);
        give();
        make(is_calloc ? calloc(1, size) : malloc(size), 100);
        /* Pages that are read count as present, too. */
        for (size_t k = 100; k < 4096 && is_calloc; k++)
            if (block[k] != 0)
                exit(8);
        give();
    }
}

/* Connections come and go, each with a buffer of 64 KiB of which 3,000 bytes
   are used; one in five is a zeroed one that is used to a half. */
static void buffers(void) {
    enum { OPEN = 400, TIMES = 5 };
    static char *volatile buffer[OPEN];
    for (int i = 0; i < OPEN * TIMES; i++) {
        bool half = i % 5 == 0;
        free(buffer[i % OPEN]);
        make(half ? calloc(1, 65536) : malloc(65536), half ? 32768 : 3000);
        buffer[i % OPEN] = block;
    }
    for (int i = 0; i < OPEN; i++)
        free(buffer[i]);
    block = NULL;
}

/* Blocks that live to the end. */
static void lives(void) {
    for (int i = 0; i < SEVERAL; i++)
        make(malloc(64 * 1024), 6000);
}

static void *take_over(void *none) {
    give();
    return none;
}

/* Another thread frees it. */
static void hand_over(void) {
    pthread_t thread;
    make(malloc(LARGE), LARGE / 10);
    if (pthread_create(&thread, NULL, take_over, NULL) != 0)
        exit(6);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    long before = peak();
    if (!strcmp(what, "tenth") || !strcmp(what, "live")) {
        make(malloc(LARGE), LARGE / 10);
    } else if (!strcmp(what, "seldom")) {
        seldom();
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
    } else if (!strcmp(what, "copy")) {
        copy();
    } else if (!strcmp(what, "copied")) {
        copy();
        check_copy();
    } else if (!strcmp(what, "zero")) {
        make(malloc(LARGE), LARGE / 10);
        block = realloc(block, 0);
    } else if (!strcmp(what, "sparse")) {
        make(malloc(8 * LARGE), 8 * LARGE / 10);
    } else if (!strcmp(what, "full")) {
        make(malloc(64 * MIB), 64 * MIB);
    } else if (!strcmp(what, "several")) {
        several();
    } else if (!strcmp(what, "rounds")) {
        rounds();
    } else if (!strcmp(what, "marked")) {
        marked();
    } else if (!strcmp(what, "handed")) {
        hand_over();
    } else if (!strcmp(what, "killed")) {
        make(malloc(LARGE), LARGE / 10);
        give();
        kill(getpid(), SIGKILL);
    } else if (!strcmp(what, "small")) {
        make(malloc(200 * 1024), 1);
    } else if (!strcmp(what, "brief")) {
        make(malloc(16 * 1024), 1);
    } else if (!strcmp(what, "again")) {
        again(MIB, false);
    } else if (!strcmp(what, "cleared")) {
        again(60000, true);
    } else if (!strcmp(what, "buffers")) {
        buffers();
    } else if (!strcmp(what, "lives")) {
        lives();
    } else {
        return 2;
    }
    if (block != NULL && strncmp(what, "live", 4) != 0)
        give();
    printf("%ld\n", peak() - before);
    return 0;
}
