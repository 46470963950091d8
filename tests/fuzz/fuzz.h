/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interface of a fuzz target: one function that takes any bytes. It has
 * libFuzzer's name, so that one source runs under libFuzzer and under driver.c.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* How driver.c runs the target. BEGIN_FILE, if not NULL, is told the name of
   each file of the corpus, without its folder, before the inputs made of it:
   a target that does less for each can choose what fits the file. */
struct fuzz_target {
    const char *corpus; /* folder in tests/fuzz/corpus */
    uint32_t stride;    /* of the bytes that are changed; 0: 1 */
    uint32_t runs;      /* random changes a file; 0: 500 */
    void (*begin_file)(const char *name);
};
extern const struct fuzz_target fuzz_target;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Something that must hold whatever the input is. */
#define FUZZ_CHECK(c)                                                          \
    do {                                                                       \
        if (!(c)) {                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c);            \
            abort();                                                           \
        }                                                                      \
    } while (0)

#endif
