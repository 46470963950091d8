/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_print.h"

#include "cmd/malloc_trace/compare/compare_settings.h"
#include "cmd/malloc_trace/compare/sheet.h"
#include "common/main.h"
#include "common/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *compare_figure_text(char text[32], enum compare_metric m,
                                double value) {
    struct tool_text t;
    uint64_t whole = tool_text_whole(value);
    if (isnan(value))
        return strcpy(text, "-");
    switch (m) {
    case METRIC_TIME:
    case METRIC_WALL:
    case METRIC_P999:
        if (whole < 1000)
            snprintf(text, 32, "%.*f ns", value < 99.95 ? 1 : 0, value);
        else
            snprintf(text, 32, "%s", tool_text_ns(&t, whole));
        break;
    case METRIC_PEAK_RSS:
    case METRIC_AVG_RSS:
    case METRIC_HUGE:
        snprintf(text, 32, "%s", tool_text_bytes(&t, whole));
        break;
    case METRIC_FRAG:
        snprintf(text, 32, "%.2f", value);
        break;
    case METRIC_FAULTS:
    case METRICS:
        snprintf(text, 32, "%s", tool_text_count(&t, whole));
        break;
    }
    return text;
}

/* --- In words ------------------------------------------------------------- */

/* Names the others to which no difference is shown. */
static bool say_ties(const struct comparison *c, const struct sheet *s,
                     size_t best, enum compare_metric m, FILE *out) {
    const char *between = " Not told apart from it: ";
    const char *end = "";
    for (size_t k = 0; k < s->ranked; k++) {
        size_t i = s->order[k];
        struct verdict v;
        if (i == best || i == c->baseline)
            continue;
        if (!verdict_between(c, i, best, m, &v))
            return false;
        if (!v.measured || !v.has_interval || v.low > 1)
            continue;
        fprintf(out, "%s%s", between, contestant_shown(&c->who.list[i]));
        between = ", ";
        end = ".";
    }
    fputs(end, out);
    return true;
}

static double largest_smallest(const struct comparison *c,
                               const struct sheet *s, enum compare_metric m) {
    double most = 0;
    for (size_t k = 0; k < s->ranked; k++)
        if (s->order[k] != c->baseline)
            most = fmax(most, s->verdict[s->order[k]][m].smallest);
    return most;
}

static void say_metric(const struct comparison *c, const struct sheet *s,
                       enum compare_metric m, const char *most,
                       const char *none, FILE *out) {
    const char *base = contestant_shown(&c->who.list[c->baseline]);
    size_t best = sheet_best(s, m);
    if (best == SIZE_MAX) {
        fprintf(out, "No allocator is shown to %s than %s", none, base);
        double d = largest_smallest(c, s, m);
        if (d > 0)
            fprintf(out, "; a difference of %.1f %% would have been", 100 * d);
        fputs(".\n", out);
        return;
    }
    const struct verdict *v = &s->verdict[best][m];
    fprintf(out, "%s %s: %.2f of %s's (%.2f to %.2f).",
            contestant_shown(&c->who.list[best]), most, v->ratio, base, v->low,
            v->high);
    (void)say_ties(c, s, best, m, out);
    fputc('\n', out);
}

/* Says what the fastest contestant costs in other figures. */
static void say_price(const struct comparison *c, const struct sheet *s,
                      FILE *out) {
    size_t best = sheet_best(s, METRIC_TIME);
    static const enum compare_metric others[] = {METRIC_PEAK_RSS, METRIC_P999};
    if (best == SIZE_MAX)
        return;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(others); i++) {
        const struct verdict *v = &s->verdict[best][others[i]];
        if (v->measured && v->kind == VERDICT_MORE)
            fprintf(out, "%s's %s is %.2f of %s's (%.2f to %.2f).\n",
                    contestant_shown(&c->who.list[best]),
                    others[i] == METRIC_P999 ? "99.9th percentile of latency"
                                             : "peak memory",
                    v->ratio, contestant_shown(&c->who.list[c->baseline]),
                    v->low, v->high);
    }
}

/* Says which share of the program's time malloc has: an allocator that takes
   twice as long matters little where that share is one per cent. */
static void say_share(const struct comparison *c, const struct sheet *s,
                      FILE *out) {
    size_t best = sheet_best(s, METRIC_TIME);
    double percent = c->traces == 1 ? verdict_malloc_percent(c, 0) : NAN;
    if (isnan(percent))
        return;
    fprintf(out,
            "With %s malloc takes about %.1f %% of the program's processor "
            "time",
            contestant_shown(&c->who.list[c->baseline]), percent);
    if (best != SIZE_MAX)
        fprintf(out, "; with %s the program would take about %.1f %% less",
                contestant_shown(&c->who.list[best]),
                percent * (1 - s->verdict[best][METRIC_TIME].ratio));
    fputs(".\n", out);
}

static void words(const struct comparison *c, const struct sheet *s,
                  FILE *out) {
    size_t others = 0;
    for (size_t k = 0; k < s->ranked; k++)
        others += s->order[k] != c->baseline;
    if (others == 0) {
        fputs("There is nothing to compare: fewer than two allocators gave "
              "figures.\n",
              out);
        return;
    }
    bool known = false;
    for (size_t k = 0; k < s->ranked; k++)
        known = known || s->verdict[s->order[k]][METRIC_TIME].has_interval;
    if (!known) {
        fprintf(out,
                "Too few rounds for a verdict: %zu are needed, %zu were "
                "made.\n",
                verdict_least_rounds(c), c->made);
        return;
    }
    say_metric(c, s, METRIC_TIME, "takes least processor time",
               "take less processor time", out);
    say_price(c, s, out);
    say_metric(c, s, METRIC_PEAK_RSS, "needs least memory at its peak",
               "need less memory at its peak", out);
    say_share(c, s, out);
}

bool compare_print_words(const struct comparison *c, FILE *out) {
    struct sheet s;
    if (!sheet_make(c, &s))
        return false;
    words(c, &s, out);
    sheet_free(&s);
    return true;
}

/* --- Tables --------------------------------------------------------------- */

static int name_width(const struct comparison *c) {
    size_t width = 12;
    for (size_t i = 0; i < c->who.count; i++) {
        size_t n = strlen(contestant_shown(&c->who.list[i]));
        width = n > width ? n : width;
    }
    return width > 34 ? 34 : (int)width;
}

const char *compare_ratio_text(char text[16], double ratio) {
    snprintf(text, 16,
             ratio < 9.995   ? "%.3f"
             : ratio < 999.5 ? "%.1f"
             : ratio < 1e9   ? "%.0f"
                             : "%.3g",
             ratio);
    return text;
}

static void print_metric(const struct comparison *c, const struct sheet *s,
                         enum compare_metric m, int width, FILE *out) {
    char figure[32], ratio[16], low[16], high[16];
    if (s->ranked == 0 || !s->verdict[s->order[0]][m].measured)
        return;
    fprintf(out, "\n%s, beside %s\n", compare_metric[m].title,
            contestant_shown(&c->who.list[c->baseline]));
    for (size_t k = 0; k < s->ranked; k++) {
        size_t i = s->order[k];
        const struct verdict *v = &s->verdict[i][m];
        fprintf(out, "%3zu  %-*.34s  ", k + 1, width,
                contestant_shown(&c->who.list[i]));
        if (!v->measured) {
            fputs("no figure\n", out);
            continue;
        }
        fprintf(out, "%11s", compare_figure_text(figure, m, v->typical));
        compare_ratio_text(ratio, v->ratio);
        if (i == c->baseline) {
            fputs("   1\n", out);
            continue;
        }
        fprintf(out, "   %-6s", ratio);
        if (v->has_interval) {
            compare_ratio_text(low, v->low);
            compare_ratio_text(high, v->high);
            fprintf(out, " %6s to %-6s  %s", low, high, verdict_text(v, m));
        } else if (c->who.list[i].rests) {
            fprintf(out, "left out after %zu round%s", v->samples,
                    v->samples == 1 ? "" : "s");
        }
        fputc('\n', out);
    }
}

/* The other metrics as ratios, with a mark where a difference is shown. */
static void print_rest(const struct comparison *c, const struct sheet *s,
                       int width, FILE *out) {
    static const enum compare_metric rest[] = {METRIC_WALL,    METRIC_P999,
                                               METRIC_AVG_RSS, METRIC_FRAG,
                                               METRIC_FAULTS,  METRIC_HUGE};
    fprintf(out,
            "\nOthers as ratios: * a difference is shown, ? none is, and "
            "one could be\n%-*s",
            width + 5, "");
    for (size_t r = 0; r < TCM_ARRAY_SIZE(rest); r++)
        fprintf(out, "%*s", rest[r] == METRIC_HUGE ? 11 : 9,
                compare_metric[rest[r]].name);
    fputc('\n', out);
    for (size_t k = 0; k < s->ranked; k++) {
        size_t i = s->order[k];
        fprintf(out, "%3zu  %-*.34s", k + 1, width,
                contestant_shown(&c->who.list[i]));
        for (size_t r = 0; r < TCM_ARRAY_SIZE(rest); r++) {
            const struct verdict *v = &s->verdict[i][rest[r]];
            char ratio[32];
            /* the last one has room for a size */
            int column = rest[r] == METRIC_HUGE ? 11 : 9;
            if (v->of_none) /* how much it is, where there is no ratio */
                compare_figure_text(ratio, rest[r], v->typical);
            else
                compare_ratio_text(ratio, v->ratio);
            if (!v->measured)
                fprintf(out, "%*s", column, "-");
            else
                fprintf(out, "%*s%c", column - 1,
                        i == c->baseline ? "1" : ratio,
                        i == c->baseline               ? ' '
                        : v->kind == VERDICT_NOT_SHOWN ? '?'
                        : v->kind == VERDICT_NO_WORSE  ? ' '
                                                       : '*');
        }
        fputc('\n', out);
    }
}

static void print_out(const struct comparison *c, FILE *out) {
    for (size_t i = 0; i < c->who.count; i++) {
        const struct contestant *who = &c->who.list[i];
        if (who->wraps)
            fprintf(out, "%s is a wrapper around the C library's malloc\n",
                    who->name);
        if (who->why != NULL)
            fprintf(out, "%s takes no part: %s\n", contestant_shown(who),
                    tool_text_shown(who->why));
        else if (who->failures != 0)
            fprintf(out, "%s failed in %llu run%s: %s\n", contestant_shown(who),
                    (unsigned long long)who->failures,
                    who->failures == 1 ? "" : "s",
                    who->failure == NULL ? "" : tool_text_shown(who->failure));
    }
}

void compare_print_head(const struct comparison *c, FILE *out) {
    struct tool_text t[2];
    if (c->traces == 1)
        fprintf(out, "%s: %s operations of %s thread%s, --threads=%s; ",
                tool_text_shown(c->trace[0].name),
                tool_text_count(&t[0], c->trace[0].ops),
                tool_text_count(&t[1], c->trace[0].threads),
                c->trace[0].threads == 1 ? "" : "s", c->trace[0].mode);
    else
        fprintf(out, "%zu traces; ", c->traces);
    fprintf(out, "%zu round%s\n", c->made, c->made == 1 ? "" : "s");
}

static void print_machine(const struct comparison *c, FILE *out) {
    const struct compare_machine *m = &c->machine;
    if (m->cpus == 0)
        return;
    fprintf(out, "%s, %llu processor%s, %s, huge pages: %s\n",
            tool_text_shown(m->processor), (unsigned long long)m->cpus,
            m->cpus == 1 ? "" : "s", tool_text_shown(m->kernel),
            m->huge_pages[0] == '\0' ? "unknown"
                                     : tool_text_shown(m->huge_pages));
}

const char *compare_note(const struct comparison *c) {
    return c->speed == NULL || strcmp(c->speed, "max") == 0
               ? "Replays ran without pauses: memory that allocators give back "
                 "in the course of\ntime is not in these figures (--speed=1 "
                 "shows it)."
               : NULL;
}

static void print_notes(const struct comparison *c, FILE *out) {
    for (unsigned i = 0; i < c->disturbances.count; i++)
        fprintf(out, "disturbed: %s\n",
                tool_text_shown(c->disturbances.text[i]));
    if (c->other_versions != 0)
        fprintf(out,
                "%zu runs were made with other versions of a library than the "
                "first ones\n",
                c->other_versions);
    if (c->unlike != 0)
        fprintf(out,
                "%zu runs were made on machines unlike the first one's (%s, "
                "%s)\n",
                c->unlike, tool_text_shown(c->machine.host),
                tool_text_shown(c->machine.processor));
    if (compare_note(c) != NULL)
        fprintf(out, "%s\n", compare_note(c));
}

bool compare_print(const struct comparison *c, FILE *out) {
    struct sheet s;
    if (!sheet_make(c, &s))
        return false;
    int width = name_width(c);
    compare_print_head(c, out);
    fputc('\n', out);
    words(c, &s, out);
    if (s.ranked != 0) {
        print_metric(c, &s, METRIC_TIME, width, out);
        print_metric(c, &s, METRIC_PEAK_RSS, width, out);
        print_rest(c, &s, width, out);
        fputc('\n', out);
    }
    print_out(c, out);
    print_machine(c, out);
    print_notes(c, out);
    sheet_free(&s);
    return true;
}

/* --- The frontier --------------------------------------------------------- */

bool compare_print_frontier(const struct comparison *c, FILE *out) {
    bool *on = calloc(c->who.count, sizeof(*on));
    struct sheet s;
    if (on == NULL || !sheet_make(c, &s)) {
        free(on);
        tool_error("out of memory");
        return false;
    }
    verdict_frontier(c, on);
    fprintf(out, "\nThe frontier of time and peak memory, beside %s\n",
            contestant_shown(&c->who.list[c->baseline]));
    for (size_t k = 0; k < s.ranked; k++) {
        size_t i = s.order[k];
        const struct contestant *who = &c->who.list[i];
        if (!on[i])
            continue;
        fprintf(out,
                "  time %.3f, memory %.3f: ", s.verdict[i][METRIC_TIME].ratio,
                s.verdict[i][METRIC_PEAK_RSS].ratio);
        if (who->library[0] == '\0' && who->envs == 0)
            fputs("nothing to set", out);
        if (who->library[0] != '\0') {
            fputs("LD_PRELOAD=", out);
            shell_put_word(out, who->library);
            fputc(' ', out);
        }
        for (size_t e = 0; e < who->envs; e++) {
            /* quoted from its name on it would be a command */
            size_t name = strcspn(who->env[e], "=");
            char text[256];
            snprintf(text, sizeof(text), "%.*s", (int)name, who->env[e]);
            fprintf(out, "%s=", tool_text_shown(text));
            shell_put_word(out, who->env[e] + name + 1);
            fputc(' ', out);
        }
        fputc('\n', out);
        for (size_t e = 0; e < who->envs; e++)
            if (compare_settings_meaning(who->env[e]) != NULL)
                fprintf(out, "      %s\n",
                        compare_settings_meaning(who->env[e]));
    }
    sheet_free(&s);
    free(on);
    return true;
}
