/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plots in a page: axes, and SVG with positions in per cent of its width and
 * height, so that a plot fits any window and its text keeps its size.
 *
 * Threads: one.
 */
#ifndef TOOL_PAGES_PLOT_H
#define TOOL_PAGES_PLOT_H

#include "pages/page.h"

enum { PLOT_AXIS_TICKS = 12 };
/* Largest value of an axis; its inverse is the smallest of a logarithmic
   one. */
#define PLOT_AXIS_MOST 1e30

struct plot_axis {
    double low, high;
    bool is_log;
    double tick[PLOT_AXIS_TICKS];
    unsigned ticks;
};

/* Makes an axis from LOW to HIGH with about MOST ticks at round multiples of
   UNIT (1, or for bytes a power of 1024). */
void plot_axis_linear(struct plot_axis *a, double low, double high, double unit,
                      unsigned most);
/* Makes a logarithmic axis with ticks at 1, 2 and 5 times powers of ten. LOW is
   above 0. */
void plot_axis_log(struct plot_axis *a, double low, double high);
/* Returns the unit of bytes in which HIGH has one to four digits: 1, 1024,
   ... */
double plot_axis_byte_unit(double high);
/* Returns the position of V in per cent; below 0 or above 100 if V is not on
   the axis. */
double plot_axis_at(const struct plot_axis *a, double v);

/* Begin and end a plot. LABEL describes it to readers who cannot see it. It has
   the class CLASS_NAME besides `plot`, and the attributes DATA ("" or with a
   blank in front). */
void plot_begin(struct page_writer *p, const char *class_name,
                const char *label, const char *data);
void plot_end(struct page_writer *p);

/* Draw an axis: the lines and texts of its ticks, which TEXT formats, and its
   title. */
typedef const char *plot_tick_text(char text[32], double v);
const char *plot_tick_bytes(char text[32], double v);
const char *plot_tick_ns(char text[32], double v);
void plot_x(struct page_writer *p, const struct plot_axis *a,
            plot_tick_text *text, const char *title);
void plot_y(struct page_writer *p, const struct plot_axis *a,
            plot_tick_text *text, const char *title);

/* Draws a line of class CLASS_NAME through N points in per cent (y from the
   bottom). CLOSED: as an area down to the bottom. */
struct plot_point {
    double x, y;
};
void plot_line(struct page_writer *p, const struct plot_point *at, size_t n,
               const char *class_name, bool closed);

/* Fills the area between two lines of N points each, with the same X. */
void plot_band(struct page_writer *p, const struct plot_point *low,
               const struct plot_point *high, size_t n, const char *class_name);

/* --- Names of points ------------------------------------------------------ */

/* A line of the plot, in per cent of its width and height, from the top. */
struct plot_segment {
    double x1, y1, x2, y2;
};

/* A name beside a point, of the place X, Y in such per cent. */
struct plot_name {
    double x, y;
    size_t characters; /* of its text */
    /* of its text: offset from the point in pixels, and its text-anchor */
    double dx, dy;
    const char *anchor; /* NULL: there is no room for it */
};

/*
 * Places the names NAME[0..N) in a plot of WIDTH by HEIGHT pixels, so that they
 * cover no other name, no point, and as little as possible of the lines
 * LINE[0..LINES). The first names choose first. In plots up to twice as wide
 * names cover no other name and no point, either.
 */
void plot_place_names(struct plot_name *name, size_t n,
                      const struct plot_segment *line, size_t lines,
                      double width, double height);
/* Draws TEXT as NAME, with the class CLASS_NAME besides `label`; nothing if
   there is no room for it. */
void plot_name(struct page_writer *p, const struct plot_name *name,
               const char *class_name, const char *text);

/* Moves the positions Y[0..N) of texts, in any unit, apart until they are at
   least GAP from each other; keeps them within LOW and HIGH if they fit. ROOM:
   scratch memory of N entries. */
void plot_spread(double *y, size_t *room, size_t n, double gap, double low,
                 double high);

#endif
