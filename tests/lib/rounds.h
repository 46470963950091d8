/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Number of rounds of tests that have no natural end: random histories, changed
 * inputs. Under a sanitizer only a part, because each round takes ten to thirty
 * times as long, and the usual build does all of them. With LONG=1 in the
 * environment (check.sh --long) many more, under a sanitizer a part of these.
 */
#ifndef TESTS_LIB_ROUNDS_H
#define TESTS_LIB_ROUNDS_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Step through inputs, of which one of this many is used. A prime, so that a
   step through the bytes of a format reaches each byte of its fields in
   turn. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { rounds_sanitized = 13, rounds_sanitized_long = 3 };
#else
enum { rounds_sanitized = 1, rounds_sanitized_long = 1 };
#endif

static inline bool rounds_long(void) {
    const char *text = getenv("LONG");
    return text != NULL && strcmp(text, "1") == 0;
}

static inline unsigned rounds_share(void) {
    return rounds_long() ? rounds_sanitized_long : rounds_sanitized;
}

static inline unsigned rounds_of(unsigned usual, unsigned in_long_run) {
    unsigned all = rounds_long() ? in_long_run : usual;
    return (all + rounds_sanitized - 1) / rounds_sanitized;
}

#endif
