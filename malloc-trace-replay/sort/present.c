/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each stream is decoded by itself, since tokens need no order between streams.
 * The sorter reports damage, when it reads the trace for its events.
 *
 * A realloc in place gives its block a new token. If it notes no present bytes,
 * both tokens share those of the new one. Either may end first in the file, so
 * these pairs are kept until the whole trace is read.
 */
#include "sort/emit.h"

#include "base/bits.h"
#include "base/compiler.h"
#include "common/stop.h"
#include "trace/raw.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT64_MAX

struct present_stream {
    struct mtf_stream stream;
    bool begun;
    uint64_t noted; /* present bytes of the next block to end, or NONE */
};

struct present_reader {
    struct present *p;
    struct tool_raw *raw;
    struct tool_ids ids; /* threads */
    struct present_stream *stream;
    struct tool_map grown; /* token + 1 to the token before the realloc */
};

/* Bound above which the tokens of a block that grew in place are kept. Shorter
   blocks grow so often that they would take too much memory. */
#define GROWN_ABOVE ((uint64_t)256 << 10)

void present_fini(struct present *p) {
    tool_map_fini(&p->bytes);
    tool_map_fini(&p->place);
    free(p->kind);
}

/* --- Events --------------------------------------------------------------- */

/* Gives TOKEN the VALUE in MAP. */
static void put(struct present_reader *r, struct tool_map *map, uint64_t token,
                uint64_t value) {
    struct tool_map_entry *e =
        token == UINT64_MAX ? NULL : tool_map_get(map, token + 1);
    if (e != NULL)
        e->value = value;
    else if (token != UINT64_MAX)
        r->p->failed = true;
}

static void end_block(struct present_reader *r, struct present_stream *s,
                      uint64_t token) {
    put(r, &r->p->bytes, token, s->noted);
    s->noted = NONE;
}

/* Takes an event that is neither ALLOC, nor FREE without present bytes. */
static void take_event(struct present_reader *r, struct present_stream *s,
                       const struct mtf_event *e) {
    if (e->kind == MTF_EVENT_PRESENT)
        s->noted = e->value;
    else if (e->kind == MTF_EVENT_BUFFER)
        s->noted = NONE;
    else if (!mtf_event_ends_block(e->kind))
        return;
    else if (s->noted != NONE)
        end_block(r, s, e->old_token);
    else if (e->kind == MTF_EVENT_REALLOC && e->size > GROWN_ABOVE &&
             (e->flags & MTF_EVENT_MOVED) == 0)
        put(r, &r->grown, e->token, e->old_token);
}

static void take_bytes(struct present_reader *r, struct present_stream *s,
                       const uint8_t *p, const uint8_t *end) {
    struct mtf_raw_state *state = &s->stream.state;
    while (p < end && !r->p->failed) {
        struct mtf_event e;
        unsigned n = mtf_raw_decode_hot(state, p, end, &e);
        if (TCM_LIKELY(n != 0)) {
            p += n;
            if (TCM_UNLIKELY(s->noted != NONE) && e.kind == MTF_EVENT_FREE)
                end_block(r, s, e.old_token);
            continue;
        }
        int taken = mtf_raw_decode_slow(state, p, end, &e);
        if (taken <= 0) {
            mtf_stream_lose(&s->stream);
            break;
        }
        p += taken;
        take_event(r, s, &e);
    }
}

/* --- Reading -------------------------------------------------------------- */

static void take_data(struct present_reader *r, const struct mtf_item *item) {
    struct mtf_placement place;
    struct present_stream *s =
        tool_ids_get(&r->ids, &r->stream, sizeof(*r->stream), item->thread);
    if (s == NULL) {
        r->p->failed = true;
        return;
    }
    if (!s->begun) {
        s->begun = true;
        s->noted = NONE;
        if (tool_raw_begins_late(r->raw))
            mtf_stream_init_late(&s->stream);
        else
            mtf_stream_init(&s->stream);
    }
    mtf_stream_place(&s->stream, item, &place);
    if (place.gap != 0)
        s->noted = NONE;
    take_bytes(r, s, place.data, place.data + place.length);
}

/* False: ITEM is the last, or reading is to stop. */
static bool take_item(struct present_reader *r, const struct mtf_item *item) {
    struct mtf_present block;
    switch (item->kind) {
    case MTF_ITEM_HEADER:
        /* false: another recording has replaced the file */
        return item->info->fixed.random == r->p->random;
    case MTF_ITEM_DATA:
        take_data(r, item);
        break;
    case MTF_ITEM_PRESENT:
        for (unsigned i = 0; mtf_item_present(item, i, &block); i++)
            put(r, &r->p->bytes, block.token, block.bytes);
        break;
    case MTF_ITEM_END:
    case MTF_ITEM_FAILED:
        return false;
    default:
        break;
    }
    return !r->p->failed && !tool_stop_requested();
}

/* Gives the present BYTES of TOKEN to the tokens that its block had before it
   grew. */
static void pass_back(struct present_reader *r, uint64_t token,
                      uint64_t bytes) {
    const struct tool_map_entry *e;
    while ((e = tool_map_find(&r->grown, token + 1)) != NULL && !r->p->failed &&
           tool_map_find(&r->p->bytes, e->value + 1) == NULL) {
        token = e->value;
        put(r, &r->p->bytes, token, bytes);
    }
}

/* pass_back moves entries of the map, so they are copied first. */
static void pass_all_back(struct present_reader *r) {
    const struct tool_map *m = &r->p->bytes;
    size_t n = 0, count = m->count;
    if (r->grown.count == 0 || count == 0)
        return;
    struct tool_map_entry *known = malloc(count * sizeof(*known));
    if (known == NULL) {
        r->p->failed = true;
        return;
    }
    for (size_t i = 0; i <= m->mask; i++)
        if (m->entry[i].key != 0)
            known[n++] = m->entry[i];
    for (size_t i = 0; i < n; i++)
        pass_back(r, known[i].key - 1, known[i].value);
    free(known);
}

static void read_trace(struct present *p) {
    struct present_reader r = {.p = p, .raw = tool_raw_open(p->name)};
    struct mtf_item item;
    if (r.raw == NULL) {
        p->failed = true;
        return;
    }
    tool_raw_read_ahead(r.raw);
    do
        tool_raw_next(r.raw, &item);
    while (take_item(&r, &item));
    pass_all_back(&r);
    tool_map_fini(&r.grown);
    tool_ids_fini(&r.ids);
    free(r.stream);
    tool_raw_close(r.raw);
}

static bool find(struct present *p, uint64_t token, uint64_t *bytes) {
    if (!p->is_read) {
        p->is_read = true;
        read_trace(p);
    }
    const struct tool_map_entry *e =
        token == UINT64_MAX ? NULL : tool_map_find(&p->bytes, token + 1);
    if (e != NULL)
        *bytes = e->value;
    return e != NULL;
}

/* --- Blocks that are not in the sample ------------------------------------ */

/* Kind of the blocks that CALL made at SITE; both 0: of all blocks. NULL: there
   is none, and it is not to be made (ADD), or no memory. */
static struct present_kind *kind_of(struct present *p, uint32_t site,
                                    unsigned call, uint64_t size, bool add) {
    uint64_t key =
        ((uint64_t)site << 16 | call << 8) + 1 + mtf_present_group(size);
    struct tool_map_entry *e =
        add ? tool_map_get(&p->place, key) : tool_map_find(&p->place, key);
    if (e == NULL || (e->value == 0 && p->kinds == p->kinds_cap)) {
        struct present_kind *more = NULL;
        size_t cap = p->kinds_cap == 0 ? 64 : 2 * p->kinds_cap;
        if (e != NULL)
            more = realloc(p->kind, cap * sizeof(*more));
        if (more == NULL) {
            p->failed |= add;
            return NULL;
        }
        p->kind = more;
        p->kinds_cap = cap;
    }
    if (e->value == 0) {
        memset(&p->kind[p->kinds], 0, sizeof(*p->kind));
        e->value = ++p->kinds;
    }
    return &p->kind[e->value - 1];
}

static void add_sample(struct present *p, uint32_t site, unsigned call,
                       uint64_t size, uint64_t bytes) {
    struct present_kind *k = kind_of(p, site, call, size, true);
    if (k != NULL)
        k->bytes[k->samples++ % PRESENT_SAMPLES] =
            bytes < size ? bytes : UINT64_MAX;
}

bool present_of(struct present *p, uint64_t token, uint32_t site, unsigned call,
                uint64_t size, uint64_t *bytes) {
    if (size <= MTF_PRESENT_ABOVE || p->name == NULL)
        return false;
    bool found = find(p, token, bytes);
    if (!p->is_sample)
        return found && *bytes < size;
    if (found) {
        add_sample(p, site, call, size, *bytes);
        add_sample(p, 0, 0, size, *bytes);
        return *bytes < size;
    }
    struct present_kind *k = kind_of(p, site, call, size, false);
    if (k == NULL)
        k = kind_of(p, 0, 0, size, false);
    if (k == NULL)
        return false;
    *bytes = k->bytes[tool_hash(token, 0) %
                      tcm_min_u64(k->samples, PRESENT_SAMPLES)];
    return *bytes < size;
}
