/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/text.h"

#include <inttypes.h>
#include <stdio.h>

const char *tool_text_count(struct tool_text *t, uint64_t n) {
    char *p = t->s + sizeof(t->s);
    unsigned digits = 0;
    *--p = '\0';
    do {
        if (digits != 0 && digits % 3 == 0)
            *--p = ',';
        *--p = (char)('0' + n % 10);
        n /= 10;
        digits++;
    } while (n != 0);
    return p;
}

/* Three digits of N / UNIT where that is below 1000, cut, not rounded: a
   rounded 999.96 would read 1000.0 of the smaller unit. */
static void three_digits(struct tool_text *t, uint64_t n, uint64_t unit,
                         const char *name) {
    uint64_t whole = n / unit;
    uint64_t hundredths =
        (uint64_t)((unsigned __int128)(n % unit) * 100 / unit);
    if (whole < 10)
        snprintf(t->s, sizeof(t->s), "%" PRIu64 ".%02" PRIu64 " %s", whole,
                 hundredths, name);
    else if (whole < 100)
        snprintf(t->s, sizeof(t->s), "%" PRIu64 ".%" PRIu64 " %s", whole,
                 hundredths / 10, name);
    else
        snprintf(t->s, sizeof(t->s), "%" PRIu64 " %s", whole, name);
}

const char *tool_text_bytes(struct tool_text *t, uint64_t n) {
    static const char *const names[] = {"KiB", "MiB", "GiB",
                                        "TiB", "PiB", "EiB"};
    if (n < 1024) {
        snprintf(t->s, sizeof(t->s), "%" PRIu64 " B", n);
        return t->s;
    }
    unsigned i = 0;
    uint64_t unit = 1024;
    while (i + 1 < TCM_ARRAY_SIZE(names) && n / unit >= 1024) {
        unit *= 1024;
        i++;
    }
    three_digits(t, n, unit, names[i]);
    return t->s;
}

const char *tool_text_ns(struct tool_text *t, uint64_t ns) {
    const uint64_t second = 1000000000u;
    uint64_t seconds = ns / second;
    if (ns < 1000)
        snprintf(t->s, sizeof(t->s), "%" PRIu64 " ns", ns);
    else if (ns < 1000000)
        three_digits(t, ns, 1000, "us");
    else if (ns < second)
        three_digits(t, ns, 1000000, "ms");
    else if (seconds < 60)
        three_digits(t, ns, second, "s");
    else if (seconds < 3600)
        snprintf(t->s, sizeof(t->s), "%" PRIu64 " min %02" PRIu64 " s",
                 seconds / 60, seconds % 60);
    else
        snprintf(t->s, sizeof(t->s), "%" PRIu64 " h %02" PRIu64 " min",
                 seconds / 3600, seconds / 60 % 60);
    return t->s;
}
