/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/annotate/summary.h"

#include "base/bits.h"

#include <stdarg.h>
#include <stdio.h>

/* --- Gathering ------------------------------------------------------------ */

static unsigned bits_of(uint64_t v) {
    unsigned bits = v == 0 ? 0 : 64 - (unsigned)__builtin_clzll(v);
    return bits < ANNOTATE_BITS ? bits : ANNOTATE_BITS;
}

/* A full row of points keeps every other one. */
static void see_pages(struct annotate_summary *s) {
    if (s->step == 0)
        s->step = 1;
    if (s->events++ % s->step == 0) {
        if (s->points == ANNOTATE_POINTS) {
            for (size_t i = 0; i < ANNOTATE_POINTS / 2; i++)
                s->point[i] = tcm_max_u64(s->point[2 * i], s->point[2 * i + 1]);
            s->points = ANNOTATE_POINTS / 2;
            s->step *= 2;
        }
        s->point[s->points++] = 0;
    }
    uint64_t *last = &s->point[s->points - 1];
    *last = tcm_max_u64(*last, s->pages);
    s->peak_pages = tcm_max_u64(s->peak_pages, s->pages);
}

void annotate_summary_end(struct annotate_summary *s, uint64_t size,
                          uint64_t age, uint64_t pages) {
    s->lived[bits_of(size)][bits_of(age)]++;
    s->pages -= tcm_min_u64(pages, s->pages);
    see_pages(s);
}

static void see_gap(struct annotate_summary *s, unsigned side, int64_t gap) {
    if (gap >= 0)
        s->gaps[side][bits_of((uint64_t)gap)]++;
    else if (gap < -1)
        s->overlaps++;
}

void annotate_summary_begin(struct annotate_summary *s, int64_t gap_below,
                            int64_t gap_above, uint64_t pages) {
    see_gap(s, 0, gap_below);
    see_gap(s, 1, gap_above);
    s->pages += pages;
    see_pages(s);
}

/* --- Printing ------------------------------------------------------------- */

static void put(struct format_out *out, const char *fmt, ...) TCM_PRINTF(2, 3);
static void put(struct format_out *out, const char *fmt, ...) {
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    format_out_str(out, text);
}

static uint64_t from_of(unsigned bits) {
    return bits == 0 ? 0 : (uint64_t)1 << (bits - 1);
}

static uint64_t to_of(unsigned bits) {
    return bits == 0 ? 0 : ((uint64_t)1 << bits) - 1;
}

static uint64_t sum_of(const uint64_t *v) {
    uint64_t sum = 0;
    for (unsigned i = 0; i <= ANNOTATE_BITS; i++)
        sum += v[i];
    return sum;
}

/* The class in which PERCENT of the N in V are reached. */
static unsigned percentile(const uint64_t *v, uint64_t n, unsigned percent) {
    uint64_t seen = 0;
    for (unsigned i = 0; i <= ANNOTATE_BITS; i++) {
        seen += v[i];
        if (seen * 100 >= n * percent)
            return i;
    }
    return ANNOTATE_BITS;
}

static void table_lifetimes(const struct annotate_summary *s, uint64_t live,
                            struct format_out *out) {
    put(out, "%21s %12s   %s\n", "size in bytes", "blocks",
        "lines until they ended: half of them, 90 %, all, up to");
    for (unsigned i = 0; i <= ANNOTATE_BITS; i++) {
        const uint64_t *v = s->lived[i];
        uint64_t n = sum_of(v);
        if (n == 0)
            continue;
        put(out, "%10llu %10llu %12llu   %14llu %14llu %14llu\n",
            (unsigned long long)from_of(i), (unsigned long long)to_of(i),
            (unsigned long long)n,
            (unsigned long long)to_of(percentile(v, n, 50)),
            (unsigned long long)to_of(percentile(v, n, 90)),
            (unsigned long long)to_of(percentile(v, n, 100)));
    }
    put(out, "%21s %12llu\n", "alive at the end", (unsigned long long)live);
}

static void csv_lifetimes(const struct annotate_summary *s,
                          struct format_out *out) {
    format_out_str(out, "size_from,size_to,lines_from,lines_to,blocks\n");
    for (unsigned i = 0; i <= ANNOTATE_BITS; i++)
        for (unsigned k = 0; k <= ANNOTATE_BITS; k++)
            if (s->lived[i][k] != 0)
                put(out, "%llu,%llu,%llu,%llu,%llu\n",
                    (unsigned long long)from_of(i),
                    (unsigned long long)to_of(i),
                    (unsigned long long)from_of(k),
                    (unsigned long long)to_of(k),
                    (unsigned long long)s->lived[i][k]);
}

static void table_layout(const struct annotate_summary *s, uint64_t live,
                         struct format_out *out) {
    put(out, "%21s %12s %12s\n", "gap in bytes", "to the one", "to the one");
    put(out, "%21s %12s %12s\n", "", "before", "behind");
    for (unsigned i = 0; i <= ANNOTATE_BITS; i++)
        if ((s->gaps[0][i] | s->gaps[1][i]) != 0)
            put(out, "%10llu %10llu %12llu %12llu\n",
                (unsigned long long)from_of(i), (unsigned long long)to_of(i),
                (unsigned long long)s->gaps[0][i],
                (unsigned long long)s->gaps[1][i]);
    if (s->overlaps != 0)
        put(out, "%21s %12llu\n", "overlaps", (unsigned long long)s->overlaps);
    put(out, "%21s %12llu\n%21s %12llu\n%21s %12llu\n", "pages at most",
        (unsigned long long)s->peak_pages, "pages at the end",
        (unsigned long long)s->pages, "blocks at the end",
        (unsigned long long)live);
}

static void csv_layout(const struct annotate_summary *s,
                       struct format_out *out) {
    format_out_str(out, "event,pages\n");
    for (size_t i = 0; i < s->points; i++)
        put(out, "%llu,%llu\n", (unsigned long long)(i * s->step),
            (unsigned long long)s->point[i]);
}

/* --- Pictures ------------------------------------------------------------- */

#define WIDTH  640u
#define HEIGHT 360u
#define LEFT   64u
#define BOTTOM 40u
#define PLOT_W (WIDTH - LEFT - 16)
#define PLOT_H (HEIGHT - BOTTOM - 32)

static void begin_svg(struct format_out *out, const char *title,
                      const char *across, const char *up) {
    put(out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n",
        WIDTH, HEIGHT);
    put(out, "<rect width=\"%u\" height=\"%u\" fill=\"white\"/>\n", WIDTH,
        HEIGHT);
    put(out, "<text x=\"%u\" y=\"20\" font-size=\"14\">%s</text>\n", LEFT,
        title);
    put(out, "<text x=\"%u\" y=\"%u\" text-anchor=\"end\">%s</text>\n",
        WIDTH - 16, HEIGHT - 6, across);
    put(out,
        "<text transform=\"translate(12 %u) rotate(-90)\" "
        "text-anchor=\"end\">%s</text>\n",
        32, up);
    put(out,
        "<rect x=\"%u\" y=\"32\" width=\"%u\" height=\"%u\" fill=\"none\" "
        "stroke=\"black\"/>\n",
        LEFT, PLOT_W, PLOT_H);
}

static unsigned top_of(const struct annotate_summary *s, bool sizes) {
    unsigned top = 1;
    for (unsigned i = 0; i <= ANNOTATE_BITS; i++)
        for (unsigned k = 0; k <= ANNOTATE_BITS; k++)
            if (s->lived[i][k] != 0)
                top = (unsigned)tcm_max_u64(top, sizes ? i : k);
    return top;
}

/* Darker is more, by the number of bits. */
static void svg_lifetimes(const struct annotate_summary *s,
                          struct format_out *out) {
    unsigned sizes = top_of(s, true) + 1, ages = top_of(s, false) + 1, most = 1;
    begin_svg(out, "How long blocks of each size lived",
              "lines until the block ended", "size in bytes");
    for (unsigned i = 0; i < sizes; i++)
        for (unsigned k = 0; k < ages; k++)
            most = (unsigned)tcm_max_u64(most, bits_of(s->lived[i][k]));
    for (unsigned i = 0; i < sizes; i++)
        for (unsigned k = 0; k < ages; k++)
            if (s->lived[i][k] != 0)
                put(out,
                    "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" "
                    "fill=\"#1f5fa8\" fill-opacity=\"%.2f\"><title>%llu to "
                    "%llu bytes, %llu to %llu lines: %llu</title></rect>\n",
                    LEFT + k * PLOT_W / ages,
                    32 + PLOT_H - (i + 1) * PLOT_H / sizes, PLOT_W / ages,
                    PLOT_H / sizes, (double)bits_of(s->lived[i][k]) / most,
                    (unsigned long long)from_of(i),
                    (unsigned long long)to_of(i),
                    (unsigned long long)from_of(k),
                    (unsigned long long)to_of(k),
                    (unsigned long long)s->lived[i][k]);
    for (unsigned i = 0; i < sizes; i += 4)
        put(out, "<text x=\"%u\" y=\"%u\" text-anchor=\"end\">%llu</text>\n",
            LEFT - 4, 32 + PLOT_H - i * PLOT_H / sizes,
            (unsigned long long)from_of(i));
    for (unsigned k = 0; k < ages; k += 4)
        put(out, "<text x=\"%u\" y=\"%u\">%llu</text>\n",
            LEFT + k * PLOT_W / ages, 32 + PLOT_H + 14,
            (unsigned long long)from_of(k));
}

static void svg_layout(const struct annotate_summary *s,
                       struct format_out *out) {
    double most = (double)tcm_max_u64(s->peak_pages, 1);
    begin_svg(out, "Pages in use", "calls", "pages of 4 KiB");
    put(out, "<text x=\"%u\" y=\"42\" text-anchor=\"end\">%llu</text>\n",
        LEFT - 4, (unsigned long long)s->peak_pages);
    put(out, "<text x=\"%u\" y=\"%u\" text-anchor=\"end\">0</text>\n", LEFT - 4,
        32 + PLOT_H);
    format_out_str(out, "<polyline fill=\"none\" stroke=\"#1f5fa8\" points=\"");
    for (size_t i = 0; i < s->points; i++)
        put(out, "%.1f,%.1f ", LEFT + (double)i * PLOT_W / (double)s->points,
            32 + PLOT_H - (double)s->point[i] / most * PLOT_H);
    format_out_str(out, "\"/>\n");
    put(out, "<text x=\"%u\" y=\"%u\">0 to %llu</text>\n", LEFT,
        32 + PLOT_H + 14, (unsigned long long)s->events);
}

void annotate_summary_print(const struct annotate_summary *s, bool layout,
                            enum annotate_form form, uint64_t live,
                            struct format_out *out) {
    if (form == ANNOTATE_TABLE && layout)
        table_layout(s, live, out);
    else if (form == ANNOTATE_TABLE)
        table_lifetimes(s, live, out);
    else if (form == ANNOTATE_CSV && layout)
        csv_layout(s, out);
    else if (form == ANNOTATE_CSV)
        csv_lifetimes(s, out);
    else if (layout)
        svg_layout(s, out);
    else
        svg_lifetimes(s, out);
    if (form == ANNOTATE_SVG)
        format_out_str(out, "</svg>\n");
}
