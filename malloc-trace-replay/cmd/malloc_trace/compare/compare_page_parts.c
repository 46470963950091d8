/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_page_parts.h"

#include "cmd/malloc_trace/compare/compare_print.h"
#include "pages/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *compare_page_ratio_text(const struct compare_page *h, char text[64],
                                    size_t who, enum compare_metric m) {
    const struct verdict *v = &h->sheet.verdict[who][m];
    char ratio[16], low[16], high[16];
    if (who == h->c->baseline)
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

void compare_page_says(struct compare_page *h, size_t who,
                       enum compare_metric m) {
    static const struct {
        const char *class_name, *mark;
    } look[] = {
        [VERDICT_NOT_SHOWN] = {"", "? "},
        [VERDICT_LESS] = {" less", "\xe2\x96\xbc "},
        [VERDICT_MORE] = {" more", "\xe2\x96\xb2 "},
        [VERDICT_NO_WORSE] = {"", "\xe2\x89\xa4 "},
    };
    const struct verdict *v = &h->sheet.verdict[who][m];
    if (who == h->c->baseline) {
        tool_page_put(h->page, "<span class=\"says\">baseline</span>");
        return;
    }
    if (v->measured && v->has_interval)
        tool_page_putf(h->page, "<span class=\"says%s\">%s%s</span>",
                       look[v->kind].class_name, look[v->kind].mark,
                       verdict_text(v, m));
    else if (v->measured && h->c->who.list[who].rests)
        tool_page_putf(h->page,
                       "<span class=\"says\">left out after %zu "
                       "round%s</span>",
                       v->samples, v->samples == 1 ? "" : "s");
}

const char *compare_page_name(const struct compare_page *h, size_t i) {
    return h->c->who.list[i].name;
}

/* A name of at most MOST bytes: of settings that are alike what differs stands
   behind, so that the middle goes. */
const char *compare_page_short_name(const struct compare_page *h, size_t i,
                                    char text[64], size_t most) {
    const char *name = compare_page_name(h, i);
    size_t n = strlen(name), front = most / 3, back = n - (most - front);
    if (n <= most) {
        snprintf(text, 64, "%s", name);
        return text;
    }
    /* not within a character */
    while (front > 0 && ((unsigned char)name[front] & 0xc0) == 0x80)
        front--;
    while (((unsigned char)name[back] & 0xc0) == 0x80)
        back++;
    snprintf(text, 64, "%.*s\xe2\x80\xa6%s", (int)front, name, name + back);
    return text;
}

/* The list's column of names is as wide as they are. */
void compare_page_begin_rows(struct compare_page *h, const char *tag,
                             const char *class_name) {
    size_t most = 6;
    for (size_t k = 0; k < h->sheet.ranked; k++) {
        size_t n = strlen(compare_page_name(h, h->sheet.order[k]));
        most = n > most ? n : most;
    }
    tool_page_putf(h->page, "<%s class=\"%s\" style=\"--name:%zuch\">\n", tag,
                   class_name, (most > 40 ? 40 : most) + 3);
}

const char *compare_page_tick_ratio(char text[32], double v) {
    snprintf(text, 32, "%g", v);
    return text;
}

void compare_page_begin_card(struct compare_page *h, const char *title,
                             const char *note) {
    tool_page_put(h->page, "<figure class=\"card\">\n<figcaption>");
    tool_page_element(h->page, "h2", title);
    tool_page_put(h->page, "<p class=\"note\">");
    tool_page_text(h->page, note);
    tool_page_put(h->page, "</p></figcaption>\n");
}

void compare_page_end_card(struct compare_page *h) {
    tool_page_put(h->page, "</figure>\n");
}

bool compare_page_labels_make(struct compare_page_labels *l, size_t most) {
    l->count = 0;
    l->y = malloc(most * sizeof(*l->y));
    l->who = malloc(2 * most * sizeof(*l->who));
    if (l->y != NULL && l->who != NULL) {
        l->room = l->who + most;
        return true;
    }
    free(l->y);
    free(l->who);
    return false;
}

void compare_page_labels_put(struct compare_page *h,
                             struct compare_page_labels *l) {
    tool_plot_spread(l->y, l->room, l->count, 5, 0, 100);
    for (size_t k = 0; k < l->count; k++) {
        size_t i = l->who[k];
        tool_page_putf(h->page,
                       "<text class=\"label w w%zu k%u\" x=\"100%%\" dx=\"8\" "
                       "y=\"%.2f%%\" dy=\"4\">",
                       i, h->colour[i], l->y[k]);
        char text[64];
        tool_page_text(h->page, compare_page_short_name(h, i, text, 15));
        tool_page_put(h->page, "</text>\n");
    }
    free(l->y);
    free(l->who);
}
