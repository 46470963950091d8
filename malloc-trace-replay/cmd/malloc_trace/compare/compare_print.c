/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_print.h"

#include "base/check.h"
#include "cmd/malloc_trace/compare/compare_contestants.h"
#include "cmd/malloc_trace/compare/compare_program.h"
#include "cmd/malloc_trace/compare/compare_recommend.h"
#include "cmd/malloc_trace/compare/compare_verdict.h"
#include "common/allocator_settings.h"
#include "common/files.h"
#include "common/json.h"
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
    case METRIC_WASTE:
    case METRIC_AFTER:
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

/* Names the contestants that are not told apart from BEST. */
static bool print_ties(const struct comparison *c,
                       const struct compare_sheet *s, size_t best,
                       enum compare_metric m, FILE *out) {
    const char *between = " Not told apart from it: ";
    const char *end = "";
    for (size_t k = 0; k < s->ranked; k++) {
        size_t i = s->order[k];
        struct compare_verdict v;
        if (i == best || i == c->baseline)
            continue;
        if (!compare_verdict_between(c, i, best, m, &v))
            return false;
        if (!v.measured || !v.has_interval || v.low > 1)
            continue;
        fprintf(out, "%s%s", between,
                compare_contestant_shown(&c->contestants.list[i]));
        between = ", ";
        end = ".";
    }
    fputs(end, out);
    return true;
}

static double largest_undetected(const struct comparison *c,
                                 const struct compare_sheet *s,
                                 enum compare_metric m) {
    double most = 0;
    for (size_t k = 0; k < s->ranked; k++)
        if (s->order[k] != c->baseline)
            most = fmax(most, s->verdict[s->order[k]][m].smallest);
    return most;
}

/* Writes ", in this recording" where a figure of M says nothing of others. */
static const char *of_recording(const struct comparison *c,
                                enum compare_metric m, char text[40]) {
    const char *few = comparison_few_recordings(c);
    bool is_time = m == METRIC_TIME || few == NULL;
    snprintf(text, 40, "%s%s", is_time ? "" : ", in ", is_time ? "" : few);
    return text;
}

static void print_best_of(const struct comparison *c,
                          const struct compare_sheet *s, enum compare_metric m,
                          const char *most, const char *none, FILE *out) {
    const char *base =
        compare_contestant_shown(&c->contestants.list[c->baseline]);
    char of[40];
    size_t best = compare_sheet_best(s, m);
    if (best == SIZE_MAX) {
        fprintf(out, "No allocator is shown to %s than %s%s", none, base,
                of_recording(c, m, of));
        double d = largest_undetected(c, s, m);
        if (d > 0 && of[0] == '\0')
            fprintf(out, "; a difference of %.1f %% would have been shown",
                    100 * d);
        fputs(".\n", out);
        return;
    }
    const struct compare_verdict *v = &s->verdict[best][m];
    fprintf(out, "%s %s: %.2f of %s's (%.2f to %.2f)%s.",
            compare_contestant_shown(&c->contestants.list[best]), most,
            v->ratio, base, v->low, v->high, of_recording(c, m, of));
    (void)print_ties(c, s, best, m, out);
    fputc('\n', out);
}

/* Prints in which other figures the fastest contestant is worse. */
static void print_price(const struct comparison *c,
                        const struct compare_sheet *s, FILE *out) {
    size_t best = compare_sheet_best(s, METRIC_TIME);
    static const enum compare_metric others[] = {METRIC_PEAK_RSS, METRIC_P999};
    if (best == SIZE_MAX)
        return;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(others); i++) {
        const struct compare_verdict *v = &s->verdict[best][others[i]];
        if (v->measured && v->kind == VERDICT_MORE)
            fprintf(out, "%s's %s is %.2f of %s's (%.2f to %.2f).\n",
                    compare_contestant_shown(&c->contestants.list[best]),
                    others[i] == METRIC_P999 ? "99.9th percentile of latency"
                                             : "peak memory",
                    v->ratio,
                    compare_contestant_shown(&c->contestants.list[c->baseline]),
                    v->low, v->high);
    }
}

/* Prints whose time differs from the baseline's by system time. */
static bool print_system_time(const struct comparison *c,
                              const struct compare_sheet *s, FILE *out) {
    const char *base =
        compare_contestant_shown(&c->contestants.list[c->baseline]);
    for (size_t k = 0; k < s->ranked; k++) {
        struct compare_system_cause why;
        size_t i = s->order[k];
        const char *name = compare_contestant_shown(&c->contestants.list[i]);
        if (!compare_verdict_system_cause(c, i, &why))
            return false;
        if (why.of_difference)
            fprintf(out,
                    "%s's time differs from %s's by system time, as of page "
                    "faults: %.1f of %.1f ns an operation, beside %.1f of "
                    "%.1f.\n",
                    name, base, why.own.system, why.own.time, why.base.system,
                    why.base.time);
    }
    return true;
}

/* Difference in huge pages that matters, as a part of the peak. */
#define HUGE_DIFFERENCE 0.1

/* Prints the huge pages of all where they differ much: a program's own accesses
   are cheaper there, and a replay has few of them. */
static void print_huge_pages(const struct comparison *c,
                             const struct compare_sheet *s, FILE *out) {
    const struct compare_verdict(*all)[METRICS] = s->verdict;
    bool differs = false;
    char figure[32];
    for (size_t k = 0; k < s->ranked; k++) {
        size_t i = s->order[k];
        const struct compare_verdict *huge = &all[i][METRIC_HUGE];
        const struct compare_verdict *peak = &all[i][METRIC_PEAK_RSS];
        differs = differs || (huge->measured && peak->measured &&
                              fabs(huge->typical - huge->baseline) >
                                  HUGE_DIFFERENCE * peak->baseline);
    }
    const char *between = "Huge pages differ, in which the program's own "
                          "accesses are faster: ";
    for (size_t k = 0; differs && k < s->ranked; k++) {
        size_t i = s->order[k];
        const struct compare_verdict *huge = &all[i][METRIC_HUGE];
        if (!huge->measured)
            continue;
        /* figures below this stand for none */
        bool none = huge->typical <= compare_metric[METRIC_HUGE].least;
        fprintf(out, "%s%s %s", between,
                compare_contestant_shown(&c->contestants.list[i]),
                none ? "none"
                     : compare_figure_text(figure, METRIC_HUGE, huge->typical));
        between = ", ";
    }
    fputs(differs ? ".\n" : "", out);
}

/* Prints malloc's share of the program's time, from which the replays' figures
   become the program's, and a heading of these figures. */
static bool print_share(const struct comparison *c,
                        const struct compare_sheet *s,
                        const struct compare_recommendation *r, FILE *out) {
    struct compare_effect e;
    bool take = r->advice == COMPARE_ADVICE_TAKE;
    size_t i = take                         ? r->contestant
               : s->order[0] != c->baseline ? s->order[0]
                                            : s->order[1];
    if (!compare_effect_of(c, i, c->baseline, COMPARE_CPU, &e))
        return false;
    if (!isnan(e.share)) {
        fprintf(out,
                "With %s malloc takes about %.1f %% of the program's processor "
                "time",
                compare_contestant_shown(&c->contestants.list[c->baseline]),
                100 * e.share);
        if (take)
            fprintf(out, ", with %s %.2f times as much",
                    compare_contestant_shown(&c->contestants.list[i]),
                    s->verdict[i][METRIC_TIME].ratio);
        fputs(".\n", out);
    }
    fputs("Of malloc alone, in the replays:\n", out);
    return true;
}

/* Prints the recommendation, and what it stands on. */
static bool print_words(const struct comparison *c,
                        const struct compare_sheet *s, FILE *out) {
    struct compare_recommendation r;
    bool known = false;
    if (!compare_recommend(c, &r))
        return false;
    fprintf(out, "%s\n", r.text);
    if (r.basis[0] != '\0')
        fprintf(out, "%s\n", r.basis);
    for (size_t k = 0; k < s->ranked; k++)
        known = known || (s->order[k] != c->baseline &&
                          s->verdict[s->order[k]][METRIC_TIME].has_interval);
    if (!known)
        return true;
    if (!print_share(c, s, &r, out))
        return false;
    print_best_of(c, s, METRIC_TIME, "takes least processor time",
                  "take less processor time", out);
    print_price(c, s, out);
    print_best_of(c, s, METRIC_PEAK_RSS, "needs least memory at its peak",
                  "need less memory at its peak", out);
    print_huge_pages(c, s, out);
    return print_system_time(c, s, out);
}

bool compare_print_words(const struct comparison *c, FILE *out) {
    struct compare_sheet s;
    if (!compare_sheet_make(c, &s))
        return false;
    bool good = print_words(c, &s, out);
    compare_sheet_free(&s);
    return good;
}

/* --- Tables --------------------------------------------------------------- */

static int name_width(const struct comparison *c) {
    size_t width = 12;
    for (size_t i = 0; i < c->contestants.count; i++) {
        size_t n = strlen(compare_contestant_shown(&c->contestants.list[i]));
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

const char *compare_gb_hours_text(const struct comparison *c, size_t contestant,
                                  char text[32]) {
    double v = compare_verdict_gb_hours(c, contestant);
    if (isnan(v))
        return strcpy(text, "");
    snprintf(text, 32, "%.3g GB h", v);
    return text;
}

static void print_metric(const struct comparison *c,
                         const struct compare_sheet *s, enum compare_metric m,
                         int width, FILE *out) {
    char figure[32], hours[32], ratio[16], low[16], high[16], of[40];
    if (s->ranked == 0 || !s->verdict[c->baseline][m].measured)
        return;
    fprintf(out, "\n%s, beside %s%s\n", comparison_metric_title(c, m),
            compare_contestant_shown(&c->contestants.list[c->baseline]),
            of_recording(c, m, of));
    for (size_t k = 0; k < s->ranked; k++) {
        size_t i = s->order[k];
        const struct compare_verdict *v = &s->verdict[i][m];
        fprintf(out, "%3zu  %-*.34s  ", k + 1, width,
                compare_contestant_shown(&c->contestants.list[i]));
        if (!v->measured) {
            fputs("no figure\n", out);
            continue;
        }
        fprintf(out, "%11s", compare_figure_text(figure, m, v->typical));
        if (m == METRIC_AVG_RSS)
            fprintf(out, "%16s", compare_gb_hours_text(c, i, hours));
        compare_ratio_text(ratio, v->ratio);
        if (i == c->baseline) {
            fputs("   1\n", out);
            continue;
        }
        fprintf(out, "   %-6s", ratio);
        if (v->has_interval) {
            compare_ratio_text(low, v->low);
            compare_ratio_text(high, v->high);
            fprintf(out, " %6s to %-6s  %s", low, high,
                    compare_verdict_text(v, m));
        }
        fputc('\n', out);
    }
}

/* Prints user and system time, if a difference is system time. */
static void print_parts(const struct comparison *c,
                        const struct compare_sheet *s, int width, FILE *out) {
    char user[32], system[32];
    bool any = false;
    for (size_t k = 0; k < s->ranked; k++) {
        struct compare_system_cause why;
        any = any || (compare_verdict_system_cause(c, s->order[k], &why) &&
                      (why.of_difference || why.of_spread));
    }
    if (!any)
        return;
    fprintf(out, "\nprocessor time an operation, its parts\n%-*s%11s%11s\n",
            width + 7, "", "user", "system");
    for (size_t k = 0; k < s->ranked; k++) {
        struct compare_time_parts p;
        size_t i = s->order[k];
        if (!compare_verdict_parts(c, i, &p) || !p.known)
            continue;
        fprintf(out, "%3zu  %-*.34s  %11s%11s\n", k + 1, width,
                compare_contestant_shown(&c->contestants.list[i]),
                compare_figure_text(user, METRIC_TIME, p.time - p.system),
                compare_figure_text(system, METRIC_TIME, p.system));
    }
}

/* Width of the column of a metric: that of its name, or of a ratio. The column
   of huge pages has room for a size. */
static int column_of(enum compare_metric m) {
    int width = (int)strlen(compare_metric[m].name) + 2;
    return m == METRIC_HUGE ? 11 : width < 9 ? 9 : width;
}

/* Prints the other metrics as ratios, with a mark where a difference is shown.
   */
static void print_other_metrics(const struct comparison *c,
                                const struct compare_sheet *s, int width,
                                FILE *out) {
    static const enum compare_metric all[] = {
        METRIC_AVG_RSS, METRIC_WALL,   METRIC_P999, METRIC_WASTE,
        METRIC_AFTER,   METRIC_FAULTS, METRIC_HUGE};
    /* over recorded time the first one has a table of its own */
    size_t from = comparison_is_clocked(c) ? 1 : 0;
    const enum compare_metric *others = all + from;
    size_t count = TCM_ARRAY_SIZE(all) - from;
    fprintf(out,
            "\nOther metrics as ratios: * a difference is shown, ? none is "
            "shown, but may exist\n%-*s",
            width + 5, "");
    for (size_t r = 0; r < count; r++)
        fprintf(out, "%*s", column_of(others[r]),
                compare_metric[others[r]].name);
    fputc('\n', out);
    for (size_t k = 0; k < s->ranked; k++) {
        size_t i = s->order[k];
        fprintf(out, "%3zu  %-*.34s", k + 1, width,
                compare_contestant_shown(&c->contestants.list[i]));
        for (size_t r = 0; r < count; r++) {
            const struct compare_verdict *v = &s->verdict[i][others[r]];
            char ratio[32];
            int column = column_of(others[r]);
            if (v->of_none) /* the figure itself, as there is no ratio */
                compare_figure_text(ratio, others[r], v->typical);
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

static void print_excluded(const struct comparison *c, FILE *out) {
    for (size_t i = 0; i < c->contestants.count; i++) {
        const struct compare_contestant *entry = &c->contestants.list[i];
        if (entry->wraps)
            fprintf(out, "%s is a wrapper around the C library's malloc\n",
                    entry->name);
        if (entry->why != NULL)
            fprintf(out, "%s takes no part: %s\n",
                    compare_contestant_shown(entry),
                    tool_text_shown(entry->why));
        else if (entry->failures != 0)
            fprintf(out, "%s failed in %llu run%s: %s\n",
                    compare_contestant_shown(entry),
                    (unsigned long long)entry->failures,
                    entry->failures == 1 ? "" : "s",
                    entry->failure == NULL ? ""
                                           : tool_text_shown(entry->failure));
    }
}

void compare_print_untouched(const struct comparison *c, FILE *out) {
    char text[UNTOUCHED_TEXT];
    for (size_t t = 0; t < c->traces; t++) {
        const struct compare_trace *trace = &c->trace[t];
        if (trace->untouched[0] != '\0')
            fprintf(out, "%s: %s\n", tool_text_shown(trace->name),
                    tool_text_shown(trace->untouched));
        if (untouched_inherited(trace->untraced_frees, text) != NULL)
            fprintf(out, "%s: %s\n", tool_text_shown(trace->name), text);
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
    if (comparison_is_clocked(c))
        fprintf(out, "recorded time passed; ");
    if (c->traces == 1 && c->trace[0].agains != 0)
        fprintf(out, "%zu recordings; ", comparison_recordings(c, 0));
    fprintf(out, "%zu round%s\n", c->made, c->made == 1 ? "" : "s");
    compare_print_untouched(c, out);
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

const char *compare_note(const struct comparison *c, char text[400]) {
    size_t clocked = 0;
    for (size_t t = 0; t < c->traces; t++)
        clocked += c->trace[t].clock;
    if (clocked == c->traces ||
        (c->speed != NULL && strcmp(c->speed, "max") != 0))
        return NULL;
    if (clocked == 0)
        return "Replays ran without pauses: memory that allocators give back "
               "in the course of\ntime is not in these figures "
               "(--clock=recorded or --speed=1 shows it).";
    snprintf(text, 400,
             "%zu of %zu traces have no times: memory that allocators give "
             "back in the course of\ntime is not in their figures.",
             c->traces - clocked, c->traces);
    return text;
}

const char *compare_note_clocks(const struct comparison *c) {
    return c->clock_unknown
               ? "It could not be examined here whether an allocator reads "
                 "another clock than the recorded one."
               : NULL;
}

bool compare_note_own_clock(const struct comparison *c, size_t i,
                            char text[400]) {
    if (c->own_clock[i][0] == '\0')
        return false;
    snprintf(text, 400,
             "Recorded time did not pass for %.100s: %s. Nothing is said of "
             "its memory over time.",
             compare_contestant_shown(&c->contestants.list[i]),
             tool_text_shown(c->own_clock[i]));
    return true;
}

/* Prints whose rounds differ by system time. */
static void print_spread(const struct comparison *c,
                         const struct compare_sheet *s, FILE *out) {
    const char *between = "Rounds differ by system time, of the time of an "
                          "operation in two of them: ";
    const char *end = "";
    for (size_t k = 0; k < s->ranked; k++) {
        struct compare_system_cause why;
        size_t i = s->order[k];
        if (!compare_verdict_system_cause(c, i, &why) || !why.of_spread)
            continue;
        fprintf(out, "%s%s %.1f of %.1f ns and %.1f of %.1f ns", between,
                compare_contestant_shown(&c->contestants.list[i]),
                why.own.least_system, why.own.least, why.own.most_system,
                why.own.most);
        between = ", ";
        end = ".\n";
    }
    fputs(end, out);
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
    if (c->program_skipped != NULL)
        fprintf(out,
                "The program itself was not run under the allocators: "
                "%s.\n",
                c->program_skipped);
    char text[400];
    if (compare_note(c, text) != NULL)
        fprintf(out, "%s\n", compare_note(c, text));
    if (compare_note_clocks(c) != NULL)
        fprintf(out, "%s\n", compare_note_clocks(c));
    for (size_t i = 0; i < c->contestants.count; i++)
        if (compare_note_own_clock(c, i, text))
            fprintf(out, "%s\n", text);
}

bool compare_print(const struct comparison *c, FILE *out) {
    struct compare_sheet s;
    if (!compare_sheet_make(c, &s))
        return false;
    int width = name_width(c);
    bool good = print_words(c, &s, out);
    fputc('\n', out);
    compare_print_head(c, out);
    if (s.ranked != 0) {
        print_metric(c, &s, METRIC_TIME, width, out);
        print_parts(c, &s, width, out);
        print_metric(c, &s, METRIC_PEAK_RSS, width, out);
        if (comparison_is_clocked(c))
            print_metric(c, &s, METRIC_AVG_RSS, width, out);
        print_other_metrics(c, &s, width, out);
        fputc('\n', out);
    }
    print_excluded(c, out);
    print_machine(c, out);
    print_spread(c, &s, out);
    print_notes(c, out);
    compare_sheet_free(&s);
    return good;
}

/* --- The frontier --------------------------------------------------------- */

bool compare_print_frontier(const struct comparison *c, FILE *out) {
    bool *on = calloc(c->contestants.count, sizeof(*on));
    struct compare_sheet s;
    if (on == NULL || !compare_sheet_make(c, &s)) {
        free(on);
        return tool_out_of_memory();
    }
    compare_verdict_frontier(c, on);
    fprintf(out, "\nThe frontier of time and peak memory, beside %s\n",
            compare_contestant_shown(&c->contestants.list[c->baseline]));
    for (size_t k = 0; k < s.ranked; k++) {
        size_t i = s.order[k];
        const struct compare_contestant *entry = &c->contestants.list[i];
        if (!on[i])
            continue;
        fprintf(out,
                "  time %.3f, memory %.3f: ", s.verdict[i][METRIC_TIME].ratio,
                s.verdict[i][METRIC_PEAK_RSS].ratio);
        if (entry->library[0] == '\0' && entry->envs == 0)
            fputs("nothing to set", out);
        compare_contestant_put_environment(entry, out);
        fputc('\n', out);
        for (size_t e = 0; e < entry->envs; e++)
            if (tool_setting_meaning(entry->env[e]) != NULL)
                fprintf(out, "      %s\n", tool_setting_meaning(entry->env[e]));
    }
    compare_sheet_free(&s);
    free(on);
    return true;
}

/* --- JSON ----------------------------------------------------------------- */

static size_t count_runs(const struct comparison *c, size_t contestant) {
    size_t n = 0;
    for (size_t r = 1; r <= c->rounds; r++)
        for (size_t t = 0; t < c->traces; t++)
            n += comparison_run(c, r, t, contestant)->good;
    return n;
}

static void put_ratio(struct tool_json *j, const char *key, bool known,
                      double v) {
    if (known)
        tool_json_double(j, key, v);
    else
        tool_json_null(j, key);
}

static void put_time_parts(const struct comparison *c, size_t contestant,
                           struct tool_json *j) {
    struct compare_time_parts p;
    struct compare_system_cause why = {.of_difference = false};
    bool known = compare_verdict_parts(c, contestant, &p) && p.known;
    put_ratio(j, "user_ns_per_op", known, p.time - p.system);
    put_ratio(j, "system_ns_per_op", known, p.system);
    (void)compare_verdict_system_cause(c, contestant, &why);
    tool_json_bool(j, "differs_by_system_time", why.of_difference);
    tool_json_bool(j, "spread_is_system_time", why.of_spread);
}

static void put_contestants(const struct comparison *c, struct tool_json *j) {
    tool_json_begin_array(j, "contestants");
    for (size_t i = 0; i < c->contestants.count; i++) {
        const struct compare_contestant *entry = &c->contestants.list[i];
        const char *why = entry->why != NULL ? entry->why : entry->failure;
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "name", entry->name);
        tool_json_string(j, "library", entry->library);
        tool_json_string(j, "version", c->version[i]);
        tool_json_begin_array(j, "environment");
        for (size_t e = 0; e < entry->envs; e++)
            tool_json_string(j, NULL, entry->env[e]);
        tool_json_end_array(j);
        tool_json_bool(j, "wraps_c_library", entry->wraps);
        tool_json_bool(j, "ok", why == NULL);
        if (why == NULL)
            tool_json_null(j, "why");
        else
            tool_json_string(j, "why", why);
        TCM_ASSERT(count_runs(c, i) <= c->rounds * c->traces);
        tool_json_u64(j, "runs", count_runs(c, i));
        tool_json_u64(j, "failures", entry->failures);
        put_time_parts(c, i, j);
        double hours = compare_verdict_gb_hours(c, i);
        put_ratio(j, "gb_hours", !isnan(hours), hours);
        if (c->own_clock[i][0] == '\0')
            tool_json_null(j, "own_clock");
        else
            tool_json_string(j, "own_clock", c->own_clock[i]);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

static bool put_verdicts(const struct comparison *c, struct tool_json *j) {
    tool_json_begin_array(j, "verdicts");
    for (size_t i = 0; i < c->contestants.count; i++)
        for (int m = 0; i != c->baseline && m < METRICS; m++) {
            struct compare_verdict v;
            if (!compare_verdict_of(c, i, (enum compare_metric)m, &v))
                return false;
            if (!v.measured)
                continue;
            TCM_ASSERT(v.samples != 0 && (!v.has_interval || v.low <= v.high));
            tool_json_begin_object(j, NULL);
            tool_json_string(j, "contestant", c->contestants.list[i].name);
            tool_json_string(j, "metric", compare_metric[m].key);
            tool_json_double(j, "value", v.typical);
            tool_json_double(j, "baseline_value", v.baseline);
            put_ratio(j, "ratio", !v.of_none, v.ratio);
            put_ratio(j, "lo", v.has_interval && !v.of_none, v.low);
            put_ratio(j, "hi", v.has_interval && !v.of_none, v.high);
            tool_json_string(j, "verdict",
                             compare_verdict_text(&v, (enum compare_metric)m));
            put_ratio(j, "smallest_difference", v.has_interval, v.smallest);
            tool_json_u64(j, "samples", v.samples);
            tool_json_end_object(j);
        }
    tool_json_end_array(j);
    return true;
}

static void put_traces(const struct comparison *c, struct tool_json *j) {
    tool_json_begin_array(j, "traces");
    for (size_t t = 0; t < c->traces; t++) {
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "name", c->trace[t].name);
        tool_json_u64(j, "ops", c->trace[t].ops);
        tool_json_u64(j, "threads", c->trace[t].threads);
        tool_json_string(j, "mode", c->trace[t].mode);
        tool_json_string(j, "clock", c->trace[t].clock ? "recorded" : "real");
        tool_json_u64(j, "recordings", comparison_recordings(c, t));
        put_ratio(j, "recorded_ns", !isnan(c->trace[t].recorded_ns),
                  c->trace[t].recorded_ns);
        if (c->trace[t].untouched[0] != '\0')
            tool_json_string(j, "untouched", c->trace[t].untouched);
        tool_json_u64(j, "untraced_frees", c->trace[t].untraced_frees);
        double percent = compare_verdict_malloc_percent(c, t);
        put_ratio(j, "malloc_percent", !isnan(percent), percent);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

static void put_words(const struct comparison *c, struct tool_json *j) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return;
    (void)compare_print_words(c, f);
    if (fclose(f) == 0)
        tool_json_string(j, "words", text);
    free(text);
}

bool compare_json_put(const struct comparison *c, const char *key,
                      struct tool_json *j) {
    tool_json_begin_object(j, key);
    tool_json_string(j, "format", "malloc-trace comparison 1");
    tool_json_string(j, "command", c->command == NULL ? "" : c->command);
    tool_json_string(j, "baseline", c->contestants.list[c->baseline].name);
    tool_json_u64(j, "rounds", c->made);
    tool_json_double(j, "margin", c->margin);
    tool_json_double(j, "confidence", c->confidence);
    tool_json_bool(j, "interrupted", c->interrupted);
    bool good = compare_recommend_json(c, j);
    put_words(c, j);
    put_contestants(c, j);
    put_traces(c, j);
    good = good && put_verdicts(c, j) &&
           (!c->ran_program || compare_program_json(c, j));
    compare_machine_json(&c->machine, "machine", j);
    tool_json_begin_array(j, "disturbances");
    for (unsigned i = 0; i < c->disturbances.count; i++)
        tool_json_string(j, NULL, c->disturbances.text[i]);
    tool_json_end_array(j);
    if (c->program_skipped == NULL)
        tool_json_null(j, "program_skipped");
    else
        tool_json_string(j, "program_skipped", c->program_skipped);
    tool_json_bool(j, "clocks_examined", !c->clock_unknown);
    tool_json_u64(j, "runs_of_unlike_machines", c->unlike);
    tool_json_u64(j, "runs_of_other_versions", c->other_versions);
    tool_json_end_object(j);
    return good;
}

bool compare_json(const struct comparison *c, const char *path) {
    static struct tool_json j;
    if (!tool_json_open(&j, path))
        return false;
    bool good = compare_json_put(c, NULL, &j);
    return tool_json_close(&j) && good;
}

/* --- CSV ------------------------------------------------------------------ */

static void put_run(const struct comparison *c, FILE *f, size_t r, size_t t,
                    size_t i) {
    const struct compare_run *run = comparison_run(c, r, t, i);
    tool_csv_put_quoted(f, c->contestants.list[i].name);
    fputc(',', f);
    tool_csv_put_quoted(f, c->trace[t].name);
    fprintf(f, ",%zu,%s", r, run->good ? "true" : "false");
    for (int m = 0; m < METRICS; m++) {
        double v = compare_verdict_figure(c, r, t, i, (enum compare_metric)m);
        fputc(',', f);
        if (!isnan(v))
            fprintf(f, "%.17g", v);
    }
    if (run->good)
        fprintf(f, ",%.17g\n", c->trace[t].own_ns);
    else
        fputs(",\n", f);
}

bool compare_csv(const struct comparison *c, const char *path) {
    FILE *f = tool_file_stream(path);
    if (f == NULL)
        return false;
    fputs("contestant,trace,round,ok", f);
    for (int m = 0; m < METRICS; m++)
        fprintf(f, ",%s", compare_metric[m].key);
    fputs(",replayer_ns_per_op\n", f);
    for (size_t r = 1; r <= c->rounds; r++)
        for (size_t t = 0; t < c->traces; t++)
            for (size_t i = 0; i < c->contestants.count; i++)
                if (comparison_run(c, r, t, i)->there)
                    put_run(c, f, r, t, i);
    return tool_file_stream_end(f, path);
}
