/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fmt.h"
#include "base/check.h"

#include <string.h>

void tcm_fmt_init(struct tcm_fmt *f, char *buf, size_t cap) {
    TCM_ASSERT(cap != 0);
    f->buf = buf;
    f->len = 0;
    f->cap = cap;
    f->cut = false;
    buf[0] = '\0';
}

void tcm_fmt_mem(struct tcm_fmt *f, const char *s, size_t n) {
    TCM_ASSERT(f->len < f->cap && f->buf[f->len] == '\0');
    size_t room = f->cap - 1 - f->len;
    if (n > room) {
        n = room;
        f->cut = true;
    }
    memcpy(f->buf + f->len, s, n);
    f->len += n;
    f->buf[f->len] = '\0';
}

void tcm_fmt_char(struct tcm_fmt *f, char c) {
    tcm_fmt_mem(f, &c, 1);
}

void tcm_fmt_str(struct tcm_fmt *f, const char *s) {
    tcm_fmt_mem(f, s, strlen(s));
}

static void fmt_base(struct tcm_fmt *f, uint64_t v, unsigned base) {
    char digits[20];
    size_t i = sizeof(digits);
    do {
        digits[--i] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v != 0);
    tcm_fmt_mem(f, digits + i, sizeof(digits) - i);
}

void tcm_fmt_u64(struct tcm_fmt *f, uint64_t v) {
    fmt_base(f, v, 10);
}

void tcm_fmt_hex(struct tcm_fmt *f, uint64_t v) {
    fmt_base(f, v, 16);
}
