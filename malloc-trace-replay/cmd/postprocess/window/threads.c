/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/postprocess/window/threads.h"

#include "cmd/postprocess/sort/demux.h"

#include "common/hash.h"
#include "common/main.h"
#include "trace/raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- The list ------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool add_id(struct filter_list *l, uint32_t id) {
    if (l->ids != 0 && l->id[l->ids - 1] == id)
        return true;
    if (l->ids == l->id_room) {
        size_t room = l->id_room == 0 ? 16 : 2 * l->id_room;
        uint32_t *ids = realloc(l->id, room * sizeof(*ids));
        if (ids == NULL)
            return false;
        l->id = ids;
        l->id_room = room;
    }
    l->id[l->ids++] = id;
    return true;
}

static void sort_ids(struct filter_list *l) {
    if (l->ids != 0)
        qsort(l->id, l->ids, sizeof(*l->id), compare_ids);
}

static bool add_name(struct filter_list *l, const char *name, size_t length) {
    char **names = realloc(l->name, (l->names + 1) * sizeof(*names));
    if (names == NULL)
        return false;
    l->name = names;
    bool *found = realloc(l->name_found, (l->names + 1) * sizeof(*found));
    if (found == NULL)
        return false;
    l->name_found = found;
    l->name[l->names] = strndup(name, length);
    l->name_found[l->names] = false;
    return l->name[l->names++] != NULL;
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
        free(l->name[i]);
    free(l->name);
    free(l->name_found);
    free(l->id);
}

bool filter_list_has(const struct filter_list *l, uint32_t id) {
    return !l->given || (l->ids != 0 && bsearch(&id, l->id, l->ids, sizeof(id),
                                                compare_ids) != NULL);
}

/* --- Names ---------------------------------------------------------------- */

/* Thread ID has the name of LENGTH bytes at NAME. */
static bool take_name(struct filter_list *l, uint32_t id, const char *name,
                      size_t length) {
    for (size_t i = 0; i < l->names; i++)
        if (strlen(l->name[i]) == length &&
            memcmp(l->name[i], name, length) == 0) {
            l->name_found[i] = true;
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

/* Reading twice needs a file, its spool or its parts. */
static bool can_be_read_twice(const char *name) {
    struct stat st;
    return name != NULL && strcmp(name, "-") != 0 &&
           (stat(name, &st) != 0 || S_ISREG(st.st_mode));
}

bool filter_list_resolve(struct filter_list *l, const char *raw_name) {
    if (l->names == 0)
        return true;
    if (!can_be_read_twice(raw_name)) {
        tool_error("--only-threads: names of threads need a trace in a file, "
                   "because it is read twice");
        return false;
    }
    struct slots slots;
    struct demux d;
    struct tool_raw *raw = tool_raw_open(raw_name);
    bool have_slots = slots_init(&slots), good = false;
    if (raw != NULL && demux_init(&d, &slots)) {
        d.begins_late = tool_raw_begins_late(raw);
        tool_raw_read_ahead(raw);
        good = have_slots && read_names(l, raw, &d);
        demux_fini(&d);
    } else {
        tool_error("out of memory");
    }
    tool_raw_close(raw);
    slots_fini(&slots);
    sort_ids(l);
    for (size_t i = 0; good && i < l->names; i++)
        if (!l->name_found[i]) {
            tool_error("%s: no thread ended with the name \"%s\"", raw_name,
                       l->name[i]);
            good = false;
        }
    return good;
}

/* --- The threads ---------------------------------------------------------- */

static struct filter_thread *place_of(const struct filter_threads *t,
                                      uint32_t id) {
    size_t i = tool_hash(id, t->seed) & t->mask;
    while (t->place[i].id != 0 && t->place[i].id != id)
        i = (i + 1) & t->mask;
    return &t->place[i];
}

static bool grow(struct filter_threads *t) {
    struct filter_threads next = {.mask = t->mask == 0 ? 63 : t->mask * 2 + 1,
                                  .count = t->count,
                                  .seed = t->seed};
    next.place = calloc(next.mask + 1, sizeof(*next.place));
    if (next.place == NULL)
        return false;
    if (t->mask == 0)
        next.seed = tool_hash_seed();
    for (size_t i = 0; t->mask != 0 && i <= t->mask; i++)
        if (t->place[i].id != 0)
            *place_of(&next, t->place[i].id) = t->place[i];
    free(t->place);
    *t = next;
    return true;
}

struct filter_thread *filter_threads_get(struct filter_threads *t,
                                         uint32_t id) {
    if (t->count * 2 >= t->mask && !grow(t))
        return NULL;
    struct filter_thread *e = place_of(t, id);
    t->count += e->id == 0;
    e->id = id;
    return e;
}

void filter_threads_free(struct filter_threads *t) {
    for (size_t i = 0; t->mask != 0 && i <= t->mask; i++)
        free(t->place[i].name);
    free(t->place);
}
