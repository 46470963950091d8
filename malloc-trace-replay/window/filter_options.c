/* SPDX-License-Identifier: BSD-3-Clause */
#include "window/filter_options.h"

#include "common/collections.h"
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

static bool take_threads(void *ctx, const char *value) {
    return filter_list_parse(ctx, value);
}

void filter_options_rows(struct filter_options *o, struct tool_opt *rows) {
    static const char *const at_end[] = {
        [FILTER_KEEP_AT_END] = "keep", [FILTER_FREE_AT_END] = "free", NULL};
    const struct tool_opt own[FILTER_ROWS] = {
        {.help = "Part to write; blocks that are alive where a window begins "
                 "are made first:"},
        {.name = "from",
         .value = "TIME",
         .help = "begin at TIME: seconds since the start of the recording, or "
                 "with h, m, s, ms, us or ns (1m30s)",
         .ns = &o->from_ns,
         .given = &o->has_from},
        {.name = "to",
         .value = "TIME",
         .help = "end at TIME",
         .ns = &o->to_ns,
         .given = &o->has_to},
        {.name = "from-mark",
         .value = "TEXT",
         .help = "begin at the first mark TEXT",
         .text = &o->from_mark},
        {.name = "to-mark",
         .value = "TEXT",
         .help = "end at the first mark TEXT after the beginning",
         .text = &o->to_mark},
        {.name = "only-threads",
         .value = "LIST",
         .help = "only blocks that these threads make (ids or names, separated "
                 "by commas), with all operations on them",
         .take = take_threads,
         .ctx = &o->only,
         .expects = "a list of thread ids or names"},
        {.name = "live-at-end",
         .value = "WHAT",
         .help = "keep: leave blocks alive at the end (the default); free: "
                 "free them",
         .word = &o->at_end,
         .words = at_end,
         .given = &o->has_at_end},
        {.name = "strip",
         .help = "leave out marks, names, process ids and call sites, to "
                 "publish the trace",
         .flag = &o->strip},
        {.name = "drop-sites",
         .help = "leave out call sites",
         .flag = &o->drop_sites}};
    memcpy(rows, own, sizeof(own));
}

int filter_options_check(struct filter_options *o) {
    o->window =
        o->has_from || o->has_to || o->from_mark != NULL || o->to_mark != NULL;
    o->active = o->window || o->only.given || o->strip || o->has_at_end;
    if (o->has_from && o->from_mark != NULL)
        return tool_usage_error("--from and --from-mark exclude each other");
    if (o->has_to && o->to_mark != NULL)
        return tool_usage_error("--to and --to-mark exclude each other");
    if (o->to_ns <= o->from_ns)
        return tool_usage_error("--to is not after --from");
    return 0;
}

/* --- Names of threads ----------------------------------------------------- */

/* Adds thread ID to L, if its name, LENGTH bytes at NAME, is in L. False: no
   memory. */
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

/* Takes the names in one segment of a stream. Events of the late stream are of
   the thread that it named last. False: no memory. */
static bool take_data(struct filter_list *l, struct raw_threads *threads,
                      const struct mtf_item *item) {
    struct mtf_placement place;
    struct mtf_event e;
    struct raw_thread *t = raw_threads_find(threads, item->thread);
    if (t == NULL)
        return false;
    mtf_stream_place(&t->stream, item, &place);
    struct mtf_raw_state *state = &t->stream.state;
    bool late = item->thread == MTF_THREAD_LATE;
    uint32_t id = late ? state->as_thread : item->thread;
    const uint8_t *p = place.data, *end = p + place.length;
    while (p < end) {
        int n = mtf_raw_decode(state, p, end, &e);
        if (n <= 0) {
            mtf_stream_lose(&t->stream);
            return true;
        }
        p += n;
        if (late && e.kind == MTF_EVENT_AS_THREAD)
            id = e.thread;
        else if (e.kind == MTF_EVENT_THREAD_END &&
                 !take_name(l, id, (const char *)e.text, e.text_length))
            return false;
    }
    return true;
}

static bool read_names(struct filter_list *l, struct tool_raw *raw,
                       struct raw_threads *threads) {
    for (;;) {
        struct mtf_item item;
        tool_raw_next(raw, &item);
        if (item.kind == MTF_ITEM_END)
            return true;
        if (item.kind == MTF_ITEM_FAILED) {
            tool_error("%s", tool_raw_item_text(raw, &item));
            return false;
        }
        if (item.kind == MTF_ITEM_DATA && !take_data(l, threads, &item))
            return tool_out_of_memory();
    }
}

bool filter_list_resolve(struct filter_list *l, const char *raw_name) {
    if (l->names == 0)
        return true;
    if (!tool_raw_is_file(raw_name)) {
        tool_error("--only-threads: with names, the trace has to be a file, "
                   "because it is read twice");
        return false;
    }
    struct raw_threads threads = {0};
    struct tool_raw *raw = tool_raw_open(raw_name);
    bool good = false;
    if (raw != NULL) {
        threads.begins_late = tool_raw_begins_late(raw);
        tool_raw_read_ahead(raw);
        good = read_names(l, raw, &threads);
    } else {
        tool_out_of_memory();
    }
    tool_raw_close(raw);
    raw_threads_free(&threads);
    sort_ids(l);
    for (size_t i = 0; good && i < l->names; i++)
        if (!l->name[i].found) {
            tool_error("%s: no thread ended with the name \"%s\"", raw_name,
                       l->name[i].text);
            good = false;
        }
    return good;
}
