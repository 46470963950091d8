/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/postprocess/window/options.h"

#include "common/main.h"

#include <string.h>

void filter_options_init(struct filter_options *o) {
    memset(o, 0, sizeof(*o));
    o->to_ns = UINT64_MAX;
}

void filter_options_fini(struct filter_options *o) {
    filter_list_free(&o->only);
}

/* --- Times ---------------------------------------------------------------- */

static const struct unit {
    const char *name;
    uint64_t ns;
} units[] = {
    {"ns", 1},          {"us", 1000},          {"ms", 1000000},
    {"s", 1000000000u}, {"m", 60000000000ull}, {"h", 3600000000000ull},
};

/* The unit at *TEXT, which is passed over; seconds at its end. 0: none. */
static uint64_t parse_unit(const char **text) {
    size_t length = strspn(*text, "abcdefghijklmnopqrstuvwxyz");
    if (length == 0)
        return **text == '\0' ? 1000000000u : 0;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(units); i++)
        if (strlen(units[i].name) == length &&
            memcmp(units[i].name, *text, length) == 0) {
            *text += length;
            return units[i].ns;
        }
    return 0;
}

/* One number with its unit. Digits behind the point that make less than a
   nanosecond are dropped. */
static bool parse_part(const char **text, uint64_t *ns) {
    const char *p = *text;
    uint64_t whole = 0, fraction = 0, scale = 1;
    size_t digits = 0;
    for (; *p >= '0' && *p <= '9'; p++, digits++) {
        if (whole > UINT64_MAX / 20)
            return false;
        whole = whole * 10 + (uint64_t)(*p - '0');
    }
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++, digits++)
            if (scale < 1000000000u) {
                fraction = fraction * 10 + (uint64_t)(*p - '0');
                scale *= 10;
            }
    if (digits == 0)
        return false;
    uint64_t unit = parse_unit(&p), sum;
    *text = p;
    if (unit == 0 || __builtin_mul_overflow(whole, unit, &sum))
        return false;
    unsigned __int128 rest = (unsigned __int128)fraction * unit / scale;
    return !__builtin_add_overflow(sum, (uint64_t)rest, ns);
}

bool filter_parse_time(const char *text, uint64_t *ns) {
    *ns = 0;
    do {
        uint64_t part;
        if (!parse_part(&text, &part) || __builtin_add_overflow(*ns, part, ns))
            return false;
    } while (*text != '\0');
    return true;
}

/* --- Options -------------------------------------------------------------- */

static int take_time(const char *option, const char *value, uint64_t *ns) {
    if (filter_parse_time(value, ns))
        return 0;
    return tool_usage_error("%s: \"%s\" is no time such as 2.5, 1500ms or "
                            "1m30s",
                            option, value);
}

int filter_options_take(struct filter_options *o, int id, const char *value) {
    o->active = o->active || id != FILTER_OPTION_DROP_SITES;
    o->window = o->window || id <= FILTER_OPTION_TO_MARK;
    switch (id) {
    case FILTER_OPTION_FROM:
        return take_time("--from", value, &o->from_ns);
    case FILTER_OPTION_TO:
        return take_time("--to", value, &o->to_ns);
    case FILTER_OPTION_FROM_MARK:
        o->from_mark = value;
        return 0;
    case FILTER_OPTION_TO_MARK:
        o->to_mark = value;
        return 0;
    case FILTER_OPTION_ONLY_THREADS:
        if (filter_list_parse(&o->only, value))
            return 0;
        return tool_usage_error("--only-threads: \"%s\" is no list of ids or "
                                "names",
                                value);
    case FILTER_OPTION_STRIP:
        o->strip = true;
        return 0;
    case FILTER_OPTION_LIVE_AT_END:
        o->free_at_end = strcmp(value, "free") == 0;
        if (o->free_at_end || strcmp(value, "keep") == 0)
            return 0;
        return tool_usage_error("--live-at-end: \"%s\" is neither keep nor "
                                "free",
                                value);
    default: /* FILTER_OPTION_DROP_SITES: traces have none yet */
        return 0;
    }
}

int filter_options_check(const struct filter_options *o) {
    if (o->from_ns != 0 && o->from_mark != NULL)
        return tool_usage_error("--from and --from-mark exclude each other");
    if (o->to_ns != UINT64_MAX && o->to_mark != NULL)
        return tool_usage_error("--to and --to-mark exclude each other");
    if (o->to_ns <= o->from_ns)
        return tool_usage_error("--to is not behind --from");
    return 0;
}
