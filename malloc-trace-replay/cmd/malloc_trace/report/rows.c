/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/rows.h"

#include "common/array.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_KNOWN "(not known)"

enum tally_by rows_tally_by(enum rows_by by) {
    return by == ROWS_BY_SIZE     ? TALLY_BY_SIZE
           : by == ROWS_BY_THREAD ? TALLY_BY_THREAD
                                  : TALLY_BY_SITE;
}

/* --- Texts ---------------------------------------------------------------- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* "libc.so.6+0x12345", or an address. */
static char *place_text(const struct name *n) {
    char *text = NULL;
    int length = n->module == NULL ? asprintf(&text, "0x%" PRIx64, n->offset)
                                   : asprintf(&text, "%s+0x%" PRIx64,
                                              base_name(n->module), n->offset);
    return length < 0 ? NULL : text;
}

static char *line_text(const struct name *n) {
    char *text = NULL;
    if (n->file == NULL || n->line == 0)
        return n->function != NULL ? strdup(n->function) : place_text(n);
    return asprintf(&text, "%s:%u", n->file, n->line) < 0 ? NULL : text;
}

static char *whole_text(const struct name *n) {
    char *text = NULL, *place = place_text(n);
    if (n->function == NULL || place == NULL)
        return place;
    int length = n->file == NULL || n->line == 0
                     ? asprintf(&text, "%s [%s]", n->function, place)
                     : asprintf(&text, "%s (%s:%u) [%s]", n->function, n->file,
                                n->line, place);
    free(place);
    return length < 0 ? NULL : text;
}

/* Frames that stand for no place. */
static const char *no_place(const struct tool_frame *f) {
    if (f == NULL ||
        (f->language == 0 && f->module == 0 && f->address == MTF_SITE_UNKNOWN))
        return NOT_KNOWN;
    if (f->language == 0 && f->module == 0 && f->address == MTF_SITE_CUT)
        return "(deeper)";
    return NULL;
}

/* "FUNCTION (FILE:LINE)" */
static char *script_text(const struct name *n) {
    char *text = NULL, *line = line_text(n);
    if (n->function == NULL || n->file == NULL || line == NULL)
        return line;
    int length = asprintf(&text, "%s (%s)", n->function, line);
    free(line);
    return length < 0 ? NULL : text;
}

static char *frame_text(struct names *names, const struct tool_frame *f,
                        enum rows_by by, uint32_t site) {
    if (no_place(f) != NULL)
        return strdup(no_place(f));
    struct name n = names_of(names, site);
    switch (by) {
    case ROWS_BY_FUNCTION:
        return n.function != NULL ? strdup(n.function) : place_text(&n);
    case ROWS_BY_LINE:
        return line_text(&n);
    case ROWS_BY_FILE:
        return strdup(n.file != NULL     ? n.file
                      : n.module != NULL ? n.module
                                         : "(no file)");
    case ROWS_BY_MODULE:
        return strdup(n.module != NULL ? n.module : "(no module)");
    default:
        return f->language != 0 ? script_text(&n) : whole_text(&n);
    }
}

/* A name in a trace may have any bytes: a row is one line. */
static char *one_line(char *text) {
    for (char *p = text; p != NULL && *p != '\0'; p++)
        if ((uint8_t)*p < ' ' || *p == 0x7F)
            *p = '?';
    return text;
}

char *rows_location(struct names *names, const struct tool_sites *sites,
                    enum rows_by by, uint32_t site) {
    return one_line(frame_text(names, tool_sites_frame(sites, site), by, site));
}

static char *thread_text(const struct tallies *t, uint32_t id) {
    size_t at = tool_ids_find(&t->threads, id);
    const char *name = at == SIZE_MAX ? "" : t->thread[at].name;
    char *text = NULL;
    return asprintf(&text, "%" PRIu32 "%s%s", id, name[0] == '\0' ? "" : " ",
                    name) < 0
               ? NULL
               : text;
}

static char *text_of(const struct tallies *t, struct names *names,
                     enum rows_by by, uint64_t key) {
    char *text = NULL;
    if (by == ROWS_BY_THREAD)
        return one_line(thread_text(t, (uint32_t)key));
    if (by == ROWS_BY_SIZE)
        return asprintf(&text, "%" PRIu64, key) < 0 ? NULL : text;
    return rows_location(names, &t->sites, by, (uint32_t)key);
}

/* --- Leaving out ---------------------------------------------------------- */

static bool matches(const char *pattern, const char *text) {
    return text != NULL && fnmatch(pattern, text, 0) == 0;
}

/* Whether a frame of SITE has a name that is suppressed. */
static bool is_suppressed(const struct rows_filter *filter,
                          const struct tallies *t, struct names *names,
                          uint32_t site) {
    const struct tool_frame *f;
    for (unsigned depth = 0;
         filter->suppressed_count != 0 && depth < TOOL_SITE_DEPTH &&
         (f = tool_sites_frame(&t->sites, site)) != NULL;
         depth++, site = f->parent) {
        struct name n = names_of(names, site);
        for (size_t i = 0; i < filter->suppressed_count; i++)
            if (matches(filter->suppressed[i], n.function) ||
                matches(filter->suppressed[i], n.file) ||
                matches(filter->suppressed[i], n.module))
                return true;
    }
    return false;
}

/* --- Rows ----------------------------------------------------------------- */

void rows_fini(struct rows *r) {
    for (size_t i = 0; i < r->count; i++)
        free(r->row[i].location);
    free(r->row);
    *r = (struct rows){0};
}

static int compare_location(const void *a, const void *b) {
    return strcmp(((const struct row *)a)->location,
                  ((const struct row *)b)->location);
}

/* Those with the same location become one. */
static void merge(struct rows *r) {
    size_t kept = 0;
    if (r->count == 0)
        return;
    qsort(r->row, r->count, sizeof(*r->row), compare_location);
    for (size_t i = 1; i < r->count; i++) {
        struct row *to = &r->row[kept], *from = &r->row[i];
        if (strcmp(to->location, from->location) != 0) {
            r->row[++kept] = *from;
            continue;
        }
        tally_add(&to->sum, &from->sum);
        tally_add(&to->old, &from->old);
        to->in_old |= from->in_old;
        free(from->location);
    }
    r->count = kept + 1;
}

static void add_up(struct rows *r) {
    r->total = r->old_total = (struct tally){0};
    for (size_t i = 0; i < r->count; i++) {
        tally_add(&r->total, &r->row[i].sum);
        tally_add(&r->old_total, &r->row[i].old);
    }
}

bool rows_make(struct rows *r, const struct tallies *t, struct names *names,
               enum rows_by by, const struct rows_filter *filter) {
    bool sites = rows_tally_by(by) == TALLY_BY_SITE;
    *r = (struct rows){0};
    for (size_t i = 0; i < t->count; i++) {
        const struct tally *a = &t->tally[i];
        if (filter->leaks && a->live == 0)
            continue;
        if (sites && is_suppressed(filter, t, names, (uint32_t)a->key))
            continue;
        char *text = text_of(t, names, by, a->key);
        if (text == NULL || !tool_array_reserve(&r->row, &r->room, r->count + 1,
                                                sizeof(*r->row))) {
            free(text);
            return false;
        }
        if (filter->match != NULL &&
            regexec(filter->match, text, 0, NULL, 0) != 0) {
            free(text);
            continue;
        }
        r->row[r->count++] = (struct row){.location = text, .sum = *a};
    }
    merge(r);
    add_up(r);
    return true;
}

bool rows_compare(struct rows *r, struct rows *old) {
    if (!tool_array_reserve(&r->row, &r->room, r->count + old->count,
                            sizeof(*r->row)))
        return false;
    for (size_t i = 0; i < old->count; i++)
        r->row[r->count++] = (struct row){.location = old->row[i].location,
                                          .old = old->row[i].sum,
                                          .in_old = true};
    old->count = 0;
    rows_fini(old);
    merge(r);
    add_up(r);
    return true;
}

/* --- Order ---------------------------------------------------------------- */

double rows_value(const struct tally *t, enum rows_sort sort) {
    switch (sort) {
    case ROWS_SORT_CALLS:
        return (double)t->calls;
    case ROWS_SORT_LIVE:
        return (double)t->live_bytes;
    case ROWS_SORT_PEAK:
        return (double)t->at_peak_bytes;
    case ROWS_SORT_AGE:
        return t->ended == 0 ? 0 : (double)t->life_ns / (double)t->ended;
    case ROWS_SORT_TEMPORARY:
        return (double)t->temporary;
    default:
        return (double)t->bytes;
    }
}

static int compare_rows(const void *a, const void *b, void *ctx) {
    const struct row *x = a, *y = b;
    enum rows_sort sort = *(enum rows_sort *)ctx;
    double p = rows_value(&x->sum, sort) - rows_value(&x->old, sort);
    double q = rows_value(&y->sum, sort) - rows_value(&y->old, sort);
    if (p != q)
        return p < q ? 1 : -1;
    if (x->sum.bytes != y->sum.bytes)
        return x->sum.bytes < y->sum.bytes ? 1 : -1;
    return strcmp(x->location, y->location);
}

void rows_sort(struct rows *r, enum rows_sort sort) {
    if (r->count != 0)
        qsort_r(r->row, r->count, sizeof(*r->row), compare_rows, &sort);
}
