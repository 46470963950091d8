/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes words and numbers from the front of a line. Each function moves *P
 * behind what it took; where it returns false *P is anywhere.
 */
#ifndef TOOL_FORMATS_FORMAT_SCAN_H
#define TOOL_FORMATS_FORMAT_SCAN_H

#include "base/compiler.h"

#include <string.h>

static inline void scan_blanks(const char **p, const char *end) {
    while (*p < end && (**p == ' ' || **p == '\t'))
        (*p)++;
}

static inline bool scan_at_end(const char **p, const char *end) {
    scan_blanks(p, end);
    return *p == end;
}

static inline bool scan_char(const char **p, const char *end, char c) {
    if (*p == end || **p != c)
        return false;
    (*p)++;
    return true;
}

/* TEXT, a literal. */
#define scan_text(p, end, text) scan_bytes(p, end, text, sizeof(text) - 1)
static inline bool scan_bytes(const char **p, const char *end, const char *text,
                              size_t n) {
    if ((size_t)(end - *p) < n || memcmp(*p, text, n) != 0)
        return false;
    *p += n;
    return true;
}

/* Decimal, at least one digit, below 2^64. */
static inline bool scan_u64(const char **p, const char *end, uint64_t *v) {
    const char *from = *p;
    uint64_t n = 0;
    unsigned digit;
    for (; *p < end && (digit = (unsigned)(**p - '0')) <= 9; (*p)++) {
        if (TCM_UNLIKELY(n > (UINT64_MAX - digit) / 10))
            return false;
        n = n * 10 + digit;
    }
    *v = n;
    return *p != from;
}

/* Hexadecimal, with 0x or without. */
static inline bool scan_hex(const char **p, const char *end, uint64_t *v) {
    const char *from;
    uint64_t n = 0;
    if (end - *p >= 2 && (*p)[0] == '0' && ((*p)[1] | 32) == 'x')
        *p += 2;
    for (from = *p; *p < end; (*p)++) {
        unsigned digit = (unsigned)(**p - '0');
        if (digit > 9) {
            digit = (unsigned)((**p | 32) - 'a') + 10;
            if (digit < 10 || digit > 15)
                break;
        }
        if (TCM_UNLIKELY(n >> 60 != 0))
            return false;
        n = n << 4 | digit;
    }
    *v = n;
    return *p != from;
}

/* Blanks, then the number. */
static inline bool scan_next_u64(const char **p, const char *end, uint64_t *v) {
    scan_blanks(p, end);
    return scan_u64(p, end, v);
}
static inline bool scan_next_hex(const char **p, const char *end, uint64_t *v) {
    scan_blanks(p, end);
    return scan_hex(p, end, v);
}

/* NMEMB * SIZE; false: too large. */
static inline bool scan_product(uint64_t a, uint64_t b, uint64_t *v) {
    return !__builtin_mul_overflow(a, b, v);
}

#endif
