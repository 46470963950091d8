/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw traces are read as they are: a token names one block, whatever the order
 * of threads. The first reading pairs each block with the call that ended it,
 * and collects what the recorder found wrong. Blocks that this is about had
 * ended before; a second reading, if there are any, finds who made and freed
 * them.
 *
 * Invariants: memory grows with blocks that are alive, as far as the file's
 * order of threads is that of the calls, and with errors.
 */
#include "cmd/malloc_trace/report/report_errors.h"

#include "cmd/malloc_trace/report/report_labels.h"
#include "cmd/malloc_trace/report/report_stacks.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/text.h"
#include "trace/raw.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Frames of a stack in the text; behind these only the user's are shown. */
#define FRAMES_SHOWN 8u

enum error_kind {
    TWICE,
    INSIDE,
    NO_BLOCK,
    OTHER_KIND,
    OTHER_SIZE,
    ERROR_KINDS
};

static const char *const kind_names[ERROR_KINDS] = {
    [TWICE] = "double free",
    [INSIDE] = "free inside a block",
    [NO_BLOCK] = "free of no block",
    [OTHER_KIND] = "freed by a call of another kind",
    [OTHER_SIZE] = "freed with another size",
};
static const char *const kind_keys[ERROR_KINDS] = {
    "double_free", "inside", "no_block", "other_kind", "other_size"};

/* A call that made or freed a block; CALL 0: not seen. */
struct deed {
    uint32_t site;
    uint8_t call;
};

struct block {
    struct deed made, ended;
    uint64_t size, given; /* GIVEN: size of a sized free, plus 1; 0: none */
};

struct error {
    enum error_kind kind;
    uint64_t token; /* in the current trace; 0: none */
    struct deed made, freed, wrong;
    uint64_t size,
        value; /* VALUE: that of the trace's event, or the given size */
    uint64_t count, bytes;
    size_t order;
};

struct errors {
    struct tool_sites sites;
    struct block *block;
    size_t room, used;
    uint32_t *spare; /* free indices of BLOCK */
    size_t spare_room, spares;
    struct tool_map place; /* index in BLOCK plus 1, by token */
    struct error *error;
    size_t error_room, count, first; /* FIRST: of the current trace */
    const char *name;
    int status;
};

/* One reading of one trace. */
struct reading {
    struct errors *e;
    struct tool_raw *raw;
    struct raw_threads threads;
    const struct tool_map *wanted; /* of the second reading: index of the first
                                      error plus 1, by token */
    bool damaged;
};

static bool out_of_memory(struct errors *e) {
    tool_out_of_memory();
    e->status = TOOL_FAILED;
    return false;
}

/* --- Blocks --------------------------------------------------------------- */

static struct block *block_of(struct errors *e, uint64_t token) {
    struct tool_map_entry *entry = tool_map_get(&e->place, token);
    if (entry == NULL)
        return NULL;
    if (entry->value == 0) {
        if (e->spares == 0 &&
            !tool_array_reserve(&e->block, &e->room, e->used + 1,
                                sizeof(*e->block)))
            return NULL;
        entry->value = e->spares != 0 ? e->spare[--e->spares] + 1u : ++e->used;
        e->block[entry->value - 1] = (struct block){0};
    }
    return &e->block[entry->value - 1];
}

static bool forget(struct errors *e, uint64_t token) {
    struct tool_map_entry *entry = tool_map_find(&e->place, token);
    if (!tool_array_reserve(&e->spare, &e->spare_room, e->spares + 1,
                            sizeof(*e->spare)))
        return false;
    e->spare[e->spares++] = (uint32_t)entry->value - 1;
    tool_map_remove(&e->place, entry);
    return true;
}

/* --- Matching calls ------------------------------------------------------- */

enum family { OF_MALLOC, OF_NEW, OF_NEW_ARRAY, OF_ALIGNED, OF_ALIGNED_ARRAY };

static enum family family_of(unsigned call) {
    switch (call) {
    case MTF_CALL_NEW:
    case MTF_CALL_NEW_NOTHROW:
    case MTF_CALL_DELETE:
    case MTF_CALL_DELETE_SIZED:
    case MTF_CALL_DELETE_NOTHROW:
        return OF_NEW;
    case MTF_CALL_NEW_ARRAY:
    case MTF_CALL_NEW_ARRAY_NOTHROW:
    case MTF_CALL_DELETE_ARRAY:
    case MTF_CALL_DELETE_ARRAY_SIZED:
    case MTF_CALL_DELETE_ARRAY_NOTHROW:
        return OF_NEW_ARRAY;
    case MTF_CALL_NEW_ALIGNED:
    case MTF_CALL_NEW_ALIGNED_NOTHROW:
    case MTF_CALL_DELETE_ALIGNED:
    case MTF_CALL_DELETE_SIZED_ALIGNED:
    case MTF_CALL_DELETE_ALIGNED_NOTHROW:
        return OF_ALIGNED;
    case MTF_CALL_NEW_ARRAY_ALIGNED:
    case MTF_CALL_NEW_ARRAY_ALIGNED_NOTHROW:
    case MTF_CALL_DELETE_ARRAY_ALIGNED:
    case MTF_CALL_DELETE_ARRAY_SIZED_ALIGNED:
    case MTF_CALL_DELETE_ARRAY_ALIGNED_NOTHROW:
        return OF_ALIGNED_ARRAY;
    default:
        return OF_MALLOC;
    }
}

static bool add_error(struct errors *e, const struct error *error) {
    if (!tool_array_reserve(&e->error, &e->error_room, e->count + 1,
                            sizeof(*e->error)))
        return out_of_memory(e);
    e->error[e->count] = *error;
    e->error[e->count].count = 1;
    e->error[e->count].order = e->count;
    e->count++;
    return true;
}

/* Compares the calls that made and freed block B, and forgets it. The size that
   pvalloc was given is not known. */
static bool compare_ends(struct errors *e, uint64_t token,
                         const struct block *b) {
    struct error error = {
        .made = b->made, .wrong = b->ended, .size = b->size, .bytes = b->size};
    if (family_of(b->made.call) != family_of(b->ended.call)) {
        error.kind = OTHER_KIND;
    } else if (b->given != 0 && b->given - 1 != b->size &&
               b->made.call != MTF_CALL_PVALLOC) {
        error.kind = OTHER_SIZE;
        error.value = b->given - 1;
    } else {
        return forget(e, token) || out_of_memory(e);
    }
    return (forget(e, token) || out_of_memory(e)) && add_error(e, &error);
}

static bool take_made(struct errors *e, uint64_t token, struct deed made,
                      uint64_t size) {
    struct block *b = block_of(e, token);
    if (b == NULL)
        return out_of_memory(e);
    b->made = made;
    b->size = size;
    return b->ended.call == 0 || compare_ends(e, token, b);
}

static bool take_ended(struct errors *e, uint64_t token, struct deed ended,
                       const uint64_t *given) {
    struct block *b = block_of(e, token);
    if (b == NULL)
        return out_of_memory(e);
    b->ended = ended;
    b->given = given != NULL && *given != UINT64_MAX ? *given + 1 : 0;
    return b->made.call == 0 || compare_ends(e, token, b);
}

/* --- First reading -------------------------------------------------------- */

static bool take_wrong(struct errors *e, const struct mtf_event *w,
                       uint32_t site) {
    struct error error = {.kind = w->flags == MTF_WRONG_FREED    ? TWICE
                                  : w->flags == MTF_WRONG_INSIDE ? INSIDE
                                                                 : NO_BLOCK,
                          .token = w->old_token,
                          .wrong = {site, w->call},
                          .value = w->value};
    return add_error(e, &error);
}

static bool first_event(struct errors *e, const struct mtf_event *v,
                        uint32_t site) {
    struct deed deed = {site, v->call};
    switch (v->kind) {
    case MTF_EVENT_ALLOC:
    case MTF_EVENT_ALIGNED:
    case MTF_EVENT_REALLOC_NEW:
        return take_made(e, v->token, deed, v->size);
    case MTF_EVENT_FREE:
    case MTF_EVENT_REALLOC_END:
        return take_ended(e, v->old_token, deed, NULL);
    case MTF_EVENT_FREE_SIZE:
        return take_ended(e, v->old_token, deed, &v->size);
    case MTF_EVENT_REALLOC:
        return take_ended(e, v->old_token, deed, NULL) &&
               take_made(e, v->token, deed, v->size);
    case MTF_EVENT_WRONG:
        return take_wrong(e, v, site);
    case MTF_EVENT_SITE_DEF:
        return tool_sites_take(&e->sites, v->text, v->text_length) ||
               out_of_memory(e);
    default:
        return true;
    }
}

/* --- Second reading ------------------------------------------------------- */

/* Completes the errors of TOKEN with the call MADE at SITE. They are
   consecutive from the index in WANTED on. */
static void complete_errors(struct errors *e, const struct tool_map *wanted,
                            uint64_t token, const struct mtf_event *made,
                            uint32_t site) {
    const struct tool_map_entry *entry = tool_map_find(wanted, token);
    if (entry == NULL)
        return;
    for (size_t i = entry->value - 1;
         i < e->count && e->error[i].token == token; i++) {
        struct error *error = &e->error[i];
        if (made->token == token && made->kind != MTF_EVENT_FREE) {
            error->made = (struct deed){site, made->call};
            error->size = error->bytes = made->size;
        } else {
            error->freed = (struct deed){site, made->call};
        }
    }
}

static void second_event(struct reading *r, const struct mtf_event *v,
                         uint32_t site) {
    switch (v->kind) {
    case MTF_EVENT_REALLOC:
        complete_errors(r->e, r->wanted, v->old_token, v, site);
        complete_errors(r->e, r->wanted, v->token, v, site);
        break;
    case MTF_EVENT_ALLOC:
    case MTF_EVENT_ALIGNED:
    case MTF_EVENT_REALLOC_NEW:
        complete_errors(r->e, r->wanted, v->token, v, site);
        break;
    case MTF_EVENT_FREE:
    case MTF_EVENT_FREE_SIZE:
    case MTF_EVENT_REALLOC_END:
        complete_errors(r->e, r->wanted, v->old_token, v, site);
        break;
    default:
        break;
    }
}

/* --- A trace -------------------------------------------------------------- */

/* Site of the event V, where SITE is the stream's last one. In a trace without
   sites of frees that is an allocation's, and frees have none. */
static uint32_t site_of(const struct errors *e, const struct mtf_event *v,
                        uint32_t site, bool free_sites) {
    bool frees = v->kind == MTF_EVENT_FREE || v->kind == MTF_EVENT_FREE_SIZE ||
                 v->kind == MTF_EVENT_REALLOC_END;
    if (site == MTF_SITE_NONE || (frees && !free_sites))
        return MTF_SITE_NONE;
    return e->sites.base + site;
}

static bool see_data(struct reading *r, const struct mtf_item *item,
                     bool free_sites) {
    struct mtf_placement place;
    struct mtf_event v;
    struct raw_thread *t = raw_threads_find(&r->threads, item->thread);
    if (t == NULL)
        return out_of_memory(r->e);
    mtf_stream_place(&t->stream, item, &place);
    r->damaged |= place.gap != 0 || place.undecodable != 0;
    const uint8_t *p = place.data, *end = place.data + place.length;
    while (place.length != 0 && p < end) {
        int n = mtf_raw_decode(&t->stream.state, p, end, &v);
        if (n <= 0) {
            r->damaged = true;
            mtf_stream_lose(&t->stream);
            break;
        }
        p += n;
        if (v.kind == MTF_EVENT_BUFFER)
            memset(&t->site, 0, sizeof(t->site));
        else if (v.kind == MTF_EVENT_SITE)
            (void)mtf_site_decode(&t->site, v.value);
        uint32_t site = site_of(r->e, &v, t->site.last, free_sites);
        if (r->wanted != NULL)
            second_event(r, &v, site);
        else if (!first_event(r->e, &v, site))
            return false;
    }
    return true;
}

static bool see_sites(struct errors *e, const struct mtf_item *item) {
    struct mtf_event v;
    uint32_t at = 0;
    while (mtf_item_site_def(item, &at, &v))
        if (!tool_sites_take(&e->sites, v.text, v.text_length))
            return out_of_memory(e);
    return true;
}

static void note_problem(struct reading *r, const char *text) {
    tool_error("%s", text);
    if (r->e->status != TOOL_FAILED)
        r->e->status = TOOL_DAMAGED;
}

static void conclude(struct reading *r) {
    const char *problem = raw_end_problem(r->raw);
    char text[512];
    if (r->wanted != NULL || r->e->status != TOOL_OK)
        return;
    if (problem == NULL && r->damaged)
        problem = "events are missing";
    if (problem == NULL &&
        tool_raw_in_all(r->raw, MTF_ACCOUNT_DROPPED_EVENTS,
                        raw_threads_dropped(&r->threads)) != 0)
        problem = "the recorder dropped events";
    if (problem == NULL)
        return;
    snprintf(text, sizeof(text), "%.300s: %.200s", r->e->name, problem);
    note_problem(r, text);
}

/* Reads the current trace. WANTED: NULL in the first reading. */
static bool read_trace(struct errors *e, const struct tool_map *wanted) {
    struct reading r = {.e = e, .wanted = wanted};
    struct mtf_item item = {0};
    bool free_sites = false;
    bool good = (r.raw = tool_raw_open(e->name)) != NULL || out_of_memory(e);
    if (good) {
        r.threads.begins_late = tool_raw_begins_late(r.raw);
        tool_raw_read_ahead(r.raw);
    }
    while (good) {
        tool_raw_next(r.raw, &item);
        if (item.kind == MTF_ITEM_END || item.kind == MTF_ITEM_FAILED)
            break;
        if (item.kind == MTF_ITEM_HEADER) {
            unsigned settings = item.info->fixed.settings;
            free_sites = (settings & MTF_SETTING_FREE_SITES) != 0;
            e->sites.pid[e->sites.base / MTF_SITE_LIMIT] = item.info->fixed.pid;
        } else if (item.kind == MTF_ITEM_DATA) {
            good = see_data(&r, &item, free_sites);
        } else if (item.kind == MTF_ITEM_SITES && wanted == NULL) {
            good = see_sites(e, &item);
        } else if (item.kind == MTF_ITEM_DAMAGE && wanted == NULL) {
            note_problem(&r, tool_raw_item_text(r.raw, &item));
        }
    }
    if (good && item.kind == MTF_ITEM_FAILED) {
        tool_error("%s", tool_raw_item_text(r.raw, &item));
        e->status = TOOL_FAILED;
        good = false;
    }
    if (good)
        conclude(&r);
    raw_threads_free(&r.threads);
    if (r.raw != NULL)
        tool_raw_close(r.raw);
    return good;
}

static int by_token(const void *a, const void *b) {
    const struct error *x = a, *y = b;
    if (x->token != y->token)
        return x->token < y->token ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Finds the calls that made and freed the blocks of this trace's errors. */
static bool find_blocks(struct errors *e) {
    struct tool_map wanted = {0};
    bool good = true;
    qsort(e->error + e->first, e->count - e->first, sizeof(*e->error),
          by_token);
    for (size_t i = e->first; good && i < e->count; i++) {
        struct tool_map_entry *entry;
        if (e->error[i].token == 0)
            continue;
        entry = tool_map_get(&wanted, e->error[i].token);
        good = entry != NULL || out_of_memory(e);
        if (good && entry->value == 0)
            entry->value = i + 1;
    }
    if (good && wanted.count != 0)
        good = read_trace(e, &wanted);
    tool_map_fini(&wanted);
    /* The next trace may have the same tokens. */
    for (size_t i = e->first; i < e->count; i++)
        e->error[i].token = 0;
    return good;
}

static bool take_trace(struct errors *e, const char *name) {
    if (e->name != NULL)
        tool_sites_next_trace(&e->sites);
    e->name = name;
    e->first = e->count;
    e->used = e->spares = 0;
    tool_map_fini(&e->place);
    return read_trace(e, NULL) && find_blocks(e);
}

/* --- Rows ----------------------------------------------------------------- */

static int compare_deeds(const struct deed *a, const struct deed *b) {
    if (a->site != b->site)
        return a->site < b->site ? -1 : 1;
    return (int)a->call - b->call;
}

/* Order in which errors of one row are equal. Addresses and blocks do not
   count. */
static int compare_errors(const struct error *a, const struct error *b) {
    int order = (int)a->kind - (int)b->kind;
    order = order != 0 ? order : compare_deeds(&a->wrong, &b->wrong);
    order = order != 0 ? order : compare_deeds(&a->made, &b->made);
    return order != 0 ? order : compare_deeds(&a->freed, &b->freed);
}

static int by_row(const void *a, const void *b) {
    const struct error *x = a, *y = b;
    int order = compare_errors(x, y);
    return order != 0 ? order : x->order < y->order ? -1 : x->order > y->order;
}

static int by_count(const void *a, const void *b) {
    const struct error *x = a, *y = b;
    if (x->kind != y->kind)
        return (int)x->kind - (int)y->kind;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Joins equal errors into rows; returns the number of errors. */
static uint64_t sum_up(struct errors *e) {
    uint64_t all = e->count;
    size_t rows = 0;
    if (e->count == 0)
        return 0;
    qsort(e->error, e->count, sizeof(*e->error), by_row);
    for (size_t i = 0; i < e->count; i++) {
        if (rows != 0 &&
            compare_errors(&e->error[rows - 1], &e->error[i]) == 0) {
            e->error[rows - 1].count++;
            e->error[rows - 1].bytes += e->error[i].bytes;
        } else {
            e->error[rows++] = e->error[i];
        }
    }
    e->count = rows;
    qsort(e->error, e->count, sizeof(*e->error), by_count);
    return all;
}

/* --- Output --------------------------------------------------------------- */

/* Calls PUT with the text of each frame of SITE, innermost first, and true for
   frames of the user's code. */
static void each_frame(const struct errors *e, struct report_frames *frames,
                       uint32_t site,
                       void (*put)(void *ctx, const char *text, bool user),
                       void *ctx) {
    uint32_t stack[TOOL_SITE_DEPTH];
    unsigned depth = report_stacks_sites(&e->sites, site, stack);
    for (unsigned i = 0; i < depth; i++) {
        unsigned count;
        uint32_t number = symbol_names_find(frames->names, stack[i], &count);
        for (; count != 0; count--, number++) {
            char *text = report_labels_name(
                symbol_names_get(frames->names, number), REPORT_BY_SITE);
            if (text != NULL)
                put(ctx, text, report_frames_is_user(frames, number));
            free(text);
        }
    }
}

struct shown {
    unsigned count;
    bool gap;
};

static void print_frame(void *ctx, const char *text, bool user) {
    struct shown *s = ctx;
    if (s->count++ >= FRAMES_SHOWN && !user) {
        s->gap = true;
        return;
    }
    if (s->gap)
        puts("        ...");
    s->gap = false;
    printf("        %s\n", text);
}

/* Prints "    freed by delete" and the stack. */
static void print_deed(const struct errors *e, struct report_frames *frames,
                       const char *what, const struct deed *d) {
    struct shown shown = {0};
    if (d->call == 0)
        return;
    printf("    %s %s%s\n", what, mtf_call_name(d->call),
           d->site == MTF_SITE_NONE ? ", call site not recorded" : "");
    each_frame(e, frames, d->site, print_frame, &shown);
    if (shown.gap)
        puts("        ...");
}

static void print_error(const struct errors *e, struct report_frames *frames,
                        const struct error *x) {
    struct tool_text count, size;
    printf("%s: %s time%s", kind_names[x->kind],
           tool_text_count(&count, x->count), x->count == 1 ? "" : "s");
    if (x->made.call != 0)
        printf(", block%s of %s", x->count == 1 ? "" : "s",
               tool_text_bytes(&size, x->bytes));
    if (x->kind == INSIDE)
        printf(", byte %" PRIu64, x->value);
    else if (x->kind == NO_BLOCK)
        printf(", 0x%" PRIx64, x->value);
    else if (x->kind == OTHER_SIZE)
        printf(", given %" PRIu64 " B", x->value);
    putchar('\n');
    bool again = x->kind == TWICE || x->kind == INSIDE || x->kind == NO_BLOCK;
    print_deed(e, frames, again ? "wrong" : "freed by", &x->wrong);
    print_deed(e, frames, "freed by", &x->freed);
    print_deed(e, frames, "made by", &x->made);
}

static void print_text(const struct errors *e, struct report_frames *frames,
                       uint64_t all, size_t top) {
    struct tool_text a, b;
    if (all == 0) {
        puts("no wrong frees found");
        return;
    }
    printf("%s wrong free%s in %s place%s\n", tool_text_count(&a, all),
           all == 1 ? "" : "s", tool_text_count(&b, e->count),
           e->count == 1 ? "" : "s");
    for (size_t i = 0; i < e->count && i < top; i++)
        print_error(e, frames, &e->error[i]);
    if (e->count > top)
        printf("%s more\n", tool_text_count(&a, e->count - top));
}

static void put_frame(void *ctx, const char *text, bool user) {
    (void)user;
    tool_json_string(ctx, NULL, text);
}

static void put_deed(const struct errors *e, struct report_frames *frames,
                     struct tool_json *j, const char *key,
                     const struct deed *d) {
    if (d->call == 0) {
        tool_json_null(j, key);
        return;
    }
    tool_json_begin_object(j, key);
    tool_json_string(j, "call", mtf_call_name(d->call));
    tool_json_begin_array(j, "stack");
    each_frame(e, frames, d->site, put_frame, j);
    tool_json_end_array(j);
    tool_json_end_object(j);
}

static void put_json(const struct errors *e, struct report_frames *frames,
                     uint64_t all, struct tool_json *j) {
    tool_json_begin_object(j, NULL);
    tool_json_u64(j, "errors", all);
    tool_json_bool(j, "complete", e->status == TOOL_OK);
    tool_json_begin_array(j, "rows");
    for (size_t i = 0; i < e->count; i++) {
        const struct error *x = &e->error[i];
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "kind", kind_keys[x->kind]);
        tool_json_u64(j, "count", x->count);
        tool_json_u64(j, "bytes", x->bytes);
        if (x->kind == INSIDE)
            tool_json_u64(j, "byte", x->value);
        if (x->kind == OTHER_SIZE)
            tool_json_u64(j, "given", x->value);
        put_deed(e, frames, j, "wrong", &x->wrong);
        put_deed(e, frames, j, "freed", &x->freed);
        put_deed(e, frames, j, "made", &x->made);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
    tool_json_end_object(j);
}

static int report(const struct report_errors_options *o, struct tool_json *j) {
    struct errors e = {.status = TOOL_OK};
    struct symbol_names *names = NULL;
    struct report_frames frames = {0};
    bool good = true;
    for (size_t i = 0; good && i < o->in->count; i++)
        good = take_trace(&e, o->in->traces[i]);
    if (good)
        good = ((names = symbol_names_new(&e.sites, o->in->modules)) != NULL &&
                report_frames_init(&frames, names, &e.sites, &o->in->skip,
                                   false)) ||
               out_of_memory(&e);
    int status = TOOL_FAILED;
    if (good) {
        uint64_t all = sum_up(&e);
        if (o->text)
            print_text(&e, &frames, all, o->top);
        if (o->json != NULL)
            put_json(&e, &frames, all, j);
        status = all != 0 ? REPORT_ERRORS_FOUND : e.status;
    }
    report_frames_fini(&frames);
    symbol_names_free(names);
    tool_map_fini(&e.place);
    tool_sites_fini(&e.sites);
    free(e.block);
    free(e.spare);
    free(e.error);
    return status;
}

int report_errors(const struct report_errors_options *o) {
    static struct tool_json json;
    for (size_t i = 0; i < o->in->count; i++)
        if (strcmp(o->in->traces[i], "-") == 0 ||
            !tool_raw_is_file(o->in->traces[i]))
            return tool_usage_error("--errors reads TRACE twice: name a "
                                    "file");
    if (o->json == NULL)
        return report(o, NULL);
    if (tool_files_collide(&o->json, 1, o->in->traces, (int)o->in->count))
        return TOOL_USAGE;
    if (!tool_json_open(&json, o->json))
        return TOOL_FAILED;
    int status = report(o, &json);
    if (status == TOOL_FAILED)
        tool_json_drop(&json);
    else if (!tool_json_close(&json))
        status = TOOL_FAILED;
    return status;
}
