/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_print.h"

#include "cmd/malloc_trace/compare/compare_page_plots.h"
#include "cmd/malloc_trace/compare/compare_program.h"
#include "common/main.h"
#include "common/text.h"

#include <stdlib.h>
#include <string.h>

/* --- Colours -------------------------------------------------------------- */

static bool choose_colours(struct compare_page *h) {
    const struct comparison *c = h->c;
    size_t others = 0;
    h->colour = calloc(c->contestants.count, sizeof(*h->colour));
    if (h->colour == NULL)
        return tool_out_of_memory();
    for (size_t i = 0; i < c->contestants.count; i++)
        h->colour[i] = COMPARE_PAGE_OTHER;
    for (size_t k = 0; k < h->sheet.ranked; k++)
        others += h->sheet.order[k] != c->baseline;
    unsigned next = 1;
    if (others < COMPARE_PAGE_COLOURS) {
        for (size_t i = 0; i < c->contestants.count; i++)
            if (i != c->baseline && h->sheet.verdict[i][METRIC_TIME].measured)
                h->colour[i] = next++;
    } else {
        for (size_t k = 0; k < h->sheet.ranked && next < COMPARE_PAGE_COLOURS;
             k++)
            if (h->sheet.order[k] != c->baseline)
                h->colour[h->sheet.order[k]] = next++;
    }
    h->colour[c->baseline] = 0;
    return true;
}

/* --- Parts of text -------------------------------------------------------- */

/* Puts each line that PRINT prints into an element. */
static void put_lines(struct compare_page *h, const char *tag,
                      void (*print)(const struct comparison *c, FILE *out)) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return;
    print(h->c, f);
    if (fclose(f) == 0)
        for (char *at = text, *end; *at != '\0'; at = end) {
            end = at + strcspn(at, "\n");
            if (*end != '\0')
                *end++ = '\0';
            if (*at != '\0')
                page_element(h->page, tag, at);
        }
    free(text);
}

static void print_words(const struct comparison *c, FILE *out) {
    (void)compare_print_words(c, out);
}

static void put_head(struct compare_page *h) {
    struct page_writer *p = h->page;
    page_put(p, "<header>\n<h1>Which allocator serves ");
    if (h->c->traces == 1)
        page_text(p, h->c->trace[0].name);
    else
        page_putf(p, "these %zu traces", h->c->traces);
    page_put(p, " best?</h1>\n<div class=\"note\">");
    put_lines(h, "p", compare_print_head);
    page_put(p, "</div>\n</header>\n<section class=\"card lead\" "
                "aria-label=\"The verdict\">\n");
    put_lines(h, "p", print_words);
    if (h->c->interrupted)
        page_element(p, "p",
                     "It was interrupted; this is the verdict of "
                     "the rounds until then.");
    page_put(p, "</section>\n");
}

static void put_key(struct compare_page *h) {
    struct page_writer *p = h->page;
    page_put(p, "<ul class=\"key\" aria-label=\"Allocators\">\n");
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t i = h->sheet.order[k];
        page_putf(p, "<li class=\"w w%zu k%u\">", i, h->colour[i]);
        page_text(p, h->c->contestants.list[i].name);
        page_put(p, i == h->c->baseline ? " <small>baseline</small></li>\n"
                                        : "</li>\n");
    }
    page_put(p, "</ul>\n");
}

/* --- The table ------------------------------------------------------------ */

/* Puts what stands beside a figure: the system's part of a time, and memory
   times time. */
static void put_beside(struct compare_page *h, size_t i,
                       enum compare_metric m) {
    struct compare_time_parts parts;
    char text[32] = "";
    bool is_time = m == METRIC_TIME;
    if (is_time && compare_verdict_parts(h->c, i, &parts) && parts.known)
        compare_figure_text(text, m, parts.system);
    else if (m == METRIC_AVG_RSS)
        compare_gb_hours_text(h->c, i, text);
    if (text[0] == '\0')
        return;
    page_put(h->page, is_time ? " <small>system time: " : " <small>");
    page_text(h->page, text);
    page_put(h->page, "</small>");
}

static void put_row(struct compare_page *h, size_t i, enum compare_metric m) {
    const struct compare_verdict *v = &h->sheet.verdict[i][m];
    struct page_writer *p = h->page;
    char figure[32], text[64];
    page_putf(p, "<tr class=\"w w%zu k%u\"><td class=\"name\">", i,
              h->colour[i]);
    page_text(p, h->c->contestants.list[i].name);
    if (!v->measured) {
        page_put(p, "</td><td>-</td><td>-</td><td>no figure</td></tr>\n");
        return;
    }
    page_put(p, "</td><td>");
    page_text(p, compare_figure_text(figure, m, v->typical));
    page_put(p, "</td><td>");
    page_text(p, compare_page_ratio_text(h, text, i, m));
    page_put(p, "</td><td>");
    compare_page_says(h, i, m);
    if (v->kind == VERDICT_NOT_SHOWN && v->has_interval && i != h->c->baseline)
        page_putf(
            p, " <small>a difference of %.1f %% would have been shown</small>",
            100 * v->smallest);
    put_beside(h, i, m);
    page_put(p, "</td></tr>\n");
}

static void put_table(struct compare_page *h) {
    struct page_writer *p = h->page;
    page_put(p, "<section class=\"card long\">\n<h2>All figures</h2>\n"
                "<p class=\"note\">Beside ");
    page_text(p, h->c->contestants.list[h->c->baseline].name);
    page_putf(p,
              "; the ratio is the middle of those of all rounds, the "
              "interval one that holds, together with all others here, "
              "in %g %% of such comparisons. Differences below %g %% do "
              "not count.</p>\n<div class=\"scroll\"><table "
              "class=\"verdicts\">\n"
              "<thead><tr><th scope=\"col\">allocator</th><th "
              "scope=\"col\">figure</th><th scope=\"col\">ratio "
              "(interval)</th><th scope=\"col\">verdict</th></tr>"
              "</thead>\n",
              100 * h->c->confidence, 100 * h->c->margin);
    for (int m = 0; m < METRICS; m++) {
        if (h->sheet.ranked == 0 ||
            !h->sheet.verdict[h->c->baseline][m].measured)
            continue;
        page_put(p, "<tbody><tr class=\"part\"><th colspan=\"4\" "
                    "scope=\"rowgroup\">");
        page_text(p, comparison_metric_title(h->c, (enum compare_metric)m));
        page_putf(p, " <small>%s</small></th></tr>\n", compare_metric[m].key);
        for (size_t k = 0; k < h->sheet.ranked; k++)
            put_row(h, h->sheet.order[k], (enum compare_metric)m);
        page_put(p, "</tbody>\n");
    }
    page_put(p, "</table></div>\n</section>\n");
}

/* --- How it was found ----------------------------------------------------- */

static void put_failures(struct compare_page *h) {
    struct page_writer *p = h->page;
    bool any = false;
    for (size_t i = 0; i < h->c->contestants.count; i++) {
        const struct compare_contestant *entry = &h->c->contestants.list[i];
        if (entry->why == NULL && entry->failures == 0)
            continue;
        if (!any)
            page_put(p, "<section class=\"card\">\n<h2>What took no part, "
                        "and what failed</h2>\n<ul class=\"plain\">\n");
        any = true;
        page_put(p, "<li><b>");
        page_text(p, entry->name);
        if (entry->why != NULL)
            page_put(p, "</b> takes no part: ");
        else
            page_putf(p, "</b> failed in %llu run%s: ",
                      (unsigned long long)entry->failures,
                      entry->failures == 1 ? "" : "s");
        page_text(p, entry->why != NULL       ? entry->why
                     : entry->failure != NULL ? entry->failure
                                              : "");
        page_put(p, "</li>\n");
    }
    if (any)
        page_put(p, "</ul>\n</section>\n");
}

static void put_term(struct compare_page *h, const char *term,
                     const char *text) {
    if (text[0] == '\0')
        return;
    page_element(h->page, "dt", term);
    page_element(h->page, "dd", text);
    page_put(h->page, "\n");
}

static void put_machine(struct compare_page *h) {
    const struct compare_machine *m = &h->c->machine;
    struct page_writer *p = h->page;
    struct tool_text t;
    char cpus[32];
    snprintf(cpus, sizeof(cpus), "%llu", (unsigned long long)m->cpus);
    page_put(p, "<section class=\"card\">\n<h2>The machine</h2>\n<dl>\n");
    put_term(h, "name", m->host);
    put_term(h, "processor", m->processor);
    put_term(h, "processors", cpus);
    put_term(h, "memory", tool_text_bytes(&t, m->memory_bytes));
    put_term(h, "kernel", m->kernel);
    put_term(h, "C library", m->c_library);
    put_term(h, "huge pages", m->huge_pages);
    put_term(h, "governor", m->governor);
    page_put(p, "</dl>\n</section>\n");
}

/* Puts the figures of the program itself, if it was run. */
static void put_program(struct compare_page *h) {
    const struct comparison *c = h->c;
    struct page_writer *p = h->page;
    char *text = NULL;
    size_t size;
    FILE *f = c->ran_program ? open_memstream(&text, &size) : NULL;
    if (f == NULL)
        return;
    bool good = compare_program_print(c, f);
    if (fclose(f) == 0 && good) {
        page_put(p, "<section class=\"card\">\n<h2>The program itself"
                    "</h2>\n<div class=\"scroll\"><pre class=\"wide\">");
        page_text(p, text);
        page_put(p, "</pre></div>\n</section>\n");
    }
    free(text);
}

static void put_contestants(struct compare_page *h) {
    struct page_writer *p = h->page;
    page_put(p, "<section class=\"card\">\n<h2>The allocators</h2>\n"
                "<dl>\n");
    for (size_t i = 0; i < h->c->contestants.count; i++) {
        const struct compare_contestant *entry = &h->c->contestants.list[i];
        page_element(p, "dt", entry->name);
        page_put(p, "<dd>");
        page_text(p, entry->library[0] == '\0' ? "the C library's"
                                               : entry->library);
        for (size_t e = 0; e < entry->envs; e++) {
            page_put(p, " ");
            page_element(p, "code", entry->env[e]);
        }
        if (h->c->version != NULL && h->c->version[i][0] != '\0') {
            page_put(p, "<br>");
            page_element(p, "small", h->c->version[i]);
        }
        page_put(p, "</dd>\n");
    }
    page_put(p, "</dl>\n</section>\n");
}

enum { MEMORY_CONTESTANTS = 6 };

/* Writes the command that explains the memory of the program, or of the first
   trace, under the contestants. */
static void print_memory_command(const struct comparison *c, FILE *out) {
    const char *program =
        c->command == NULL ? NULL : strstr(c->command, " -- ");
    size_t count = 0;
    fputs("malloc-trace memory --html=memory.html", out);
    for (size_t i = 0; i < c->contestants.count; i++) {
        const struct compare_contestant *entry = &c->contestants.list[i];
        char *word = NULL;
        size_t size;
        FILE *f = entry->why == NULL && count < MEMORY_CONTESTANTS
                      ? open_memstream(&word, &size)
                      : NULL;
        if (f == NULL)
            continue;
        fprintf(f, "%s%s%s", entry->name, entry->library[0] == '\0' ? "" : "=",
                entry->library);
        for (size_t e = 0; e < entry->envs; e++)
            fprintf(f, ",%s", entry->env[e]);
        if (fclose(f) == 0) {
            fputs(" -a ", out);
            tool_shell_put_word(out, word);
            count++;
        }
        free(word);
    }
    if (program != NULL) {
        fputs(program, out);
    } else {
        fputc(' ', out);
        tool_shell_put_word(out, c->trace[0].name);
    }
}

static void put_memory(struct compare_page *h) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return;
    print_memory_command(h->c, f);
    if (fclose(f) == 0) {
        page_put(h->page,
                 "<section class=\"card\">\n<h2>Where the memory is</h2>\n"
                 "<p class=\"note\">This command says what of the resident "
                 "memory is alive, which code holds the rest, and why it does "
                 "not shrink.</p>\n<pre data-copy>");
        page_text(h->page, text);
        page_put(h->page, "</pre>\n</section>\n");
    }
    free(text);
}

static void put_notes(struct compare_page *h) {
    const struct comparison *c = h->c;
    struct page_writer *p = h->page;
    page_put(p, "<section class=\"card\">\n<h2>To repeat it</h2>\n");
    if (c->command != NULL) {
        page_put(p, "<pre data-copy>");
        page_text(p, c->command);
        page_put(p, "</pre>\n");
    }
    page_put(p, "</section>\n");
    char text[400];
    bool own_clocks = compare_note_clocks(c) != NULL;
    for (size_t i = 0; i < c->contestants.count; i++)
        own_clocks = own_clocks || compare_note_own_clock(c, i, text);
    if (c->disturbances.count == 0 && c->unlike == 0 &&
        c->program_skipped == NULL && compare_note(c, text) == NULL &&
        !own_clocks)
        return;
    page_put(p, "<section class=\"card\">\n<h2>What to bear in mind</h2>\n"
                "<ul class=\"plain\">\n");
    for (unsigned i = 0; i < c->disturbances.count; i++) {
        page_put(p, "<li>disturbed: ");
        page_text(p, c->disturbances.text[i]);
        page_put(p, "</li>\n");
    }
    if (c->unlike != 0)
        page_putf(p,
                  "<li>%zu runs were made on machines unlike this "
                  "one.</li>\n",
                  c->unlike);
    if (c->program_skipped != NULL) {
        page_put(p, "<li>The program itself was not run under the "
                    "allocators: ");
        page_text(p, c->program_skipped);
        page_put(p, ".</li>\n");
    }
    if (compare_note(c, text) != NULL)
        page_element(p, "li", compare_note(c, text));
    if (compare_note_clocks(c) != NULL)
        page_element(p, "li", compare_note_clocks(c));
    for (size_t i = 0; i < c->contestants.count; i++)
        if (compare_note_own_clock(c, i, text))
            page_element(p, "li", text);
    page_put(p, "</ul>\n</section>\n");
}

/* --- All of it ------------------------------------------------------------ */

static void put_drawings(struct compare_page *h) {
    struct page_writer *p = h->page;
    static const enum compare_metric dots[] = {METRIC_TIME, METRIC_PEAK_RSS,
                                               METRIC_P999};
    put_key(h);
    page_put(p, "<div class=\"grid\">\n");
    compare_page_bars(h, METRIC_TIME);
    compare_page_bars(h, METRIC_PEAK_RSS);
    compare_page_scatter(h);
    (void)compare_page_course(h);
    bool beside = compare_page_latency(h);
    page_put(p, beside ? "<div class=\"stack\">\n" : "");
    for (size_t i = 0; i < TCM_ARRAY_SIZE(dots); i++)
        compare_page_dots(h, dots[i]);
    page_put(p, beside ? "</div>\n" : "");
    page_put(p, "</div>\n");
}

static bool put_all(struct compare_page *h) {
    put_head(h);
    if (h->sheet.ranked != 0) {
        put_drawings(h);
        put_table(h);
    }
    put_program(h);
    put_failures(h);
    page_put(h->page, "<div class=\"grid\">\n");
    put_contestants(h);
    put_machine(h);
    put_memory(h);
    put_notes(h);
    page_put(h->page, "</div>\n");
    struct tool_json *j = page_data(h->page);
    tool_json_begin_object(j, NULL);
    bool good = compare_json_put(h->c, "comparison", j);
    compare_page_course_data(h, j);
    compare_page_latency_data(h, j);
    tool_json_end_object(j);
    page_data_end(h->page);
    return good;
}

bool compare_page_write(const struct comparison *c, const char *path) {
    static struct page_writer page;
    struct compare_page h = {.c = c, .page = &page};
    char title[256];
    if (!compare_sheet_make(c, &h.sheet))
        return false;
    snprintf(title, sizeof(title), "Allocators compared: %s",
             c->traces == 1 ? c->trace[0].name : "several traces");
    bool good = choose_colours(&h) && page_open(&page, path, title);
    if (good)
        good = page_close(&page, put_all(&h));
    free(h.colour);
    compare_sheet_free(&h.sheet);
    return good;
}
