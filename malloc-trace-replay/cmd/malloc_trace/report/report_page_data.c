/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/report_page.h"

#include "base/bits.h"
#include "cmd/malloc_trace/report/labels.h"
#include "common/collections.h"
#include "common/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Memory over time ----------------------------------------------------- */

/* Colours k1 to k7 are of keys, k8 is of the others. */
#define SERIES 7u

static char *key_text(const struct report_page *h, uint64_t key) {
    const struct tally_thread *thread;
    char *text = NULL;
    int length;
    switch (rows_tally_by(h->rows_by)) {
    case TALLY_BY_SIZE:
        length = asprintf(&text, "%" PRIu64 " bytes", key);
        break;
    case TALLY_BY_THREAD:
        thread = &h->t->thread[key];
        length =
            asprintf(&text, "thread %" PRIu32 " %s", thread->id, thread->name);
        break;
    default:
        return rows_location(h->names, &h->t->sites, ROWS_BY_FUNCTION,
                             (uint32_t)key);
    }
    return length < 0 ? NULL : text;
}

static int compare_series(const void *a, const void *b) {
    const struct report_page_series *x = a, *y = b;
    return x->sum != y->sum ? (x->sum < y->sum ? 1 : -1)
                            : strcmp(x->name, y->name);
}

/* Keys with the same name are one. */
static bool add_key(struct report_page *h, struct texts *names, size_t *room,
                    const struct history_key *k) {
    char *text = key_text(h, h->t->tally[k->tally].key);
    uint32_t at = text == NULL ? TEXTS_NONE : texts_number(names, text);
    free(text);
    if (at == TEXTS_NONE ||
        !tool_array_reserve(&h->series, room, (size_t)at + 1,
                            sizeof(*h->series)))
        return false;
    struct report_page_series *s = &h->series[at];
    if (at == h->series_count) {
        memset(s, 0, sizeof(*s));
        s->name = strdup(names->text[at]);
        h->series_count++;
    }
    for (unsigned c = 0; c < h->history->columns; c++) {
        s->live[c] += (double)k->live[c];
        s->sum += (double)k->live[c];
    }
    return s->name != NULL;
}

/* The last one becomes what is left of the totals. */
static bool add_others(struct report_page *h, size_t *room) {
    while (h->series_count > SERIES)
        free(h->series[--h->series_count].name);
    if (!tool_array_reserve(&h->series, room, h->series_count + 1,
                            sizeof(*h->series)))
        return false;
    struct report_page_series *others = &h->series[h->series_count];
    memset(others, 0, sizeof(*others));
    for (unsigned c = 0; c < h->history->columns; c++) {
        double left = (double)h->history->total[c];
        for (size_t i = 0; i < h->series_count; i++)
            left -= h->series[i].live[c];
        others->live[c] = fmax(left, 0);
        others->sum += others->live[c];
    }
    others->name = strdup("others");
    h->series_count++;
    return others->name != NULL;
}

bool report_page_find_series(struct report_page *h) {
    struct texts names = {0};
    size_t room = 0;
    bool good = true;
    h->series_count = 0;
    for (size_t i = 0; i < h->history->keys && good; i++)
        good = add_key(h, &names, &room, &h->history->key[i]);
    texts_fini(&names);
    if (good && h->series_count != 0)
        qsort(h->series, h->series_count, sizeof(*h->series), compare_series);
    return good && add_others(h, &room);
}

static uint32_t label_of(struct labels *l, enum rows_by by,
                         const struct tally *a) {
    uint32_t site = (uint32_t)a->key;
    return by == ROWS_BY_STACK ? labels_stack(l, site) : labels_site(l, site);
}

/* Adds what the keys that are followed grew by to their rows. ROW: places of
   rows by number of the text, plus 1. */
static bool add_growth(struct report_page *h, const uint32_t *row, size_t texts,
                       unsigned from) {
    const struct history *y = h->history;
    struct labels labels;
    bool good = true;
    labels_init(&labels, &h->rows->texts, h->names, &h->t->sites, h->rows_by);
    for (size_t i = 0; i < y->keys && good; i++) {
        const struct history_key *k = &y->key[i];
        uint32_t text = label_of(&labels, h->rows_by, &h->t->tally[k->tally]);
        good = text != TEXTS_NONE;
        if (!good || text >= texts || row[text] == 0)
            continue;
        double *to = &h->growth[row[text] - 1];
        *to = (isnan(*to) ? 0 : *to) + (double)k->live[y->columns - 1] -
              (double)k->live[from];
    }
    labels_fini(&labels);
    return good;
}

bool report_page_find_growth(struct report_page *h) {
    const struct history *y = h->history;
    size_t texts = h->rows->texts.count;
    uint64_t most = UINT64_C(60000000000);
    if (y->columns < 2 || rows_tally_by(h->rows_by) != TALLY_BY_SITE)
        return true;
    uint64_t back = (y->columns - 1) / 4;
    if (h->is_live && back * y->step_ns > most)
        back = most / y->step_ns;
    unsigned from = y->columns - 1 - (unsigned)tcm_max_u64(back, 1);
    uint32_t *row = calloc(texts + 1, sizeof(*row));
    h->growth = malloc((h->rows->count + 1) * sizeof(*h->growth));
    bool good = row != NULL && h->growth != NULL;
    for (size_t i = 0; i < h->rows->count && good; i++) {
        uint32_t text = texts_number(&h->rows->texts, h->rows->row[i].location);
        good = text < texts;
        if (good)
            row[text] = (uint32_t)i + 1;
        h->growth[i] = NAN;
    }
    good = good && add_growth(h, row, texts, from);
    h->growth_ns = (y->columns - 1 - from) * y->step_ns;
    h->all_growth = (double)y->total[y->columns - 1] - (double)y->total[from];
    free(row);
    return good;
}

void report_page_free(struct report_page *h) {
    free(h->growth);
    h->growth = NULL;
    for (size_t i = 0; i < h->series_count; i++)
        free(h->series[i].name);
    free(h->series);
    h->series = NULL;
    h->series_count = 0;
}

static void put_history(const struct report_page *h, struct tool_json *j) {
    struct tool_text text;
    tool_json_begin_object(j, "history");
    tool_json_begin_array(j, "at");
    tool_json_dense(j, true);
    for (unsigned c = 0; c < h->history->columns; c++)
        tool_json_string(j, NULL, tool_text_ns(&text, c * h->history->step_ns));
    tool_json_end_array(j);
    tool_json_dense(j, false);
    tool_json_begin_array(j, "series");
    for (size_t i = 0; i < h->series_count; i++) {
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "name", h->series[i].name);
        tool_json_begin_array(j, "text");
        tool_json_dense(j, true);
        for (unsigned c = 0; c < h->history->columns; c++)
            tool_json_string(
                j, NULL,
                tool_text_bytes(&text, (uint64_t)(h->series[i].live[c] + .5)));
        tool_json_end_array(j);
        tool_json_dense(j, false);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
    tool_json_end_object(j);
}

/* --- Rows ----------------------------------------------------------------- */

static void put_row(struct tool_json *j, const char *key, const char *name,
                    const struct tally *a, double growth) {
    tool_json_begin_array(j, key);
    tool_json_dense(j, true);
    tool_json_string(j, NULL, name);
    tool_json_u64(j, NULL, a->bytes);
    tool_json_u64(j, NULL, a->calls);
    tool_json_u64(j, NULL, a->live_bytes);
    tool_json_u64(j, NULL, a->live);
    tool_json_u64(j, NULL, a->at_peak_bytes);
    tool_json_u64(j, NULL, a->at_peak);
    tool_json_u64(j, NULL, a->temporary);
    tool_json_u64(j, NULL, a->ended);
    if (a->ended != 0)
        tool_json_u64(j, NULL, a->life_ns / a->ended);
    else
        tool_json_null(j, NULL);
    tool_json_double(j, NULL, growth);
    tool_json_end_array(j);
    tool_json_dense(j, false);
}

struct order {
    const struct rows *rows;
    enum rows_sort sort;
};

static int compare_rows(const void *a, const void *b, void *ctx) {
    const struct order *o = ctx;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    double p = rows_value(&o->rows->row[x].sum, o->sort);
    double q = rows_value(&o->rows->row[y].sum, o->sort);
    return p != q ? (p < q ? 1 : -1) : (x < y ? -1 : x > y);
}

/* Marks the rows that go into the page. */
static bool choose_rows(const struct rows *r, bool *chosen) {
    static const enum rows_sort sorts[] = {ROWS_SORT_BYTES, ROWS_SORT_CALLS,
                                           ROWS_SORT_LIVE, ROWS_SORT_PEAK,
                                           ROWS_SORT_TEMPORARY};
    size_t *order = malloc((r->count + 1) * sizeof(*order));
    if (order == NULL)
        return false;
    for (size_t s = 0; s < TCM_ARRAY_SIZE(sorts); s++) {
        struct order o = {r, sorts[s]};
        for (size_t i = 0; i < r->count; i++)
            order[i] = i;
        qsort_r(order, r->count, sizeof(*order), compare_rows, &o);
        for (size_t i = 0; i < r->count && i < REPORT_PAGE_ROWS; i++)
            chosen[order[i]] = true;
    }
    free(order);
    return true;
}

static bool put_rows(const struct report_page *h, struct tool_json *j) {
    const struct rows *r = h->rows;
    bool *chosen = calloc(r->count + 1, sizeof(*chosen));
    struct tally rest = {0};
    struct tool_text text;
    size_t left = 0;
    if (chosen == NULL || !choose_rows(r, chosen)) {
        free(chosen);
        return false;
    }
    put_row(j, "total", "all", &r->total,
            h->growth == NULL ? NAN : h->all_growth);
    tool_json_begin_array(j, "rows");
    for (size_t i = 0; i < r->count; i++)
        if (chosen[i]) {
            put_row(j, NULL, r->row[i].location, &r->row[i].sum,
                    h->growth == NULL ? NAN : h->growth[i]);
        } else {
            tally_add(&rest, &r->row[i].sum);
            left++;
        }
    tool_json_end_array(j);
    char name[80] = "";
    if (left != 0)
        snprintf(name, sizeof(name), "%s more, with less of everything",
                 tool_text_count(&text, left));
    put_row(j, "rest", name, &rest, NAN);
    free(chosen);
    return true;
}

/* --- Flame graph ---------------------------------------------------------- */

enum { VALUES = 4 };

static const char *const value_name[VALUES] = {"bytes", "peak", "live",
                                               "temporary"};

struct flame {
    uint64_t (*value)[VALUES]; /* of a node and what it calls */
    uint32_t *number;          /* in the page, plus 1; 0: not in it */
    uint32_t *label;           /* the same of labels */
    uint16_t *depth;
    size_t nodes, labels;
};

static void add_values(const struct stacks *s, struct flame *f) {
    for (size_t i = s->count; i-- > 0;) {
        if (s->node[i].sum != 0) {
            const struct tally *a = &s->sum[s->node[i].sum - 1];
            f->value[i][0] += a->bytes;
            f->value[i][1] += a->at_peak_bytes;
            f->value[i][2] += a->live_bytes;
            f->value[i][3] += a->temporary;
        }
        if (i != 0)
            for (int k = 0; k < VALUES; k++)
                f->value[s->node[i].parent][k] += f->value[i][k];
    }
}

/* Numbers the nodes that have a part of PARTS of some value, at most MOST of
   them. The script goes no deeper than stacks that are recorded. */
static void choose_nodes(const struct stacks *s, struct flame *f,
                         uint64_t parts, size_t most) {
    f->nodes = 0;
    for (size_t i = 0; i < s->count; i++) {
        bool wide = i == 0;
        for (int k = 0; k < VALUES; k++)
            wide |=
                f->value[i][k] != 0 && f->value[i][k] >= f->value[0][k] / parts;
        if (i != 0) {
            f->depth[i] = (uint16_t)(f->depth[s->node[i].parent] + 1);
            wide &= f->number[s->node[i].parent] != 0 && f->nodes < most &&
                    f->depth[i] <= TOOL_SITE_DEPTH;
        }
        f->number[i] = wide ? (uint32_t)++f->nodes : 0;
    }
}

static void put_labels(const struct report_page *h, struct flame *f,
                       struct tool_json *j) {
    const struct stacks *s = h->stacks;
    tool_json_begin_array(j, "labels");
    tool_json_string(j, NULL, "all");
    f->labels = 1;
    for (size_t i = 1; i < s->count; i++)
        if (f->number[i] != 0 && f->label[s->node[i].label] == 0) {
            f->label[s->node[i].label] = (uint32_t)f->labels++;
            tool_json_string(j, NULL, s->labels.text[s->node[i].label]);
        }
    tool_json_end_array(j);
}

static void put_flame(const struct report_page *h, struct flame *f,
                      struct tool_json *j) {
    const struct stacks *s = h->stacks;
    tool_json_begin_object(j, "flame");
    put_labels(h, f, j);
    for (int k = -2; k < VALUES; k++) {
        tool_json_begin_array(j, k == -2   ? "parent"
                                 : k == -1 ? "label"
                                           : value_name[k]);
        tool_json_dense(j, true);
        for (size_t i = 0; i < s->count; i++) {
            if (f->number[i] == 0)
                continue;
            if (k == -2)
                tool_json_u64(j, NULL, f->number[s->node[i].parent] - 1);
            else if (k == -1)
                tool_json_u64(j, NULL, i == 0 ? 0 : f->label[s->node[i].label]);
            else
                tool_json_u64(j, NULL, f->value[i][k]);
        }
        tool_json_end_array(j);
        tool_json_dense(j, false);
    }
    tool_json_u64(j, "hidden", s->count - f->nodes);
    tool_json_end_object(j);
}

static bool put_stacks(const struct report_page *h, struct tool_json *j) {
    const struct stacks *s = h->stacks;
    struct flame f = {0};
    f.value = calloc(s->count, sizeof(*f.value));
    f.number = calloc(s->count, sizeof(*f.number));
    f.label = calloc(s->labels.count + 1, sizeof(*f.label));
    f.depth = calloc(s->count, sizeof(*f.depth));
    bool good = f.value != NULL && f.number != NULL && f.label != NULL &&
                f.depth != NULL;
    if (good) {
        uint64_t parts = UINT64_MAX;
        add_values(s, &f);
        choose_nodes(s, &f, parts, SIZE_MAX);
        for (parts = 10000; f.nodes > REPORT_PAGE_NODES && parts > 1;
             parts /= 2)
            choose_nodes(s, &f, parts, SIZE_MAX);
        if (f.nodes > REPORT_PAGE_NODES)
            choose_nodes(s, &f, parts, REPORT_PAGE_NODES);
        put_flame(h, &f, j);
    }
    free(f.value);
    free(f.number);
    free(f.label);
    free(f.depth);
    return good;
}

/* --- The whole ------------------------------------------------------------ */

bool report_page_put_data(struct report_page *h, struct tool_json *j) {
    bool good = true;
    tool_json_begin_object(j, NULL);
    tool_json_string(j, "file", h->name);
    tool_json_string(j, "by", h->by);
    tool_json_string(j, "live", h->when);
    tool_json_bool(j, "running", h->t->running);
    if (h->growth != NULL)
        tool_json_u64(j, "growth_ns", h->growth_ns);
    tool_json_begin_array(j, "columns");
    static const char *const columns[] = {
        "location",    "bytes",        "calls",       "live_bytes",
        "live_blocks", "peak_bytes",   "peak_blocks", "temporary",
        "ended",       "life_ns_mean", "growth"};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(columns); i++)
        tool_json_string(j, NULL, columns[i]);
    tool_json_end_array(j);
    good = put_rows(h, j);
    if (good && h->stacks != NULL)
        good = put_stacks(h, j);
    if (good && h->series != NULL)
        put_history(h, j);
    tool_json_end_object(j);
    return good;
}
