/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target without a fuzzer: every file of its corpus as it is, cut
 * at every byte, with every byte changed (of slow targets every few),
 * and with random changes of a fixed seed. In runs of equal bytes longer than
 * 64 only the ends are cut or changed.
 *
 * The corpus is tests/fuzz/corpus/NAME below $top_srcdir, or the files
 * named on the command line. FUZZ_RUNS sets the number of random changes a
 * file. Under a sanitizer it is a part of all this (rounds.h). With
 * FUZZ_SECONDS it is random changes of random files only, for that time, with
 * seed FUZZ_SEED; an input may take a minute then.
 *
 * A target that finds something wrong aborts; the input is then in the file
 * that FUZZ_FOUND names, if it is set.
 *
 * With libFuzzer: clang -fsanitize=fuzzer,address,undefined, the target's
 * source without this file, and libtracetools.a built with clang.
 */
#include "tests/fuzz/fuzz.h"

#include "prng.h"
#include "rounds.h"
#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RUN_MAX       64u
#define FILE_LIMIT    ((size_t)1 << 20)
#define RUNS_DEFAULT  500u
#define FILES_MAX     256u
#define INPUT_SECONDS 60u

static uint64_t inputs;
static const uint8_t *running; /* of RUNNING_SIZE bytes */
static size_t running_size;

static void keep_input(int number) {
    const char *path = getenv("FUZZ_FOUND");
    int fd = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd >= 0 && write(fd, running, running_size) >= 0)
        close(fd);
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* A copy of its own for each input, so that a sanitizer sees a read past it. */
static void run(const uint8_t *data, size_t n) {
    uint8_t *copy = malloc(n == 0 ? 1 : n);
    if (copy == NULL)
        tap_bail("out of memory");
    if (n != 0)
        memcpy(copy, data, n);
    running = copy;
    running_size = n;
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
    inputs++;
}

/* Tells whether byte I is deep inside a run of equal bytes. */
static bool is_dull(const uint8_t *data, size_t n, size_t i) {
    if (i < RUN_MAX / 2 || n - i <= RUN_MAX / 2)
        return false;
    for (size_t k = i - RUN_MAX / 2; k < i + RUN_MAX / 2; k++)
        if (data[k] != data[i])
            return false;
    return true;
}

static void run_changes(uint8_t *data, size_t n) {
    static const uint8_t masks[] = {0x01, 0x80, 0xFF};
    size_t stride =
        rounds_share() * (fuzz_target.stride != 0 ? fuzz_target.stride : 1u);
    for (size_t i = 0; i < n; i += stride) {
        if (is_dull(data, n, i))
            continue;
        run(data, i);
        uint8_t was = data[i];
        for (size_t m = 0; m < sizeof(masks); m++) {
            data[i] = was ^ masks[m];
            run(data, n);
        }
        data[i] = was;
    }
}

/* A few random bytes, and now and then a piece moved or left out. COPY has room
   for 2 * N bytes. */
static void run_one_random(struct prng *p, const uint8_t *data, size_t n,
                           uint8_t *copy) {
    size_t length = n;
    memcpy(copy, data, n);
    for (uint64_t k = prng_below(p, 8) + 1; k != 0; k--)
        copy[prng_below(p, length)] = (uint8_t)prng_next(p);
    size_t from = prng_below(p, n), piece = prng_below(p, n - from + 1);
    switch (prng_below(p, 4)) {
    case 0: /* left out */
        memmove(copy + from, copy + from + piece, n - from - piece);
        length -= piece;
        break;
    case 1: /* twice */
        memmove(copy + from + piece, copy + from, n - from);
        length += piece;
        break;
    default:
        break;
    }
    run(copy, length);
}

static uint8_t *room_for_copy(size_t n) {
    uint8_t *copy = malloc(2 * n + 1);
    if (copy == NULL)
        tap_bail("out of memory");
    return copy;
}

static void run_random(const uint8_t *data, size_t n, uint64_t seed,
                       uint64_t runs) {
    struct prng p;
    prng_seed(&p, seed);
    uint8_t *copy = room_for_copy(n);
    for (uint64_t r = 0; r < runs && n != 0; r++)
        run_one_random(&p, data, n, copy);
    free(copy);
}

static size_t read_file(const char *path, uint8_t *data) {
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        tap_bail("%s: %s", path, strerror(errno));
    size_t n = fread(data, 1, FILE_LIMIT, f);
    fclose(f);
    return n;
}

static void run_file(const char *path, uint64_t runs) {
    static uint8_t data[FILE_LIMIT];
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    size_t n = read_file(path, data);
    if (fuzz_target.begin_file != NULL)
        fuzz_target.begin_file(name);
    inputs = 0;
    run(data, n);
    run_changes(data, n);
    run_random(data, n, n, runs);
    tap_ok(inputs != 0, "%s: %llu inputs", name, (unsigned long long)inputs);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The files of the corpus, in NAMES; how many. */
static size_t list_corpus(char *names[FILES_MAX]) {
    char folder[4096];
    const char *top = getenv("top_srcdir");
    size_t count = 0;
    (void)snprintf(folder, sizeof(folder), "%s/tests/fuzz/corpus/%s",
                   top == NULL ? "." : top, fuzz_target.corpus);
    DIR *d = opendir(folder);
    if (d == NULL)
        tap_bail("%s: %s", folder, strerror(errno));
    struct dirent *e;
    while ((e = readdir(d)) != NULL && count < FILES_MAX)
        if (e->d_name[0] != '.' &&
            asprintf(&names[count], "%s/%s", folder, e->d_name) >= 0)
            count++;
    closedir(d);
    qsort(names, count, sizeof(names[0]), by_name);
    return count;
}

static void run_for(unsigned seconds, char **names, size_t count) {
    static uint8_t data[FILE_LIMIT];
    const char *seed = getenv("FUZZ_SEED");
    struct prng p;
    prng_seed(&p, seed == NULL ? 1 : strtoull(seed, NULL, 10));
    (void)signal(SIGALRM, keep_input);
    time_t end = time(NULL) + (time_t)seconds;
    while (time(NULL) < end) {
        size_t n = read_file(names[prng_below(&p, count)], data);
        uint8_t *copy = room_for_copy(n);
        for (unsigned i = 0; i < 16 && n != 0; i++) {
            alarm(INPUT_SECONDS);
            run_one_random(&p, data, n, copy);
        }
        free(copy);
    }
    alarm(0);
    tap_ok(inputs != 0, "%u seconds: %llu inputs", seconds,
           (unsigned long long)inputs);
}

int main(int argc, char **argv) {
    const char *text = getenv("FUZZ_RUNS"), *seconds = getenv("FUZZ_SECONDS");
    char *in_corpus[FILES_MAX], **names = argv + 1;
    size_t count = (size_t)argc - 1;
    unsigned usual = fuzz_target.runs != 0 ? fuzz_target.runs : RUNS_DEFAULT;
    uint64_t runs = rounds_of(usual, 4 * usual);
    if (text != NULL)
        runs = strtoull(text, NULL, 10);
    (void)signal(SIGABRT, keep_input);
    static const uint8_t none[1];
    run(none, 0);
    tap_ok(true, "empty input");
    if (argc == 1) {
        names = in_corpus;
        count = list_corpus(in_corpus);
    }
    if (seconds != NULL)
        run_for((unsigned)strtoul(seconds, NULL, 10), names, count);
    else
        for (size_t i = 0; i < count; i++)
            run_file(names[i], runs);
    if (argc == 1)
        for (size_t i = 0; i < count; i++)
            free(names[i]);
    return tap_done();
}
