/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages/plot.h"

#include "base/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Axes ----------------------------------------------------------------- */

static double round_step(double least) {
    double power = pow(10, floor(log10(least)));
    static const double steps[] = {1, 2, 5, 10};
    for (size_t i = 0; i < TCM_ARRAY_SIZE(steps); i++)
        if (steps[i] * power >= least * 0.999)
            return steps[i] * power;
    return 10 * power;
}

static void add_tick(struct plot_axis *a, double v) {
    if (a->ticks < PLOT_AXIS_TICKS)
        a->tick[a->ticks++] = v;
}

/* Replaces a range that an axis cannot have by 1 to 10. */
static void check_range(double *low, double *high, double least) {
    if (*low >= least && *high <= PLOT_AXIS_MOST)
        return;
    *low = 1;
    *high = 10;
}

void plot_axis_linear(struct plot_axis *a, double low, double high, double unit,
                      unsigned most) {
    check_range(&low, &high, -PLOT_AXIS_MOST);
    if (!(high > low))
        high = low + (low == 0 ? unit : fabs(low) / 10);
    *a = (struct plot_axis){.low = low, .high = high};
    double step = round_step((high - low) / unit / most) * unit;
    /* + 0.0 turns -0 into 0 */
    double first = ceil(low / step - 1e-9) + 0.0;
    for (int i = 0; i < PLOT_AXIS_TICKS; i++)
        if ((first + i) * step <= high + step * 1e-9)
            add_tick(a, (first + i) * step);
}

void plot_axis_log(struct plot_axis *a, double low, double high) {
    check_range(&low, &high, 1 / PLOT_AXIS_MOST);
    if (!(high > low * 1.01))
        high = low * 10;
    *a = (struct plot_axis){.low = low, .high = high, .is_log = true};
    double decades = log10(high / low);
    int last = (int)ceil(log10(high));
    for (int d = (int)floor(log10(low)); d <= last; d++)
        for (int i = 0; i < 3; i++) {
            static const double factors[] = {1, 2, 5};
            double v = factors[i] * pow(10, d);
            if (v < low * 0.999 || v > high * 1.001 ||
                (i != 0 && decades > 3) || (decades > 10 && d % 2 != 0))
                continue;
            add_tick(a, v);
        }
    if (a->ticks < 2) {
        struct plot_axis even;
        plot_axis_linear(&even, low, high, 1, 4);
        a->ticks = even.ticks;
        memcpy(a->tick, even.tick, sizeof(even.tick));
    }
}

double plot_axis_byte_unit(double high) {
    double unit = 1;
    while (high / unit >= 1024 && unit < 1e18)
        unit *= 1024;
    return unit;
}

double plot_axis_at(const struct plot_axis *a, double v) {
    if (a->is_log)
        return 100 * log(v / a->low) / log(a->high / a->low);
    return 100 * (v - a->low) / (a->high - a->low);
}

const char *plot_tick_bytes(char text[32], double v) {
    static const char *const units[] = {"B",   "KiB", "MiB", "GiB",
                                        "TiB", "PiB", "EiB"};
    size_t i = 0;
    for (; fabs(v) >= 1024 && i + 1 < TCM_ARRAY_SIZE(units); i++)
        v /= 1024;
    snprintf(text, 32, "%.4g %s", v, v == 0 ? "" : units[i]);
    return text;
}

const char *plot_tick_ns(char text[32], double v) {
    if (v < 1e3)
        snprintf(text, 32, "%.4g ns", v);
    else if (v < 1e6)
        snprintf(text, 32, "%.4g us", v / 1e3);
    else if (v < 1e9)
        snprintf(text, 32, "%.4g ms", v / 1e6);
    else
        snprintf(text, 32, "%.9g s", v / 1e9);
    return text;
}

/* --- Drawing -------------------------------------------------------------- */

void plot_begin(struct page_writer *p, const char *class_name,
                const char *label, const char *data) {
    TCM_ASSERT(!p->in_plot);
    p->in_plot = true;
    page_putf(p, "<div class=\"plot %s\"%s><svg role=\"img\" aria-label=\"",
              class_name, data);
    page_text(p, label);
    page_put(p, "\">\n");
}

void plot_end(struct page_writer *p) {
    TCM_ASSERT(p->in_plot);
    p->in_plot = false;
    page_put(p, "</svg></div>\n");
}

void plot_x(struct page_writer *p, const struct plot_axis *a,
            plot_tick_text *text, const char *title) {
    char room[32];
    page_put(p, "<g class=\"axis x\">");
    for (unsigned i = 0; i < a->ticks; i++) {
        double at = plot_axis_at(a, a->tick[i]);
        page_putf(p,
                  "<line x1=\"%.2f%%\" x2=\"%.2f%%\" y2=\"100%%\"/>"
                  "<text x=\"%.2f%%\" y=\"100%%\" dy=\"18\">",
                  at, at, at);
        page_text(p, text(room, a->tick[i]));
        page_put(p, "</text>");
    }
    page_put(p, "<text class=\"title\" x=\"100%\" y=\"100%\" dy=\"38\">");
    page_text(p, title);
    page_put(p, "</text></g>\n");
}

void plot_y(struct page_writer *p, const struct plot_axis *a,
            plot_tick_text *text, const char *title) {
    char room[32];
    page_put(p, "<g class=\"axis y\">");
    for (unsigned i = 0; i < a->ticks; i++) {
        double at = 100 - plot_axis_at(a, a->tick[i]);
        page_putf(p,
                  "<line y1=\"%.2f%%\" y2=\"%.2f%%\" x2=\"100%%\"/>"
                  "<text x=\"-8\" y=\"%.2f%%\" dy=\"4\">",
                  at, at, at);
        page_text(p, text(room, a->tick[i]));
        page_put(p, "</text>");
    }
    page_put(p, "<text class=\"title\" x=\"0\" y=\"0\" dy=\"-14\">");
    page_text(p, title);
    page_put(p, "</text></g>\n");
}

static void begin_path(struct page_writer *p, const char *class_name) {
    page_putf(p,
              "<svg viewBox=\"0 0 1000 1000\" width=\"100%%\" "
              "height=\"100%%\" preserveAspectRatio=\"none\" "
              "overflow=\"visible\"><path class=\"%s\" d=\"",
              class_name);
}

static void put_point(struct page_writer *p, char how, struct plot_point at) {
    page_putf(p, "%c%.0f %.0f", how, at.x * 10, 1000 - at.y * 10);
}

void plot_line(struct page_writer *p, const struct plot_point *at, size_t n,
               const char *class_name, bool closed) {
    if (n == 0)
        return;
    begin_path(p, class_name);
    for (size_t i = 0; i < n; i++)
        put_point(p, i == 0 ? 'M' : 'L', at[i]);
    if (closed)
        page_putf(p, "L%.0f 1000L%.0f 1000Z", at[n - 1].x * 10, at[0].x * 10);
    page_put(p, "\"/></svg>\n");
}

void plot_band(struct page_writer *p, const struct plot_point *low,
               const struct plot_point *high, size_t n,
               const char *class_name) {
    if (n == 0)
        return;
    begin_path(p, class_name);
    for (size_t i = 0; i < n; i++)
        put_point(p, i == 0 ? 'M' : 'L', high[i]);
    for (size_t i = n; i-- > 0;)
        put_point(p, 'L', low[i]);
    page_put(p, "Z\"/></svg>\n");
}

/* --- Names of points ------------------------------------------------------ */

/* Sizes in pixels: of a character and a line of the style's `label`, and from
   the middle of a point to its name. */
#define NAME_CHARACTER 8.2
#define NAME_HEIGHT    15.0
#define NAME_GAP       10.0
#define POINT_RADIUS   8.0

struct box {
    double x1, y1, x2, y2;
};

/* Sides of a point, the first preferred: -1 is left and above. */
static const struct side {
    int x, y;
} sides[] = {{1, -1}, {1, 1},  {-1, -1}, {-1, 1},
             {1, 0},  {-1, 0}, {0, -1},  {0, 1}};

/* Names that are placed one after another, in a plot of this size. */
struct placing {
    const struct plot_name *name;
    struct side *side; /* of each name so far; {0, 0}: it has no place */
    size_t count;
    double width, height;
};

static struct box name_box(const struct plot_name *n, struct side side,
                           double width, double height) {
    double length = NAME_CHARACTER * (double)n->characters;
    /* at a corner both distances are smaller */
    double gap = side.x != 0 && side.y != 0 ? NAME_GAP * 0.6 : NAME_GAP;
    double x = n->x * width / 100 + side.x * (gap + length / 2);
    double y = n->y * height / 100 + side.y * (gap + NAME_HEIGHT / 2);
    return (struct box){x - length / 2, y - NAME_HEIGHT / 2, x + length / 2,
                        y + NAME_HEIGHT / 2};
}

static double overlap(const struct box *a, const struct box *b) {
    double x = fmin(a->x2, b->x2) - fmax(a->x1, b->x1);
    double y = fmin(a->y2, b->y2) - fmax(a->y1, b->y1);
    return x > 0 && y > 0 ? x * y : 0;
}

/* Length in pixels of the part of line L within BOX (Liang and Barsky). */
static double length_within(const struct box *box, const struct plot_segment *l,
                            double width, double height) {
    double x = l->x1 * width / 100, y = l->y1 * height / 100;
    double dx = l->x2 * width / 100 - x, dy = l->y2 * height / 100 - y;
    const double toward[] = {-dx, dx, -dy, dy};
    const double room[] = {x - box->x1, box->x2 - x, y - box->y1, box->y2 - y};
    double from = 0, to = 1;
    for (int i = 0; i < 4; i++) {
        if (toward[i] == 0 && room[i] < 0)
            return 0;
        if (toward[i] < 0)
            from = fmax(from, room[i] / toward[i]);
        else if (toward[i] > 0)
            to = fmin(to, room[i] / toward[i]);
    }
    return from < to ? (to - from) * sqrt(dx * dx + dy * dy) : 0;
}

/* Tells whether name I at SIDE lies in the plot, free of points and of the
   names before it, if the plot is WIDTH pixels wide. */
static bool is_free(const struct placing *p, size_t i, struct side side,
                    double width) {
    const struct box plot = {0, -POINT_RADIUS, width + POINT_RADIUS, p->height};
    struct box box = name_box(&p->name[i], side, width, p->height);
    double area = (box.x2 - box.x1) * (box.y2 - box.y1) - overlap(&box, &plot);
    for (size_t k = 0; k < p->count; k++) {
        const struct plot_name *n = &p->name[k];
        double x = n->x * width / 100, y = n->y * p->height / 100;
        struct box point = {x - POINT_RADIUS, y - POINT_RADIUS,
                            x + POINT_RADIUS, y + POINT_RADIUS};
        area += k == i ? 0 : overlap(&box, &point);
        if (k >= i || (p->side[k].x == 0 && p->side[k].y == 0))
            continue;
        struct box other = name_box(n, p->side[k], width, p->height);
        area += overlap(&box, &other);
    }
    return area < 1;
}

/* Places name I where it covers least of the lines. */
static void place_name(struct placing *p, size_t i,
                       const struct plot_segment *line, size_t lines) {
    static const double scales[] = {1, 1.25, 1.5, 2};
    double least = INFINITY;
    p->side[i] = (struct side){0, 0};
    for (size_t s = 0; s < TCM_ARRAY_SIZE(sides); s++) {
        struct box box = name_box(&p->name[i], sides[s], p->width, p->height);
        double crossed = 0;
        bool free_in_all = true;
        for (size_t k = 0; k < TCM_ARRAY_SIZE(scales); k++)
            free_in_all =
                free_in_all && is_free(p, i, sides[s], p->width * scales[k]);
        for (size_t k = 0; k < lines; k++)
            crossed += length_within(&box, &line[k], p->width, p->height);
        if (!free_in_all || crossed >= least)
            continue;
        least = crossed;
        p->side[i] = sides[s];
    }
}

void plot_place_names(struct plot_name *name, size_t n,
                      const struct plot_segment *line, size_t lines,
                      double width, double height) {
    struct placing p = {.name = name,
                        .side = malloc((n + 1) * sizeof(*p.side)),
                        .count = n,
                        .width = width,
                        .height = height};
    for (size_t i = 0; i < n; i++) {
        name[i].anchor = NULL;
        if (p.side == NULL)
            continue;
        place_name(&p, i, line, lines);
        struct side side = p.side[i];
        if (side.x == 0 && side.y == 0)
            continue;
        struct box box = name_box(&name[i], side, width, height);
        double x = name[i].x * width / 100, y = name[i].y * height / 100;
        name[i].anchor = side.x > 0 ? "start" : side.x < 0 ? "end" : "middle";
        name[i].dx = side.x > 0 ? box.x1 - x : side.x < 0 ? box.x2 - x : 0;
        name[i].dy = box.y2 - 4 - y;
    }
    free(p.side);
}

void plot_name(struct page_writer *p, const struct plot_name *name,
               const char *class_name, const char *text) {
    TCM_ASSERT(p->in_plot);
    if (name->anchor == NULL)
        return;
    page_putf(p,
              "<text class=\"label %s\" style=\"text-anchor:%s\" "
              "x=\"%.2f%%\" dx=\"%.1f\" y=\"%.2f%%\" dy=\"%.1f\">",
              class_name, name->anchor, name->x, name->dx, name->y, name->dy);
    page_text(p, text);
    page_put(p, "</text>\n");
}

void plot_spread(double *y, size_t *room, size_t n, double gap, double low,
                 double high) {
    for (size_t i = 0; i < n; i++) {
        size_t k = i;
        for (; k > 0 && y[room[k - 1]] > y[i]; k--)
            room[k] = room[k - 1];
        room[k] = i;
    }
    for (size_t i = 0; i < n; i++) {
        double least = i == 0 ? low : y[room[i - 1]] + gap;
        y[room[i]] = fmax(y[room[i]], least);
    }
    double most = high;
    for (size_t i = n; i-- > 0 && y[room[i]] > most;) {
        y[room[i]] = most;
        most -= gap;
    }
    for (size_t i = 1; i < n; i++)
        TCM_ASSERT(y[room[i - 1]] <= y[room[i]]);
}
