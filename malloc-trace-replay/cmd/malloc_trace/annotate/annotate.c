/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc-trace annotate: appends to each line of a text trace with addresses
 * how long the block lived and what its neighbours are; or prints a summary.
 */
#include "base/bits.h"
#include "base/check.h"
#include "cmd/malloc_trace/subcommands.h"
#include "common/collections.h"
#include "common/files.h"
#include "common/main.h"
#include "common/opts.h"
#include "common/stop.h"
#include "formats/format_export.h"
#include "formats/format_reader.h"
#include "model/address_map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- Summary -------------------------------------------------------------- */

/*
 * Summary: how long blocks of each size lived, the gaps between them, and the
 * pages in use in the course of the trace; as a table, CSV, or a picture.
 *
 * Invariants: memory does not depend on the length of the trace.
 */
enum annotate_form {
    ANNOTATE_LINES,
    ANNOTATE_TABLE,
    ANNOTATE_CSV,
    ANNOTATE_SVG
};

/* Classes of sizes, ages and gaps by their number of bits: 0, 1, 2 to 3, 4 to
   7, ... */
#define ANNOTATE_BITS   48u
#define ANNOTATE_POINTS 512u

struct annotate_summary {
    uint64_t lived[ANNOTATE_BITS + 1][ANNOTATE_BITS + 1]; /* by size and age */
    uint64_t gaps[2][ANNOTATE_BITS + 1]; /* to the blocks below and above */
    uint64_t overlaps;                   /* negative gaps */
    /* pages in use; one point for STEP events */
    uint64_t pages, peak_pages, events, step;
    uint64_t point[ANNOTATE_POINTS]; /* most pages in its events */
    size_t points;
};

static unsigned bits_of(uint64_t v) {
    unsigned bits = v == 0 ? 0 : 64 - (unsigned)__builtin_clzll(v);
    return bits < ANNOTATE_BITS ? bits : ANNOTATE_BITS;
}

/* Counts an event; when all points are used, joins each two of them. */
static void add_point(struct annotate_summary *s) {
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
    TCM_ASSERT(s->points >= 1 && s->points <= ANNOTATE_POINTS &&
               (s->points - 1) * s->step < s->events &&
               s->events <= s->points * s->step);
    uint64_t *last = &s->point[s->points - 1];
    *last = tcm_max_u64(*last, s->pages);
    s->peak_pages = tcm_max_u64(s->peak_pages, s->pages);
}

/* Counts the end of a block of SIZE after AGE lines, which alone used PAGES. */
static void annotate_summary_end(struct annotate_summary *s, uint64_t size,
                                 uint64_t age, uint64_t pages) {
    s->lived[bits_of(size)][bits_of(age)]++;
    s->pages -= tcm_min_u64(pages, s->pages);
    add_point(s);
}

static void add_gap(struct annotate_summary *s, unsigned side, int64_t gap) {
    if (gap >= 0)
        s->gaps[side][bits_of((uint64_t)gap)]++;
    else if (gap < -1)
        s->overlaps++;
}

/* Counts the begin of a block with these gaps (-1: no neighbour) that alone
   uses PAGES. */
static void annotate_summary_begin(struct annotate_summary *s,
                                   int64_t gap_below, int64_t gap_above,
                                   uint64_t pages) {
    add_gap(s, 0, gap_below);
    add_gap(s, 1, gap_above);
    s->pages += pages;
    add_point(s);
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

static uint64_t lowest_of(unsigned bits) {
    return bits == 0 ? 0 : (uint64_t)1 << (bits - 1);
}

static uint64_t highest_of(unsigned bits) {
    return bits == 0 ? 0 : ((uint64_t)1 << bits) - 1;
}

static uint64_t sum_of(const uint64_t *v) {
    uint64_t sum = 0;
    for (unsigned i = 0; i <= ANNOTATE_BITS; i++)
        sum += v[i];
    return sum;
}

/* Returns the class up to which V has PERCENT of its N entries. */
static unsigned percentile(const uint64_t *v, uint64_t n, unsigned percent) {
    uint64_t seen = 0;
    TCM_ASSERT(n == sum_of(v) && percent <= 100);
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
        "lines until their end: median, 90 %, all, up to");
    for (unsigned i = 0; i <= ANNOTATE_BITS; i++) {
        const uint64_t *v = s->lived[i];
        uint64_t n = sum_of(v);
        if (n == 0)
            continue;
        put(out, "%10llu %10llu %12llu   %14llu %14llu %14llu\n",
            (unsigned long long)lowest_of(i), (unsigned long long)highest_of(i),
            (unsigned long long)n,
            (unsigned long long)highest_of(percentile(v, n, 50)),
            (unsigned long long)highest_of(percentile(v, n, 90)),
            (unsigned long long)highest_of(percentile(v, n, 100)));
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
                    (unsigned long long)lowest_of(i),
                    (unsigned long long)highest_of(i),
                    (unsigned long long)lowest_of(k),
                    (unsigned long long)highest_of(k),
                    (unsigned long long)s->lived[i][k]);
}

static void table_layout(const struct annotate_summary *s, uint64_t live,
                         struct format_out *out) {
    put(out, "%21s %12s %12s\n", "gap in bytes", "to block", "to block");
    put(out, "%21s %12s %12s\n", "", "below", "above");
    for (unsigned i = 0; i <= ANNOTATE_BITS; i++)
        if ((s->gaps[0][i] | s->gaps[1][i]) != 0)
            put(out, "%10llu %10llu %12llu %12llu\n",
                (unsigned long long)lowest_of(i),
                (unsigned long long)highest_of(i),
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

/* Draws a cell for each size and age, darker for more blocks (by number of
   bits). */
static void svg_lifetimes(const struct annotate_summary *s,
                          struct format_out *out) {
    unsigned sizes = top_of(s, true) + 1, ages = top_of(s, false) + 1, most = 1;
    begin_svg(out, "How long blocks of each size lived",
              "lines until the end of the block", "size in bytes");
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
                    (unsigned long long)lowest_of(i),
                    (unsigned long long)highest_of(i),
                    (unsigned long long)lowest_of(k),
                    (unsigned long long)highest_of(k),
                    (unsigned long long)s->lived[i][k]);
    for (unsigned i = 0; i < sizes; i += 4)
        put(out, "<text x=\"%u\" y=\"%u\" text-anchor=\"end\">%llu</text>\n",
            LEFT - 4, 32 + PLOT_H - i * PLOT_H / sizes,
            (unsigned long long)lowest_of(i));
    for (unsigned k = 0; k < ages; k += 4)
        put(out, "<text x=\"%u\" y=\"%u\">%llu</text>\n",
            LEFT + k * PLOT_W / ages, 32 + PLOT_H + 14,
            (unsigned long long)lowest_of(k));
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

/* Prints pages and gaps (LAYOUT) or sizes and lifetimes. LIVE: blocks left at
   the end. */
static void annotate_summary_print(const struct annotate_summary *s,
                                   bool layout, enum annotate_form form,
                                   uint64_t live, struct format_out *out) {
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

/* --- State ---------------------------------------------------------------- */

/* Column of comments behind lines that are not longer. */
#define COMMENT_COLUMN 49u
#define PAGE_LOG2      12u

/* Lines that are read before the first of them is handled: with millions of
   live blocks most time is spent waiting for memory, so that the memory of all
   these lines is prefetched together. */
#define AHEAD 32u

struct line {
    const char *p, *end;
    uint64_t number;
    enum format_result result;
    struct format_event call;   /* if the result is an event */
    uint32_t near_old, near_id; /* layout: leaves of its blocks, or 0 */
};

struct annotate {
    const char *name;
    bool layout;
    enum annotate_form form; /* ANNOTATE_LINES: lines, no summary */
    const struct format_type *format;
    void *state; /* of the format */
    struct format_reader reader;
    struct format_out *out;
    struct address_map map; /* layout: the live blocks, in order */
    /* lifetimes: the live blocks, unordered */
    struct tool_map place; /* key: address; value: index in `block` + 1 */
    struct address_block *block;
    size_t blocks, block_room;
    size_t spare; /* free entry + 1, linked by `size`; 0: none */
    struct annotate_summary summary;
    uint64_t bad, unknown;
    uint64_t overlaps;  /* layout: blocks that overlap a neighbour */
    uint64_t first_bad; /* line number */
    bool no_memory;
    bool no_addresses; /* layout: blocks are numbers */
};

/* --- Live blocks ---------------------------------------------------------- */

static uint64_t live_count(const struct annotate *a) {
    return a->layout ? address_map_count(&a->map) : a->place.count;
}

/* Live block that was found; valid until the next change. */
struct found {
    struct address_spot spot; /* layout */
    struct address_block block;
};

/* Finds the block at ADDRESS. NEAR: its leaf, or 0. */
static bool find_block(const struct annotate *a, uint64_t address,
                       uint32_t near, struct found *f) {
    if (a->layout) {
        if (!address_map_find(&a->map, address, near, &f->spot))
            return false;
        f->block = address_map_get(&a->map, f->spot);
        return true;
    }
    const struct tool_map_entry *e = tool_map_find(&a->place, address);
    if (e != NULL)
        f->block = a->block[e->value - 1];
    return e != NULL;
}

static void remove_block(struct annotate *a, const struct found *f) {
    if (a->layout) {
        address_map_remove(&a->map, f->spot);
        return;
    }
    struct tool_map_entry *e = tool_map_find(&a->place, f->block.address);
    if (e == NULL)
        return;
    TCM_ASSERT(e->value - 1 < a->blocks && a->place.count <= a->blocks);
    a->block[e->value - 1].size = a->spare;
    a->spare = e->value;
    tool_map_remove(&a->place, e);
}

/* Adds F->block. F: what find_block left when it found no block at that
   address. */
static bool add_block(struct annotate *a, struct found *f) {
    const struct address_block *b = &f->block;
    if (a->layout)
        return address_map_add(&a->map, b, &f->spot);
    struct tool_map_entry *e = tool_map_get(&a->place, b->address);
    if (e == NULL || !tool_array_reserve(&a->block, &a->block_room,
                                         a->blocks + 1, sizeof(*a->block)))
        return false;
    e->value = a->spare != 0 ? a->spare : ++a->blocks;
    if (a->spare != 0)
        a->spare = a->block[e->value - 1].size;
    a->block[e->value - 1] = *b;
    return true;
}

/* Prefetches the N blocks at ADDRESS (lifetimes). */
static void prefetch_places(const struct annotate *a, const uint64_t *address,
                            size_t n) {
    for (size_t i = 0; i < n; i++)
        tool_map_prefetch(&a->place, address[i]);
    for (size_t i = 0; i < n; i++) {
        const struct tool_map_entry *e = tool_map_find(&a->place, address[i]);
        if (e != NULL)
            __builtin_prefetch(&a->block[e->value - 1], 1);
    }
}

/* Prefetches the blocks of N lines. */
static void prefetch_lines(const struct annotate *a, struct line *line,
                           size_t n) {
    uint64_t address[2 * AHEAD];
    uint32_t leaf[2 * AHEAD], *near[2 * AHEAD];
    size_t k = 0;
    for (struct line *l = line; l < line + n; l++) {
        address[k] = l->call.old;
        near[k] = &l->near_old;
        k += l->call.old != 0;
        address[k] = l->call.id;
        near[k] = &l->near_id;
        k += l->call.id != 0;
    }
    if (!a->layout) {
        prefetch_places(a, address, k);
        return;
    }
    address_map_ahead(&a->map, address, leaf, k);
    for (size_t i = 0; i < k; i++)
        *near[i] = leaf[i];
}

/* --- Comments ------------------------------------------------------------- */

static uint64_t last_page(const struct address_block *b) {
    return (b->address + b->size - (b->size != 0)) >> PAGE_LOG2;
}

/* Neighbours and pages of a block. */
struct around {
    uint64_t below, above;        /* addresses, 0 without a neighbour */
    int64_t gap_below, gap_above; /* -1 without a neighbour */
    uint64_t first, last;         /* pages of the block */
    uint64_t pages;               /* of these, used by no neighbour */
};

static uint64_t own_address(const struct annotate *a, uint64_t address) {
    return a->format->has_processes ? format_id_in_process(address) : address;
}

/* Tells whether both blocks are of one process. */
static bool same_process(const struct annotate *a,
                         const struct address_block *x,
                         const struct address_block *y) {
    return !a->format->has_processes ||
           x->address >> FORMAT_ID_BITS == y->address >> FORMAT_ID_BITS;
}

/* Finds the neighbours of F. */
static void find_around(const struct annotate *a, const struct found *f,
                        struct around *r) {
    const struct address_block *b = &f->block;
    struct address_block near;
    r->below = r->above = 0;
    r->gap_below = r->gap_above = -1;
    r->first = b->address >> PAGE_LOG2;
    r->last = last_page(b);
    r->pages = r->last - r->first + 1;
    if (address_map_below(&a->map, f->spot, &near) &&
        same_process(a, &near, b)) {
        r->below = own_address(a, near.address);
        r->gap_below = (int64_t)(b->address - near.address - near.size);
        r->pages -= last_page(&near) == r->first;
    }
    if (address_map_above(&a->map, f->spot, &near) &&
        same_process(a, &near, b)) {
        r->above = own_address(a, near.address);
        r->gap_above = (int64_t)(near.address - b->address - b->size);
        r->pages -= r->pages != 0 && near.address >> PAGE_LOG2 == r->last;
    }
    uint64_t base = b->address - own_address(a, b->address);
    r->first -= base >> PAGE_LOG2;
    r->last -= base >> PAGE_LOG2;
}

static char *put_signed(char *p, int64_t v) {
    if (v < 0)
        *p++ = '-';
    return format_put_u64(p, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

/* Longest comment. */
#define COMMENT_ROOM ((size_t)512)

static char *put_around(char *p, const struct around *r, bool makes) {
    p = format_put_hex(format_put_text(p, "prev "), r->below);
    p = put_signed(format_put_text(p, ", gap "), r->gap_below);
    p = format_put_hex(format_put_text(p, ", next "), r->above);
    p = put_signed(format_put_text(p, ", gap "), r->gap_above);
    p = format_put_u64(format_put_text(p, ", pages ["), r->first);
    p = makes ? format_put_text(p, ", ") : format_put_text(p, "-");
    p = format_put_u64(p, r->last);
    p = format_put_u64(format_put_text(p, "], "), r->pages);
    return makes ? format_put_text(p, " more pages ")
                 : format_put_text(p, " fewer pages");
}

static void put_line(struct annotate *a, const struct line *l, bool comment) {
    size_t n = (size_t)(l->end - l->p);
    format_out_bytes(a->out, l->p, n);
    if (!comment)
        return;
    static const char blanks[] =
        "                                                 ";
    TCM_STATIC_ASSERT(sizeof(blanks) - 1 == COMMENT_COLUMN, "a line of blanks");
    if (n < COMMENT_COLUMN)
        format_out_bytes(a->out, blanks, COMMENT_COLUMN - n);
    format_out_str(a->out, " # ");
}

/* --- Lines ---------------------------------------------------------------- */

/* Adds the block that L makes to the live ones. */
static void add(struct annotate *a, const struct line *l, struct found *f) {
    const struct format_event *e = &l->call;
    if (find_block(a, e->id, l->near_id, f)) { /* a free is missing */
        remove_block(a, f);
        (void)find_block(a, e->id, 0, f);
    }
    f->block = (struct address_block){e->id, e->size, l->number};
    a->no_memory |= !add_block(a, f);
}

/* Handles the end of the block F. */
static void handle_end(struct annotate *a, const struct line *l,
                       const struct found *f) {
    struct around r = {0};
    const struct address_block *old = &f->block;
    uint64_t age = l->number - old->line;
    if (a->layout)
        find_around(a, f, &r);
    if (a->form != ANNOTATE_LINES) {
        annotate_summary_end(&a->summary, old->size, age, r.pages);
        return;
    }
    put_line(a, l, true);
    format_out_room(a->out, COMMENT_ROOM);
    char *to = a->out->bytes + a->out->used;
    to = format_put_text(format_put_u64(to, old->size), " bytes, allocated ");
    to = format_put_text(format_put_u64(to, age), " lines ago");
    if (a->layout)
        to = put_around(format_put_text(to, ", "), &r, false);
    *to++ = '\n';
    a->out->used = (size_t)(to - a->out->bytes);
}

/* Handles the begin of the block F. */
static void handle_begin(struct annotate *a, const struct line *l,
                         const struct found *f) {
    struct around r = {0};
    if (a->layout && !a->no_memory)
        find_around(a, f, &r);
    a->overlaps += r.gap_below < -1 || r.gap_above < -1;
    if (a->form != ANNOTATE_LINES) {
        annotate_summary_begin(&a->summary, r.gap_below, r.gap_above, r.pages);
        return;
    }
    put_line(a, l, a->layout);
    format_out_room(a->out, COMMENT_ROOM);
    char *to = a->out->bytes + a->out->used;
    if (a->layout)
        to = put_around(to, &r, true);
    *to++ = '\n';
    a->out->used = (size_t)(to - a->out->bytes);
}

static void put_plain(struct annotate *a, const struct line *l) {
    if (a->form != ANNOTATE_LINES)
        return;
    put_line(a, l, false);
    format_out_char(a->out, '\n');
}

static const char *without_blanks(const char *p, const char *end) {
    while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return end;
}

static void handle_call(struct annotate *a, struct line *l) {
    struct found f;
    const struct format_event *e = &l->call;
    bool ends = e->old != 0 && find_block(a, e->old, l->near_old, &f);
    const char *comment = a->format->has_comments
                              ? memchr(l->p, '#', (size_t)(l->end - l->p))
                              : NULL;
    if (comment != NULL && comment != l->p)
        l->end = without_blanks(l->p, comment);
    a->unknown += e->old != 0 && !ends;
    if (ends) {
        handle_end(a, l, &f);
        if (e->kind == FORMAT_FREE || e->id != 0 || e->size == 0)
            remove_block(a, &f);
    }
    bool makes = e->kind != FORMAT_FREE && e->id != 0;
    if (makes)
        add(a, l, &f);
    if (makes && (ends ? a->form != ANNOTATE_LINES : e->kind == FORMAT_ALLOC))
        handle_begin(a, l, &f);
    else if (!ends)
        put_plain(a, l);
}

static void handle_line(struct annotate *a, struct line *l) {
    if (l->result == FORMAT_EVENT && l->call.kind <= FORMAT_REALLOC) {
        if (a->layout && (l->call.flags & FORMAT_NUMBERED) != 0) {
            a->no_addresses = true;
            return;
        }
        handle_call(a, l);
        return;
    }
    if (l->result == FORMAT_BAD && a->bad++ == 0)
        a->first_bad = l->number;
    put_plain(a, l);
}

/* Reads the next line. false: there is none. */
static bool read_line(struct annotate *a, struct line *l) {
    bool long_one, last;
    const char *why;
    if (!format_reader_line(&a->reader, &l->p, &l->end, &long_one, &last))
        return false;
    l->number = a->reader.line;
    l->end = without_blanks(l->p, l->end);
    l->result = long_one ? FORMAT_BAD : FORMAT_NOTHING;
    memset(&l->call, 0, sizeof(l->call));
    l->near_old = l->near_id = 0;
    if (l->p != l->end)
        l->result = a->format->line(a->state, l->p, l->end, &l->call, &why);
    return true;
}

/* Reads a line, and more, up to AHEAD, that need no wait. Returns their number;
   0 at the end. */
static size_t read_lines(struct annotate *a, struct line *line) {
    size_t n = 0;
    while (n < AHEAD && (n == 0 || format_reader_has_line(&a->reader)) &&
           read_line(a, &line[n]))
        n++;
    return n;
}

/* --- Command -------------------------------------------------------------- */

static int fail(const char *name, const char *problem) {
    tool_error("%s: %s", name, problem);
    return TOOL_FAILED;
}

static void handle_lines(struct annotate *a) {
    struct line line[AHEAD];
    size_t n;
    while (!a->no_memory && !a->no_addresses &&
           tool_output_error(a->out->to) == 0 && !tool_stop_requested() &&
           (n = read_lines(a, line)) != 0) {
        prefetch_lines(a, line, n);
        for (size_t i = 0; i < n && !a->no_memory && !a->no_addresses; i++)
            handle_line(a, &line[i]);
    }
    if (a->form != ANNOTATE_LINES && !a->reader.failed && !a->no_addresses &&
        !tool_is_quiet())
        annotate_summary_print(&a->summary, a->layout, a->form, live_count(a),
                               a->out);
    format_out_flush(a->out);
}

/* Reports the faults of the input after reading it. Returns the exit status. */
static int report_faults(struct annotate *a) {
    int status = TOOL_OK;
    if (a->reader.breaks != 0) {
        tool_error("%s: %s damaged", a->name,
                   tool_input_frame_name(a->reader.in));
        status = TOOL_DAMAGED;
    }
    if (a->bad != 0) {
        tool_error("%s: line %" PRIu64 ": cannot be read; %" PRIu64
                   " such lines in total",
                   a->name, a->first_bad, a->bad);
        status = TOOL_DAMAGED;
    }
    if (tool_stop_requested())
        status = TOOL_DAMAGED;
    if (a->unknown != 0 && !tool_is_quiet())
        tool_warn("%s: %" PRIu64 " frees or reallocs of unknown blocks",
                  a->name, a->unknown);
    if (a->overlaps != 0 && !tool_is_quiet())
        tool_warn("%s: %" PRIu64
                  " of the blocks overlap a neighbour: frees are "
                  "missing, or addresses are invented, as in a converted trace",
                  a->name, a->overlaps);
    return status;
}

static int annotate(struct annotate *a, struct tool_input *in) {
    const uint8_t *p;
    size_t n = tool_input_peek_bytes(in, FORMAT_SNIFF_BYTES, &p);
    a->name = tool_input_name(in);
    a->format = format_by_content(p, n, n < FORMAT_SNIFF_BYTES);
    if (a->format == NULL || !a->format->has_addresses)
        return fail(a->name,
                    n == 0 && tool_input_status(in) == MTF_SYSTEM
                        ? strerror(tool_input_source(in)->error)
                        : "byte 0: is not a text trace with addresses");
    a->state = calloc(1, a->format->state_bytes + 1);
    if (a->state == NULL || !format_reader_init(&a->reader, in))
        return fail(a->name, "out of memory");
    format_reader_ahead(&a->reader);
    handle_lines(a);
    int status = report_faults(a);
    if (a->reader.failed)
        status = fail(a->name, strerror(a->reader.source->error));
    if (a->no_addresses)
        status =
            fail(a->name, "is a munged log, whose blocks have no addresses");
    if (a->no_memory)
        status = fail(a->name, "out of memory");
    return status;
}

/* Annotates IN, and frees IN and the output. */
static int run(struct annotate *a, struct tool_input *in) {
    int status = annotate(a, in);
    if (a->format != NULL && a->format->fini != NULL && a->state != NULL)
        a->format->fini(a->state);
    free(a->state);
    format_reader_fini(&a->reader);
    address_map_fini(&a->map);
    tool_map_fini(&a->place);
    free(a->block);
    tool_input_close(in);
    if (!tool_output_close(a->out->to))
        return fail("standard output", strerror(errno));
    return status;
}

/* Parses the options into A. false: the status is O's. */
static bool parse_options(struct annotate *a, struct tool_opts *o, int argc,
                          char **argv) {
    static const char *const forms[] = {"table", "csv", "svg", NULL};
    unsigned form = 0;
    bool has_summary = false;
    const struct tool_opt opts[] = {
        {.value = "lifetimes",
         .help = "the size of the block that a free or realloc ends, and how "
                 "many lines ago it was allocated"},
        {.value = "layout",
         .help = "also its neighbours below and above, the gaps to them, and "
                 "the pages that the block adds or removes"},
        {.name = "summary",
         .value = "FORM",
         .help = "print a summary instead: table, csv or svg (a picture)",
         .words = forms,
         .word = &form,
         .given = &has_summary},
        {0}};
    const struct tool_command command = {
        .usage = "malloc-trace annotate lifetimes|layout [OPTION]... [FILE]",
        .about = "Print a text trace with addresses (of a format that "
                 "malloc-trace convert --list marks with 'annotate'; default "
                 "and '-': standard input), with a comment behind each line:",
        .opts = opts,
        .quiet = "print errors and warnings only",
        .notes = "Exit status: 0; 1 FILE could not be read or is not such a "
                 "trace, or standard output could not be written; 2 wrong "
                 "command line; 3 FILE has lines that cannot be read, or is "
                 "damaged."};
    if (!tool_opts_parse(o, &command, argc, argv))
        return false;
    if (has_summary)
        a->form = ANNOTATE_TABLE + form;
    return true;
}

int cmd_annotate(int argc, char **argv) {
    static struct annotate a;
    static struct format_out out;
    struct tool_opts o;
    if (!parse_options(&a, &o, argc, argv))
        return o.status;
    if (o.operand_count == 0)
        return tool_usage_error("neither lifetimes nor layout given");
    a.layout = strcmp(o.operand[0], "layout") == 0;
    if (!a.layout && strcmp(o.operand[0], "lifetimes") != 0)
        return tool_usage_error("neither lifetimes nor layout: '%s'",
                                o.operand[0]);
    if (o.operand_count > 2)
        return tool_usage_error("more than one file given");
    const char *name = o.operand_count == 2 ? o.operand[1] : "-";
    if (o.operand_count == 1 && isatty(STDIN_FILENO) == 1)
        return tool_usage_error(
            "no FILE given, and standard input is a terminal");
    if (tool_is_quiet())
        a.form = ANNOTATE_TABLE; /* not printed, and no lines either */
    if (tool_files_collide_text(NULL, &name, 1))
        return TOOL_USAGE;
    tool_stop_catch();
    struct tool_input *in = tool_input_open(name);
    if (in == NULL)
        return fail(name, strerror(errno));
    out.to = tool_output_open(NULL, TOOL_OUTPUT_PLAIN);
    if (out.to == NULL) {
        tool_input_close(in);
        return fail(name, "out of memory");
    }
    a.out = &out;
    return run(&a, in);
}
