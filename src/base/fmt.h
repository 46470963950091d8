/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounded text without malloc, stdio or locale. The text is always terminated;
 * what does not fit is dropped, and `cut` is set.
 */
#ifndef TCM_BASE_FMT_H
#define TCM_BASE_FMT_H

#include "base/compiler.h"

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

#endif
