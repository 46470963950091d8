/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/report_page.h"

#include "common/main.h"
#include "common/text.h"
#include "pages/page.h"
#include "pages/plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows for readers without the script. */
#define PLAIN_ROWS 50u

/* --- Head ----------------------------------------------------------------- */

static const char *program_of(const struct report_page *h) {
    return h->t->have_header && h->t->header.executable[0] != '\0'
               ? h->t->header.executable
               : h->name;
}

static void put_head(const struct report_page *h) {
    struct tool_page *p = h->page;
    const struct tally *all = &h->rows->total;
    struct tool_text text[5];
    uint64_t start = h->t->start_ns;
    tool_page_put(p, "<header id=\"head\">\n<h1>Who allocates in ");
    tool_page_text(p, program_of(h));
    tool_page_put(p, "</h1>\n<p class=\"note\">");
    if (h->t->traces > 1)
        tool_page_putf(p, "%u traces, the first of which is ", h->t->traces);
    else
        tool_page_put(p, "Trace ");
    tool_page_text(p, h->name);
    if (h->t->traces == 1)
        tool_page_putf(p, ", %s long",
                       tool_text_ns(&text[0], h->t->end_ns > start
                                                  ? h->t->end_ns - start
                                                  : 0));
    if (h->t->running)
        tool_page_put(p, "; still being recorded: this is up to now");
    if (h->t->status == TOOL_DAMAGED)
        tool_page_put(p, "; it is cut, damaged or lacks events, and these are "
                         "the figures of what is there");
    tool_page_put(p, "</p>\n</header>\n");
    if (h->is_live)
        tool_page_put(p, "<p class=\"note live\" id=\"live\"></p>\n");
    tool_page_put(p, "<section class=\"card lead\" id=\"lead\" "
                     "aria-label=\"In short\">\n<p>");
    tool_page_putf(p, "%s asked for in %s calls; %s alive in %s blocks ",
                   tool_text_bytes(&text[0], all->bytes),
                   tool_text_count(&text[1], all->calls),
                   tool_text_bytes(&text[2], all->live_bytes),
                   tool_text_count(&text[3], all->live));
    tool_page_text(p, h->when);
    tool_page_putf(p, ".</p>\n<p>At most %s were alive, after %s. ",
                   tool_text_bytes(&text[0], h->t->peak_bytes),
                   tool_text_ns(&text[1], h->t->peak_ns > start
                                              ? h->t->peak_ns - start
                                              : 0));
    tool_page_putf(p,
                   "Blocks that ended with the next event of their thread: "
                   "%s.</p>\n",
                   tool_text_count(&text[2], all->temporary));
    if (h->t->sampled)
        tool_page_putf(p,
                       "<p>Sites were noted for samples of the calls: these "
                       "figures are estimates. Exactly %s were asked for in %s "
                       "calls.</p>\n",
                       tool_text_bytes(&text[3], h->t->exact.bytes),
                       tool_text_count(&text[4], h->t->exact.calls));
    if (h->stacks != NULL && h->t->sited == 0)
        tool_page_put(p, "<p>The trace has no call sites: record with "
                         "TCMALLOC_TRACE_SITES.</p>\n");
    tool_page_put(p, "</section>\n");
}

/* --- Memory over time ----------------------------------------------------- */

static unsigned colour_of(const struct report_page *h, size_t series) {
    return series + 1 == h->series_count ? 8 : (unsigned)series + 1;
}

static void put_key(const struct report_page *h) {
    struct tool_page *p = h->page;
    tool_page_put(p, "<ul class=\"key\">\n");
    for (size_t i = 0; i < h->series_count; i++) {
        if (h->series[i].sum <= 0)
            continue;
        tool_page_putf(p, "<li class=\"w w%zu k%u\">", i, colour_of(h, i));
        tool_page_text(p, h->series[i].name);
        tool_page_put(p, "</li>\n");
    }
    tool_page_put(p, "</ul>\n");
}

/* What lies on the others: the one with most is at the bottom. */
static void put_bands(const struct report_page *h, const struct tool_axis *y) {
    struct tool_point low[HISTORY_COLUMNS], high[HISTORY_COLUMNS];
    double below[HISTORY_COLUMNS] = {0};
    char class_name[64];
    unsigned n = h->history->columns;
    for (size_t i = 0; i < h->series_count; i++) {
        for (unsigned c = 0; c < n; c++) {
            double x = n < 2 ? 0 : 100.0 * c / (n - 1);
            low[c] = (struct tool_point){x, tool_axis_at(y, below[c])};
            below[c] += h->series[i].live[c];
            high[c] = (struct tool_point){x, tool_axis_at(y, below[c])};
        }
        if (h->series[i].sum <= 0)
            continue;
        snprintf(class_name, sizeof(class_name), "band w w%zu k%u", i,
                 colour_of(h, i));
        tool_plot_band(h->page, low, high, n, class_name);
    }
}

static void put_history(const struct report_page *h) {
    struct tool_page *p = h->page;
    struct tool_axis x, y;
    struct tool_text text[2];
    double end = (double)h->history->step_ns * (h->history->columns - 1);
    double top = (double)h->t->peak_bytes;
    /* Of samples the sum is not exact. */
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
    tool_page_put(p,
                  "<figure class=\"card\" id=\"history\">\n<figcaption>"
                  "<h2>Memory over time</h2><p class=\"note\">Live bytes, by "
                  "what asked for most of them; the ring is the peak.</p>"
                  "</figcaption>\n");
    put_key(h);
    tool_axis_linear(&y, 0, top * 1.05, tool_axis_byte_unit(top), 5);
    tool_axis_linear(&x, 0, end, 1, 5);
    tool_plot_begin(p, "", "Live bytes over time, by what asked for them",
                    " data-cross=\"history\"");
    tool_plot_y(p, &y, tool_tick_bytes, "live bytes");
    tool_plot_x(p, &x, tool_tick_ns, "time since the start");
    put_bands(h, &y);
    tool_page_putf(p,
                   "<circle class=\"peak\" cx=\"%.2f%%\" cy=\"%.2f%%\" "
                   "r=\"5\"><title>peak: %s after %s</title></circle>\n",
                   fmin(tool_axis_at(&x, (double)peak_ns), 100),
                   100 - tool_axis_at(&y, (double)h->t->peak_bytes),
                   tool_text_bytes(&text[0], h->t->peak_bytes),
                   tool_text_ns(&text[1], peak_ns));
    tool_plot_end(p);
    tool_page_put(p, "</figure>\n");
}

/* --- What the script draws ------------------------------------------------ */

static void put_controls(const struct report_page *h) {
    struct tool_page *p = h->page;
    tool_page_put(p, "<section class=\"card bar\" id=\"controls\" hidden "
                     "aria-label=\"What is shown\">\n"
                     "<span class=\"choice\" id=\"measures\">"
                     "<button>allocated</button><button>at the peak</button>"
                     "<button>alive ");
    tool_page_text(p, h->when);
    tool_page_put(p, "</button><button>temporary</button></span>\n"
                     "<input id=\"words\" type=\"search\" "
                     "placeholder=\"Search ( / )\" aria-label=\"Search\">\n"
                     "<output id=\"found\" aria-live=\"polite\"></output>\n"
                     "<button id=\"reset\">Whole graph</button>\n");
    if (h->is_live)
        tool_page_put(p, "<button id=\"pause\" aria-pressed=\"false\">Pause"
                         "</button>\n");
    tool_page_put(p, "</section>\n");
}

static void put_flame(const struct report_page *h) {
    struct tool_page *p = h->page;
    tool_page_put(p, "<section class=\"card long\">\n<h2>Flame graph</h2>\n"
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
        tool_page_putf(p,
                       "<p class=\"note\">%" PRIu64 " stacks have more frames "
                       "than are shown.</p>\n",
                       h->stacks->cut);
    tool_page_put(p, "</section>\n");
}

static void put_cell(struct tool_page *p, const char *class_name,
                     const char *text) {
    tool_page_putf(p, "<td%s%s%s>", class_name[0] == '\0' ? "" : " class=\"",
                   class_name, class_name[0] == '\0' ? "" : "\"");
    tool_page_text(p, text);
    tool_page_put(p, "</td>");
}

/* GROWTH: NULL if no row has one. */
static void put_row(struct tool_page *p, const char *class_name,
                    const char *name, const struct tally *a,
                    const double *growth) {
    struct tool_text text;
    tool_page_putf(p, "<tr%s>", class_name);
    put_cell(p, "", tool_text_bytes(&text, a->bytes));
    put_cell(p, "", tool_text_count(&text, a->calls));
    put_cell(p, "", tool_text_bytes(&text, a->live_bytes));
    put_cell(p, "wide", tool_text_count(&text, a->live));
    put_cell(p, "", tool_text_bytes(&text, a->at_peak_bytes));
    put_cell(p, "wide",
             a->ended == 0 ? "-" : tool_text_ns(&text, a->life_ns / a->ended));
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
    tool_page_put(p, "</tr>\n");
}

static void put_table(const struct report_page *h) {
    static const struct {
        const char *text;
        bool wide;
    } heads[] = {{"bytes", false},   {"calls", false},   {"alive", false},
                 {"blocks", true},   {"at peak", false}, {"mean life", true},
                 {"temporary", true}};
    struct tool_page *p = h->page;
    struct tool_text text;
    tool_page_put(p, "<section class=\"card long\">\n<h2>By ");
    tool_page_text(p, h->by);
    tool_page_putf(p,
                   "</h2>\n<div class=\"scroll\"><table class=\"sites%s\">\n"
                   "<thead><tr>",
                   h->growth != NULL ? " grows" : "");
    for (size_t i = 0; i < TCM_ARRAY_SIZE(heads); i++)
        tool_page_putf(p, "<th scope=\"col\" data-column=\"%zu\"%s>%s</th>", i,
                       heads[i].wide ? " class=\"wide\"" : "", heads[i].text);
    if (h->growth != NULL)
        tool_page_putf(p,
                       "<th scope=\"col\" data-column=\"%zu\" "
                       "id=\"growth\">growth in %s</th>",
                       TCM_ARRAY_SIZE(heads),
                       tool_text_ns(&text, h->growth_ns));
    tool_page_put(p, "<th class=\"wide\"></th><th scope=\"col\">");
    tool_page_text(p, h->by);
    tool_page_put(p, "</th></tr></thead>\n<tbody id=\"rows\">\n");
    put_row(p, " class=\"all\"", "all", &h->rows->total,
            h->growth == NULL ? NULL : &h->all_growth);
    for (size_t i = 0; i < h->rows->count && i < PLAIN_ROWS; i++)
        put_row(p, "", h->rows->row[i].location, &h->rows->row[i].sum,
                h->growth == NULL ? NULL : &h->growth[i]);
    tool_page_put(p, "</tbody></table></div>\n<p class=\"more\">"
                     "<button id=\"more\" hidden>Show more</button>"
                     "<small id=\"how-many\">");
    if (h->rows->count > PLAIN_ROWS)
        tool_page_putf(p, "%s more rows",
                       tool_text_count(&text, h->rows->count - PLAIN_ROWS));
    tool_page_put(p, "</small></p>\n</section>\n");
}

/* --- The page ------------------------------------------------------------- */

static bool put_all(struct report_page *h) {
    put_head(h);
    if (h->history != NULL && h->t->traces == 1) {
        if (!report_page_find_series(h) ||
            (h->t->options.moment == TALLY_AT_END &&
             !report_page_find_growth(h)))
            return false;
        put_history(h);
    }
    put_controls(h);
    if (h->stacks != NULL)
        put_flame(h);
    put_table(h);
    bool good = report_page_put_data(h, tool_page_data(h->page));
    tool_page_data_end(h->page);
    if (h->page->script == NULL) {
        tool_page_put(h->page, "<script>\n");
        tool_page_put(h->page, report_page_js);
        tool_page_put(h->page, "</script>\n");
    }
    return good;
}

static bool put_page(struct report_page *h) {
    tool_page_put(h->page, "<style>\n");
    tool_page_put(h->page, report_page_css);
    tool_page_put(h->page, "</style>\n");
    bool good = put_all(h);
    report_page_free(h);
    if (!good)
        tool_error("out of memory");
    return tool_page_close(h->page, good);
}

static void put_title(const struct report_page *h, char title[300]) {
    snprintf(title, 300, "Who allocates in %.200s", program_of(h));
}

bool report_page_write(struct report_page *h, const char *file) {
    struct tool_page page;
    char title[300];
    put_title(h, title);
    if (!tool_page_open(&page, file, title))
        return false;
    h->page = &page;
    return put_page(h);
}

bool report_page_write_stream(struct report_page *h, FILE *out,
                              const char *script) {
    struct tool_page page;
    char title[300];
    put_title(h, title);
    tool_page_open_stream(&page, out, title, script);
    h->page = &page;
    return put_page(h);
}
