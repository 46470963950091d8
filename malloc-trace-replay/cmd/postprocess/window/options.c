/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/postprocess/window/options.h"

#include "cmd/postprocess/sort/demux.h"
#include "common/array.h"
#include "common/main.h"
#include "trace/raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- Lists of threads ----------------------------------------------------- */

static int compare_ids(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool add_id(struct filter_list *l, uint32_t id) {
    if (l->ids != 0 && l->id[l->ids - 1] == id)
        return true;
    if (!tool_array_reserve(&l->id, &l->id_room, l->ids + 1, sizeof(*l->id)))
        return false;
    l->id[l->ids++] = id;
    return true;
}

static void sort_ids(struct filter_list *l) {
    if (l->ids != 0)
        qsort(l->id, l->ids, sizeof(*l->id), compare_ids);
}

static bool add_name(struct filter_list *l, const char *name, size_t length) {
    if (!tool_array_reserve(&l->name, &l->name_room, l->names + 1,
                            sizeof(*l->name)))
        return false;
    struct filter_name *n = &l->name[l->names++];
    *n = (struct filter_name){.text = strndup(name, length)};
    return n->text != NULL;
}

bool filter_list_parse(struct filter_list *l, const char *text) {
    l->given = true;
    for (;;) {
        size_t length = strcspn(text, ",");
        char number[16];
        uint64_t id;
        if (length == 0)
            return false;
        snprintf(number, sizeof(number), "%.*s", (int)length, text);
        bool is_id = length < sizeof(number) &&
                     tool_parse_u64(number, UINT32_MAX, &id) && id != 0;
        if (!(is_id ? add_id(l, (uint32_t)id) : add_name(l, text, length)))
            return false;
        text += length;
        if (*text == '\0')
            break;
        text++;
    }
    sort_ids(l);
    return true;
}

void filter_list_free(struct filter_list *l) {
    for (size_t i = 0; i < l->names; i++)
        free(l->name[i].text);
    free(l->name);
    free(l->id);
}

bool filter_list_has(const struct filter_list *l, uint32_t id) {
    return !l->given || (l->ids != 0 && bsearch(&id, l->id, l->ids, sizeof(id),
                                                compare_ids) != NULL);
}

/* --- Options -------------------------------------------------------------- */

void filter_options_init(struct filter_options *o) {
    memset(o, 0, sizeof(*o));
    o->to_ns = UINT64_MAX;
}

void filter_options_fini(struct filter_options *o) {
    filter_list_free(&o->only);
}

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
    default: /* FILTER_OPTION_DROP_SITES */
        o->drop_sites = true;
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

/* --- Names of threads ----------------------------------------------------- */

/* Thread ID has the name of LENGTH bytes at NAME. */
static bool take_name(struct filter_list *l, uint32_t id, const char *name,
                      size_t length) {
    for (size_t i = 0; i < l->names; i++)
        if (strlen(l->name[i].text) == length &&
            memcmp(l->name[i].text, name, length) == 0) {
            l->name[i].found = true;
            if (!add_id(l, id))
                return false;
        }
    return true;
}

/* All events that T has so far. */
static bool take_events(struct filter_list *l, struct demux *d,
                        struct demux_thread *t) {
    uint32_t id = t->id;
    bool more = demux_next_interval(d, t);
    while (more) {
        for (; t->at < t->count; t->at++) {
            const struct demux_event *e = &t->events[t->at];
            unsigned kind = demux_event_kind(e);
            if (kind == DEMUX_EVENT_AS_THREAD) { /* no event of its own */
                id = (uint32_t)e->token;
                continue;
            }
            t->i++;
            if (kind == MTF_EVENT_THREAD_END &&
                !take_name(l, id, (const char *)(uintptr_t)e->token,
                           demux_event_size(e)))
                return false;
        }
        more = t->i < t->n && demux_refill(d, t);
        if (!more)
            more = demux_next_interval(d, t);
    }
    return !d->failed;
}

static bool read_names(struct filter_list *l, struct tool_raw *raw,
                       struct demux *d) {
    for (;;) {
        struct mtf_item item;
        struct demux_thread *t;
        tool_raw_next(raw, &item);
        switch (item.kind) {
        case MTF_ITEM_FAILED:
            tool_error("%s", tool_raw_item_text(raw, &item));
            return false;
        case MTF_ITEM_END:
            return true;
        case MTF_ITEM_DATA:
            t = demux_add(d, &item);
            if (t == NULL ? d->failed : !take_events(l, d, t)) {
                tool_error("out of memory");
                return false;
            }
            break;
        default:
            break;
        }
    }
}

bool filter_list_resolve(struct filter_list *l, const char *raw_name) {
    if (l->names == 0)
        return true;
    if (!tool_raw_is_file(raw_name)) {
        tool_error("--only-threads: names of threads need a trace in a file, "
                   "because it is read twice");
        return false;
    }
    struct slots slots;
    struct demux d;
    struct tool_raw *raw = tool_raw_open(raw_name);
    bool have_slots = slots_init(&slots), good = false;
    if (raw != NULL && have_slots) {
        demux_init(&d, &slots);
        d.begins_late = tool_raw_begins_late(raw);
        tool_raw_read_ahead(raw);
        good = read_names(l, raw, &d);
        demux_fini(&d);
    } else {
        tool_error("out of memory");
    }
    tool_raw_close(raw);
    slots_fini(&slots);
    sort_ids(l);
    for (size_t i = 0; good && i < l->names; i++)
        if (!l->name[i].found) {
            tool_error("%s: no thread ended with the name \"%s\"", raw_name,
                       l->name[i].text);
            good = false;
        }
    return good;
}
