/* SPDX-License-Identifier: BSD-3-Clause */
#include "sites/site_settings.h"

#include "sites/lang/lang.h"
#include "sites/unwind/stack.h"

#include <string.h>

struct mts_settings mts_settings;

/* The number behind "NAME:" in TEXT, or NORMAL if TEXT is NAME alone. 0: TEXT
   has another form, or the number is above MAX. */
static uint64_t number_of(const char *text, const char *name, uint64_t normal,
                          uint64_t max) {
    size_t n = strlen(name);
    uint64_t value = 0;
    if (strncmp(text, name, n) != 0 || (text[n] != '\0' && text[n] != ':'))
        return 0;
    if (text[n] == '\0')
        return normal;
    for (const char *p = text + n + 1; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || value > max / 10)
            return 0;
        value = value * 10 + (uint64_t)(*p - '0');
    }
    return value <= max ? value : 0;
}

bool mts_settings_parse(const char *text, struct mts_settings *s) {
    s->mode = MTS_NO_SITES;
    s->depth = MTS_STACK_DEPTH_DEFAULT;
    s->mean = 0;
    if (text == NULL || text[0] == '\0' || strcmp(text, "none") == 0)
        return true;
    uint64_t depth =
        number_of(text, "stack", MTS_STACK_DEPTH_DEFAULT, MTS_STACK_DEPTH);
    uint64_t lines =
        number_of(text, "lang", MTS_LANG_DEPTH, MTS_LANG_DEPTH_MAX);
    uint64_t mean = number_of(text, "sample", MTS_MEAN_DEFAULT, MTS_MEAN_MAX);
    if (strcmp(text, "caller") == 0) {
        s->mode = MTS_CALLER;
    } else if (depth != 0) {
        s->mode = MTS_STACKS;
        s->depth = (uint16_t)depth;
    } else if (lines != 0) {
        s->mode = MTS_LINES;
        s->depth = (uint16_t)lines;
    } else if (mean != 0) {
        s->mode = MTS_SAMPLES;
        s->mean = mean;
    }
    return s->mode != MTS_NO_SITES;
}
