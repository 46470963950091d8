/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_page_plots.h"

#include "cmd/malloc_trace/compare/compare_print.h"
#include "common/text.h"
#include "model/interval.h"
#include "pages/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Parts ---------------------------------------------------------------- */

const char *compare_page_ratio_text(const struct compare_page *h, char text[64],
                                    size_t contestant, enum compare_metric m) {
    const struct compare_verdict *v = &h->sheet.verdict[contestant][m];
    char ratio[16], low[16], high[16];
    if (contestant == h->c->baseline)
        return strcpy(text, "1");
    if (v->of_none)
        compare_figure_text(text, m, v->typical);
    else if (v->has_interval)
        snprintf(text, 64, "%s (%s to %s)", compare_ratio_text(ratio, v->ratio),
                 compare_ratio_text(low, v->low),
                 compare_ratio_text(high, v->high));
    else
        snprintf(text, 64, "%s", compare_ratio_text(ratio, v->ratio));
    return text;
}

void compare_page_says(struct compare_page *h, size_t contestant,
                       enum compare_metric m) {
    static const struct {
        const char *class_name, *mark;
    } look[] = {
        [VERDICT_NOT_SHOWN] = {"", "? "},
        [VERDICT_LESS] = {" less", "\xe2\x96\xbc "},
        [VERDICT_MORE] = {" more", "\xe2\x96\xb2 "},
        [VERDICT_NO_WORSE] = {"", "\xe2\x89\xa4 "},
    };
    const struct compare_verdict *v = &h->sheet.verdict[contestant][m];
    if (contestant == h->c->baseline) {
        page_put(h->page, "<span class=\"says\">baseline</span>");
        return;
    }
    if (v->measured && v->has_interval)
        page_putf(h->page, "<span class=\"says%s\">%s%s</span>",
                  look[v->kind].class_name, look[v->kind].mark,
                  compare_verdict_text(v, m));
}

static const char *name_of(const struct compare_page *h, size_t i) {
    return h->c->contestants.list[i].name;
}

/* The name in at most MOST bytes. Names of similar settings differ at their
   ends, so the middle is cut. */
static const char *short_name(const struct compare_page *h, size_t i,
                              char text[64], size_t most) {
    const char *name = name_of(h, i);
    size_t n = strlen(name), front = most / 3, back = n - (most - front);
    if (n <= most) {
        snprintf(text, 64, "%s", name);
        return text;
    }
    /* cuts are between characters */
    while (front > 0 && ((unsigned char)name[front] & 0xc0) == 0x80)
        front--;
    while (((unsigned char)name[back] & 0xc0) == 0x80)
        back++;
    snprintf(text, 64, "%.*s\xe2\x80\xa6%s", (int)front, name, name + back);
    return text;
}

/* Opens a list whose column of names is as wide as the longest. */
static void begin_rows(struct compare_page *h, const char *tag,
                       const char *class_name) {
    size_t most = 6;
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t n = strlen(name_of(h, h->sheet.order[k]));
        most = n > most ? n : most;
    }
    page_putf(h->page, "<%s class=\"%s\" style=\"--name:%zuch\">\n", tag,
              class_name, (most > 40 ? 40 : most) + 3);
}

static const char *tick_ratio(char text[32], double v) {
    snprintf(text, 32, "%g", v);
    return text;
}

static void begin_card(struct compare_page *h, const char *title,
                       const char *note) {
    page_put(h->page, "<figure class=\"card\">\n<figcaption>");
    page_element(h->page, "h2", title);
    page_put(h->page, "<p class=\"note\">");
    page_text(h->page, note);
    page_put(h->page, "</p></figcaption>\n");
}

static void end_card(struct compare_page *h) {
    page_put(h->page, "</figure>\n");
}

#define LIVE_BYTES SIZE_MAX

/* Names at the right end of lines: Y per cent from the top, and the contestant
   of each, or LIVE_BYTES. */
struct labels {
    double *y;
    size_t *contestant, *room;
    size_t count;
};

/* false: out of memory. */
static bool labels_make(struct labels *l, size_t most) {
    l->count = 0;
    l->y = malloc(most * sizeof(*l->y));
    l->contestant = malloc(2 * most * sizeof(*l->contestant));
    if (l->y != NULL && l->contestant != NULL) {
        l->room = l->contestant + most;
        return true;
    }
    free(l->y);
    free(l->contestant);
    return false;
}

/* Draws and frees them. */
static void labels_put(struct compare_page *h, struct labels *l) {
    plot_spread(l->y, l->room, l->count, 5, 0, 100);
    for (size_t k = 0; k < l->count; k++) {
        size_t i = l->contestant[k];
        char text[64] = "live bytes", class_name[64] = "";
        if (i != LIVE_BYTES) {
            snprintf(class_name, sizeof(class_name), " w w%zu k%u", i,
                     h->colour[i]);
            short_name(h, i, text, 15);
        }
        page_putf(h->page,
                  "<text class=\"label%s\" x=\"100%%\" dx=\"8\" "
                  "y=\"%.2f%%\" dy=\"4\">",
                  class_name, l->y[k]);
        page_text(h->page, text);
        page_put(h->page, "</text>\n");
    }
    free(l->y);
    free(l->contestant);
}

/* --- Bars ----------------------------------------------------------------- */

/* The ratio at which bars end: a bar many times longer than others is cut. */
static double bar_end(const struct compare_page *h, enum compare_metric m,
                      double *room) {
    size_t n = 0;
    double most = 1;
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        const struct compare_verdict *v =
            &h->sheet.verdict[h->sheet.order[k]][m];
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
    const struct compare_verdict *v = &h->sheet.verdict[i][m];
    struct page_writer *p = h->page;
    double at = 100 * fmin(v->ratio / end, 1);
    char figure[32], text[64];
    compare_figure_text(figure, m, v->typical);
    compare_page_ratio_text(h, text, i, m);
    page_putf(p, "<li class=\"w w%zu k%u\"><span class=\"name\">", i,
              h->colour[i]);
    page_text(p, name_of(h, i));
    page_putf(p,
              "</span><svg aria-hidden=\"true\"><rect class=\"bar\" "
              "y=\"2\" width=\"%.2f%%\" height=\"16\" rx=\"2\"><title>",
              at);
    page_text(p, name_of(h, i));
    page_putf(p, ": %s, %s</title></rect>", figure, text);
    if (v->ratio > end)
        page_put(p, "<line class=\"cut\" x1=\"95%\" x2=\"94%\" y1=\"-1\" "
                    "y2=\"21\"/>");
    page_putf(p,
              "<line class=\"one\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"-3\" "
              "y2=\"23\"/>",
              100 / end, 100 / end);
    if (v->has_interval && i != h->c->baseline && v->low < end) {
        double low = 100 * v->low / end, high = 100 * fmin(v->high / end, 1);
        for (int k = 0; k < 2; k++)
            page_putf(p,
                      "<line class=\"%s\" x1=\"%.2f%%\" x2=\"%.2f%%\" "
                      "y1=\"10\" y2=\"10\"/>",
                      k == 0 ? "halo" : "whisker", low, high);
        for (int k = 0; k < 2; k++)
            page_putf(p,
                      "<line class=\"whisker\" x1=\"%.2f%%\" "
                      "x2=\"%.2f%%\" y1=\"6\" y2=\"14\"/>",
                      k == 0 ? low : high, k == 0 ? low : high);
    }
    page_putf(p, "</svg><span class=\"said\"><b>%s</b> %s ", figure,
              i == h->c->baseline ? "" : text);
    compare_page_says(h, i, m);
    page_put(p, "</span></li>\n");
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
                 name_of(h, h->c->baseline));
        begin_card(h, compare_metric[m].title, note);
        begin_rows(h, "ol", "rows");
        double end = bar_end(h, m, room);
        for (size_t k = 0; k < count; k++)
            put_bar(h, order[k], m, end);
        page_put(h->page, "</ol>\n");
        end_card(h);
    }
    free(room);
    free(order);
}

/* --- Dots ----------------------------------------------------------------- */

enum { MOST_DOTS = 900 };

/* Puts the dots of contestant I into DOT: the figures of its runs, or with
   several traces the ratio of each to the baseline, the middle of its rounds.
   LABEL gets the number of the round or trace. ROOM is scratch for a figure of
   each round. Returns the number of dots. */
static size_t collect_dots(const struct compare_page *h, size_t i,
                           enum compare_metric m, double *dot, size_t *label,
                           double *room) {
    const struct comparison *c = h->c;
    size_t n = 0;
    if (c->traces == 1) {
        for (size_t r = 1; r <= c->rounds; r++) {
            double v = compare_verdict_figure(c, r, 0, i, m);
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
            double v = compare_verdict_figure(c, r, t, i, m) /
                       compare_verdict_figure(c, r, t, c->baseline, m);
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
    struct plot_axis axis;
    bool are_ratios;
};

static void put_dot_row(struct compare_page *h, size_t i, enum compare_metric m,
                        const struct dots *d) {
    struct page_writer *p = h->page;
    size_t n = collect_dots(h, i, m, d->dot, d->label, d->room);
    size_t most = MOST_DOTS / h->sheet.ranked + 1;
    size_t step = (n + most - 1) / most;
    const struct compare_verdict *v = &h->sheet.verdict[i][m];
    double middle =
        plot_axis_at(&d->axis, d->are_ratios ? v->ratio : v->typical);
    page_putf(p, "<li class=\"w w%zu k%u\"><span class=\"name\">", i,
              h->colour[i]);
    page_text(p, name_of(h, i));
    page_put(p, "</span><svg aria-hidden=\"true\"><line class=\"track\" "
                "x2=\"100%\" y1=\"10\" y2=\"10\"/>");
    if (middle >= 0 && middle <= 100)
        page_putf(p,
                  "<line class=\"middle\" x1=\"%.2f%%\" x2=\"%.2f%%\" "
                  "y2=\"20\"/>",
                  middle, middle);
    for (size_t k = 0; k < n; k += step) {
        char text[32];
        page_putf(p, "<circle cx=\"%.2f%%\" cy=\"%zu\" r=\"3.5\"><title>",
                  plot_axis_at(&d->axis, d->dot[k]), 6 + d->label[k] * 5 % 9);
        page_text(p, name_of(h, i));
        if (d->are_ratios) {
            page_put(p, ", ");
            page_text(p, h->c->trace[d->label[k]].name);
            page_putf(p, ": %s", compare_ratio_text(text, d->dot[k]));
        } else {
            page_putf(p, ", round %zu: %s", d->label[k],
                      compare_figure_text(text, m, d->dot[k]));
        }
        page_put(p, "</title></circle>");
    }
    page_put(p, "</svg></li>\n");
}

static void put_dot_axis(struct compare_page *h, const struct plot_axis *a,
                         plot_tick_text *text) {
    char room[32];
    page_put(h->page, "<li aria-hidden=\"true\"><span></span><svg "
                      "class=\"axis\">");
    for (unsigned i = 0; i < a->ticks; i++) {
        double at = plot_axis_at(a, a->tick[i]);
        page_putf(h->page,
                  "<text style=\"text-anchor:%s\" x=\"%.2f%%\" "
                  "y=\"13\">%s</text>",
                  at < 5    ? "start"
                  : at > 95 ? "end"
                            : "middle",
                  at, text(room, a->tick[i]));
    }
    page_put(h->page, "</svg></li>\n");
}

static void put_dots(struct compare_page *h, enum compare_metric m,
                     struct dots *d) {
    double low = INFINITY, high = -INFINITY;
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t n =
            collect_dots(h, h->sheet.order[k], m, d->dot, d->label, d->room);
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
        plot_axis_log(&d->axis, low * 0.9, high * 1.1);
    else
        plot_axis_linear(&d->axis, fmax(low - edge, fmin(low, 0)), high + edge,
                         is_bytes ? plot_axis_byte_unit(high) : 1, 5);
    char title[100];
    snprintf(title, sizeof(title), "Every %s: %s",
             d->are_ratios ? "trace" : "run", compare_metric[m].title);
    begin_card(h, title,
               d->are_ratios
                   ? "A dot is a trace: the ratio to the baseline, the middle "
                     "of its rounds. The line is that of all."
                   : "A dot is a run, the line their middle. The axis does not "
                     "begin at nought.");
    begin_rows(h, "ul", "rows strip");
    for (size_t k = 0; k < h->sheet.ranked; k++)
        if (h->sheet.verdict[h->sheet.order[k]][m].measured)
            put_dot_row(h, h->sheet.order[k], m, d);
    put_dot_axis(h, &d->axis,
                 d->are_ratios ? tick_ratio
                 : is_bytes    ? plot_tick_bytes
                               : plot_tick_ns);
    page_put(h->page, "</ul>\n");
    end_card(h);
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

static const struct compare_verdict *
verdict_in(const struct compare_page *h, size_t i, enum compare_metric m) {
    return &h->sheet.verdict[i][m];
}

/* Tells whether no other contestant takes less time and memory, or less of one
   and no more of the other. */
static bool on_frontier(const struct compare_page *h, size_t i) {
    double x = verdict_in(h, i, METRIC_TIME)->ratio,
           y = verdict_in(h, i, METRIC_PEAK_RSS)->ratio;
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t o = h->sheet.order[k];
        double ox = verdict_in(h, o, METRIC_TIME)->ratio;
        double oy = verdict_in(h, o, METRIC_PEAK_RSS)->ratio;
        if (verdict_in(h, o, METRIC_PEAK_RSS)->measured && ox <= x && oy <= y &&
            (ox < x || oy < y))
            return false;
    }
    return true;
}

static void axis_of_ratios(const struct compare_page *h, enum compare_metric m,
                           struct plot_axis *a) {
    double low = 1, high = 1;
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        const struct compare_verdict *v = verdict_in(h, h->sheet.order[k], m);
        if (!v->measured)
            continue;
        low = fmin(low, v->has_interval ? v->low : v->ratio);
        high = fmax(high, v->has_interval ? v->high : v->ratio);
    }
    double edge = fmax((high - low) * 0.1, 0.01);
    if (high > 12 * low)
        plot_axis_log(a, low * 0.8, high * 1.25);
    else
        plot_axis_linear(a, fmax(low - edge, 0), high + edge, 1, 6);
}

/* Time against memory, and the lines in it: those of ratios of 1, the frontier,
   and intervals. */
struct scatter {
    struct plot_axis x, y;
    struct plot_segment *line;
    size_t lines, frontier; /* number of all; of those before the frontier */
};

static double scatter_x(const struct scatter *s, double ratio) {
    return plot_axis_at(&s->x, ratio);
}

static double scatter_y(const struct scatter *s, double ratio) {
    return 100 - plot_axis_at(&s->y, ratio);
}

static void add_line(struct scatter *s, double x1, double y1, double x2,
                     double y2) {
    s->line[s->lines++] = (struct plot_segment){x1, y1, x2, y2};
}

/* Adds steps from each contestant on the frontier to the next, in the order of
   time. */
static void add_frontier(const struct compare_page *h, struct scatter *s) {
    double before_x = -1, before_y = 0;
    s->frontier = s->lines;
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t i = h->sheet.order[k];
        if (!verdict_in(h, i, METRIC_PEAK_RSS)->measured || !on_frontier(h, i))
            continue;
        double x = scatter_x(s, verdict_in(h, i, METRIC_TIME)->ratio);
        double y = scatter_y(s, verdict_in(h, i, METRIC_PEAK_RSS)->ratio);
        add_line(s, x, before_y, x, y);
        if (before_x >= 0)
            add_line(s, before_x, before_y, x, before_y);
        before_x = x;
        before_y = y;
    }
    if (before_x >= 0)
        add_line(s, before_x, before_y, 100, before_y);
}

/* Adds the intervals of contestant I. */
static void add_cross(const struct compare_page *h, struct scatter *s,
                      size_t i) {
    const struct compare_verdict *time = verdict_in(h, i, METRIC_TIME);
    const struct compare_verdict *rss = verdict_in(h, i, METRIC_PEAK_RSS);
    double x = scatter_x(s, time->ratio), y = scatter_y(s, rss->ratio);
    if (i == h->c->baseline)
        return;
    if (time->has_interval)
        add_line(s, scatter_x(s, time->low), y, scatter_x(s, time->high), y);
    if (rss->has_interval)
        add_line(s, x, scatter_y(s, rss->low), x, scatter_y(s, rss->high));
}

static void put_lines_of(struct compare_page *h, const struct scatter *s,
                         size_t from, size_t to, const char *class_name) {
    for (size_t k = from; k < to; k++)
        page_putf(h->page,
                  "<line class=\"%s\" x1=\"%.2f%%\" x2=\"%.2f%%\" "
                  "y1=\"%.2f%%\" y2=\"%.2f%%\"/>",
                  class_name, s->line[k].x1, s->line[k].x2, s->line[k].y1,
                  s->line[k].y2);
}

/* Draws contestant I, and adds its intervals. */
static void put_point(struct compare_page *h, size_t i, struct scatter *s) {
    struct page_writer *p = h->page;
    char text[2][64];
    size_t from = s->lines;
    add_cross(h, s, i);
    page_putf(p, "<g class=\"w w%zu k%u\">", i, h->colour[i]);
    put_lines_of(h, s, from, s->lines, "error");
    page_putf(p, "<circle cx=\"%.2f%%\" cy=\"%.2f%%\" r=\"7\"><title>",
              scatter_x(s, verdict_in(h, i, METRIC_TIME)->ratio),
              scatter_y(s, verdict_in(h, i, METRIC_PEAK_RSS)->ratio));
    page_text(p, name_of(h, i));
    page_putf(p, "\ntime %s\npeak memory %s%s</title></circle></g>\n",
              compare_page_ratio_text(h, text[0], i, METRIC_TIME),
              compare_page_ratio_text(h, text[1], i, METRIC_PEAK_RSS),
              on_frontier(h, i) ? "\non the frontier" : "");
}

/* Plots of a wide and of a narrow page, at their narrowest: the style shows the
   names of one of them. */
static const struct {
    const char *class_name;
    double width, height; /* pixels */
    size_t most;          /* bytes of a name */
} scatter_sizes[] = {{"wide", 390, 320, 22}, {"narrow", 270, 280, 15}};

/* Puts names beside points. Where there is no room for all, those on the
   frontier and the baseline's have them first. */
static void put_point_names(struct compare_page *h, const struct scatter *s) {
    size_t n = h->sheet.ranked, count = 0;
    struct plot_name *name = malloc((n + 1) * sizeof(*name));
    size_t *contestant = malloc((n + 1) * sizeof(*contestant));
    char text[64], class_name[64];
    for (int first = 1; name != NULL && contestant != NULL && first >= 0;
         first--)
        for (size_t k = 0; k < n; k++) {
            size_t i = h->sheet.order[k];
            if (verdict_in(h, i, METRIC_PEAK_RSS)->measured &&
                (i == h->c->baseline || on_frontier(h, i)) == (first == 1))
                contestant[count++] = i;
        }
    for (size_t z = 0; z < TCM_ARRAY_SIZE(scatter_sizes); z++) {
        for (size_t k = 0; k < count; k++) {
            size_t i = contestant[k];
            size_t most = scatter_sizes[z].most;
            name[k] = (struct plot_name){
                .x = scatter_x(s, verdict_in(h, i, METRIC_TIME)->ratio),
                .y = scatter_y(s, verdict_in(h, i, METRIC_PEAK_RSS)->ratio),
                .characters = strlen(short_name(h, i, text, most))};
        }
        plot_place_names(name, count, s->line, s->lines, scatter_sizes[z].width,
                         scatter_sizes[z].height);
        for (size_t k = 0; k < count; k++) {
            size_t i = contestant[k];
            snprintf(class_name, sizeof(class_name), "%s w w%zu k%u",
                     scatter_sizes[z].class_name, i, h->colour[i]);
            plot_name(h->page, &name[k], class_name,
                      short_name(h, i, text, scatter_sizes[z].most));
        }
    }
    free(name);
    free(contestant);
}

static void put_scatter(struct compare_page *h, struct scatter *s) {
    char note[400];
    double one_x = scatter_x(s, 1), one_y = scatter_y(s, 1);
    snprintf(note, sizeof(note),
             "Ratios to %.100s; down and to the left is better. On the line, "
             "the frontier, none is better in both. Crosses are intervals.",
             name_of(h, h->c->baseline));
    begin_card(h, "Time against peak memory", note);
    plot_begin(h->page, "", "Time against peak memory, with the frontier", "");
    plot_x(h->page, &s->x, tick_ratio, "processor time an operation");
    plot_y(h->page, &s->y, tick_ratio, "peak resident memory");
    add_line(s, one_x, 0, one_x, 100);
    add_line(s, 0, one_y, 100, one_y);
    put_lines_of(h, s, 0, s->lines, "one");
    add_frontier(h, s);
    put_lines_of(h, s, s->frontier, s->lines, "frontier");
    for (size_t k = h->sheet.ranked; k-- > 0;)
        if (verdict_in(h, h->sheet.order[k], METRIC_PEAK_RSS)->measured)
            put_point(h, h->sheet.order[k], s);
    put_point_names(h, s);
    plot_end(h->page);
    end_card(h);
}

void compare_page_scatter(struct compare_page *h) {
    struct scatter s = {.lines = 0};
    if (!verdict_in(h, h->c->baseline, METRIC_PEAK_RSS)->measured)
        return;
    axis_of_ratios(h, METRIC_TIME, &s.x);
    axis_of_ratios(h, METRIC_PEAK_RSS, &s.y);
    /* of each contestant two steps of the frontier and two intervals */
    s.line = malloc((4 * h->sheet.ranked + 4) * sizeof(*s.line));
    if (s.line != NULL)
        put_scatter(h, &s);
    free(s.line);
}

/* --- Memory over time ----------------------------------------------------- */

enum { COURSE_POINTS = 161 };

/* The range of all courses. They are drawn at COURSE_POINTS places between the
   first moment and the last: the largest value since the place before, or the
   last value if there is none. */
struct course {
    double from, to; /* ns; equal: times are unknown */
    double highest;
    size_t first; /* contestant that has a course */
};

static bool find_course_range(const struct compare_page *h, struct course *o) {
    const struct comparison *c = h->c;
    bool any = false;
    *o = (struct course){.from = INFINITY, .to = -INFINITY};
    for (size_t k = 0; c->course != NULL && k < h->sheet.ranked; k++) {
        const struct compare_course *course = &c->course[h->sheet.order[k]];
        if (course->count < 2)
            continue;
        if (!any)
            o->first = h->sheet.order[k];
        any = true;
        o->from = fmin(o->from, course->moment[0].ns);
        for (size_t i = 0; i < course->count; i++) {
            const struct compare_moment *at = &course->moment[i];
            o->to = fmax(o->to, at->ns);
            o->highest = fmax(o->highest, at->rss_bytes);
            o->highest = fmax(o->highest, at->live_bytes);
        }
    }
    return any && o->highest > 0;
}

static void sample_course(const struct compare_page *h, const struct course *o,
                          size_t contestant, bool live,
                          double value[COURSE_POINTS]) {
    const struct compare_course *course = &h->c->course[contestant];
    double last = NAN, ns = 0;
    size_t i = 0;
    for (size_t k = 0; k < COURSE_POINTS; k++) {
        double part = (double)k / (COURSE_POINTS - 1), most = NAN;
        for (; i < course->count; i++) {
            const struct compare_moment *at = &course->moment[i];
            ns = fmax(ns, at->ns); /* at->ns is 0 after the last known time */
            double place = o->to > o->from
                               ? (ns - o->from) / (o->to - o->from)
                               : (double)i / (double)(course->count - 1);
            if (place > part + 1e-9)
                break;
            last = live ? at->live_bytes : at->rss_bytes;
            most = isnan(most) ? last : fmax(most, last);
        }
        value[k] = isnan(most) ? last : most;
    }
}

static void put_course_line(struct compare_page *h, const struct course *o,
                            const struct plot_axis *y, size_t contestant,
                            bool live, struct labels *labels) {
    double value[COURSE_POINTS];
    struct plot_point at[COURSE_POINTS];
    char class_name[64];
    size_t n = 0;
    sample_course(h, o, contestant, live, value);
    for (size_t k = 0; k < COURSE_POINTS; k++)
        if (!isnan(value[k]))
            at[n++] =
                (struct plot_point){100.0 * (double)k / (COURSE_POINTS - 1),
                                    plot_axis_at(y, value[k])};
    if (n == 0)
        return;
    snprintf(class_name, sizeof(class_name), "line w w%zu k%u", contestant,
             h->colour[contestant]);
    plot_line(h->page, at, n, live ? "area" : class_name, live);
    if (!live && h->colour[contestant] == COMPARE_PAGE_OTHER)
        return;
    labels->contestant[labels->count] = live ? LIVE_BYTES : contestant;
    labels->y[labels->count++] = 100 - at[n - 1].y;
}

bool compare_page_course(struct compare_page *h) {
    struct course o;
    struct plot_axis x, y;
    struct labels labels;
    char note[400];
    if (!find_course_range(h, &o) || !labels_make(&labels, h->sheet.ranked + 1))
        return false;
    plot_axis_linear(&y, 0, o.highest * 1.05, plot_axis_byte_unit(o.highest),
                     5);
    plot_axis_linear(&x, 0, fmax(o.to - o.from, 1), 1, 5);
    snprintf(note, sizeof(note),
             "Resident memory%s%.200s in the course of the recorded run; the "
             "grey ground is what the program holds, its live bytes.",
             h->c->traces > 1 ? " of " : "",
             h->c->traces > 1 ? h->c->trace[0].name : "");
    begin_card(h, "Memory over time", note);
    plot_begin(h->page, "named",
               "Resident memory of every allocator over time, and live "
               "bytes",
               " data-cross=\"memory\"");
    plot_y(h->page, &y, plot_tick_bytes, "resident memory");
    if (o.to > o.from)
        plot_x(h->page, &x, plot_tick_ns, "time of the recorded run");
    put_course_line(h, &o, &y, o.first, true, &labels);
    for (size_t k = h->sheet.ranked; k-- > 0;)
        if (h->c->course[h->sheet.order[k]].count >= 2)
            put_course_line(h, &o, &y, h->sheet.order[k], false, &labels);
    labels_put(h, &labels);
    plot_end(h->page);
    end_card(h);
    return true;
}

/* Begins a series for the script: texts of places, and figures. */
static void begin_series(struct tool_json *j, const char *name) {
    tool_json_begin_object(j, NULL);
    tool_json_string(j, "name", name);
}

static void put_course_series(struct compare_page *h, const struct course *o,
                              size_t contestant, bool live, const char *name,
                              struct tool_json *j) {
    double value[COURSE_POINTS];
    struct tool_text t;
    sample_course(h, o, contestant, live, value);
    begin_series(j, name);
    tool_json_begin_array(j, "text");
    for (size_t k = 0; k < COURSE_POINTS; k++)
        if (isnan(value[k]))
            tool_json_null(j, NULL);
        else
            tool_json_string(j, NULL,
                             tool_text_bytes(&t, tool_text_whole(value[k])));
    tool_json_end_array(j);
    tool_json_end_object(j);
}

void compare_page_course_data(struct compare_page *h, struct tool_json *j) {
    struct course o;
    struct tool_text t;
    if (!find_course_range(h, &o))
        return;
    tool_json_begin_object(j, "memory");
    tool_json_begin_array(j, "at");
    for (size_t k = 0; k < COURSE_POINTS; k++)
        tool_json_string(
            j, NULL,
            tool_text_ns(&t, tool_text_whole((o.to - o.from) * (double)k /
                                             (COURSE_POINTS - 1))));
    tool_json_end_array(j);
    tool_json_begin_array(j, "series");
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t i = h->sheet.order[k];
        if (h->c->course[i].count >= 2 && h->colour[i] != COMPARE_PAGE_OTHER)
            put_course_series(h, &o, i, false, name_of(h, i), j);
    }
    put_course_series(h, &o, o.first, true, "live bytes", j);
    tool_json_end_array(j);
    tool_json_end_object(j);
}

/* --- Latency -------------------------------------------------------------- */

/* The mean of the runs' quantiles; NAN: there are none. */
static double mean_quantile(const struct compare_page *h, size_t contestant,
                            int q) {
    const struct comparison *c = h->c;
    if (c->latencies == NULL || c->latencies[contestant] == 0)
        return NAN;
    return c->latency[contestant][q] / (double)c->latencies[contestant];
}

/* The name of a quantile: "p99" for "p99_ns", "p99.99" for "p9999_ns". */
static const char *quantile_text(char text[16], int q) {
    const char *key = compare_quantile_key[q];
    size_t n = strcspn(key, "_"), two = n < 3 ? n : 3;
    if (key[0] != 'p' || n <= 3)
        snprintf(text, 16, "%.*s", (int)n, key);
    else
        snprintf(text, 16, "%.*s.%.*s", (int)two, key, (int)(n - two),
                 key + two);
    return text;
}

static bool find_latency_range(const struct compare_page *h, double *low,
                               double *high) {
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t k = 0; k < h->sheet.ranked; k++)
        for (int q = 0; q < COMPARE_QUANTILES; q++) {
            double v = mean_quantile(h, h->sheet.order[k], q);
            if (isnan(v))
                continue;
            *low = fmin(*low, fmax(v, 1));
            *high = fmax(*high, v);
        }
    return *low <= *high;
}

static void put_latency_line(struct compare_page *h, const struct plot_axis *y,
                             size_t contestant, struct labels *labels) {
    struct plot_point at[COMPARE_QUANTILES];
    char class_name[64], figure[32], quantile[16];
    if (isnan(mean_quantile(h, contestant, 0)))
        return;
    for (int q = 0; q < COMPARE_QUANTILES; q++)
        at[q] = (struct plot_point){
            100.0 * q / (COMPARE_QUANTILES - 1),
            plot_axis_at(y, fmax(mean_quantile(h, contestant, q), 1))};
    snprintf(class_name, sizeof(class_name), "line w w%zu k%u", contestant,
             h->colour[contestant]);
    plot_line(h->page, at, COMPARE_QUANTILES, class_name, false);
    if (h->colour[contestant] == COMPARE_PAGE_OTHER)
        return;
    for (int q = 0; q < COMPARE_QUANTILES; q++) {
        page_putf(h->page,
                  "<circle class=\"w w%zu k%u\" cx=\"%.2f%%\" "
                  "cy=\"%.2f%%\" r=\"4\"><title>",
                  contestant, h->colour[contestant], at[q].x, 100 - at[q].y);
        page_text(h->page, name_of(h, contestant));
        page_putf(h->page, ", %s: %s</title></circle>\n",
                  quantile_text(quantile, q),
                  compare_figure_text(figure, METRIC_P999,
                                      mean_quantile(h, contestant, q)));
    }
    labels->contestant[labels->count] = contestant;
    labels->y[labels->count++] = 100 - at[COMPARE_QUANTILES - 1].y;
}

static const char *tick_quantile(char text[32], double v) {
    char name[16];
    snprintf(text, 32, "%s", quantile_text(name, (int)v));
    return text;
}

static void put_latency_table(struct compare_page *h) {
    struct page_writer *p = h->page;
    char text[32], name[16];
    page_put(p, "<details><summary>The same as a table</summary>\n"
                "<div class=\"scroll\"><table><thead><tr><th "
                "scope=\"col\">allocator</th>");
    for (int q = 0; q < COMPARE_QUANTILES; q++)
        page_putf(p, "<th scope=\"col\">%s</th>", quantile_text(name, q));
    page_put(p, "</tr></thead>\n<tbody>\n");
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t i = h->sheet.order[k];
        if (isnan(mean_quantile(h, i, 0)))
            continue;
        page_putf(p, "<tr class=\"w w%zu k%u\"><td class=\"name\">", i,
                  h->colour[i]);
        page_text(p, name_of(h, i));
        page_put(p, "</td>");
        for (int q = 0; q < COMPARE_QUANTILES; q++)
            page_putf(
                p, "<td>%s</td>",
                compare_figure_text(text, METRIC_P999, mean_quantile(h, i, q)));
        page_put(p, "</tr>\n");
    }
    page_put(p, "</tbody></table></div></details>\n");
}

bool compare_page_latency(struct compare_page *h) {
    struct plot_axis x, y;
    struct labels labels;
    double low, high;
    if (!find_latency_range(h, &low, &high) ||
        !labels_make(&labels, h->sheet.ranked))
        return false;
    plot_axis_log(&y, low * 0.9, high * 1.1);
    plot_axis_linear(&x, 0, COMPARE_QUANTILES - 1, 1, COMPARE_QUANTILES - 1);
    begin_card(h, "Latency of calls",
               "So long take at most 50, 90, ... per cent of the calls, and "
               "the longest; means of all runs, on a logarithmic axis.");
    plot_begin(h->page, "named",
               "Quantiles of the time of a call for every allocator",
               " data-cross=\"latency\"");
    plot_y(h->page, &y, plot_tick_ns, "time of a call");
    plot_x(h->page, &x, tick_quantile, "part of the calls");
    for (size_t k = h->sheet.ranked; k-- > 0;)
        put_latency_line(h, &y, h->sheet.order[k], &labels);
    labels_put(h, &labels);
    plot_end(h->page);
    put_latency_table(h);
    end_card(h);
    return true;
}

void compare_page_latency_data(struct compare_page *h, struct tool_json *j) {
    double low, high;
    char text[32], name[16];
    if (!find_latency_range(h, &low, &high))
        return;
    tool_json_begin_object(j, "latency");
    tool_json_begin_array(j, "at");
    for (int q = 0; q < COMPARE_QUANTILES; q++)
        tool_json_string(j, NULL, quantile_text(name, q));
    tool_json_end_array(j);
    tool_json_begin_array(j, "series");
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t i = h->sheet.order[k];
        if (isnan(mean_quantile(h, i, 0)) || h->colour[i] == COMPARE_PAGE_OTHER)
            continue;
        begin_series(j, name_of(h, i));
        tool_json_begin_array(j, "text");
        for (int q = 0; q < COMPARE_QUANTILES; q++)
            tool_json_string(
                j, NULL,
                compare_figure_text(text, METRIC_P999, mean_quantile(h, i, q)));
        tool_json_end_array(j);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
    tool_json_end_object(j);
}
