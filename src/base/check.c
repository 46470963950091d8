/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/check.h"
#include "base/fmt.h"
#include "base/raw_io.h"

#include <stdlib.h>

static TCM_NORETURN void say_and_abort(struct tcm_fmt *f) {
    tcm_fmt_char(f, '\n');
    /* A message that was cut is a line all the same. */
    if (f->cut)
        f->buf[f->len - 1] = '\n';
    tcm_io_write_all(2, f->buf, f->len);
    abort();
}

void tcm_die(const char *message) {
    char text[256];
    struct tcm_fmt f;
    tcm_fmt_init(&f, text, sizeof(text));
    tcm_fmt_str(&f, "tcmalloc: ");
    tcm_fmt_str(&f, message);
    say_and_abort(&f);
}

void tcm_die_pointer(const char *message, const void *pointer) {
    char text[256];
    struct tcm_fmt f;
    tcm_fmt_init(&f, text, sizeof(text));
    tcm_fmt_str(&f, "tcmalloc: ");
    tcm_fmt_str(&f, message);
    tcm_fmt_str(&f, " 0x");
    tcm_fmt_hex(&f, (uintptr_t)pointer);
    say_and_abort(&f);
}

void tcm_check_failed(const char *condition, const char *file, int line) {
    char text[512];
    struct tcm_fmt f;
    tcm_fmt_init(&f, text, sizeof(text));
    tcm_fmt_str(&f, "tcmalloc: check failed: ");
    tcm_fmt_str(&f, condition);
    tcm_fmt_str(&f, " at ");
    tcm_fmt_str(&f, file);
    tcm_fmt_str(&f, ":");
    tcm_fmt_u64(&f, (uint64_t)line);
    say_and_abort(&f);
}
