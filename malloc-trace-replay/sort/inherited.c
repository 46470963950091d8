/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each stream is decoded by itself, up to the fork: the thread that forked has
 * an event of it, and other threads ran beside it, so the times in their
 * streams are exact enough. A block may end in a stream that comes before the
 * one that made it; the map keeps its token until then.
 */
#include "sort/inherited.h"

#include "common/collections.h"
#include "common/stop.h"
#include "sort/emit.h"
#include "trace/raw.h"

#include <stdlib.h>
#include <string.h>

struct reader {
    struct inherited *in;
    struct tool_raw *raw;
    uint64_t fork;
    uint64_t random;
    bool is_sample;        /* present bytes are of a sample */
    bool found;            /* the event of the fork */
    bool failed;           /* no memory */
    struct tool_map place; /* token + 1 to index + 1; 0: it ended before it was
                              made */
    struct tool_ids ids;
    struct stream {
        struct mtf_stream stream;
        bool begun, over; /* OVER: what follows is after the fork */
    } * stream;
};

void inherited_free(struct inherited *in) {
    free(in->block);
    *in = (struct inherited){.block = NULL};
}

/* --- Blocks --------------------------------------------------------------- */

static void add(struct reader *r, const struct inherited_block *b) {
    struct inherited *in = r->in;
    struct tool_map_entry *e =
        b->token == UINT64_MAX ? NULL : tool_map_find(&r->place, b->token + 1);
    if (e != NULL) {
        if (e->value == 0)
            tool_map_remove(&r->place, e);
        return;
    }
    e = b->token == UINT64_MAX ? NULL : tool_map_get(&r->place, b->token + 1);
    if (e == NULL || !tool_array_reserve(&in->block, &in->room, in->count + 1,
                                         sizeof(*in->block))) {
        r->failed = true;
        return;
    }
    in->block[in->count++] = *b;
    e->value = in->count;
}

static void end(struct reader *r, uint64_t token) {
    struct inherited *in = r->in;
    struct tool_map_entry *e =
        token == UINT64_MAX ? NULL : tool_map_get(&r->place, token + 1);
    if (e == NULL) {
        r->failed = true;
    } else if (e->value != 0) {
        struct inherited_block *b = &in->block[e->value - 1];
        const struct inherited_block *last = &in->block[--in->count];
        if (b != last) {
            *b = *last;
            tool_map_place(&r->place, b->token + 1)->value = e->value;
        }
        tool_map_remove(&r->place, e);
    }
}

/* --- Events --------------------------------------------------------------- */

static void take_event(struct reader *r, struct stream *s,
                       const struct mtf_event *e) {
    struct inherited_block b = {
        .token = e->token, .size = e->size, .present = INHERITED_ALL};
    if (mtf_event_ends_block(e->kind))
        end(r, e->old_token);
    switch (e->kind) {
    case MTF_EVENT_ALIGNED:
        b.align_log2 = (uint8_t)e->align_log2;
        add(r, &b);
        break;
    case MTF_EVENT_ALLOC:
    case MTF_EVENT_REALLOC:
    case MTF_EVENT_REALLOC_NEW:
        add(r, &b);
        break;
    case MTF_EVENT_TIME:
    case MTF_EVENT_BUFFER:
        s->over |= e->time_ns > r->fork;
        break;
    case MTF_EVENT_EXTENSION:
        if (e->call == MTF_EXTENSION_FREE_INHERITED)
            end(r, e->value);
        if (e->call == MTF_EXTENSION_FORK && e->value == r->fork)
            r->found = s->over = true;
        break;
    default:
        break;
    }
}

static void take_bytes(struct reader *r, struct stream *s, const uint8_t *p,
                       const uint8_t *stop) {
    while (p < stop && !s->over && !r->failed) {
        struct mtf_event e;
        int n = mtf_raw_decode_slow(&s->stream.state, p, stop, &e);
        if (n <= 0) {
            mtf_stream_lose(&s->stream);
            return;
        }
        p += n;
        take_event(r, s, &e);
    }
}

static void take_data(struct reader *r, const struct mtf_item *item) {
    struct mtf_placement place;
    struct stream *s =
        tool_ids_get(&r->ids, &r->stream, sizeof(*r->stream), item->thread);
    if (s == NULL) {
        r->failed = true;
        return;
    }
    if (!s->begun) {
        s->begun = true;
        if (tool_raw_begins_late(r->raw))
            mtf_stream_init_late(&s->stream);
        else
            mtf_stream_init(&s->stream);
    }
    if (s->over)
        return;
    mtf_stream_place(&s->stream, item, &place);
    take_bytes(r, s, place.data, place.data + place.length);
}

/* False: ITEM is the last, or reading is to stop. */
static bool take_item(struct reader *r, const struct mtf_item *item) {
    switch (item->kind) {
    case MTF_ITEM_HEADER:
        r->random = item->info->fixed.random;
        r->is_sample = (item->info->fixed.settings & MTF_SETTING_LOOKS) != 0;
        break;
    case MTF_ITEM_DATA:
        take_data(r, item);
        break;
    case MTF_ITEM_BARRIER:
        /* All that was published up to its time stands before it. */
        return !(r->found && item->time_lo > r->fork);
    case MTF_ITEM_END:
    case MTF_ITEM_FAILED:
        return false;
    default:
        break;
    }
    return !r->failed && !tool_stop_requested();
}

/* --- The list ------------------------------------------------------------- */

static int compare_tokens(const void *a, const void *b) {
    const struct inherited_block *x = a, *y = b;
    return (x->token > y->token) - (x->token < y->token);
}

static bool find_present(const struct reader *r, const char *name) {
    struct present p = {
        .name = name, .random = r->random, .is_sample = r->is_sample};
    for (size_t i = 0; i < r->in->count; i++) {
        struct inherited_block *b = &r->in->block[i];
        uint64_t bytes;
        if (b->present == INHERITED_ALL &&
            present_of(&p, b->token, 0, 0, b->size, &bytes))
            b->present = bytes;
    }
    bool good = !p.failed;
    present_fini(&p);
    return good;
}

bool inherited_read(struct inherited *in, const char *name, uint64_t fork) {
    struct inherited before = *in;
    struct reader r = {.in = in, .raw = tool_raw_open(name), .fork = fork};
    struct mtf_item item;
    *in = (struct inherited){.block = NULL};
    r.failed = r.raw == NULL;
    for (size_t i = 0; i < before.count && !r.failed; i++)
        add(&r, &before.block[i]);
    inherited_free(&before);
    if (!r.failed) {
        tool_raw_read_ahead(r.raw);
        do
            tool_raw_next(r.raw, &item);
        while (take_item(&r, &item));
    }
    tool_raw_close(r.raw);
    tool_map_fini(&r.place);
    tool_ids_fini(&r.ids);
    free(r.stream);
    bool good = r.found && !r.failed && !tool_stop_requested();
    if (good && in->count != 0) {
        qsort(in->block, in->count, sizeof(*in->block), compare_tokens);
        good = find_present(&r, name);
    }
    if (!good)
        inherited_free(in);
    return good;
}
