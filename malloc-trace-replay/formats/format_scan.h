/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes words and numbers from the front of a line. Each function moves *P
 * behind what it took; where it returns false *P is anywhere.
 */
#ifndef TOOL_FORMATS_FORMAT_SCAN_H
#define TOOL_FORMATS_FORMAT_SCAN_H

#include "base/compiler.h"

#include <string.h>

static inline void format_scan_blanks(const char **p, const char *end) {
    while (*p < end && (**p == ' ' || **p == '\t'))
        (*p)++;
}

static inline bool format_scan_at_end(const char **p, const char *end) {
    format_scan_blanks(p, end);
    return *p == end;
}

static inline bool format_scan_char(const char **p, const char *end, char c) {
    if (*p == end || **p != c)
        return false;
    (*p)++;
    return true;
}

/* TEXT, a literal. */
#define format_scan_text(p, end, text)                                         \
    format_scan_bytes(p, end, text, sizeof(text) - 1)
static inline bool format_scan_bytes(const char **p, const char *end,
                                     const char *text, size_t n) {
    if ((size_t)(end - *p) < n || memcmp(*p, text, n) != 0)
        return false;
    *p += n;
    return true;
}

/* Decimal, at least one digit, below 2^64. */
static inline bool format_scan_u64(const char **p, const char *end,
                                   uint64_t *v) {
    const char *at = *p, *from = at;
    uint64_t n = 0;
    unsigned digit;
    for (; at < end && (digit = (unsigned)(*at - '0')) <= 9; at++) {
        if (TCM_UNLIKELY(n >= UINT64_MAX / 10) &&
            (n > UINT64_MAX / 10 || digit > UINT64_MAX % 10))
            return false;
        n = n * 10 + digit;
    }
    *p = at;
    *v = n;
    return at != from;
}

/* The value of a hexadecimal digit plus 1; 0 for any other character. */
static const uint8_t format_scan_hex_value[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,
    ['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
    ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16, ['A'] = 11, ['B'] = 12,
    ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

/* Hexadecimal, with 0x or without. */
static inline bool format_scan_hex(const char **p, const char *end,
                                   uint64_t *v) {
    const char *at = *p, *from;
    uint64_t n = 0;
    if (end - at >= 2 && at[0] == '0' && (at[1] | 32) == 'x')
        at += 2;
    unsigned digit;
    for (from = at;
         at < end && (digit = format_scan_hex_value[(uint8_t)*at]) != 0; at++) {
        if (TCM_UNLIKELY(n >> 60 != 0))
            return false;
        n = n * 16 + digit - 1;
    }
    *p = at;
    *v = n;
    return at != from;
}

/* Blanks, then the number. */
static inline bool format_scan_next_u64(const char **p, const char *end,
                                        uint64_t *v) {
    format_scan_blanks(p, end);
    return format_scan_u64(p, end, v);
}
static inline bool format_scan_next_hex(const char **p, const char *end,
                                        uint64_t *v) {
    format_scan_blanks(p, end);
    return format_scan_hex(p, end, v);
}

/* NMEMB * SIZE; false: too large. */
static inline bool format_scan_product(uint64_t a, uint64_t b, uint64_t *v) {
    return !__builtin_mul_overflow(a, b, v);
}

#endif
