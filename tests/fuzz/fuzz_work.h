/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cost of a piece of code, counted and not timed: basic blocks of the
 * readers, which libcounted.a has compiled with -fsanitize-coverage=trace-pc,
 * bytes that the C library moves for them, and bytes of malloc.
 *
 * Threads: one.
 */
#ifndef TESTS_FUZZ_FUZZ_WORK_H
#define TESTS_FUZZ_FUZZ_WORK_H

#include <stdint.h>

struct fuzz_work {
    uint64_t steps; /* basic blocks, and one for each 16 bytes moved */
    uint64_t bytes; /* most that were allocated at a time */
};

void fuzz_work_begin(void);
struct fuzz_work fuzz_work_end(void);

#endif
