/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/report_page.h"

#include "base/bits.h"
#include "base/check.h"
#include "cmd/malloc_trace/report/report_labels.h"
#include "common/collections.h"
#include "common/main.h"
#include "common/text.h"
#include "pages/page.h"
#include "pages/plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Memory over time ----------------------------------------------------- */

/* Series with a colour of their own, k1 to k7; k8 is that of the others. */
#define SERIES 7u

/* Number of the name of KEY's series. REPORT_TEXTS_NONE: out of memory. */
static uint32_t key_text(const struct report_page *h,
                         struct report_labels *functions, uint64_t key) {
    const struct report_thread *thread;
    char *text = NULL;
    int length;
    switch (report_rows_tally_by(h->rows_by)) {
    case REPORT_TALLY_BY_SIZE:
        length = asprintf(&text, "%" PRIu64 " bytes", key);
        break;
    case REPORT_TALLY_BY_THREAD:
        thread = &h->t->thread[key];
        length =
            asprintf(&text, "thread %" PRIu32 " %s", thread->id, thread->name);
        break;
    default:
        return report_labels_site(functions, (uint32_t)key);
    }
    uint32_t number = length < 0 ? REPORT_TEXTS_NONE
                                 : report_texts_number(functions->texts, text);
    free(text);
    return number;
}

static int compare_series(const void *a, const void *b) {
    const struct report_page_series *x = a, *y = b;
    return x->sum != y->sum ? (x->sum < y->sum ? 1 : -1)
                            : strcmp(x->name, y->name);
}

/* Adds K to the series of its name; ROOM is that of H->series. False: out of
   memory. */
static bool add_key(struct report_page *h, struct report_labels *functions,
                    size_t *room, const struct report_history_key *k) {
    uint32_t at = key_text(h, functions, h->t->tally[k->tally].key);
    if (at == REPORT_TEXTS_NONE ||
        !tool_array_reserve(&h->series, room, (size_t)at + 1,
                            sizeof(*h->series)))
        return false;
    struct report_page_series *s = &h->series[at];
    /* Texts are added for series alone. */
    TCM_ASSERT(at <= h->series_count);
    if (at == h->series_count) {
        memset(s, 0, sizeof(*s));
        s->name = strdup(functions->texts->text[at]);
        h->series_count++;
    }
    for (unsigned c = 0; c < h->history->columns; c++) {
        s->live[c] += (double)k->live[c];
        s->sum += (double)k->live[c];
    }
    return s->name != NULL;
}

/* Replaces the smallest series by "others", the rest of the totals. */
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

/* Finds the largest series, and the others. False: out of memory. */
static bool find_series(struct report_page *h) {
    struct report_texts texts = {0};
    struct report_labels functions;
    size_t room = 0;
    bool good = report_labels_init(&functions, &texts, h->names, &h->t->sites,
                                   REPORT_BY_FUNCTION, h->skip);
    h->series_count = 0;
    for (size_t i = 0; i < h->history->keys && good; i++)
        good = add_key(h, &functions, &room, &h->history->key[i]);
    report_labels_fini(&functions);
    report_texts_fini(&texts);
    if (good && h->series_count != 0)
        qsort(h->series, h->series_count, sizeof(*h->series), compare_series);
    return good && add_others(h, &room);
}

static uint32_t label_of(struct report_labels *l, enum report_by by,
                         const struct report_tally *a) {
    uint32_t site = (uint32_t)a->key;
    return by == REPORT_BY_STACK ? report_labels_stack(l, site)
                                 : report_labels_site(l, site);
}

/* Adds the growth of followed keys since column FROM to their rows. ROW: index
   plus 1, by number of the text, of which there are TEXTS. False: out of
   memory. */
static bool add_growth(struct report_page *h, const uint32_t *row, size_t texts,
                       unsigned from) {
    const struct report_history *y = h->history;
    struct report_labels labels;
    bool good = report_labels_init(&labels, &h->rows->texts, h->names,
                                   &h->t->sites, h->rows_by, h->skip);
    for (size_t i = 0; i < y->keys && good; i++) {
        const struct report_history_key *k = &y->key[i];
        uint32_t text = label_of(&labels, h->rows_by, &h->t->tally[k->tally]);
        good = text != REPORT_TEXTS_NONE;
        if (!good || text >= texts || row[text] == 0)
            continue;
        double *to = &h->growth[row[text] - 1];
        *to = (isnan(*to) ? 0 : *to) + (double)k->live[y->columns - 1] -
              (double)k->live[from];
    }
    report_labels_fini(&labels);
    return good;
}

/* Finds how live bytes grew in the last part of the time: a quarter, of a live
   page at most a minute. False: out of memory. */
static bool find_growth(struct report_page *h) {
    const struct report_history *y = h->history;
    size_t texts = h->rows->texts.count;
    uint64_t most = UINT64_C(60000000000);
    if (y->columns < 2 ||
        report_rows_tally_by(h->rows_by) != REPORT_TALLY_BY_SITE)
        return true;
    uint64_t back = (y->columns - 1) / 4;
    if (h->is_live && back * y->step_ns > most)
        back = most / y->step_ns;
    unsigned from = y->columns - 1 - (unsigned)tcm_max_u64(back, 1);
    uint32_t *row = calloc(texts + 1, sizeof(*row));
    h->growth = malloc((h->rows->count + 1) * sizeof(*h->growth));
    bool good = row != NULL && h->growth != NULL;
    for (size_t i = 0; i < h->rows->count && good; i++) {
        uint32_t text =
            report_texts_number(&h->rows->texts, h->rows->row[i].location);
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

static void free_figures(struct report_page *h) {
    free(h->growth);
    h->growth = NULL;
    for (size_t i = 0; i < h->series_count; i++)
        free(h->series[i].name);
    free(h->series);
    h->series = NULL;
    h->series_count = 0;
}

static void put_history_data(const struct report_page *h, struct tool_json *j) {
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

static void put_row_data(struct tool_json *j, const char *key, const char *name,
                         const struct report_tally *a, double growth) {
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
        tool_json_u64(j, NULL, report_tally_mean_ns(a));
    else
        tool_json_null(j, NULL);
    tool_json_double(j, NULL, growth);
    tool_json_end_array(j);
    tool_json_dense(j, false);
}

struct order {
    const struct report_rows *rows;
    enum report_sort sort;
};

static int compare_rows(const void *a, const void *b, void *ctx) {
    const struct order *o = ctx;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    double p = report_rows_value(&o->rows->row[x].sum, o->sort);
    double q = report_rows_value(&o->rows->row[y].sum, o->sort);
    return p != q ? (p < q ? 1 : -1) : (x < y ? -1 : x > y);
}

/* Marks the rows with most of some figure. False: out of memory. */
static bool choose_rows(const struct report_rows *r, bool *chosen) {
    static const enum report_sort sorts[] = {
        REPORT_SORT_BYTES, REPORT_SORT_CALLS, REPORT_SORT_LIVE,
        REPORT_SORT_PEAK, REPORT_SORT_TEMPORARY};
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

static bool put_rows_data(const struct report_page *h, struct tool_json *j) {
    const struct report_rows *r = h->rows;
    bool *chosen = calloc(r->count + 1, sizeof(*chosen));
    struct report_tally rest = {0};
    struct tool_text text;
    size_t left = 0;
    if (chosen == NULL || !choose_rows(r, chosen)) {
        free(chosen);
        return false;
    }
    put_row_data(j, "total", "all", &r->total,
                 h->growth == NULL ? NAN : h->all_growth);
    tool_json_begin_array(j, "rows");
    for (size_t i = 0; i < r->count; i++)
        if (chosen[i]) {
            put_row_data(j, NULL, r->row[i].location, &r->row[i].sum,
                         h->growth == NULL ? NAN : h->growth[i]);
        } else {
            report_tally_add(&rest, &r->row[i].sum);
            left++;
        }
    tool_json_end_array(j);
    char name[80] = "";
    if (left != 0)
        snprintf(name, sizeof(name), "%s more, with less of everything",
                 tool_text_count(&text, left));
    put_row_data(j, "rest", name, &rest, NAN);
    free(chosen);
    return true;
}

/* --- Flame graph ---------------------------------------------------------- */

enum { VALUES = 4 };

static const char *const value_name[VALUES] = {"bytes", "peak", "live",
                                               "temporary"};

struct flame {
    uint64_t (*value)[VALUES]; /* of a node and its callees */
    uint32_t *number;          /* of a node in the page, plus 1; 0: not in it */
    uint32_t *label;           /* number in the page, by label; 0: none yet */
    uint16_t *depth;
    size_t nodes, labels;
};

static void add_values(const struct report_stacks *s, struct flame *f) {
    for (size_t i = s->count; i-- > 0;) {
        if (s->node[i].sum != 0) {
            const struct report_tally *a = &s->sum[s->node[i].sum - 1];
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

/* Numbers the nodes that have 1/PARTS of some value, at most MOST of them. The
   script descends no deeper than recorded stacks. */
static void choose_nodes(const struct report_stacks *s, struct flame *f,
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
    const struct report_stacks *s = h->stacks;
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

static void put_flame_data(const struct report_page *h, struct flame *f,
                           struct tool_json *j) {
    const struct report_stacks *s = h->stacks;
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

static bool put_stacks_data(const struct report_page *h, struct tool_json *j) {
    const struct report_stacks *s = h->stacks;
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
        put_flame_data(h, &f, j);
    }
    free(f.value);
    free(f.number);
    free(f.label);
    free(f.depth);
    return good;
}

/* --- All figures ---------------------------------------------------------- */

/* Writes the figures for the script. False: out of memory. */
static bool put_data(struct report_page *h, struct tool_json *j) {
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
    good = put_rows_data(h, j);
    if (good && h->stacks != NULL)
        good = put_stacks_data(h, j);
    if (good && h->series != NULL)
        put_history_data(h, j);
    tool_json_end_object(j);
    return good;
}

/* --- The page ------------------------------------------------------------- */

/* Rows of the table without script. */
#define PLAIN_ROWS 50u

/* --- Head ----------------------------------------------------------------- */

static const char *program_of(const struct report_page *h) {
    return h->t->have_header && h->t->header.executable[0] != '\0'
               ? h->t->header.executable
               : h->name;
}

/* Finds the row with most of a figure; rows of calls without a site do not
   count. NULL: there is none. */
static const struct report_row *find_largest(const struct report_page *h,
                                             enum report_sort sort) {
    const struct report_row *largest = NULL;
    for (size_t i = 0; i < h->rows->count; i++) {
        const struct report_row *row = &h->rows->row[i];
        double v = report_rows_value(&row->sum, sort);
        if (v > 0 && strcmp(row->location, "(not known)") != 0 &&
            (largest == NULL || v > report_rows_value(&largest->sum, sort)))
            largest = row;
    }
    return largest;
}

/* Puts the code that asks for most memory, and that which holds most of it at
   the peak. */
static void put_largest(const struct report_page *h) {
    struct page_writer *p = h->page;
    const struct report_tally *all = &h->rows->total;
    struct tool_text text[3];
    const struct report_row *most = find_largest(h, REPORT_SORT_BYTES);
    const struct report_row *peak = find_largest(h, REPORT_SORT_PEAK);
    if (report_rows_tally_by(h->rows_by) != REPORT_TALLY_BY_SITE ||
        h->t->sited == 0 || most == NULL)
        return;
    page_put(p, "<p>The place that asks for most memory is ");
    page_element(p, "b", most->location);
    page_putf(p, ": %s of %s, in %s calls",
              tool_text_bytes(&text[0], most->sum.bytes),
              tool_text_bytes(&text[1], all->bytes),
              tool_text_count(&text[2], most->sum.calls));
    if (peak != NULL) {
        if (peak == most) {
            page_put(p, "; it holds most at the peak, too");
        } else {
            page_put(p, ". The place that holds most at the peak is ");
            page_element(p, "b", peak->location);
        }
        page_putf(p, ": %s of %s",
                  tool_text_bytes(&text[0], peak->sum.at_peak_bytes),
                  tool_text_bytes(&text[1], all->at_peak_bytes));
    }
    page_put(p, ".</p>\n");
}

static void put_head(const struct report_page *h) {
    struct page_writer *p = h->page;
    const struct report_tally *all = &h->rows->total;
    struct tool_text text[5];
    uint64_t start = h->t->start_ns;
    page_put(p, "<header id=\"head\">\n<h1>Who allocates in ");
    page_text(p, program_of(h));
    page_put(p, "</h1>\n<p class=\"note\">");
    if (h->t->traces > 1)
        page_putf(p, "%u traces, the first of which is ", h->t->traces);
    else
        page_put(p, "Trace ");
    page_text(p, h->name);
    if (h->t->traces == 1)
        page_putf(p, ", %s long",
                  tool_text_ns(&text[0], h->t->end_ns > start
                                             ? h->t->end_ns - start
                                             : 0));
    if (h->t->running)
        page_put(p, "; still being recorded: this is up to now");
    if (h->t->status == TOOL_DAMAGED)
        page_put(p, "; it is cut, damaged or lacks events, and these are "
                    "the figures of what is there");
    page_put(p, "</p>\n</header>\n");
    if (h->is_live)
        page_put(p, "<p class=\"note live\" id=\"live\"></p>\n");
    page_put(p, "<section class=\"card lead\" id=\"lead\" "
                "aria-label=\"In short\">\n");
    put_largest(h);
    page_putf(p, "<p>%s asked for in %s calls; %s alive in %s block%s ",
              tool_text_bytes(&text[0], all->bytes),
              tool_text_count(&text[1], all->calls),
              tool_text_bytes(&text[2], all->live_bytes),
              tool_text_count(&text[3], all->live), all->live == 1 ? "" : "s");
    page_text(p, h->when);
    page_putf(p, ".</p>\n<p>At most %s were alive, after %s. ",
              tool_text_bytes(&text[0], h->t->peak_bytes),
              tool_text_ns(&text[1],
                           h->t->peak_ns > start ? h->t->peak_ns - start : 0));
    page_putf(
        p,
        "Blocks that their thread freed or resized in its very next call: "
        "%s.</p>\n",
        tool_text_count(&text[2], all->temporary));
    if (h->t->sampled)
        page_putf(p,
                  "<p>Sites were noted for samples of the calls: these "
                  "figures are estimates. Exactly %s were asked for in %s "
                  "calls.</p>\n",
                  tool_text_bytes(&text[3], h->t->exact.bytes),
                  tool_text_count(&text[4], h->t->exact.calls));
    if (h->stacks != NULL && h->t->sited == 0)
        page_put(p, "<p>The trace has no call sites: record with "
                    "TCMALLOC_TRACE_SITES.</p>\n");
    page_put(p, "</section>\n");
}

/* --- Plot of memory over time --------------------------------------------- */

static unsigned colour_of(const struct report_page *h, size_t series) {
    return series + 1 == h->series_count ? 8 : (unsigned)series + 1;
}

static void put_key(const struct report_page *h) {
    struct page_writer *p = h->page;
    page_put(p, "<ul class=\"key\">\n");
    for (size_t i = 0; i < h->series_count; i++) {
        if (h->series[i].sum <= 0)
            continue;
        page_putf(p, "<li class=\"w w%zu k%u\">", i, colour_of(h, i));
        page_text(p, h->series[i].name);
        page_put(p, "</li>\n");
    }
    page_put(p, "</ul>\n");
}

/* Draws series as bands on each other, the largest at the bottom. */
static void put_bands(const struct report_page *h, const struct plot_axis *y) {
    struct plot_point low[REPORT_HISTORY_COLUMNS], high[REPORT_HISTORY_COLUMNS];
    double below[REPORT_HISTORY_COLUMNS] = {0};
    char class_name[64];
    unsigned n = h->history->columns;
    for (size_t i = 0; i < h->series_count; i++) {
        for (unsigned c = 0; c < n; c++) {
            double x = n < 2 ? 0 : 100.0 * c / (n - 1);
            low[c] = (struct plot_point){x, plot_axis_at(y, below[c])};
            below[c] += h->series[i].live[c];
            high[c] = (struct plot_point){x, plot_axis_at(y, below[c])};
        }
        if (h->series[i].sum <= 0)
            continue;
        snprintf(class_name, sizeof(class_name), "band w w%zu k%u", i,
                 colour_of(h, i));
        plot_band(h->page, low, high, n, class_name);
    }
}

static void put_history(const struct report_page *h) {
    struct page_writer *p = h->page;
    struct plot_axis x, y;
    struct tool_text text[2];
    double end = (double)h->history->step_ns * (h->history->columns - 1);
    double top = (double)h->t->peak_bytes;
    /* Estimates from samples may exceed the peak. */
    for (unsigned c = 0; c < h->history->columns; c++) {
        double sum = 0;
        for (size_t i = 0; i < h->series_count; i++)
            sum += h->series[i].live[c];
        top = fmax(top, sum);
    }
    uint64_t peak_ns =
        h->t->peak_ns > h->t->start_ns ? h->t->peak_ns - h->t->start_ns : 0;
    if (top <= 0 || h->history->columns < 2)
        return;
    page_put(p, "<figure class=\"card\" id=\"history\">\n<figcaption>"
                "<h2>Memory over time</h2><p class=\"note\">Live bytes, by "
                "what asked for most of them; the ring is the peak.</p>");
    char untouched[UNTOUCHED_TEXT];
    if (untouched_text(&h->t->untouched, UNTOUCHED_SHOWN, untouched) != NULL)
        page_putf(p, "<p class=\"note\">But %s.</p>", untouched);
    page_put(p, "</figcaption>\n");
    put_key(h);
    plot_axis_linear(&y, 0, top * 1.05, plot_axis_byte_unit(top), 5);
    plot_axis_linear(&x, 0, end, 1, 5);
    plot_begin(p, "", "Live bytes over time, by who allocated them",
               " data-cross=\"history\"");
    plot_y(p, &y, plot_tick_bytes, "live bytes");
    plot_x(p, &x, plot_tick_ns, "time since the start");
    put_bands(h, &y);
    page_putf(p,
              "<circle class=\"peak\" cx=\"%.2f%%\" cy=\"%.2f%%\" "
              "r=\"5\"><title>peak: %s after %s</title></circle>\n",
              fmin(plot_axis_at(&x, (double)peak_ns), 100),
              100 - plot_axis_at(&y, (double)h->t->peak_bytes),
              tool_text_bytes(&text[0], h->t->peak_bytes),
              tool_text_ns(&text[1], peak_ns));
    plot_end(p);
    page_put(p, "</figure>\n");
}

/* --- Places for the script ------------------------------------------------ */

static void put_controls(const struct report_page *h) {
    struct page_writer *p = h->page;
    page_put(p, "<section class=\"card bar\" id=\"controls\" hidden "
                "aria-label=\"What is shown\">\n"
                "<span class=\"choice\" id=\"measures\">"
                "<button>allocated</button><button>at the peak</button>"
                "<button>alive ");
    page_text(p, h->when);
    page_put(p, "</button><button>temporary</button></span>\n"
                "<input id=\"words\" type=\"search\" "
                "placeholder=\"Search ( / )\" aria-label=\"Search\">\n"
                "<output id=\"found\" aria-live=\"polite\"></output>\n"
                "<button id=\"reset\">Whole graph</button>\n");
    if (h->is_live)
        page_put(p, "<button id=\"pause\" aria-pressed=\"false\">Pause"
                    "</button>\n");
    page_put(p, "</section>\n");
}

static void put_flame(const struct report_page *h) {
    struct page_writer *p = h->page;
    page_put(p, "<section class=\"card long\">\n<h2>Flame graph</h2>\n"
                "<p class=\"note\">What called what, from the outermost "
                "function down to the one that asked for memory; the "
                "width is the share. A click, or Enter, makes a frame as "
                "wide as the page; arrows go from frame to frame, Escape "
                "shows all.</p>\n<noscript><p>This drawing needs the "
                "script; the table below does not.</p></noscript>\n"
                "<div class=\"flame\" id=\"flame\" role=\"tree\" "
                "aria-label=\"Flame graph\"></div>\n"
                "<p class=\"says-frame\" id=\"says-frame\"></p>\n"
                "<p class=\"note\" id=\"hidden\"></p>\n");
    if (h->stacks->cut != 0)
        page_putf(p,
                  "<p class=\"note\">%" PRIu64 " stacks have more frames "
                  "than are shown.</p>\n",
                  h->stacks->cut);
    page_put(p, "</section>\n");
}

static void put_cell(struct page_writer *p, const char *class_name,
                     const char *text) {
    page_putf(p, "<td%s%s%s>", class_name[0] == '\0' ? "" : " class=\"",
              class_name, class_name[0] == '\0' ? "" : "\"");
    page_text(p, text);
    page_put(p, "</td>");
}

/* GROWTH: NULL if the table has no such column. */
static void put_row(struct page_writer *p, const char *class_name,
                    const char *name, const struct report_tally *a,
                    const double *growth) {
    struct tool_text text;
    page_putf(p, "<tr%s>", class_name);
    put_cell(p, "", tool_text_bytes(&text, a->bytes));
    put_cell(p, "", tool_text_count(&text, a->calls));
    put_cell(p, "", tool_text_bytes(&text, a->live_bytes));
    put_cell(p, "wide", tool_text_count(&text, a->live));
    put_cell(p, "", tool_text_bytes(&text, a->at_peak_bytes));
    put_cell(p, "wide",
             a->ended == 0 ? "-"
                           : tool_text_ns(&text, report_tally_mean_ns(a)));
    put_cell(p, "wide",
             a->calls == 0 ? "-"
                           : tool_text_percent(&text, a->temporary, a->calls));
    if (growth != NULL) {
        char change[40] = "-";
        if (!isnan(*growth))
            snprintf(change, sizeof(change), "%s%s",
                     *growth < 0   ? "-"
                     : *growth > 0 ? "+"
                                   : "",
                     tool_text_bytes(&text, (uint64_t)(fabs(*growth) + .5)));
        put_cell(p, "", change);
    }
    put_cell(p, "share wide", "");
    put_cell(p, "place", name);
    page_put(p, "</tr>\n");
}

static void put_table(const struct report_page *h) {
    static const struct {
        const char *text;
        bool wide;
    } heads[] = {{"bytes", false},   {"calls", false},   {"alive", false},
                 {"blocks", true},   {"at peak", false}, {"mean life", true},
                 {"temporary", true}};
    struct page_writer *p = h->page;
    struct tool_text text;
    page_put(p, "<section class=\"card long\">\n<h2>By ");
    page_text(p, h->by);
    page_putf(p,
              "</h2>\n<div class=\"scroll\"><table class=\"sites%s\">\n"
              "<thead><tr>",
              h->growth != NULL ? " grows" : "");
    for (size_t i = 0; i < TCM_ARRAY_SIZE(heads); i++)
        page_putf(p, "<th scope=\"col\" data-column=\"%zu\"%s>%s</th>", i,
                  heads[i].wide ? " class=\"wide\"" : "", heads[i].text);
    if (h->growth != NULL)
        page_putf(p,
                  "<th scope=\"col\" data-column=\"%zu\" "
                  "id=\"growth\">growth in %s</th>",
                  TCM_ARRAY_SIZE(heads), tool_text_ns(&text, h->growth_ns));
    page_put(p, "<th class=\"wide\"></th><th scope=\"col\">");
    page_text(p, h->by);
    page_put(p, "</th></tr></thead>\n<tbody id=\"rows\">\n");
    put_row(p, " class=\"all\"", "all", &h->rows->total,
            h->growth == NULL ? NULL : &h->all_growth);
    for (size_t i = 0; i < h->rows->count && i < PLAIN_ROWS; i++)
        put_row(p, "", h->rows->row[i].location, &h->rows->row[i].sum,
                h->growth == NULL ? NULL : &h->growth[i]);
    page_put(p, "</tbody></table></div>\n<p class=\"more\">"
                "<button id=\"more\" hidden>Show more</button>"
                "<small id=\"how-many\">");
    if (h->rows->count > PLAIN_ROWS)
        page_putf(p, "%s more rows",
                  tool_text_count(&text, h->rows->count - PLAIN_ROWS));
    page_put(p, "</small></p>\n</section>\n");
}

/* --- The whole page ------------------------------------------------------- */

static bool put_all(struct report_page *h) {
    put_head(h);
    if (h->history != NULL && h->t->traces == 1) {
        if (!find_series(h) ||
            (h->t->options.moment == REPORT_AT_END && !find_growth(h)))
            return false;
        put_history(h);
    }
    put_controls(h);
    if (h->stacks != NULL)
        put_flame(h);
    put_table(h);
    bool good = put_data(h, page_data(h->page));
    page_data_end(h->page);
    if (h->page->script == NULL) {
        page_put(h->page, "<script>\n");
        page_put(h->page, report_page_js);
        page_put(h->page, "</script>\n");
    }
    return good;
}

static bool put_page(struct report_page *h) {
    page_put(h->page, "<style>\n");
    page_put(h->page, report_page_css);
    page_put(h->page, "</style>\n");
    bool good = put_all(h);
    free_figures(h);
    if (!good)
        tool_out_of_memory();
    return page_close(h->page, good);
}

static void put_title(const struct report_page *h, char title[300]) {
    snprintf(title, 300, "Who allocates in %.200s", program_of(h));
}

bool report_page_write(struct report_page *h, const char *file) {
    struct page_writer page;
    char title[300];
    put_title(h, title);
    if (!page_open(&page, file, title))
        return false;
    h->page = &page;
    return put_page(h);
}

bool report_page_write_stream(struct report_page *h, FILE *out,
                              const char *script) {
    struct page_writer page;
    char title[300];
    put_title(h, title);
    page_open_stream(&page, out, title, script);
    h->page = &page;
    return put_page(h);
}
