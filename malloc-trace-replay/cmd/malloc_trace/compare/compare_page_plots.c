/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_page_plots.h"

#include "cmd/malloc_trace/compare/compare_print.h"
#include "pages/plot.h"
#include "model/interval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Bars ----------------------------------------------------------------- */

/* Where bars end: one that takes many times what others do is cut. */
static double bar_end(const struct compare_page *h, enum compare_metric m,
                      double *room) {
    size_t n = 0;
    double most = 1;
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        const struct verdict *v = &h->sheet.verdict[h->sheet.order[k]][m];
        if (!v->measured)
            continue;
        room[n++] = v->ratio;
        most = fmax(most, v->has_interval ? v->high : v->ratio);
    }
    double middle = n == 0 ? 1 : interval_median(room, n);
    return fmin(most, fmax(4 * middle, 1.5)) * 1.03;
}

static void put_bar(struct compare_page *h, size_t i, enum compare_metric m,
                    double end) {
    const struct verdict *v = &h->sheet.verdict[i][m];
    struct tool_page *p = h->page;
    double at = 100 * fmin(v->ratio / end, 1);
    char figure[32], text[64];
    compare_figure_text(figure, m, v->typical);
    compare_page_ratio_text(h, text, i, m);
    tool_page_putf(p, "<li class=\"w w%zu k%u\"><span class=\"name\">", i,
                   h->colour[i]);
    tool_page_text(p, compare_page_name(h, i));
    tool_page_putf(p,
                   "</span><svg aria-hidden=\"true\"><rect class=\"bar\" "
                   "y=\"2\" width=\"%.2f%%\" height=\"16\" rx=\"2\"><title>",
                   at);
    tool_page_text(p, compare_page_name(h, i));
    tool_page_putf(p, ": %s, %s</title></rect>", figure, text);
    if (v->ratio > end)
        tool_page_put(p, "<line class=\"cut\" x1=\"95%\" x2=\"94%\" y1=\"-1\" "
                         "y2=\"21\"/>");
    tool_page_putf(p,
                   "<line class=\"one\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"-3\" "
                   "y2=\"23\"/>",
                   100 / end, 100 / end);
    if (v->has_interval && i != h->c->baseline && v->low < end) {
        double low = 100 * v->low / end, high = 100 * fmin(v->high / end, 1);
        for (int k = 0; k < 2; k++)
            tool_page_putf(p,
                           "<line class=\"%s\" x1=\"%.2f%%\" x2=\"%.2f%%\" "
                           "y1=\"10\" y2=\"10\"/>",
                           k == 0 ? "halo" : "whisker", low, high);
        for (int k = 0; k < 2; k++)
            tool_page_putf(p,
                           "<line class=\"whisker\" x1=\"%.2f%%\" "
                           "x2=\"%.2f%%\" y1=\"6\" y2=\"14\"/>",
                           k == 0 ? low : high, k == 0 ? low : high);
    }
    tool_page_putf(p, "</svg><span class=\"said\"><b>%s</b> %s ", figure,
                   i == h->c->baseline ? "" : text);
    compare_page_says(h, i, m);
    tool_page_put(p, "</span></li>\n");
}

void compare_page_bars(struct compare_page *h, enum compare_metric m) {
    size_t n = h->sheet.ranked;
    double *room = malloc((n + 1) * sizeof(*room));
    size_t *order = malloc((n + 1) * sizeof(*order));
    char note[400];
    size_t count = 0;
    for (size_t k = 0; room != NULL && order != NULL && k < n; k++) {
        size_t i = h->sheet.order[k], at;
        if (!h->sheet.verdict[i][m].measured)
            continue;
        for (at = count++; at > 0 && h->sheet.verdict[order[at - 1]][m].ratio >
                                         h->sheet.verdict[i][m].ratio;
             at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    if (count != 0) {
        snprintf(note, sizeof(note),
                 "Less is better. Bars are ratios to %.100s, the dashed line; "
                 "the mark at a bar's end is the interval.",
                 compare_page_name(h, h->c->baseline));
        compare_page_begin_card(h, compare_metric[m].title, note);
        compare_page_begin_rows(h, "ol", "rows");
        double end = bar_end(h, m, room);
        for (size_t k = 0; k < count; k++)
            put_bar(h, order[k], m, end);
        tool_page_put(h->page, "</ol>\n");
        compare_page_end_card(h);
    }
    free(room);
    free(order);
}

/* --- Dots ----------------------------------------------------------------- */

enum { MOST_DOTS = 900 };

/* What is drawn of contestant I: figures of its runs, or where there are
   several traces each one's ratio to the baseline, the middle of its rounds.
   LABEL gets the number of the round or trace. ROOM has room for the rounds.
   Returns how many. */
static size_t dots_of(const struct compare_page *h, size_t i,
                      enum compare_metric m, double *dot, size_t *label,
                      double *room) {
    const struct comparison *c = h->c;
    size_t n = 0;
    if (c->traces == 1) {
        for (size_t r = 1; r <= c->rounds; r++) {
            double v = verdict_figure(c, r, 0, i, m);
            if (isnan(v))
                continue;
            label[n] = r;
            dot[n++] = v;
        }
        return n;
    }
    for (size_t t = 0; t < c->traces; t++) {
        size_t have = 0;
        for (size_t r = 1; r <= c->rounds; r++) {
            double v = verdict_figure(c, r, t, i, m) /
                       verdict_figure(c, r, t, c->baseline, m);
            if (isfinite(v))
                room[have++] = v;
        }
        if (have == 0)
            continue;
        label[n] = t;
        dot[n++] = interval_median(room, have);
    }
    return n;
}

struct dots {
    double *dot, *room;
    size_t *label;
    struct tool_axis axis;
    bool are_ratios;
};

static void put_dot_row(struct compare_page *h, size_t i, enum compare_metric m,
                        const struct dots *d) {
    struct tool_page *p = h->page;
    size_t n = dots_of(h, i, m, d->dot, d->label, d->room);
    size_t most = MOST_DOTS / h->sheet.ranked + 1;
    size_t step = (n + most - 1) / most;
    const struct verdict *v = &h->sheet.verdict[i][m];
    double middle =
        tool_axis_at(&d->axis, d->are_ratios ? v->ratio : v->typical);
    tool_page_putf(p, "<li class=\"w w%zu k%u\"><span class=\"name\">", i,
                   h->colour[i]);
    tool_page_text(p, compare_page_name(h, i));
    tool_page_put(p, "</span><svg aria-hidden=\"true\"><line class=\"track\" "
                     "x2=\"100%\" y1=\"10\" y2=\"10\"/>");
    if (middle >= 0 && middle <= 100)
        tool_page_putf(p,
                       "<line class=\"middle\" x1=\"%.2f%%\" x2=\"%.2f%%\" "
                       "y2=\"20\"/>",
                       middle, middle);
    for (size_t k = 0; k < n; k += step) {
        char text[32];
        tool_page_putf(p, "<circle cx=\"%.2f%%\" cy=\"%zu\" r=\"3.5\"><title>",
                       tool_axis_at(&d->axis, d->dot[k]),
                       6 + d->label[k] * 5 % 9);
        tool_page_text(p, compare_page_name(h, i));
        if (d->are_ratios) {
            tool_page_put(p, ", ");
            tool_page_text(p, h->c->trace[d->label[k]].name);
            tool_page_putf(p, ": %s", compare_ratio_text(text, d->dot[k]));
        } else {
            tool_page_putf(p, ", round %zu: %s", d->label[k],
                           compare_figure_text(text, m, d->dot[k]));
        }
        tool_page_put(p, "</title></circle>");
    }
    tool_page_put(p, "</svg></li>\n");
}

static void put_dot_axis(struct compare_page *h, const struct tool_axis *a,
                         tool_tick_text *text) {
    char room[32];
    tool_page_put(h->page, "<li aria-hidden=\"true\"><span></span><svg "
                           "class=\"axis\">");
    for (unsigned i = 0; i < a->ticks; i++) {
        double at = tool_axis_at(a, a->tick[i]);
        tool_page_putf(h->page,
                       "<text style=\"text-anchor:%s\" x=\"%.2f%%\" "
                       "y=\"13\">%s</text>",
                       at < 5    ? "start"
                       : at > 95 ? "end"
                                 : "middle",
                       at, text(room, a->tick[i]));
    }
    tool_page_put(h->page, "</svg></li>\n");
}

static void put_dots(struct compare_page *h, enum compare_metric m,
                     struct dots *d) {
    double low = INFINITY, high = -INFINITY;
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t n = dots_of(h, h->sheet.order[k], m, d->dot, d->label, d->room);
        for (size_t i = 0; i < n; i++) {
            low = fmin(low, d->dot[i]);
            high = fmax(high, d->dot[i]);
        }
    }
    if (!(low <= high))
        return;
    bool is_bytes = m == METRIC_PEAK_RSS && !d->are_ratios;
    double edge = (high - low) * 0.04;
    if (low > 0 && high > 20 * low)
        tool_axis_log(&d->axis, low * 0.9, high * 1.1);
    else
        tool_axis_linear(&d->axis, fmax(low - edge, fmin(low, 0)), high + edge,
                         is_bytes ? tool_axis_byte_unit(high) : 1, 5);
    char title[100];
    snprintf(title, sizeof(title), "Every %s: %s",
             d->are_ratios ? "trace" : "run", compare_metric[m].title);
    compare_page_begin_card(
        h, title,
        d->are_ratios
            ? "A dot is a trace: the ratio to the baseline, the middle "
              "of its rounds. The line is that of all."
            : "A dot is a run, the line their middle. The axis does not "
              "begin at nought.");
    compare_page_begin_rows(h, "ul", "rows strip");
    for (size_t k = 0; k < h->sheet.ranked; k++)
        if (h->sheet.verdict[h->sheet.order[k]][m].measured)
            put_dot_row(h, h->sheet.order[k], m, d);
    put_dot_axis(h, &d->axis,
                 d->are_ratios ? compare_page_tick_ratio
                 : is_bytes    ? tool_tick_bytes
                               : tool_tick_ns);
    tool_page_put(h->page, "</ul>\n");
    compare_page_end_card(h);
}

void compare_page_dots(struct compare_page *h, enum compare_metric m) {
    size_t n = h->c->rounds + h->c->traces + 1;
    struct dots d = {.are_ratios = h->c->traces > 1};
    d.dot = malloc(2 * n * sizeof(*d.dot));
    d.label = malloc(n * sizeof(*d.label));
    if (d.dot != NULL && d.label != NULL) {
        d.room = d.dot + n;
        put_dots(h, m, &d);
    }
    free(d.dot);
    free(d.label);
}

/* --- Time against memory -------------------------------------------------- */

static const struct verdict *of(const struct compare_page *h, size_t i,
                                enum compare_metric m) {
    return &h->sheet.verdict[i][m];
}

/* Nobody takes less of both, nor as much of one and less of the other. */
static bool on_frontier(const struct compare_page *h, size_t i) {
    double x = of(h, i, METRIC_TIME)->ratio,
           y = of(h, i, METRIC_PEAK_RSS)->ratio;
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t o = h->sheet.order[k];
        double ox = of(h, o, METRIC_TIME)->ratio;
        double oy = of(h, o, METRIC_PEAK_RSS)->ratio;
        if (of(h, o, METRIC_PEAK_RSS)->measured && ox <= x && oy <= y &&
            (ox < x || oy < y))
            return false;
    }
    return true;
}

static void axis_of_ratios(const struct compare_page *h, enum compare_metric m,
                           struct tool_axis *a) {
    double low = 1, high = 1;
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        const struct verdict *v = of(h, h->sheet.order[k], m);
        if (!v->measured)
            continue;
        low = fmin(low, v->has_interval ? v->low : v->ratio);
        high = fmax(high, v->has_interval ? v->high : v->ratio);
    }
    double edge = fmax((high - low) * 0.1, 0.01);
    if (high > 12 * low)
        tool_axis_log(a, low * 0.8, high * 1.25);
    else
        tool_axis_linear(a, fmax(low - edge, 0), high + edge, 1, 6);
}

/* Steps from one to the next of those on the frontier, which come in the order
   of time. */
static void put_frontier(struct compare_page *h, const struct tool_axis *x,
                         const struct tool_axis *y) {
    double before_x = -1, before_y = 0;
    tool_page_put(h->page, "<g class=\"frontier\">");
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t i = h->sheet.order[k];
        if (!of(h, i, METRIC_PEAK_RSS)->measured || !on_frontier(h, i))
            continue;
        double at_x = tool_axis_at(x, of(h, i, METRIC_TIME)->ratio);
        double at_y = 100 - tool_axis_at(y, of(h, i, METRIC_PEAK_RSS)->ratio);
        if (before_x < 0)
            before_y = 0;
        tool_page_putf(h->page,
                       "<line x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.2f%%\" "
                       "y2=\"%.2f%%\"/>",
                       at_x, at_x, before_y, at_y);
        if (before_x >= 0)
            tool_page_putf(h->page,
                           "<line x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.2f%%\" "
                           "y2=\"%.2f%%\"/>",
                           before_x, at_x, before_y, before_y);
        before_x = at_x;
        before_y = at_y;
    }
    if (before_x >= 0)
        tool_page_putf(h->page,
                       "<line x1=\"%.2f%%\" x2=\"100%%\" y1=\"%.2f%%\" "
                       "y2=\"%.2f%%\"/>",
                       before_x, before_y, before_y);
    tool_page_put(h->page, "</g>\n");
}

static void put_point(struct compare_page *h, size_t i,
                      const struct tool_axis *x, const struct tool_axis *y) {
    const struct verdict *time = of(h, i, METRIC_TIME);
    const struct verdict *rss = of(h, i, METRIC_PEAK_RSS);
    struct tool_page *p = h->page;
    double at_x = tool_axis_at(x, time->ratio);
    double at_y = 100 - tool_axis_at(y, rss->ratio);
    char text[2][64];
    tool_page_putf(p, "<g class=\"w w%zu k%u\">", i, h->colour[i]);
    if (i != h->c->baseline && time->has_interval)
        tool_page_putf(p,
                       "<line class=\"error\" x1=\"%.2f%%\" x2=\"%.2f%%\" "
                       "y1=\"%.2f%%\" y2=\"%.2f%%\"/>",
                       tool_axis_at(x, time->low), tool_axis_at(x, time->high),
                       at_y, at_y);
    if (i != h->c->baseline && rss->has_interval)
        tool_page_putf(p,
                       "<line class=\"error\" x1=\"%.2f%%\" x2=\"%.2f%%\" "
                       "y1=\"%.2f%%\" y2=\"%.2f%%\"/>",
                       at_x, at_x, 100 - tool_axis_at(y, rss->low),
                       100 - tool_axis_at(y, rss->high));
    tool_page_putf(p, "<circle cx=\"%.2f%%\" cy=\"%.2f%%\" r=\"7\"><title>",
                   at_x, at_y);
    tool_page_text(p, compare_page_name(h, i));
    tool_page_putf(p, "\ntime %s\npeak memory %s%s</title></circle></g>\n",
                   compare_page_ratio_text(h, text[0], i, METRIC_TIME),
                   compare_page_ratio_text(h, text[1], i, METRIC_PEAK_RSS),
                   on_frontier(h, i) ? "\non the frontier" : "");
}

/* Names beside points; of many, those that matter. */
static void put_point_names(struct compare_page *h, const struct tool_axis *x,
                            const struct tool_axis *y) {
    struct compare_page_labels l;
    if (!compare_page_labels_make(&l, h->sheet.ranked))
        return;
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t i = h->sheet.order[k];
        if (!of(h, i, METRIC_PEAK_RSS)->measured ||
            (h->sheet.ranked > COMPARE_PAGE_COLOURS && i != h->c->baseline &&
             !on_frontier(h, i)))
            continue;
        l.who[l.count] = i;
        l.y[l.count++] =
            100 - tool_axis_at(y, of(h, i, METRIC_PEAK_RSS)->ratio);
    }
    tool_plot_spread(l.y, l.room, l.count, 5.5, 1, 99);
    for (size_t k = 0; k < l.count; k++) {
        size_t i = l.who[k];
        double at = tool_axis_at(x, of(h, i, METRIC_TIME)->ratio);
        char text[64];
        tool_page_putf(h->page,
                       "<text class=\"label%s w w%zu k%u\" x=\"%.2f%%\" "
                       "dx=\"%d\" y=\"%.2f%%\" dy=\"-7\">",
                       at > 60 ? " left" : "", i, h->colour[i], at,
                       at > 60 ? -9 : 9, l.y[k]);
        tool_page_text(h->page, compare_page_short_name(h, i, text, 22));
        tool_page_put(h->page, "</text>\n");
    }
    free(l.y);
    free(l.who);
}

void compare_page_scatter(struct compare_page *h) {
    struct tool_axis x, y;
    char note[400];
    if (!of(h, h->c->baseline, METRIC_PEAK_RSS)->measured)
        return;
    axis_of_ratios(h, METRIC_TIME, &x);
    axis_of_ratios(h, METRIC_PEAK_RSS, &y);
    snprintf(note, sizeof(note),
             "Ratios to %.100s; down and to the left is better. On the line, "
             "the frontier, none is better in both. Crosses are intervals.",
             compare_page_name(h, h->c->baseline));
    compare_page_begin_card(h, "Time against peak memory", note);
    tool_plot_begin(h->page, "", "Time against peak memory, with the frontier",
                    "");
    tool_plot_x(h->page, &x, compare_page_tick_ratio,
                "processor time an operation");
    tool_plot_y(h->page, &y, compare_page_tick_ratio, "peak resident memory");
    double one_x = tool_axis_at(&x, 1), one_y = 100 - tool_axis_at(&y, 1);
    tool_page_putf(h->page,
                   "<line class=\"one\" x1=\"%.2f%%\" x2=\"%.2f%%\" "
                   "y2=\"100%%\"/><line class=\"one\" x2=\"100%%\" "
                   "y1=\"%.2f%%\" y2=\"%.2f%%\"/>\n",
                   one_x, one_x, one_y, one_y);
    put_frontier(h, &x, &y);
    for (size_t k = h->sheet.ranked; k-- > 0;)
        if (of(h, h->sheet.order[k], METRIC_PEAK_RSS)->measured)
            put_point(h, h->sheet.order[k], &x, &y);
    put_point_names(h, &x, &y);
    tool_plot_end(h->page);
    compare_page_end_card(h);
}
