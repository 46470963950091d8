/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/report_rows.h"

#include "base/check.h"
#include "cmd/malloc_trace/report/report_labels.h"
#include "common/collections.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum report_tally_by report_rows_tally_by(enum report_by by) {
    return by == REPORT_BY_SIZE     ? REPORT_TALLY_BY_SIZE
           : by == REPORT_BY_THREAD ? REPORT_TALLY_BY_THREAD
                                    : REPORT_TALLY_BY_SITE;
}

/* "3 NAME", with " in TRACE" if there are several. NULL: out of memory. */
static char *thread_text(const struct report_tallies *t, uint64_t place) {
    const struct report_thread *thread = &t->thread[place];
    bool named = thread->name[0] != '\0', several = t->traces > 1;
    char *text = NULL;
    return asprintf(&text, "%" PRIu32 "%s%s%s%s", thread->id, named ? " " : "",
                    thread->name, several ? " in " : "",
                    several ? t->name[thread->trace] : "") < 0
               ? NULL
               : report_labels_one_line(text);
}

/* Number of the label of A; REPORT_TEXTS_NONE: out of memory. */
static uint32_t text_of(struct report_rows *r, const struct report_tallies *t,
                        struct report_labels *l, enum report_by by,
                        const struct report_tally *a) {
    char *text = NULL;
    if (t->options.freed && (uint32_t)a->key == REPORT_NOT_FREED)
        return report_texts_number(&r->texts, "(not freed)");
    if (report_rows_tally_by(by) == REPORT_TALLY_BY_SITE)
        return by == REPORT_BY_STACK ? report_labels_stack(l, (uint32_t)a->key)
                                     : report_labels_site(l, (uint32_t)a->key);
    if (by == REPORT_BY_THREAD)
        text = thread_text(t, a->key);
    else if (asprintf(&text, "%" PRIu64, a->key) < 0)
        text = NULL;
    uint32_t number =
        text == NULL ? REPORT_TEXTS_NONE : report_texts_number(&r->texts, text);
    free(text);
    return number;
}

/* --- Shares --------------------------------------------------------------- */

/* Adds A to the share of its thread in row ROW. False: out of memory. */
static bool add_share(struct report_rows *r, const struct report_tallies *t,
                      uint32_t row, const struct report_tally *a) {
    char *text = thread_text(t, a->key >> 32);
    uint32_t thread =
        text == NULL ? REPORT_TEXTS_NONE : report_texts_number(&r->texts, text);
    free(text);
    struct tool_map_entry *e =
        thread == REPORT_TEXTS_NONE
            ? NULL
            : tool_map_get(&r->share_of, ((uint64_t)row << 32 | thread) + 1);
    if (e == NULL || !tool_array_reserve(&r->share, &r->share_room,
                                         r->shares + 1, sizeof(*r->share)))
        return false;
    if (e->value == 0) {
        r->share[r->shares++] =
            (struct report_share){.thread = thread, .next = r->row[row].share};
        e->value = r->shares;
        r->row[row].share = (uint32_t)r->shares;
    }
    report_tally_add(&r->share[e->value - 1].sum, a);
    return true;
}

static int compare_shares(const void *a, const void *b, void *ctx) {
    const struct report_share *const *x = a, *const *y = b;
    enum report_sort sort = *(enum report_sort *)ctx;
    double p = report_rows_value(&(*x)->sum, sort),
           q = report_rows_value(&(*y)->sum, sort);
    return p != q
               ? (p < q ? 1 : -1)
               : ((*x)->thread > (*y)->thread) - ((*x)->thread < (*y)->thread);
}

const struct report_share **report_rows_shares(const struct report_rows *r,
                                               const struct report_row *row,
                                               enum report_sort sort,
                                               size_t *count) {
    const struct report_share **list = NULL;
    size_t room = 0;
    *count = 0;
    for (uint32_t at = row->share; at != 0; at = r->share[at - 1].next) {
        TCM_ASSERT(at <= r->shares);
        if (tool_array_reserve(&list, &room, *count + 1, sizeof(*list)))
            list[(*count)++] = &r->share[at - 1];
    }
    if (list != NULL)
        qsort_r(list, *count, sizeof(*list), compare_shares, &sort);
    return list;
}

/* --- Rows ----------------------------------------------------------------- */

void report_rows_fini(struct report_rows *r) {
    report_texts_fini(&r->texts);
    tool_map_fini(&r->share_of);
    free(r->share);
    free(r->of_text);
    free(r->of_tally);
    free(r->row);
    *r = (struct report_rows){0};
}

/* The row of TEXT, added if it is new. NULL: out of memory. */
static struct report_row *row_of(struct report_rows *r, uint32_t text) {
    size_t known = r->of_text_room;
    if (!tool_array_reserve(&r->of_text, &r->of_text_room, (size_t)text + 1,
                            sizeof(*r->of_text)))
        return NULL;
    if (r->of_text_room != known)
        memset(r->of_text + known, 0,
               (r->of_text_room - known) * sizeof(*r->of_text));
    if (r->of_text[text] == 0) {
        if (!tool_array_reserve(&r->row, &r->room, r->count + 1,
                                sizeof(*r->row)))
            return NULL;
        r->row[r->count++] =
            (struct report_row){.location = r->texts.text[text], .text = text};
        r->of_text[text] = (uint32_t)r->count;
    }
    return &r->row[r->of_text[text] - 1];
}

/* Adds the tally at index PLACE to the row of TEXT. False: out of memory. */
static bool add_tally(struct report_rows *r, const struct report_tallies *t,
                      uint32_t text, size_t place, bool old) {
    TCM_ASSERT(place < t->count);
    const struct report_tally *a = &t->tally[place];
    struct report_row *row = row_of(r, text);
    if (row == NULL)
        return false;
    report_tally_add(old ? &row->old : &row->sum, a);
    report_tally_add(old ? &r->old_total : &r->total, a);
    row->in_old |= old;
    r->of_tally[place] = text + 1;
    return !t->options.threads || old ||
           add_share(r, t, (uint32_t)(row - r->row), a);
}

/* True if the totals are the sums of all rows. */
static bool totals_add_up(const struct report_rows *r) {
    struct report_tally sum = {0}, old = {0};
    for (size_t i = 0; i < r->count; i++) {
        report_tally_add(&sum, &r->row[i].sum);
        report_tally_add(&old, &r->row[i].old);
    }
    return sum.calls == r->total.calls && sum.bytes == r->total.bytes &&
           sum.live == r->total.live && sum.live_bytes == r->total.live_bytes &&
           sum.at_peak_bytes == r->total.at_peak_bytes &&
           sum.ended == r->total.ended && old.calls == r->old_total.calls &&
           old.bytes == r->old_total.bytes;
}

/* Counts A, whose stack S suppresses, or, if S is NULL, no pattern. */
static void add_suppressed(struct report_rows *r, const struct report_tally *a,
                           bool kept, struct report_suppression *s) {
    r->suppressed += a->live;
    r->suppressed_bytes += a->live_bytes;
    r->kept += kept ? a->live : 0;
    r->kept_bytes += kept ? a->live_bytes : 0;
    if (s != NULL) {
        s->blocks += a->live;
        s->bytes += a->live_bytes;
    }
}

/* True if A, whose label is TEXT, passes FILTER. Counts what is suppressed. */
static bool passes(struct report_rows *r, struct report_labels *l,
                   const struct report_filter *filter,
                   const struct report_tally *a, uint32_t text) {
    bool sites = report_rows_tally_by(l->by) == REPORT_TALLY_BY_SITE;
    uint32_t site = (uint32_t)a->key;
    struct report_suppression *by = NULL;
    if (filter->match != NULL &&
        regexec(filter->match, r->texts.text[text], 0, NULL, 0) != 0 &&
        !(sites && report_labels_match(l, filter->match, site)))
        return false;
    if (!sites)
        return true;
    if (filter->suppressed != NULL)
        by = report_labels_suppressed(l, filter->suppressed, site);
    bool kept = by == NULL && filter->kept != NULL &&
                report_labels_kept(l, filter->kept, site, &by);
    if (by == NULL && !kept)
        return true;
    add_suppressed(r, a, kept, by);
    return false;
}

/* Counts the bytes of A whose label is not the user's code, or code without
   debug information, which has no lines. */
static void count_named(struct report_rows *r, struct report_labels *l,
                        const struct report_tally *a) {
    uint32_t site = (uint32_t)a->key;
    if (report_rows_tally_by(l->by) != REPORT_TALLY_BY_SITE ||
        l->by == REPORT_BY_STACK || site == REPORT_NOT_FREED ||
        tool_sites_frame(l->sites, site) == NULL)
        return;
    uint32_t number = report_frames_named(&l->frames, site);
    const struct symbol_name *n = symbol_names_get(l->names, number);
    if (!report_frames_is_user(&l->frames, number)) {
        r->library_bytes += a->bytes;
        return;
    }
    if (l->by == REPORT_BY_MODULE || l->by == REPORT_BY_LANGUAGE ||
        n->special != NULL || n->language != 0 || n->remedy == NULL ||
        report_frame_class(n, l->sites->has_lines) != REPORT_FRAME_USER)
        return;
    r->bare_bytes += a->bytes;
    if (r->bare_remedy == NULL || a->bytes > r->bare_most) {
        r->bare_most = a->bytes;
        r->bare_module = n->module;
        r->bare_remedy = n->remedy;
    }
}

bool report_rows_add(struct report_rows *r, const struct report_tallies *t,
                     struct symbol_names *names, enum report_by by,
                     const struct report_filter *filter, bool old) {
    struct report_labels labels;
    free(r->of_tally);
    r->of_tally = calloc(t->count + 1, sizeof(*r->of_tally));
    bool good = report_labels_init(&labels, &r->texts, names, &t->sites, by,
                                   filter->skip) &&
                r->of_tally != NULL;
    for (size_t i = 0; i < t->count && good; i++) {
        const struct report_tally *a = &t->tally[i];
        if (filter->leaks && a->live == 0)
            continue;
        uint32_t text = text_of(r, t, &labels, by, a);
        good = text != REPORT_TEXTS_NONE;
        if (!good || !passes(r, &labels, filter, a, text))
            continue;
        good = add_tally(r, t, text, i, old);
        if (!old && good)
            count_named(r, &labels, a);
    }
    report_labels_fini(&labels);
    r->lacks = symbol_names_lacks(names);
    TCM_ASSERT(!good || totals_add_up(r));
    return good && !symbol_names_failed(names);
}

/* --- Order ---------------------------------------------------------------- */

double report_rows_value(const struct report_tally *t, enum report_sort sort) {
    switch (sort) {
    case REPORT_SORT_CALLS:
        return (double)t->calls;
    case REPORT_SORT_LIVE:
        return (double)t->live_bytes;
    case REPORT_SORT_PEAK:
        return (double)t->at_peak_bytes;
    case REPORT_SORT_AGE:
        return t->ended == 0 ? 0 : (double)t->life_ns / (double)t->ended;
    case REPORT_SORT_TEMPORARY:
        return (double)t->temporary;
    default:
        return (double)t->bytes;
    }
}

static int compare_rows(const void *a, const void *b, void *ctx) {
    const struct report_row *x = a, *y = b;
    enum report_sort sort = *(enum report_sort *)ctx;
    double p =
        report_rows_value(&x->sum, sort) - report_rows_value(&x->old, sort);
    double q =
        report_rows_value(&y->sum, sort) - report_rows_value(&y->old, sort);
    if (p != q)
        return p < q ? 1 : -1;
    if (x->sum.bytes != y->sum.bytes)
        return x->sum.bytes < y->sum.bytes ? 1 : -1;
    return strcmp(x->location, y->location);
}

static bool rows_are_sorted(const struct report_rows *r,
                            enum report_sort sort) {
    for (size_t i = 1; i < r->count; i++)
        if (compare_rows(&r->row[i - 1], &r->row[i], &sort) > 0)
            return false;
    return true;
}

void report_rows_sort(struct report_rows *r, enum report_sort sort) {
    if (r->count != 0)
        qsort_r(r->row, r->count, sizeof(*r->row), compare_rows, &sort);
    TCM_ASSERT(rows_are_sorted(r, sort));
}
