/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_page_lines.h"

#include "cmd/malloc_trace/compare/compare_print.h"
#include "pages/plot.h"
#include "common/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Memory over time ----------------------------------------------------- */

enum { COURSE_POINTS = 161 };

/* All courses, brought to COURSE_POINTS places between the first moment and the
   last: what was largest since the place before, or stood then. */
struct course {
    double from, to; /* ns; TO is at FROM: no times are known */
    double highest;
    size_t first; /* contestant with one */
};

static bool course_of(const struct compare_page *h, struct course *o) {
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

static void course_points(const struct compare_page *h, const struct course *o,
                          size_t who, bool live, double value[COURSE_POINTS]) {
    const struct compare_course *course = &h->c->course[who];
    double last = NAN, ns = 0;
    size_t i = 0;
    for (size_t k = 0; k < COURSE_POINTS; k++) {
        double part = (double)k / (COURSE_POINTS - 1), most = NAN;
        for (; i < course->count; i++) {
            const struct compare_moment *at = &course->moment[i];
            ns = fmax(ns, at->ns); /* 0 behind the last known time */
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
                            const struct tool_axis *y, size_t who, bool live,
                            struct compare_page_labels *labels) {
    double value[COURSE_POINTS];
    struct tool_point at[COURSE_POINTS];
    char class_name[64];
    size_t n = 0;
    course_points(h, o, who, live, value);
    for (size_t k = 0; k < COURSE_POINTS; k++)
        if (!isnan(value[k]))
            at[n++] =
                (struct tool_point){100.0 * (double)k / (COURSE_POINTS - 1),
                                    tool_axis_at(y, value[k])};
    if (n == 0)
        return;
    snprintf(class_name, sizeof(class_name), "line w w%zu k%u", who,
             h->colour[who]);
    tool_plot_line(h->page, at, n, live ? "area" : class_name, live);
    if (labels == NULL || h->colour[who] == COMPARE_PAGE_OTHER)
        return;
    labels->who[labels->count] = who;
    labels->y[labels->count++] = 100 - at[n - 1].y;
}

bool compare_page_course(struct compare_page *h) {
    struct course o;
    struct tool_axis x, y;
    struct compare_page_labels labels;
    char note[400];
    if (!course_of(h, &o) ||
        !compare_page_labels_make(&labels, h->sheet.ranked))
        return false;
    tool_axis_linear(&y, 0, o.highest * 1.05, tool_axis_byte_unit(o.highest),
                     5);
    tool_axis_linear(&x, 0, fmax(o.to - o.from, 1), 1, 5);
    snprintf(note, sizeof(note),
             "Resident memory%s%.200s in the course of the recorded run; the "
             "grey ground is what the program holds, its live bytes.",
             h->c->traces > 1 ? " of " : "",
             h->c->traces > 1 ? h->c->trace[0].name : "");
    compare_page_begin_card(h, "Memory over time", note);
    tool_plot_begin(h->page, "named",
                    "Resident memory of every allocator over time, and live "
                    "bytes",
                    " data-cross=\"memory\"");
    tool_plot_y(h->page, &y, tool_tick_bytes, "resident memory");
    if (o.to > o.from)
        tool_plot_x(h->page, &x, tool_tick_ns, "time of the recorded run");
    put_course_line(h, &o, &y, o.first, true, NULL);
    for (size_t k = h->sheet.ranked; k-- > 0;)
        if (h->c->course[h->sheet.order[k]].count >= 2)
            put_course_line(h, &o, &y, h->sheet.order[k], false, &labels);
    compare_page_labels_put(h, &labels);
    tool_page_put(h->page, "<text class=\"label left\" x=\"100%\" dx=\"-8\" "
                           "y=\"100%\" dy=\"-8\">live bytes</text>\n");
    tool_plot_end(h->page);
    compare_page_end_card(h);
    return true;
}

/* A series of the script's: texts of places, and figures. */
static void begin_series(struct tool_json *j, const char *name) {
    tool_json_begin_object(j, NULL);
    tool_json_string(j, "name", name);
}

static void put_course_series(struct compare_page *h, const struct course *o,
                              size_t who, bool live, const char *name,
                              struct tool_json *j) {
    double value[COURSE_POINTS];
    struct tool_text t;
    course_points(h, o, who, live, value);
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
    if (!course_of(h, &o))
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
            put_course_series(h, &o, i, false, compare_page_name(h, i), j);
    }
    put_course_series(h, &o, o.first, true, "live bytes", j);
    tool_json_end_array(j);
    tool_json_end_object(j);
}

/* --- Latency -------------------------------------------------------------- */

/* The mean of the runs' quantiles; NAN: there are none. */
static double latency_of(const struct compare_page *h, size_t who, int q) {
    const struct comparison *c = h->c;
    if (c->latencies == NULL || c->latencies[who] == 0)
        return NAN;
    return c->latency[who][q] / (double)c->latencies[who];
}

/* "p99_ns" is said as "p99", "p9999_ns" as "p99.99". */
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

static bool latency_range(const struct compare_page *h, double *low,
                          double *high) {
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t k = 0; k < h->sheet.ranked; k++)
        for (int q = 0; q < COMPARE_QUANTILES; q++) {
            double v = latency_of(h, h->sheet.order[k], q);
            if (isnan(v))
                continue;
            *low = fmin(*low, fmax(v, 1));
            *high = fmax(*high, v);
        }
    return *low <= *high;
}

static void put_latency_line(struct compare_page *h, const struct tool_axis *y,
                             size_t who, struct compare_page_labels *labels) {
    struct tool_point at[COMPARE_QUANTILES];
    char class_name[64], figure[32], quantile[16];
    if (isnan(latency_of(h, who, 0)))
        return;
    for (int q = 0; q < COMPARE_QUANTILES; q++)
        at[q] = (struct tool_point){
            100.0 * q / (COMPARE_QUANTILES - 1),
            tool_axis_at(y, fmax(latency_of(h, who, q), 1))};
    snprintf(class_name, sizeof(class_name), "line w w%zu k%u", who,
             h->colour[who]);
    tool_plot_line(h->page, at, COMPARE_QUANTILES, class_name, false);
    if (h->colour[who] == COMPARE_PAGE_OTHER)
        return;
    for (int q = 0; q < COMPARE_QUANTILES; q++) {
        tool_page_putf(h->page,
                       "<circle class=\"w w%zu k%u\" cx=\"%.2f%%\" "
                       "cy=\"%.2f%%\" r=\"4\"><title>",
                       who, h->colour[who], at[q].x, 100 - at[q].y);
        tool_page_text(h->page, compare_page_name(h, who));
        tool_page_putf(
            h->page, ", %s: %s</title></circle>\n", quantile_text(quantile, q),
            compare_figure_text(figure, METRIC_P999, latency_of(h, who, q)));
    }
    labels->who[labels->count] = who;
    labels->y[labels->count++] = 100 - at[COMPARE_QUANTILES - 1].y;
}

static const char *tick_quantile(char text[32], double v) {
    char name[16];
    snprintf(text, 32, "%s", quantile_text(name, (int)v));
    return text;
}

static void put_latency_table(struct compare_page *h) {
    struct tool_page *p = h->page;
    char text[32], name[16];
    tool_page_put(p, "<details><summary>The same as a table</summary>\n"
                     "<div class=\"scroll\"><table><thead><tr><th "
                     "scope=\"col\">allocator</th>");
    for (int q = 0; q < COMPARE_QUANTILES; q++)
        tool_page_putf(p, "<th scope=\"col\">%s</th>", quantile_text(name, q));
    tool_page_put(p, "</tr></thead>\n<tbody>\n");
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t i = h->sheet.order[k];
        if (isnan(latency_of(h, i, 0)))
            continue;
        tool_page_putf(p, "<tr class=\"w w%zu k%u\"><td class=\"name\">", i,
                       h->colour[i]);
        tool_page_text(p, compare_page_name(h, i));
        tool_page_put(p, "</td>");
        for (int q = 0; q < COMPARE_QUANTILES; q++)
            tool_page_putf(
                p, "<td>%s</td>",
                compare_figure_text(text, METRIC_P999, latency_of(h, i, q)));
        tool_page_put(p, "</tr>\n");
    }
    tool_page_put(p, "</tbody></table></div></details>\n");
}

bool compare_page_latency(struct compare_page *h) {
    struct tool_axis x, y;
    struct compare_page_labels labels;
    double low, high;
    if (!latency_range(h, &low, &high) ||
        !compare_page_labels_make(&labels, h->sheet.ranked))
        return false;
    tool_axis_log(&y, low * 0.9, high * 1.1);
    tool_axis_linear(&x, 0, COMPARE_QUANTILES - 1, 1, COMPARE_QUANTILES - 1);
    compare_page_begin_card(
        h, "Latency of calls",
        "So long take at most 50, 90, ... per cent of the calls, and "
        "the longest; means of all runs, on a logarithmic axis.");
    tool_plot_begin(h->page, "named",
                    "Quantiles of the time of a call for every allocator",
                    " data-cross=\"latency\"");
    tool_plot_y(h->page, &y, tool_tick_ns, "time of a call");
    tool_plot_x(h->page, &x, tick_quantile, "part of the calls");
    for (size_t k = h->sheet.ranked; k-- > 0;)
        put_latency_line(h, &y, h->sheet.order[k], &labels);
    compare_page_labels_put(h, &labels);
    tool_plot_end(h->page);
    put_latency_table(h);
    compare_page_end_card(h);
    return true;
}

void compare_page_latency_data(struct compare_page *h, struct tool_json *j) {
    double low, high;
    char text[32], name[16];
    if (!latency_range(h, &low, &high))
        return;
    tool_json_begin_object(j, "latency");
    tool_json_begin_array(j, "at");
    for (int q = 0; q < COMPARE_QUANTILES; q++)
        tool_json_string(j, NULL, quantile_text(name, q));
    tool_json_end_array(j);
    tool_json_begin_array(j, "series");
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t i = h->sheet.order[k];
        if (isnan(latency_of(h, i, 0)) || h->colour[i] == COMPARE_PAGE_OTHER)
            continue;
        begin_series(j, compare_page_name(h, i));
        tool_json_begin_array(j, "text");
        for (int q = 0; q < COMPARE_QUANTILES; q++)
            tool_json_string(
                j, NULL,
                compare_figure_text(text, METRIC_P999, latency_of(h, i, q)));
        tool_json_end_array(j);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
    tool_json_end_object(j);
}
