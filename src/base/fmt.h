/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text without malloc, stdio or locale: bounded text, and characters of UTF-8
 * in bytes of unknown origin.
 */
#ifndef TCM_BASE_FMT_H
#define TCM_BASE_FMT_H

#include "base/check.h"
#include "base/compiler.h"

/* Bounded text. It is always terminated; text that does not fit is dropped, and
   `cut` is set. */
struct tcm_fmt {
    char *buf;
    size_t len; /* bytes written, without the terminator */
    size_t cap; /* room, with the terminator */
    bool cut;
};

/* Empty text in the CAP bytes at BUF; CAP is at least 1. */
void tcm_fmt_init(struct tcm_fmt *f, char *buf, size_t cap);
void tcm_fmt_char(struct tcm_fmt *f, char c);
void tcm_fmt_str(struct tcm_fmt *f, const char *s);
void tcm_fmt_mem(struct tcm_fmt *f, const char *s, size_t n);
void tcm_fmt_u64(struct tcm_fmt *f, uint64_t v);
void tcm_fmt_hex(struct tcm_fmt *f, uint64_t v);

/* --- UTF-8 ---------------------------------------------------------------- */

/* Length in bytes of the UTF-8 character at P, where LEFT bytes (at least 1)
   can be read. 0: no character of RFC 3629 is there, which has no overlong
   forms, no surrogates, and nothing above U+10FFFF. */
static inline size_t tcm_utf8_length(const uint8_t *p, size_t left) {
    static const struct {
        uint8_t first_low, first_high, second_low, second_high, length;
    } forms[] = {
        {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2},
        {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
        {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    TCM_ASSERT(left != 0);
    for (size_t i = 0; i < TCM_ARRAY_SIZE(forms); i++) {
        if (p[0] < forms[i].first_low || p[0] > forms[i].first_high)
            continue;
        size_t length = forms[i].length;
        if (length > left)
            return 0;
        if (length > 1 &&
            (p[1] < forms[i].second_low || p[1] > forms[i].second_high))
            return 0;
        for (size_t k = 2; k < length; k++)
            if ((p[k] & 0xc0) != 0x80)
                return 0;
        return length;
    }
    return 0;
}

/* True if the character of N bytes at P is a control, C0, DEL or C1 (U+0080 to
   U+009F), or changes the direction of text: U+061C, U+200E, U+200F, U+202A to
   U+202E and U+2066 to U+2069. */
static inline bool tcm_utf8_is_command(const uint8_t *p, size_t n) {
    if (n == 2)
        return (p[0] == 0xc2 && p[1] < 0xa0) || (p[0] == 0xd8 && p[1] == 0x9c);
    if (n != 3 || p[0] != 0xe2)
        return n == 1 && (p[0] < 0x20 || p[0] == 0x7f);
    return (p[1] == 0x80 &&
            (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xaa && p[2] <= 0xae))) ||
           (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9);
}

/* Length in bytes of the character at TEXT, where LEFT bytes (at least 1) can
   be read, if it may go to a terminal unchanged. 0: its first byte may not. */
static inline size_t tcm_utf8_plain_length(const char *text, size_t left) {
    const uint8_t *p = (const uint8_t *)text;
    size_t n = tcm_utf8_length(p, left);
    return tcm_utf8_is_command(p, n) ? 0 : n;
}

#endif
