/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Drawings of figures in a page: axes, and SVG whose places are per cent of its
 * width and height, so that a drawing fits any window and its text keeps its
 * size.
 *
 * Threads: one.
 */
#ifndef TOOL_PAGES_PLOT_H
#define TOOL_PAGES_PLOT_H

#include "pages/page.h"

enum { TOOL_AXIS_TICKS = 12 };
/* Figures beyond, and those below its inverse on a logarithmic axis, have no
   place. */
#define TOOL_AXIS_MOST 1e30

struct tool_axis {
    double low, high;
    bool is_log;
    double tick[TOOL_AXIS_TICKS];
    unsigned ticks;
};

/* From LOW to HIGH, with about MOST ticks at round multiples of UNIT (1, or
   1024 to a power for bytes). */
void tool_axis_linear(struct tool_axis *a, double low, double high, double unit,
                      unsigned most);
/* The same, ticks at 1, 2 and 5 of the powers of ten; LOW is above 0. */
void tool_axis_log(struct tool_axis *a, double low, double high);
/* The unit of bytes in which HIGH has one to four digits: 1, 1024, ... */
double tool_axis_byte_unit(double high);
/* Where V is, 0 to 100; below and above if it is not on the axis. */
double tool_axis_at(const struct tool_axis *a, double v);

/* Between these stands what is drawn: LABEL says what it is to those who do
   not see it. CLASS: of the drawing, besides `plot`. */
void tool_plot_begin(struct tool_page *p, const char *class_name,
                     const char *label, const char *data);
void tool_plot_end(struct tool_page *p);

/* Ticks, their lines and texts; TEXT makes the latter. */
typedef const char *tool_tick_text(char text[32], double v);
const char *tool_tick_bytes(char text[32], double v);
const char *tool_tick_ns(char text[32], double v);
void tool_plot_x(struct tool_page *p, const struct tool_axis *a,
                 tool_tick_text *text, const char *title);
void tool_plot_y(struct tool_page *p, const struct tool_axis *a,
                 tool_tick_text *text, const char *title);

/* A line through N points in per cent (y from the bottom), of class
   CLASS_NAME. CLOSED: down to the bottom and filled. */
struct tool_point {
    double x, y;
};
void tool_plot_line(struct tool_page *p, const struct tool_point *at, size_t n,
                    const char *class_name, bool closed);

/* The ground between two lines of N points each, with the same X. */
void tool_plot_band(struct tool_page *p, const struct tool_point *low,
                    const struct tool_point *high, size_t n,
                    const char *class_name);

/* Moves the places Y[0..N) of texts, in any unit, apart by at least GAP, as
   little as that takes; ROOM is scratch of N. They stay within LOW and HIGH if
   there is room. */
void tool_plot_spread(double *y, size_t *room, size_t n, double gap, double low,
                      double high);

#endif
