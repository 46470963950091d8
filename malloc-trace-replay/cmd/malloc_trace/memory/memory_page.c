/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/memory/memory_print.h"

#include "cmd/malloc_trace/memory/memory_model.h"
#include "base/bits.h"
#include "base/check.h"
#include "common/main.h"
#include "common/text.h"
#include "pages/page.h"
#include "pages/plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Parts of resident memory --------------------------------------------- */

enum part { REQUESTED, ROUNDING, FREE, EMPTY, NEVER, PARTS };

static const struct {
    const char *name;
    unsigned colour; /* class kN of page.css */
} part_info[PARTS] = {
    [REQUESTED] = {"alive, as requested", 1},
    [ROUNDING] = {"rounding up of sizes", 6},
    [FREE] = {"free on pages that blocks hold", 2},
    [EMPTY] = {"empty: blocks lay there", 5},
    [NEVER] = {"never used for blocks", 8},
};

/* Columns of the figures at the pointer, at even distances of time. */
enum { COLUMNS = 200 };

struct parts {
    uint64_t bytes[PARTS];
};

static struct parts parts_of_point(const struct memory_point *p) {
    return (struct parts){{p->requested_bytes, p->rounding_bytes, p->free_bytes,
                           p->empty_bytes, p->never_bytes}};
}

static struct parts parts_of_moment(const struct memory_moment *m) {
    return (struct parts){{m->requested_bytes, m->rounding_bytes, m->free_bytes,
                           m->empty_bytes, m->never_bytes}};
}

static uint64_t parts_sum(const struct parts *s) {
    uint64_t sum = 0;
    for (int i = 0; i < PARTS; i++)
        sum += s->bytes[i];
    return sum;
}

/* --- Pieces of text ------------------------------------------------------- */

static void put_bytes(struct page_writer *p, double bytes) {
    struct tool_text t;
    page_put(p, tool_text_bytes(&t, tool_text_whole(bytes)));
}

static void put_cell(struct page_writer *p, const char *text) {
    page_put(p, "<td>");
    page_text(p, text);
    page_put(p, "</td>");
}

static void put_cell_bytes(struct page_writer *p, double bytes) {
    struct tool_text t;
    put_cell(p, tool_text_bytes(&t, tool_text_whole(bytes)));
}

static void put_cell_count(struct page_writer *p, uint64_t n) {
    struct tool_text t;
    put_cell(p, tool_text_count(&t, n));
}

/* Puts "peak, most waste, after 1.2 s". */
static void put_moment_name(struct page_writer *p,
                            const struct memory_report *r,
                            const struct memory_moment *m) {
    struct tool_text t;
    page_text(p, m->label);
    if (r->has_times)
        page_putf(p, ", after %s", tool_text_ns(&t, m->recorded_ns));
    else
        page_putf(p, ", after %s operations",
                  tool_text_count(&t, m->operation));
}

/* --- Head ----------------------------------------------------------------- */

static void put_remedies(const struct memory_run *r, struct page_writer *p) {
    struct tool_text t;
    page_put(p, "<ul class=\"plain\">\n");
    for (size_t i = 0; i < r->remedies; i++) {
        page_putf(p, "<li>%s ", tool_text_bytes(&t, r->remedy[i].bytes));
        page_text(p, r->remedy[i].text);
        page_put(p, "</li>\n");
    }
    page_put(p, "</ul>\n");
}

static void put_head(struct page_writer *p, const struct memory_report *r) {
    struct tool_text t[2];
    page_put(p, "<header>\n<h1>Where the memory of ");
    page_text(p, r->trace);
    page_put(p, " is</h1>\n<p class=\"note\">");
    page_putf(p, "%s operations", tool_text_count(&t[0], r->operations));
    if (r->has_times)
        page_putf(p, " in %s", tool_text_ns(&t[1], r->duration_ns));
    page_put(p, ", replayed; each resident page of the process is looked at, "
                "without those of the replayer.</p>\n</header>\n"
                "<section class=\"card lead\" aria-label=\"In short\">\n");
    for (size_t i = 0; i < r->runs; i++) {
        const struct memory_run *run = &r->run[i];
        page_put(p, "<p><b>");
        page_text(p, run->name);
        page_put(p, "</b>: ");
        page_text(p, run->failure != NULL ? run->failure : run->sentence);
        page_put(p, "</p>\n");
        if (run->remedies != 0)
            put_remedies(run, p);
    }
    for (size_t i = 0; i < r->runs; i++)
        for (size_t k = 0; k < r->run[i].missings; k++) {
            page_put(p, "<p><small>");
            page_text(p, r->run[i].name);
            page_put(p, ": ");
            page_text(p, r->run[i].missing[k]);
            page_put(p, "</small></p>\n");
        }
    if (r->untouched != NULL) {
        page_put(p, "<p><small>");
        page_text(p, r->untouched);
        page_put(p, "</small></p>\n");
    }
    page_put(p, "</section>\n");
}

/* --- Areas over time ------------------------------------------------------ */

/* Position of a state on the axis of time. */
static double at_of(const struct memory_report *r, uint64_t operation,
                    uint64_t recorded_ns) {
    return (double)(r->has_times ? recorded_ns : operation);
}

static double end_of(const struct memory_report *r) {
    return at_of(r, r->operations, r->duration_ns);
}

static const char *tick_operations(char text[32], double v) {
    struct tool_text t;
    snprintf(text, 32, "%s", tool_text_count(&t, tool_text_whole(v)));
    return text;
}

static void put_key(struct page_writer *p) {
    page_put(p, "<ul class=\"key\" aria-label=\"Parts of resident memory\">\n");
    for (int i = 0; i < PARTS; i++)
        page_putf(p, "<li class=\"w w%d k%u\">%s</li>\n", i,
                  part_info[i].colour, part_info[i].name);
    page_put(p, "</ul>\n");
}

/* Draws the parts as bands on each other. False: out of memory. */
static bool put_bands(struct page_writer *p, const struct memory_report *r,
                      const struct memory_run *run, const struct plot_axis *x,
                      const struct plot_axis *y) {
    size_t n = 0;
    struct plot_point *low = calloc(4 * run->points + 1, sizeof(*low));
    if (low == NULL)
        return false;
    struct plot_point *high = low + 2 * run->points;
    for (int i = 0; i < PARTS; i++, n = 0) {
        char class_name[40];
        for (size_t k = 0; k < run->points; k++) {
            const struct memory_point *at = &run->point[k];
            struct parts parts = parts_of_point(at);
            uint64_t below = 0;
            for (int j = 0; j < i; j++)
                below += parts.bytes[j];
            double bottom = plot_axis_at(y, (double)below);
            double top = plot_axis_at(y, (double)(below + parts.bytes[i]));
            const uint64_t times[] = {at->recorded_ns, at->until_ns};
            for (size_t t = 0; t < 2 && (t == 0 || times[1] > times[0]); t++) {
                double where =
                    plot_axis_at(x, at_of(r, at->operation, times[t]));
                low[n] = (struct plot_point){where, bottom};
                high[n++] = (struct plot_point){where, top};
            }
        }
        snprintf(class_name, sizeof(class_name), "band w w%d k%u", i,
                 part_info[i].colour);
        plot_band(p, low, high, n, class_name);
    }
    free(low);
    return true;
}

/* Lines of labels above a plot, and the part of its width in per cent that a
   label takes on a narrow screen. */
enum { LABEL_LINES = 3, LABEL_WIDTH = 34 };

/* Marks the moments that are explained below the plot. A label for which no
   line has room is left out. */
static void put_moment_lines(struct page_writer *p,
                             const struct memory_report *r,
                             const struct memory_run *run,
                             const struct plot_axis *x) {
    double used[LABEL_LINES] = {-100, -100, -100};
    for (size_t i = 0; i < run->moments; i++) {
        const struct memory_moment *m = &run->moment[i];
        double at = plot_axis_at(x, at_of(r, m->operation, m->recorded_ns));
        int line = 0;
        while (line < LABEL_LINES && at - used[line] < (double)LABEL_WIDTH)
            line++;
        page_putf(p,
                  "<line class=\"one\" x1=\"%.2f%%\" x2=\"%.2f%%\" "
                  "y1=\"%d\" y2=\"100%%\"/>",
                  at, at, line < LABEL_LINES ? -13 * line : 0);
        if (line == LABEL_LINES)
            continue;
        used[line] = at;
        page_putf(p,
                  "<text class=\"label moment\" x=\"%.2f%%\" y=\"%d\" "
                  "style=\"text-anchor:%s\">",
                  at, -4 - 13 * line,
                  at < 20   ? "start"
                  : at > 80 ? "end"
                            : "middle");
        page_text(p, m->label);
        page_put(p, "</text>\n");
    }
}

static void put_returns(struct page_writer *p, const struct memory_run *run) {
    struct tool_text t[2];
    uint64_t gone = 0, again = 0;
    for (size_t k = 0; k < run->points; k++) {
        gone += run->point[k].given_back_bytes;
        again += run->point[k].came_again_bytes;
    }
    page_putf(p,
              "<p class=\"note\">Given back to the system between these "
              "looks: %s; of that came again: %s.</p>\n",
              tool_text_bytes(&t[0], gone), tool_text_bytes(&t[1], again));
}

static bool put_areas(struct page_writer *p, const struct memory_report *r,
                      size_t number, double most) {
    const struct memory_run *run = &r->run[number];
    struct plot_axis x, y;
    char data[40];
    page_put(p, "<figure class=\"card\">\n<figcaption><h2>Resident memory "
                "under ");
    page_text(p, run->name);
    page_put(p, "</h2><p class=\"note\">");
    page_text(p, run->allocator);
    page_put(p, "</p></figcaption>\n");
    plot_axis_linear(&y, 0, most * 1.02, plot_axis_byte_unit(most), 5);
    plot_axis_linear(&x, 0, end_of(r), 1, 4);
    snprintf(data, sizeof(data), " data-cross=\"run%zu\"", number);
    plot_begin(p, "parts", "Parts of resident memory over time", data);
    plot_y(p, &y, plot_tick_bytes, "");
    plot_x(p, &x, r->has_times ? plot_tick_ns : tick_operations,
           r->has_times ? "recorded time" : "operations");
    bool good = put_bands(p, r, run, &x, &y);
    put_moment_lines(p, r, run, &x);
    plot_end(p);
    put_returns(p, run);
    page_put(p, "</figure>\n");
    return good;
}

static bool put_all_areas(struct page_writer *p,
                          const struct memory_report *r) {
    bool good = true;
    double most = 1;
    for (size_t i = 0; i < r->runs; i++)
        for (size_t k = 0; k < r->run[i].points; k++) {
            struct parts parts = parts_of_point(&r->run[i].point[k]);
            most = fmax(most, (double)parts_sum(&parts));
        }
    put_key(p);
    page_put(p, "<div class=\"grid\">\n");
    for (size_t i = 0; i < r->runs && good; i++)
        if (r->run[i].failure == NULL && r->run[i].points != 0)
            good = put_areas(p, r, i, most);
    page_put(p, "</div>\n");
    return good;
}

/* Writes the figures at the pointer of one plot: the last point at or before
   each of COLUMNS times. */
static void put_cross(struct tool_json *j, const struct memory_report *r,
                      size_t number) {
    const struct memory_run *run = &r->run[number];
    const struct memory_point *at[COLUMNS];
    char key[24];
    struct tool_text t;
    size_t k = 0;
    for (int c = 0; c < COLUMNS; c++) {
        double when = end_of(r) * c / (COLUMNS - 1);
        while (k + 1 < run->points &&
               at_of(r, run->point[k + 1].operation,
                     run->point[k + 1].recorded_ns) <= when)
            k++;
        at[c] = &run->point[k];
    }
    snprintf(key, sizeof(key), "run%zu", number);
    tool_json_begin_object(j, key);
    tool_json_begin_array(j, "at");
    tool_json_dense(j, true);
    for (int c = 0; c < COLUMNS; c++)
        tool_json_string(j, NULL,
                         r->has_times ? tool_text_ns(&t, at[c]->recorded_ns)
                                      : tool_text_count(&t, at[c]->operation));
    tool_json_end_array(j);
    tool_json_dense(j, false);
    tool_json_begin_array(j, "series");
    for (int i = PARTS; i-- > 0;) {
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "name", part_info[i].name);
        tool_json_begin_array(j, "text");
        tool_json_dense(j, true);
        for (int c = 0; c < COLUMNS; c++) {
            struct parts parts = parts_of_point(at[c]);
            tool_json_string(j, NULL, tool_text_bytes(&t, parts.bytes[i]));
        }
        tool_json_end_array(j);
        tool_json_dense(j, false);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
    tool_json_end_object(j);
}

/* --- Tables of parts ------------------------------------------------------ */

static uint64_t waste_of(const struct memory_moment *m) {
    return m->rounding_bytes + m->free_bytes + m->empty_bytes + m->never_bytes;
}

/* A row for each allocator. */
static void put_beside(struct page_writer *p, const struct memory_report *r) {
    if (r->runs < 2)
        return;
    page_put(p, "<section class=\"card\">\n<h2>The allocators beside each "
                "other</h2>\n<p class=\"note\">Resident memory, and what of it "
                "is not alive.</p>\n<div class=\"scroll\"><table "
                "class=\"figures\">\n<thead><tr>"
                "<th scope=\"col\">allocator</th><th scope=\"col\">peak</th>"
                "<th scope=\"col\">most waste</th><th scope=\"col\">at the end"
                "</th><th scope=\"col\">waste there</th></tr></thead>\n"
                "<tbody>\n");
    for (size_t i = 0; i < r->runs; i++) {
        const struct memory_run *run = &r->run[i];
        const struct memory_moment *peak = memory_run_moment(run, MEMORY_PEAK);
        const struct memory_moment *waste =
            memory_run_moment(run, MEMORY_WASTE);
        const struct memory_moment *end = memory_run_moment(run, MEMORY_END);
        if (run->failure != NULL || peak == NULL || waste == NULL ||
            end == NULL)
            continue;
        page_put(p, "<tr>");
        page_element(p, "th", run->name);
        put_cell_bytes(p, (double)peak->resident_bytes);
        put_cell_bytes(p, (double)waste_of(waste));
        put_cell_bytes(p, (double)end->resident_bytes);
        put_cell_bytes(p, (double)waste_of(end));
        page_put(p, "</tr>\n");
    }
    page_put(p, "</tbody></table></div>\n</section>\n");
}

/* Puts one row of put_parts: NAME, the figure and its share of the resident
   memory, as a bar of colour COLOUR. */
static void put_part_row(struct page_writer *p, unsigned colour,
                         const char *name, double bytes, double all) {
    double share = all <= 0 ? 0 : 100 * bytes / all;
    page_putf(p, "<tr class=\"k%u\"><th scope=\"row\">%s</th>", colour, name);
    put_cell_bytes(p, bytes);
    page_putf(p,
              "<td>%.0f %%</td><td class=\"share\"><span class=\"gauge\" "
              "style=\"width:%.1f%%\"></span></td></tr>\n",
              share, fmin(share, 100));
}

static void put_parts(struct page_writer *p, const struct memory_moment *m) {
    struct parts parts = parts_of_moment(m);
    struct tool_text t[2];
    double all = (double)parts_sum(&parts);
    page_put(p, "<section class=\"card\">\n<h2>Resident memory</h2>\n"
                "<table class=\"shares\">\n<tbody>\n");
    for (int i = 0; i < PARTS; i++)
        put_part_row(p, part_info[i].colour, part_info[i].name,
                     (double)parts.bytes[i], all);
    page_put(p, "<tr><th scope=\"row\">all</th>");
    put_cell_bytes(p, all);
    page_put(p, "<td></td><td></td></tr>\n</tbody></table>\n");
    page_putf(p,
              "<p class=\"note\">%s blocks are alive; %s of them lie on "
              "pages that have free bytes, too.",
              tool_text_count(&t[0], m->live_blocks),
              tool_text_count(&t[1], m->pinning_blocks));
    if (m->absent_bytes != 0)
        page_putf(p,
                  " %s of live blocks were never written to and are not "
                  "resident.",
                  tool_text_bytes(&t[0], m->absent_bytes));
    if (m->huge_known && m->huge_bytes != 0)
        page_putf(p, " Huge pages: %s, with %s of what is alive.",
                  tool_text_bytes(&t[0], m->huge_bytes),
                  tool_text_bytes(&t[1], m->huge_requested_bytes));
    if (m->other_bytes != 0)
        page_putf(p, " Beside it, code and data of binaries and the stack: %s.",
                  tool_text_bytes(&t[0], m->other_bytes));
    if (!m->is_known)
        page_put(p, " The kernel did not tell of all pages.");
    if (fabs(m->unexplained_bytes) >= 4096)
        page_putf(
            p, " The kernel counts %s %s.",
            tool_text_bytes(&t[0], tool_text_whole(fabs(m->unexplained_bytes))),
            m->unexplained_bytes > 0 ? "more" : "less");
    page_put(p, "</p>\n</section>\n");
}

static void put_empty_for(struct page_writer *p,
                          const struct memory_moment *m) {
    struct tool_text t;
    uint64_t most = 1;
    if (m->empty_fors == 0)
        return;
    for (size_t i = 0; i < m->empty_fors; i++)
        most = tcm_max_u64(most, m->empty_for[i].bytes);
    page_put(
        p, "<section class=\"card\">\n<h2>Empty pages, by the time since "
           "their last known block</h2>\n<table class=\"shares\">\n<tbody>\n");
    for (size_t i = 0; i < m->empty_fors; i++) {
        char name[48] = "less than 1 ms";
        if (m->empty_for[i].lower_ns != 0)
            snprintf(name, sizeof(name), "%s or more",
                     tool_text_ns(&t, m->empty_for[i].lower_ns));
        put_part_row(p, part_info[EMPTY].colour, name,
                     (double)m->empty_for[i].bytes, (double)m->empty_bytes);
    }
    page_put(p, "</tbody></table>\n</section>\n");
}

/* --- Pinners -------------------------------------------------------------- */

/* Rows of sites, and of the other tables. */
enum { SITE_ROWS = 12, OTHER_ROWS = 8 };

static void put_pinner(struct page_writer *p, const struct memory_row *row,
                       double all, bool is_site) {
    double share = all <= 0 ? 0 : 100 * row->held_bytes / all;
    page_put(p, "<tr>");
    put_cell_bytes(p, row->held_bytes);
    page_putf(p,
              "<td class=\"share\"><span class=\"gauge k2\" "
              "style=\"width:%.1f%%\"></span></td>",
              fmin(share, 100));
    put_cell_count(p, row->pinning_blocks);
    if (is_site)
        put_cell_bytes(p, (double)row->requested_bytes);
    page_put(p, "<td class=\"name\">");
    page_text(p, row->label);
    if (row->stack != NULL && row->stack[0] != '\0') {
        page_put(p, "<br><small>");
        page_text(p, row->stack);
        page_put(p, "</small>");
    }
    page_put(p, "</td></tr>\n");
}

/* Puts what blocks of each row hold. TITLE: of the card; LABEL: of the last
   column. */
static void put_pinners(struct page_writer *p, const struct memory_rows *rows,
                        double all, const char *title, const char *label,
                        size_t most, bool is_site) {
    struct tool_text t;
    size_t shown = 0;
    while (shown < rows->count && shown < most &&
           rows->row[shown].held_bytes >= 0.5)
        shown++;
    if (shown == 0)
        return;
    page_putf(p,
              "<section class=\"card\">\n<h2>%s</h2>\n<div class=\"scroll\">"
              "<table class=\"pinners\">\n<thead><tr><th scope=\"col\">holds"
              "</th><th></th><th scope=\"col\">blocks</th>%s<th scope=\"col\">"
              "%s</th></tr></thead>\n<tbody>\n",
              title, is_site ? "<th scope=\"col\">alive</th>" : "", label);
    for (size_t i = 0; i < shown; i++)
        put_pinner(p, &rows->row[i], all, is_site);
    page_put(p, "</tbody></table></div>\n");
    if (rows->count > shown)
        page_putf(p, "<p class=\"note\">%s more hold less.</p>\n",
                  tool_text_count(&t, rows->count - shown));
    page_put(p, "</section>\n");
}

static void put_all_pinners(struct page_writer *p,
                            const struct memory_report *r,
                            const struct memory_run *run,
                            const struct memory_moment *m) {
    double all = (double)m->free_bytes;
    if (run->has_sites)
        put_pinners(p, &m->by[MEMORY_BY_SITE], all,
                    "Free bytes, by the code that made the blocks beside them",
                    "site", SITE_ROWS, true);
    else
        page_put(p, "<p class=\"note\">The trace has no call sites, which "
                    "would name the code that holds the free bytes: record "
                    "with --sites=stack.</p>\n");
    if (r->held_by != NULL)
        put_pinners(p, &m->held_by[MEMORY_BY_SITE], all,
                    "Of these, the sites that were asked for", "site",
                    SITE_ROWS, true);
    page_put(p, "<div class=\"grid\">\n");
    put_pinners(p, &m->by[MEMORY_BY_SIZE], all, "By size of the blocks", "size",
                OTHER_ROWS, false);
    put_pinners(p, &m->by[MEMORY_BY_AGE], all, "By age of the blocks", "age",
                OTHER_ROWS, false);
    if (m->by[MEMORY_BY_THREAD].count > 1)
        put_pinners(p, &m->by[MEMORY_BY_THREAD], all,
                    "By thread that made the blocks", "thread", OTHER_ROWS,
                    false);
    put_empty_for(p, m);
    page_put(p, "</div>\n");
}

/* --- The map -------------------------------------------------------------- */

/*
 * A map is a row of squares in the order of addresses, broken into lines. A
 * square stands for 2 MiB, or for 2 MiB times a power of two where there would
 * be more than MAP_SQUARES squares. A hole of more than MAP_BLANKS squares is
 * one square with a stroke, so that the size of a map depends on the memory
 * that is resident, not on how far apart it lies.
 */
enum {
    MAP_SQUARES = 2048,
    MAP_BLANKS = 3,
    MAP_LEAST_COLUMNS = 16,
    MAP_MOST_COLUMNS = 64,
    SIDE = 16,
    BOX = 14
};

/* Parts of a square, from the bottom. */
enum shade { LIVE, HELD, LEFT, UNUSED, SHADES };
static const unsigned shade_colour[SHADES] = {1, 2, 5, 8};

struct map_square {
    size_t first, cells; /* of the moment; 0 cells: blank or a hole */
    bool is_hole;
    uint64_t bytes[SHADES];
};

struct map {
    struct map_square *square;
    size_t squares;
    unsigned shift; /* a square is 2 MiB << shift */
    unsigned columns;
};

static void add_cell(struct map_square *s, const struct memory_cell *c,
                     uint64_t page_bytes) {
    uint64_t free_bytes = c->free_bytes;
    uint64_t beside = (c->live + c->partly) * page_bytes;
    s->cells++;
    s->bytes[LIVE] += beside > free_bytes ? beside - free_bytes : 0;
    s->bytes[HELD] += free_bytes;
    s->bytes[LEFT] += c->empty * page_bytes;
    s->bytes[UNUSED] += c->never * page_bytes;
}

/* Lays out squares of 2 MiB << SHIFT; SQUARE may be NULL, to count them.
   Returns their number. */
static size_t lay_out(const struct memory_moment *m, uint64_t page_bytes,
                      unsigned shift, struct map_square *square) {
    size_t n = 0;
    uint64_t before = 0;
    for (size_t i = 0; i < m->cells; i++) {
        uint64_t group = m->cell[i].cell >> shift;
        TCM_ASSERT(i == 0 || m->cell[i].cell > m->cell[i - 1].cell);
        if (i == 0 || group != before) {
            uint64_t gap = i == 0 ? 0 : group - before - 1;
            bool is_hole = gap > MAP_BLANKS;
            for (uint64_t k = 0; k < (is_hole ? 1 : gap); k++, n++)
                if (square != NULL)
                    square[n].is_hole = is_hole;
            if (square != NULL)
                square[n].first = i;
            n++;
            before = group;
        }
        if (square != NULL)
            add_cell(&square[n - 1], &m->cell[i], page_bytes);
    }
    return n;
}

/* False: out of memory. */
static bool map_make(struct map *map, const struct memory_moment *m,
                     uint64_t page_bytes) {
    memset(map, 0, sizeof(*map));
    while ((map->squares = lay_out(m, page_bytes, map->shift, NULL)) >
           MAP_SQUARES)
        map->shift++;
    map->square = calloc(map->squares + 1, sizeof(*map->square));
    if (map->square == NULL)
        return false;
    (void)lay_out(m, page_bytes, map->shift, map->square);
    map->columns = (unsigned)ceil(sqrt(3.0 * (double)map->squares));
    map->columns = (unsigned)tcm_min_u64(
        tcm_max_u64(map->columns, MAP_LEAST_COLUMNS), MAP_MOST_COLUMNS);
    return true;
}

/* Puts the part SHADE of all squares, as one path. */
static void put_shade(struct page_writer *p, const struct map *map,
                      enum shade shade) {
    double whole = ldexp(2097152, (int)map->shift);
    page_putf(p, "<path class=\"shade k%u\" d=\"", shade_colour[shade]);
    for (size_t i = 0; i < map->squares; i++) {
        const struct map_square *s = &map->square[i];
        unsigned from = 0, to = 0;
        for (int k = 0; k <= (int)shade; k++) {
            from = to;
            double part = (double)BOX * (double)s->bytes[k] / whole;
            unsigned height = (unsigned)(part + 0.5);
            to += s->bytes[k] != 0 && height == 0 ? 1 : height;
            to = to > BOX ? BOX : to;
        }
        if (to > from)
            page_putf(p, "M%zu %zuh%dv-%uh-%dz", i % map->columns * SIDE + 1,
                      i / map->columns * SIDE + 1 + BOX - from, BOX, to - from,
                      BOX);
    }
    page_put(p, "\"/>\n");
}

static void put_squares(struct page_writer *p, const struct map *map) {
    page_put(p, "<path class=\"square\" d=\"");
    for (size_t i = 0; i < map->squares; i++)
        if (map->square[i].cells != 0)
            page_putf(p, "M%zu %zuh%dv%dh-%dz", i % map->columns * SIDE + 1,
                      i / map->columns * SIDE + 1, BOX, BOX, BOX);
    page_put(p, "\"/>\n<path class=\"hole\" d=\"");
    for (size_t i = 0; i < map->squares; i++)
        if (map->square[i].is_hole)
            page_putf(p, "M%zu %zul-%d %d", i % map->columns * SIDE + 10,
                      i / map->columns * SIDE + 2, 4, SIDE - 4);
    page_put(p, "\"/>\n");
}

/* Longest runs of addresses in the map that are told in words. */
enum { REGIONS = 6 };

struct region {
    uint64_t first, last; /* cells */
    uint64_t bytes[SHADES];
};

static uint64_t region_waste(const struct region *g) {
    return g->bytes[HELD] + g->bytes[LEFT] + g->bytes[UNUSED];
}

/* Puts into BEST the regions between holes with most memory that is not alive.
   Returns how many these are; *ALL: how many there are. */
static size_t find_regions(const struct map *map, const struct memory_moment *m,
                           struct region best[REGIONS], size_t *all) {
    struct region now = {0};
    size_t count = 0;
    *all = 0;
    for (size_t i = 0; i <= map->squares; i++) {
        const struct map_square *s = &map->square[i];
        if (i < map->squares && !s->is_hole) {
            if (s->cells == 0)
                continue;
            if (now.last == 0)
                now.first = m->cell[s->first].cell;
            now.last = m->cell[s->first + s->cells - 1].cell;
            for (int k = 0; k < SHADES; k++)
                now.bytes[k] += s->bytes[k];
            continue;
        }
        ++*all;
        size_t at = count < REGIONS ? count++ : REGIONS - 1;
        if (at == REGIONS - 1 && *all > REGIONS &&
            region_waste(&best[at]) >= region_waste(&now)) {
            memset(&now, 0, sizeof(now));
            continue;
        }
        for (; at > 0 && region_waste(&best[at - 1]) < region_waste(&now); at--)
            best[at] = best[at - 1];
        best[at] = now;
        memset(&now, 0, sizeof(now));
    }
    return count;
}

static void put_regions(struct page_writer *p, const struct map *map,
                        const struct memory_moment *m) {
    struct region best[REGIONS];
    struct tool_text t;
    size_t all, n = find_regions(map, m, best, &all);
    page_put(p, "<details><summary>Its regions as a table</summary>\n"
                "<div class=\"scroll\"><table class=\"figures\">\n<thead><tr>"
                "<th scope=\"col\">addresses</th><th "
                "scope=\"col\">long</th><th scope=\"col\">"
                "alive</th><th scope=\"col\">free</th><th scope=\"col\">empty"
                "</th><th scope=\"col\">never used</th></tr></thead>\n"
                "<tbody>\n");
    for (size_t i = 0; i < n; i++) {
        page_putf(p, "<tr><th scope=\"row\">%" PRIx64 "</th>",
                  best[i].first << 21);
        put_cell_bytes(p,
                       ldexp((double)(best[i].last - best[i].first + 1), 21));
        for (int k = 0; k < SHADES; k++)
            put_cell_bytes(p, (double)best[i].bytes[k]);
        page_put(p, "</tr>\n");
    }
    page_put(p, "</tbody></table></div>\n");
    if (all > n)
        page_putf(p,
                  "<p class=\"note\">%s more have less that is not "
                  "alive.</p>\n",
                  tool_text_count(&t, all - n));
    page_put(p, "</details>\n");
}

static bool put_map(struct page_writer *p, const struct memory_run *run,
                    const struct memory_moment *m, size_t number,
                    size_t moment) {
    struct map map;
    struct tool_text t[2];
    if (m->cells == 0)
        return true;
    if (!map_make(&map, m, run->page_bytes))
        return false;
    size_t lines = (map.squares + map.columns - 1) / map.columns;
    page_putf(p,
              "<figure class=\"card\">\n<figcaption><h2>Map of the address "
              "space</h2><p class=\"note\">A square is %s, filled from the "
              "bottom: <span class=\"name k1\">alive</span>, <span "
              "class=\"name k2\">free beside it</span>, <span class=\"name "
              "k5\">empty</span>, <span class=\"name k8\">never used</span>. "
              "A stroke stands for a hole.<span class=\"script\" hidden> "
              "A click, or Enter, shows the pages of a square.</span></p>"
              "</figcaption>\n",
              tool_text_bytes(&t[0], (uint64_t)2097152 << map.shift));
    page_putf(p,
              "<svg class=\"map\" role=\"img\" aria-label=\"%zu squares\" "
              "data-map=\"%zu.%zu\" viewBox=\"0 0 %u %zu\" "
              "style=\"max-width:%upx\">\n",
              map.squares, number, moment, map.columns * SIDE, lines * SIDE,
              map.columns * (map.columns == MAP_LEAST_COLUMNS ? 40u : 26u));
    put_squares(p, &map);
    for (int k = 0; k < SHADES; k++)
        put_shade(p, &map, (enum shade)k);
    page_put(p, "</svg>\n<div class=\"zoom\" hidden></div>\n");
    put_regions(p, &map, m);
    page_put(p, "</figure>\n");
    free(map.square);
    return true;
}

/* Bytes of page detail in a page for each map: cells with less that is not
   alive go without. */
enum { DETAIL_BYTES = 64 << 10 };

struct detail {
    size_t cell;
    uint64_t waste;
};

static int compare_detail(const void *a, const void *b) {
    const struct detail *x = a, *y = b;
    return x->waste != y->waste ? (x->waste < y->waste ? 1 : -1)
                                : (x->cell > y->cell) - (x->cell < y->cell);
}

/* Marks in HAS the cells whose pages are in the page. False: out of memory. */
static bool choose_details(const struct memory_moment *m, uint64_t page_bytes,
                           bool *has) {
    struct detail *order = calloc(m->cells + 1, sizeof(*order));
    size_t left = DETAIL_BYTES;
    if (order == NULL)
        return false;
    for (size_t i = 0; i < m->cells; i++)
        order[i] = (struct detail){
            i, m->cell[i].free_bytes +
                   (m->cell[i].empty + m->cell[i].never) * page_bytes};
    qsort(order, m->cells, sizeof(*order), compare_detail);
    for (size_t i = 0; i < m->cells; i++) {
        size_t n = strlen(m->cell[order[i].cell].pages);
        if (n > left)
            break;
        has[order[i].cell] = n != 0;
        left -= n;
    }
    free(order);
    return true;
}

/* Writes the map of a moment for the script. Each of `squares` has its address,
   in lengths of a square, and its bytes by shade; a hole only a 0, a blank
   nothing. `pages` has those of cells of 2 MiB, as replay's JSON, by address /
   2 MiB. False: out of memory. */
static bool put_map_data(struct tool_json *j, const struct memory_run *run,
                         const struct memory_moment *m, const char *key) {
    struct map map;
    bool *has = calloc(m->cells + 1, sizeof(*has));
    bool good = has != NULL && choose_details(m, run->page_bytes, has);
    if (!good || !map_make(&map, m, run->page_bytes)) {
        free(has);
        return false;
    }
    tool_json_begin_object(j, key);
    tool_json_u64(j, "columns", map.columns);
    tool_json_u64(j, "shift", map.shift);
    tool_json_begin_array(j, "squares");
    for (size_t i = 0; i < map.squares; i++) {
        const struct map_square *s = &map.square[i];
        tool_json_begin_array(j, NULL);
        tool_json_dense(j, true);
        if (s->cells != 0) {
            tool_json_u64(j, NULL, m->cell[s->first].cell >> map.shift);
            for (int k = 0; k < SHADES; k++)
                tool_json_u64(j, NULL, s->bytes[k]);
        } else if (s->is_hole) {
            tool_json_u64(j, NULL, 0);
        }
        tool_json_end_array(j);
        tool_json_dense(j, false);
    }
    tool_json_end_array(j);
    tool_json_begin_object(j, "pages");
    for (size_t i = 0; i < m->cells; i++)
        if (has[i]) {
            char cell[24];
            snprintf(cell, sizeof(cell), "%" PRIu64, m->cell[i].cell);
            tool_json_string(j, cell, m->cell[i].pages);
        }
    tool_json_end_object(j);
    tool_json_end_object(j);
    free(map.square);
    free(has);
    return true;
}

/* --- The whole page ------------------------------------------------------- */

static bool put_moment(struct page_writer *p, const struct memory_report *r,
                       size_t number, size_t moment) {
    const struct memory_run *run = &r->run[number];
    const struct memory_moment *m = &run->moment[moment];
    page_putf(p, "<details class=\"moment\"%s>\n<summary><h2>",
              m == memory_run_moment(run, r->moment_role) ? " open" : "");
    page_text(p, run->name);
    page_put(p, ": ");
    put_moment_name(p, r, m);
    page_put(p, " <small>");
    put_bytes(p, (double)m->resident_bytes);
    page_put(p, " resident, ");
    put_bytes(p, (double)m->requested_bytes);
    page_put(p, " alive</small></h2></summary>\n<div class=\"grid\">\n");
    put_parts(p, m);
    bool good = put_map(p, run, m, number, moment);
    page_put(p, "</div>\n");
    put_all_pinners(p, r, run, m);
    page_put(p, "</details>\n");
    return good;
}

static bool put_data(struct tool_json *j, const struct memory_report *r) {
    bool good = true;
    tool_json_begin_object(j, NULL);
    for (size_t i = 0; i < r->runs; i++)
        if (r->run[i].failure == NULL && r->run[i].points != 0)
            put_cross(j, r, i);
    tool_json_begin_object(j, "maps");
    for (size_t i = 0; i < r->runs && good; i++)
        for (size_t k = 0; k < r->run[i].moments && good; k++) {
            char key[48];
            snprintf(key, sizeof(key), "%zu.%zu", i, k);
            if (r->run[i].moment[k].cells != 0)
                good = put_map_data(j, &r->run[i], &r->run[i].moment[k], key);
        }
    tool_json_end_object(j);
    tool_json_end_object(j);
    return good;
}

static bool put_all(struct page_writer *p, const struct memory_report *r) {
    page_put(p, "<style>\n");
    page_put(p, memory_page_css);
    page_put(p, "</style>\n");
    put_head(p, r);
    bool good = put_all_areas(p, r);
    put_beside(p, r);
    for (size_t i = 0; i < r->runs && good; i++)
        for (size_t k = 0; k < r->run[i].moments && good; k++)
            good = put_moment(p, r, i, k);
    good = put_data(page_data(p), r) && good;
    page_data_end(p);
    page_put(p, "<script>\n");
    page_put(p, memory_page_js);
    page_put(p, "</script>\n");
    return good;
}

bool memory_page(const struct memory_report *m, const char *path) {
    static struct page_writer page;
    char title[300];
    snprintf(title, sizeof(title), "Where the memory of %.200s is", m->trace);
    if (!page_open(&page, path, title))
        return false;
    bool good = put_all(&page, m);
    if (!good)
        tool_out_of_memory();
    return page_close(&page, good);
}
