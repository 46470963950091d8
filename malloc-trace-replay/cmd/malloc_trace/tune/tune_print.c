/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/tune/tune_outcome.h"

#include "base/check.h"
#include "cmd/malloc_trace/compare/compare_print.h"
#include "cmd/malloc_trace/compare/compare_traces.h"
#include "common/files.h"
#include "common/json.h"
#include "common/main.h"
#include "common/text.h"
#include "pages/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Points of the table on a terminal, and on a page. */
enum { TABLE_ROWS = 10, PAGE_ROWS = 100 };

static const char *name_of(const struct tune_outcome *o, size_t candidate,
                           char name[TUNE_NAME]) {
    return tune_point_name(&o->runs->space,
                           &tune_search_at(o->search, candidate)->point, name);
}

static const char *default_name(const struct tune_outcome *o) {
    return o->runs->space.allocator[0].name;
}

/* Ratio of a candidate over the runs of the search. */
static double searched(const struct tune_outcome *o, size_t candidate,
                       enum tune_goal goal) {
    char name[TUNE_NAME];
    return tune_runs_ratio(o->runs, name_of(o, candidate, name), goal);
}

static bool has_money(const struct tune_outcome *o) {
    return o->runs->gb_month > 0 || o->runs->cpu_hour > 0;
}

static int quantities(const struct tune_outcome *o) {
    return has_money(o) ? TUNE_GOALS : TUNE_COST;
}

/* --- Numbers -------------------------------------------------------------- */

static const char *figure_text(char text[40], enum tune_goal goal, double v) {
    struct tool_text t;
    if (isnan(v))
        snprintf(text, 40, "-");
    else if (goal == TUNE_TIME)
        snprintf(text, 40, "%.1f ns", v);
    else if (goal == TUNE_COST)
        snprintf(text, 40, "%.4g a month", v);
    else
        snprintf(text, 40, "%s", tool_text_bytes(&t, tool_text_whole(v)));
    return text;
}

static const char *ratio_text(char text[16], double ratio) {
    if (isnan(ratio))
        snprintf(text, 16, "-");
    else
        snprintf(text, 16, "%.3f", fmin(ratio, 9999));
    return text;
}

static const char *range_text(char text[48], const struct compare_range *r) {
    if (!r->known)
        snprintf(text, 48, "-");
    else if (r->has_interval)
        snprintf(text, 48, "%.3f (%.3f to %.3f)", fmin(r->ratio, 999),
                 fmin(r->low, 999), fmin(r->high, 999));
    else
        snprintf(text, 48, "%.3f", fmin(r->ratio, 999));
    return text;
}

/* "12.3 % less", "4.1 % more". */
static const char *change_text(char text[32], double ratio) {
    snprintf(text, 32, "%.1f %% %s", 100 * fabs(ratio - 1),
             ratio < 1 ? "less" : "more");
    return text;
}

/* --- The answer ----------------------------------------------------------- */

static void print_proposal(const struct tune_outcome *o, FILE *out) {
    char name[TUNE_NAME], change[3][32];
    const struct tune_verdict *v = &o->verdict[o->proposed];
    enum tune_goal goal = o->runs->goal, guarded = tune_runs_guarded(o->runs);
    const struct compare_range *r = &v->of[goal];
    fprintf(out, "Set %s: %s %s than %s (%.1f to %.1f %%)",
            tool_text_shown(name_of(o, o->finalist[o->proposed], name)),
            change_text(change[0], r->ratio), tune_goal_title[goal],
            tool_text_shown(default_name(o)), 100 * (1 - r->high),
            100 * (1 - r->low));
    if (guarded != TUNE_GOALS && v->of[guarded].known)
        fprintf(out, "; %s %s", change_text(change[1], v->of[guarded].ratio),
                tune_goal_title[guarded]);
    if (guarded == TUNE_TIME && v->of[guarded].known)
        fprintf(out, ", %s of the program's time%s",
                change_text(change[2], tune_runs_program_ratio(
                                           o->runs, v->of[guarded].ratio)),
                o->runs->rest_assumed ? " if malloc is a tenth of it" : "");
    fputs(".\n", out);
}

/* Tells whether the best point gains enough, and is not proposed for what it
   takes of the guarded quantity. */
static bool best_takes_too_much(const struct tune_outcome *o) {
    const struct compare_range *r = &o->verdict[0].of[o->runs->goal];
    return o->judged && o->finalists != 0 && o->proposed == SIZE_MAX &&
           r->has_interval && r->ratio <= 1 - o->margin && r->high < 1 &&
           tune_runs_guarded(o->runs) != TUNE_GOALS;
}

/* Says what the best point takes too much of. */
static void print_price(const struct tune_outcome *o, FILE *out) {
    enum tune_goal guarded = tune_runs_guarded(o->runs);
    double ratio = o->verdict[0].of[guarded].ratio;
    char change[32];
    if (guarded == TUNE_TIME)
        ratio = tune_runs_program_ratio(o->runs, ratio);
    fprintf(out, "It takes %s %s; --most-loss allows %g %%.\n",
            change_text(change, ratio),
            guarded == TUNE_TIME ? "of the program's time"
                                 : tune_goal_title[guarded],
            100 * o->runs->most_loss);
}

static void print_best(const struct tune_outcome *o, FILE *out) {
    char name[TUNE_NAME], change[32];
    if (o->finalists == 0)
        return;
    size_t best = o->finalist[0];
    double ratio = o->judged ? o->verdict[0].of[o->runs->goal].ratio
                             : searched(o, best, o->runs->goal);
    fprintf(out, "The best of %zu points is %s: %s %s", o->ranked,
            tool_text_shown(name_of(o, best, name)), change_text(change, ratio),
            tune_goal_title[o->runs->goal]);
    fputs(o->judged ? ", in fresh runs.\n"
                    : ", in the runs that chose it; no fresh runs were made.\n",
          out);
    if (best_takes_too_much(o))
        print_price(o, out);
}

static void print_choice(const struct tune_outcome *o, FILE *out) {
    if (o->proposed != SIZE_MAX) {
        print_proposal(o, out);
        return;
    }
    if (o->finalists == 0 && !o->interrupted)
        fprintf(out, "No other point than %s had figures.\n",
                tool_text_shown(default_name(o)));
    else if (best_takes_too_much(o))
        fprintf(out, "Stay with %s: what beats it takes too much %s.\n",
                tool_text_shown(default_name(o)),
                tune_runs_guarded(o->runs) == TUNE_TIME
                    ? "time"
                    : tune_goal_title[tune_runs_guarded(o->runs)]);
    else if (o->judged)
        fprintf(out, "Nothing beats %s by more than %g %%.\n",
                tool_text_shown(default_name(o)), 100 * o->margin);
    else
        fputs("The search was interrupted.\n", out);
    print_best(o, out);
}

static void print_answer(const struct tune_outcome *o, FILE *out) {
    print_choice(o, out);
    compare_print_untouched(&o->runs->base, out);
}

/* --- Lines to paste ------------------------------------------------------- */

static const struct compare_contestant *library_of(const struct tune_outcome *o,
                                                   const struct tune_point *p) {
    return &o->runs->base.contestants.list[o->runs->contestant[p->allocator]];
}

/* Puts words for a shell that set the point P: a library that the program is
   linked with is not preloaded, and the C library goes before it by
   LD_PRELOAD. */
static void put_environment(const struct tune_outcome *o,
                            const struct tune_point *p, FILE *out) {
    struct comparison c;
    const char *origin = "";
    const char *own = compare_traces_allocator(&o->runs->base, &origin);
    bool is_own = compare_traces_has_own(&o->runs->base, library_of(o, p));
    if (tune_runs_compare(o->runs, &o->runs->base, p, 1, &c)) {
        struct compare_contestant *entry = &c.contestants.list[0];
        if (own != NULL && entry->library[0] == '\0' && *origin == 'l')
            fputs("LD_PRELOAD=libc.so.6 ", out);
        if (is_own && *origin != 'p')
            entry->library[0] = '\0';
        compare_contestant_put_environment(entry, out);
    }
    comparison_free(&c);
}

/* Says how the lines reach a program that has an allocator of its own. */
static void put_applies(const struct tune_outcome *o,
                        const struct tune_point *p, FILE *out) {
    const char *origin,
        *own = compare_traces_allocator(&o->runs->base, &origin);
    if (own == NULL || compare_traces_has_own(&o->runs->base, library_of(o, p)))
        return;
    fprintf(out, "\nThe program has %s ", tool_text_shown(own));
    fputs(*origin == 'l' ? "linked: LD_PRELOAD goes before it.\n"
          : *origin == 'p'
              ? "preloaded: take it out of LD_PRELOAD.\n"
              : "in its own file, which LD_PRELOAD does not replace: link the "
                "other one instead.\n",
          out);
}

/* Puts the settings of jemalloc as the string that it reads in a program. */
static bool put_malloc_conf(const struct tune_outcome *o,
                            const struct tune_point *p, FILE *out) {
    static const char variable[] = "MALLOC_CONF=";
    const struct tune_allocator *a = &o->runs->space.allocator[p->allocator];
    char text[TUNE_TEXT];
    bool any = false;
    for (unsigned d = 0; d < a->dimensions; d++) {
        if (!tune_point_has(p, d))
            continue;
        tune_point_setting(&o->runs->space, p, d, text);
        if (strncmp(text, variable, strlen(variable)) != 0)
            continue;
        fprintf(out, "%s%s", any ? "," : "    const char *malloc_conf = \"",
                text + strlen(variable));
        any = true;
    }
    fputs(any ? "\";\n" : "", out);
    return any;
}

/* Puts the calls of C that make the settings of P. */
static bool put_calls(const struct tune_outcome *o, const struct tune_point *p,
                      FILE *out) {
    const struct tune_allocator *a = &o->runs->space.allocator[p->allocator];
    char text[TUNE_TEXT];
    bool any = false;
    for (unsigned d = 0; d < a->dimensions; d++) {
        const char *call = a->dimension[d].setting->call;
        if (!tune_point_has(p, d) || call == NULL)
            continue;
        size_t before = strcspn(call, "$");
        fprintf(out, "    %.*s%s%s\n", (int)before, call,
                tune_point_value(&o->runs->space, p, d, text),
                call + before + 1);
        any = true;
    }
    for (unsigned d = 0; any && d < a->dimensions; d++)
        if (tune_point_has(p, d) && a->dimension[d].setting->call == NULL) {
            tune_point_setting(&o->runs->space, p, d, text);
            fprintf(out, "    /* in the environment alone: %s */\n", text);
        }
    return any;
}

static void print_lines(const struct tune_outcome *o, FILE *out) {
    if (o->finalists == 0 || (o->judged && o->proposed == SIZE_MAX))
        return;
    const struct tune_point *p =
        &tune_search_at(o->search, o->finalist[tune_outcome_shown(o)])->point;
    char *text = NULL;
    size_t size;
    fputs("\n    ", out);
    put_environment(o, p, out);
    fputs("COMMAND\n", out);
    put_applies(o, p, out);
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return;
    bool any = put_malloc_conf(o, p, f);
    any |= put_calls(o, p, f);
    if (fclose(f) == 0 && any)
        fprintf(out, "\nor in a program in C that is linked with it:\n\n%s",
                text);
    free(text);
}

/* --- Tables --------------------------------------------------------------- */

static void print_verdict(const struct tune_outcome *o, const char *title,
                          const struct tune_verdict *v, FILE *out) {
    char text[3][48];
    fprintf(out, "\n%s\n%-16s%14s%14s   %s\n", title, "", "default", "point",
            "ratio (39 of 40 times)");
    for (int g = 0; g < quantities(o); g++)
        fprintf(out, "  %-14s%14s%14s   %s\n", tune_goal_title[g],
                figure_text(text[0], (enum tune_goal)g, v->baseline[g]),
                figure_text(text[1], (enum tune_goal)g, v->figure[g]),
                range_text(text[2], &v->of[g]));
}

static void print_runner_up(const struct tune_outcome *o, FILE *out) {
    char name[TUNE_NAME], text[48];
    if (o->finalists < 2 || !o->judged)
        return;
    size_t other = 1 - tune_outcome_shown(o);
    fprintf(out, "\nThe runner-up, %s, has %s of the default's %s: ",
            tool_text_shown(name_of(o, o->finalist[other], name)),
            range_text(text, &o->verdict[other].of[o->runs->goal]),
            tune_goal_title[o->runs->goal]);
    fputs(o->apart_shown ? "the two are told apart.\n"
                         : "the two are not told apart.\n",
          out);
}

#define HOLDOUT "On traces that the search did not see"

static const char *holdout_text(const struct tune_outcome *o) {
    const struct compare_range *r = &o->holdout.of[o->runs->goal];
    return r->has_interval && r->high < 1 ? "There it is better, too."
           : r->has_interval && r->low > 1
               ? "There it is worse: the settings fit the searched traces only."
               : "There no gain is shown.";
}

/* Title of the fresh runs. */
static const char *fresh_title(const struct tune_outcome *o,
                               char title[2 * TUNE_NAME + 80]) {
    char name[TUNE_NAME];
    name_of(o, o->finalist[tune_outcome_shown(o)], name);
    snprintf(title, 2 * TUNE_NAME + 80, "Fresh runs of %s beside %s",
             tool_text_shown(name), tool_text_shown(default_name(o)));
    return title;
}

static void print_judgement(const struct tune_outcome *o, FILE *out) {
    char title[2 * TUNE_NAME + 80];
    if (!o->judged || o->finalists == 0)
        return;
    print_verdict(o, fresh_title(o, title), &o->verdict[tune_outcome_shown(o)],
                  out);
    if (!o->has_holdout)
        return;
    print_verdict(o, HOLDOUT, &o->holdout, out);
    fprintf(out, "%s\n", holdout_text(o));
}

/* Tells whether the program is shown to be farther from what was predicted than
   a difference that matters. */
static bool is_unforeseen(const struct tune_outcome *o,
                          const struct compare_effect *e) {
    return compare_effect_is_contradicted(e) &&
           fabs(e->measured.ratio - e->predicted.ratio) > o->margin;
}

static const char *const program_title[TUNE_PROGRAM_QUANTITIES] = {
    "mean memory", "peak memory", "processor time"};

static void print_program(const struct tune_outcome *o, FILE *out) {
    char text[2][48];
    if (!o->ran_program)
        return;
    fprintf(out, "\nThe program itself\n%-16s%26s   %s\n", "", "predicted",
            "measured");
    for (int q = 0; q < TUNE_PROGRAM_QUANTITIES; q++)
        fprintf(out, "  %-14s%26s   %s%s\n", program_title[q],
                range_text(text[0], &o->program[q].predicted),
                range_text(text[1], &o->program[q].measured),
                is_unforeseen(o, &o->program[q]) ? "  not as predicted" : "");
}

/* Prints a row with the figures of the search. */
static void print_row(const struct tune_outcome *o, size_t candidate,
                      FILE *out) {
    char name[TUNE_NAME], text[TUNE_GOALS][16];
    for (int g = 0; g < quantities(o); g++)
        fprintf(out, "%8s",
                ratio_text(text[g], searched(o, candidate, (enum tune_goal)g)));
    fprintf(out, "%6u  %s\n", tune_search_at(o->search, candidate)->runs,
            tool_text_shown(name_of(o, candidate, name)));
}

static void print_heads(const struct tune_outcome *o, FILE *out) {
    for (int g = 0; g < quantities(o); g++)
        fprintf(out, "%8s", tune_goal_name[g]);
    fputs("  runs\n", out);
}

static void print_table(const struct tune_outcome *o, FILE *out) {
    struct tool_text t[2];
    fprintf(out,
            "\nThe best of %s points, in %s rounds; ratios of the runs that "
            "chose them\n",
            tool_text_count(&t[0], o->ranked),
            tool_text_count(&t[1], o->runs->rounds));
    print_heads(o, out);
    for (size_t i = 0; i < o->ranked && i < TABLE_ROWS; i++)
        print_row(o, o->order[i], out);
}

/* --- The best of each allocator ------------------------------------------- */

/* Counts a setting as this part of the goal: of two points that are alike, the
   simpler one is shown. */
#define SETTING_PART 0.001

/* Returns the candidate of an allocator that is best in the goal alone;
   SIZE_MAX: none has figures. */
static size_t best_of(const struct tune_outcome *o, uint32_t allocator) {
    size_t best = SIZE_MAX;
    double least = INFINITY;
    for (size_t i = 0; i < o->ranked; i++) {
        const struct tune_point *p =
            &tune_search_at(o->search, o->order[i])->point;
        double cost = searched(o, o->order[i], o->runs->goal) *
                      (1 + SETTING_PART * __builtin_popcount(p->set));
        if (p->allocator == allocator && cost < least) {
            least = cost;
            best = o->order[i];
        }
    }
    return best;
}

/* Prints a point's gain in the goal, and what it costs. */
static void print_cost(const struct tune_outcome *o, size_t candidate,
                       FILE *out) {
    char name[TUNE_NAME], change[32];
    const char *sign = ": ";
    name_of(o, candidate, name);
    fprintf(out, "  %s", tool_text_shown(name));
    for (int g = 0; g < TUNE_COST; g++) {
        double ratio = searched(o, candidate, (enum tune_goal)g);
        if (isnan(ratio) || (g == TUNE_PEAK && o->runs->goal != TUNE_PEAK) ||
            (g == TUNE_MEMORY && o->runs->goal == TUNE_PEAK))
            continue;
        fprintf(out, "%s%s %s", sign, change_text(change, ratio),
                tune_goal_title[g]);
        sign = ", ";
    }
    double loss = tune_runs_loss(o->runs, name);
    if (tune_runs_guarded(o->runs) == TUNE_TIME && !isnan(loss))
        fprintf(out, ", %s of the program's", change_text(change, loss));
    fputs(tune_runs_is_within(o->runs, name)
              ? "\n"
              : "; more than --most-loss allows\n",
          out);
}

static void print_allocators(const struct tune_outcome *o, FILE *out) {
    fprintf(out,
            "\nThe least %s of each allocator, and what that takes, in runs "
            "of the search\n",
            tune_goal_title[o->runs->goal]);
    for (uint32_t a = 0; a < o->runs->space.allocators; a++) {
        size_t best = best_of(o, a);
        if (best != SIZE_MAX && best != 0)
            print_cost(o, best, out);
    }
}

/* --- The frontier --------------------------------------------------------- */

/* Tells whether no other candidate has both less memory and less time. */
static bool is_on_frontier(const double *memory, const double *time, size_t n,
                           size_t i) {
    if (isnan(memory[i]) || isnan(time[i]))
        return false;
    for (size_t k = 0; k < n; k++)
        if (memory[k] <= memory[i] && time[k] <= time[i] &&
            (memory[k] < memory[i] || time[k] < time[i]))
            return false;
    return true;
}

/* Memory, time and membership of each ranked candidate. */
struct frontier {
    double *memory, *time;
    bool *on;
};

/* The memory of the frontier is the goal's: of the peak, or the mean. */
static enum tune_goal frontier_memory(const struct tune_outcome *o) {
    return o->runs->goal == TUNE_PEAK ? TUNE_PEAK : TUNE_MEMORY;
}

static bool frontier_make(const struct tune_outcome *o, struct frontier *f) {
    f->memory = calloc(2 * o->ranked + 1, sizeof(double));
    f->on = calloc(o->ranked + 1, sizeof(bool));
    if (f->memory == NULL || f->on == NULL) {
        free(f->memory);
        free(f->on);
        return tool_out_of_memory();
    }
    f->time = f->memory + o->ranked;
    for (size_t i = 0; i < o->ranked; i++) {
        f->memory[i] = searched(o, o->order[i], frontier_memory(o));
        f->time[i] = searched(o, o->order[i], TUNE_TIME);
    }
    for (size_t i = 0; i < o->ranked; i++)
        f->on[i] = is_on_frontier(f->memory, f->time, o->ranked, i);
    return true;
}

static void frontier_free(struct frontier *f) {
    free(f->memory);
    free(f->on);
}

static void print_frontier(const struct tune_outcome *o, FILE *out) {
    struct frontier f;
    if (!frontier_make(o, &f))
        return;
    fprintf(out,
            "\nThe frontier: none has both less %s and less time in malloc\n",
            tune_goal_title[frontier_memory(o)]);
    print_heads(o, out);
    for (size_t i = 0; i < o->ranked; i++)
        if (f.on[i])
            print_row(o, o->order[i], out);
    frontier_free(&f);
}

void tune_print(const struct tune_outcome *o, FILE *out) {
    print_answer(o, out);
    print_lines(o, out);
    print_judgement(o, out);
    print_runner_up(o, out);
    print_program(o, out);
    if (o->ranked > 1) {
        print_allocators(o, out);
        print_table(o, out);
        print_frontier(o, out);
    }
    if (o->runs->failures != 0)
        fprintf(out, "\n%llu runs had no figures, the first of %s\n",
                (unsigned long long)o->runs->failures,
                tool_text_shown(o->runs->failure));
    for (unsigned i = 0; i < o->disturbances.count; i++)
        fprintf(out, "disturbed: %s\n",
                tool_text_shown(o->disturbances.text[i]));
}

/* --- JSON ----------------------------------------------------------------- */

/* Returns what PRINT prints, which the caller frees. NULL: out of memory. */
static char *printed(const struct tune_outcome *o,
                     void (*print)(const struct tune_outcome *o, FILE *out)) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return NULL;
    print(o, f);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

/* Puts what PRINT prints as a text. */
static void json_text(struct tool_json *j, const char *key,
                      const struct tune_outcome *o,
                      void (*print)(const struct tune_outcome *o, FILE *out)) {
    char *text = printed(o, print);
    if (text != NULL)
        tool_json_string(j, key, text);
    free(text);
}

static void json_range(struct tool_json *j, const struct compare_range *r) {
    if (r->known)
        tool_json_double(j, "ratio", r->ratio);
    else
        tool_json_null(j, "ratio");
    if (r->has_interval) {
        tool_json_double(j, "lo", r->low);
        tool_json_double(j, "hi", r->high);
    } else {
        tool_json_null(j, "lo");
        tool_json_null(j, "hi");
    }
}

static void json_verdict(const struct tune_outcome *o, struct tool_json *j,
                         const char *key, const struct tune_verdict *v) {
    tool_json_begin_array(j, key);
    for (int g = 0; g < quantities(o); g++) {
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "quantity", tune_goal_name[g]);
        tool_json_double(j, "value", v->figure[g]);
        tool_json_double(j, "default_value", v->baseline[g]);
        json_range(j, &v->of[g]);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

/* Puts a point: its name, library and environment. */
static void json_point(const struct tune_outcome *o, struct tool_json *j,
                       size_t candidate) {
    struct comparison c;
    char name[TUNE_NAME];
    const struct tune_point *p = &tune_search_at(o->search, candidate)->point;
    tool_json_string(j, "name", name_of(o, candidate, name));
    tool_json_string(j, "library", library_of(o, p)->library);
    tool_json_begin_array(j, "environment");
    if (tune_runs_compare(o->runs, &o->runs->base, p, 1, &c))
        for (size_t e = 0; e < c.contestants.list[0].envs; e++)
            tool_json_string(j, NULL, c.contestants.list[0].env[e]);
    comparison_free(&c);
    tool_json_end_array(j);
}

/* Puts the ratios of the runs of the search. */
static void json_ratios(const struct tune_outcome *o, struct tool_json *j,
                        size_t candidate) {
    for (int g = 0; g < quantities(o); g++)
        tool_json_double(j, tune_goal_name[g],
                         searched(o, candidate, (enum tune_goal)g));
}

static void json_finalists(const struct tune_outcome *o, struct tool_json *j) {
    tool_json_begin_array(j, "finalists");
    for (size_t i = 0; i < o->finalists; i++) {
        tool_json_begin_object(j, NULL);
        json_point(o, j, o->finalist[i]);
        tool_json_bool(j, "proposed", o->proposed == i);
        if (o->judged)
            json_verdict(o, j, "fresh", &o->verdict[i]);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

static void json_allocators(const struct tune_outcome *o, struct tool_json *j) {
    char name[TUNE_NAME];
    tool_json_begin_array(j, "allocators");
    for (uint32_t a = 0; a < o->runs->space.allocators; a++) {
        size_t best = best_of(o, a);
        if (best == SIZE_MAX)
            continue;
        tool_json_begin_object(j, NULL);
        json_point(o, j, best);
        json_ratios(o, j, best);
        tool_json_bool(j, "within_loss",
                       tune_runs_is_within(o->runs, name_of(o, best, name)));
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

static void json_points(const struct tune_outcome *o, struct tool_json *j) {
    struct frontier f;
    tool_json_begin_array(j, "points");
    if (frontier_make(o, &f)) {
        for (size_t i = 0; i < o->ranked; i++) {
            tool_json_begin_object(j, NULL);
            json_point(o, j, o->order[i]);
            tool_json_u64(j, "runs",
                          tune_search_at(o->search, o->order[i])->runs);
            json_ratios(o, j, o->order[i]);
            tool_json_bool(j, "frontier", f.on[i]);
            tool_json_end_object(j);
        }
        frontier_free(&f);
    }
    tool_json_end_array(j);
}

static void json_program(const struct tune_outcome *o, struct tool_json *j) {
    static const char *const key[TUNE_PROGRAM_QUANTITIES] = {"memory", "peak",
                                                             "time"};
    tool_json_begin_array(j, "program");
    for (int q = 0; q < TUNE_PROGRAM_QUANTITIES; q++) {
        tool_json_begin_object(j, NULL);
        tool_json_string(j, "quantity", key[q]);
        tool_json_double(j, "default_value", o->program[q].base);
        if (o->program[q].predicted.known)
            tool_json_double(j, "predicted_ratio",
                             o->program[q].predicted.ratio);
        else
            tool_json_null(j, "predicted_ratio");
        json_range(j, &o->program[q].measured);
        tool_json_end_object(j);
    }
    tool_json_end_array(j);
}

static void put_outcome(const struct tune_outcome *o, struct tool_json *j,
                        const char *key) {
    tool_json_begin_object(j, key);
    tool_json_string(j, "format", "malloc-trace tune 1");
    tool_json_string(j, "goal", tune_goal_name[o->runs->goal]);
    tool_json_string(j, "default", default_name(o));
    tool_json_u64(j, "seed", o->runs->seed);
    tool_json_u64(j, "rounds", o->runs->rounds);
    tool_json_u64(j, "replays", o->runs->replays);
    tool_json_u64(j, "elapsed_ns", o->elapsed_ns);
    tool_json_double(j, "margin", o->margin);
    tool_json_bool(j, "interrupted", o->interrupted);
    tool_json_bool(j, "judged", o->judged);
    tool_json_u64(j, "failures", o->runs->failures);
    json_text(j, "answer", o, print_answer);
    json_text(j, "lines", o, print_lines);
    json_finalists(o, j);
    tool_json_bool(j, "told_apart", o->apart_shown);
    if (o->has_holdout)
        json_verdict(o, j, "holdout", &o->holdout);
    if (o->ran_program)
        json_program(o, j);
    json_allocators(o, j);
    json_points(o, j);
    compare_machine_json(&o->runs->base.machine, "machine", j);
    tool_json_begin_array(j, "disturbances");
    for (unsigned i = 0; i < o->disturbances.count; i++)
        tool_json_string(j, NULL, o->disturbances.text[i]);
    tool_json_end_array(j);
    tool_json_end_object(j);
}

bool tune_json(const struct tune_outcome *o, const char *path) {
    static struct tool_json j;
    if (!tool_json_open(&j, path))
        return false;
    put_outcome(o, &j, NULL);
    return tool_json_close(&j);
}

/* --- The page ------------------------------------------------------------- */

static const char *tick_ratio(char text[32], double v) {
    snprintf(text, 32, "%.3g", v);
    return text;
}

/* Puts what PRINT prints into an element of class or attribute ATTRIBUTES. */
static void put_printed(struct page_writer *p, const struct tune_outcome *o,
                        const char *open, const char *close,
                        void (*print)(const struct tune_outcome *o,
                                      FILE *out)) {
    char *text = printed(o, print);
    if (text != NULL && text[0] != '\0') {
        page_put(p, open);
        page_text(p, text + strspn(text, "\n"));
        page_put(p, close);
    }
    free(text);
}

static void axis_over(struct plot_axis *a, const double *v, size_t n) {
    double low = 1, high = 1;
    for (size_t i = 0; i < n; i++)
        if (v[i] > 0 && v[i] < 1e6) {
            low = fmin(low, v[i]);
            high = fmax(high, v[i]);
        }
    plot_axis_log(a, low / 1.05, high * 1.05);
}

static void put_dot(struct page_writer *p, const struct tune_outcome *o,
                    size_t i, double x, double y, bool on) {
    char name[TUNE_NAME];
    size_t candidate = o->order[i];
    uint32_t a = tune_search_at(o->search, candidate)->point.allocator;
    page_putf(p,
              "<g class=\"w w%u k%u\"><circle cx=\"%.2f%%\" cy=\"%.2f%%\" "
              "r=\"%d\"><title>",
              a, candidate == 0 ? 0 : 1 + a % 7, x, 100 - y, on ? 7 : 4);
    page_text(p, name_of(o, candidate, name));
    page_putf(p, "\nmemory %.3f\ntime %.3f</title></circle></g>\n",
              searched(o, candidate, frontier_memory(o)),
              searched(o, candidate, TUNE_TIME));
}

/* Draws every point, time against memory. */
static void put_scatter(struct page_writer *p, const struct tune_outcome *o) {
    struct plot_axis x, y;
    struct frontier f;
    if (!frontier_make(o, &f))
        return;
    axis_over(&x, f.time, o->ranked);
    axis_over(&y, f.memory, o->ranked);
    page_put(p, "<figure class=\"card\">\n<figcaption><h2>Every point that "
                "was tried</h2><p class=\"note\">Ratios to ");
    page_text(p, default_name(o));
    page_put(p, ", of the runs that chose them; down and to the left is "
                "better. Large dots are on the frontier.</p></figcaption>\n");
    plot_begin(p, "", "Time against memory of every point", "");
    plot_x(p, &x, tick_ratio, "time in malloc");
    plot_y(p, &y, tick_ratio, tune_goal_title[frontier_memory(o)]);
    for (size_t i = o->ranked; i-- > 0;)
        if (f.time[i] > 0 && f.time[i] < 1e6 && f.memory[i] > 0 &&
            f.memory[i] < 1e6)
            put_dot(p, o, i, plot_axis_at(&x, f.time[i]),
                    plot_axis_at(&y, f.memory[i]), f.on[i]);
    plot_end(p);
    page_put(p, "</figure>\n<ul class=\"key\" aria-label=\"Allocators\">\n");
    for (uint32_t a = 0; a < o->runs->space.allocators; a++) {
        page_putf(p, "<li class=\"w w%u k%u\">", a, 1 + a % 7);
        page_text(p, o->runs->space.allocator[a].name);
        page_put(p, "</li>\n");
    }
    page_put(p, "</ul>\n");
    frontier_free(&f);
}

/* Begins a table of ratios, whose last column may wrap on a narrow screen. */
static void begin_ratios(struct page_writer *p, const char *title,
                         const char *heads) {
    page_element(p, "p", title);
    page_put(p, "<table>\n<thead><tr><th scope=\"col\"></th>");
    page_put(p, heads);
    page_put(p, "</tr></thead>\n<tbody>\n");
}

static void put_verdict(struct page_writer *p, const struct tune_outcome *o,
                        const char *title, const struct tune_verdict *v) {
    char text[48];
    begin_ratios(p, title,
                 "<th>default</th><th>point</th><th>ratio (39 of 40 "
                 "times)</th>");
    for (int g = 0; g < quantities(o); g++) {
        enum tune_goal goal = (enum tune_goal)g;
        page_put(p, "<tr>");
        page_element(p, "td", tune_goal_title[g]);
        page_element(p, "td", figure_text(text, goal, v->baseline[g]));
        page_element(p, "td", figure_text(text, goal, v->figure[g]));
        page_element(p, "td", range_text(text, &v->of[g]));
        page_put(p, "</tr>\n");
    }
    page_put(p, "</tbody>\n</table>\n");
}

static void put_judgement(struct page_writer *p, const struct tune_outcome *o) {
    char title[2 * TUNE_NAME + 80];
    page_put(p, "<section class=\"card\"><h2>How sure that is</h2>\n");
    put_verdict(p, o, fresh_title(o, title),
                &o->verdict[tune_outcome_shown(o)]);
    if (o->has_holdout) {
        put_verdict(p, o, HOLDOUT, &o->holdout);
        page_element(p, "p", holdout_text(o));
    }
    put_printed(p, o, "<p class=\"note below\">", "</p>\n", print_runner_up);
    page_put(p, "</section>\n");
}

static void put_program(struct page_writer *p, const struct tune_outcome *o) {
    char text[80];
    page_put(p, "<section class=\"card\"><h2>The program itself</h2>\n");
    begin_ratios(p, "Ratios to the default",
                 "<th>predicted</th><th>measured</th>");
    for (int q = 0; q < TUNE_PROGRAM_QUANTITIES; q++) {
        page_put(p, "<tr>");
        page_element(p, "td", program_title[q]);
        page_element(p, "td", range_text(text, &o->program[q].predicted));
        range_text(text, &o->program[q].measured);
        if (is_unforeseen(o, &o->program[q]))
            strcat(text, ", not as predicted");
        page_element(p, "td", text);
        page_put(p, "</tr>\n");
    }
    page_put(p, "</tbody>\n</table></section>\n");
}

static void put_rows(struct page_writer *p, const struct tune_outcome *o) {
    char text[16], name[TUNE_NAME];
    page_put(p, "<section class=\"card long\">\n<h2>The best points</h2>\n"
                "<div class=\"scroll\"><table>\n<thead><tr><th "
                "scope=\"col\">point</th>");
    for (int g = 0; g < quantities(o); g++)
        page_element(p, "th", tune_goal_title[g]);
    page_put(p, "<th>runs</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < o->ranked && i < PAGE_ROWS; i++) {
        page_put(p, "<tr><td class=\"name\">");
        page_text(p, name_of(o, o->order[i], name));
        page_put(p, "</td>");
        for (int g = 0; g < quantities(o); g++)
            page_element(
                p, "td",
                ratio_text(text, searched(o, o->order[i], (enum tune_goal)g)));
        page_putf(p, "<td>%u</td></tr>\n",
                  tune_search_at(o->search, o->order[i])->runs);
    }
    page_put(p, "</tbody>\n</table></div>\n</section>\n");
}

bool tune_page(const struct tune_outcome *o, const char *path,
               const char *command) {
    static struct page_writer page;
    struct page_writer *p = &page;
    if (!page_open(p, path, "Settings of malloc"))
        return false;
    page_put(p, "<header>\n<h1>Which settings serve ");
    if (o->runs->base.traces == 1)
        page_text(p, o->runs->base.trace[0].name);
    else
        page_putf(p, "these %zu traces", o->runs->base.traces);
    page_put(p, " best?</h1>\n</header>\n");
    put_printed(p, o, "<section class=\"card lead\"><p>", "</p></section>\n",
                print_answer);
    put_printed(p, o,
                "<section class=\"card\"><h2>To set it</h2><pre data-copy>",
                "</pre></section>\n", print_lines);
    if (o->ranked > 1)
        put_printed(p, o,
                    "<section class=\"card\"><h2>Each allocator</h2><pre>",
                    "</pre></section>\n", print_allocators);
    if (o->ranked != 0)
        put_scatter(p, o);
    if (o->judged && o->finalists != 0)
        put_judgement(p, o);
    if (o->ran_program)
        put_program(p, o);
    if (o->ranked != 0)
        put_rows(p, o);
    page_put(p, "<section class=\"card\">\n<h2>To repeat it</h2>\n"
                "<pre data-copy>");
    page_text(p, command);
    page_put(p, "</pre>\n</section>\n");
    struct tool_json *j = page_data(p);
    tool_json_begin_object(j, NULL);
    put_outcome(o, j, "tune");
    tool_json_end_object(j);
    page_data_end(p);
    return page_close(p, true);
}
