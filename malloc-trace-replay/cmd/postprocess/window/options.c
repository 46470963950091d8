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

/* --- Options -------------------------------------------------------------- */

static int take_time(const char *option, const char *value, uint64_t *ns) {
    if (tool_parse_time(value, ns))
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
