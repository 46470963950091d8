/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_recommend.h"

#include "base/check.h"
#include "cmd/malloc_trace/compare/compare_verdict.h"
#include "common/main.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Prospects ------------------------------------------------------------ */

/* Tells whether an effect is that on runs of the program. */
static bool is_measured(const struct compare_effect *e) {
    return compare_effect_is_contradicted(e) ||
           (!e->predicted.has_interval && e->measured.has_interval);
}

/* Finds the effect on Q, and chooses between prediction and measurement. */
static bool find_range(const struct comparison *c, size_t contestant,
                       size_t base, enum compare_quantity q,
                       struct compare_range *range,
                       struct compare_prospect *p) {
    struct compare_effect *e = &p->effect[q];
    if (!compare_effect_of(c, contestant, base, q, e))
        return false;
    *range = is_measured(e) ? e->measured : e->predicted;
    p->by_program = p->by_program || is_measured(e);
    p->contradicted = p->contradicted || compare_effect_is_contradicted(e);
    return true;
}

/* Sets P->time to malloc's own, as its share of the program is unknown. */
static bool assume_share(const struct comparison *c, size_t contestant,
                         size_t base, struct compare_prospect *p) {
    struct compare_verdict v;
    if (!compare_verdict_between(c, contestant, base, METRIC_TIME, &v))
        return false;
    p->share_assumed = true;
    p->time = (struct compare_range){.known = v.measured,
                                     .ratio = v.ratio,
                                     .has_interval = v.has_interval,
                                     .low = v.low,
                                     .high = v.high};
    return true;
}

/* Bytes by which the figure of V is shown to grow; 0: it is not. */
static double growth_of(const struct compare_verdict *v) {
    return v->measured && v->has_interval && v->low > 1
               ? (v->ratio - 1) * v->baseline
               : 0;
}

/* Chooses the figure of memory that the program feels. */
static bool choose_figure(const struct comparison *c, size_t contestant,
                          size_t base, enum compare_metric *figure) {
    static const enum compare_metric all[] = {METRIC_PEAK_RSS, METRIC_AVG_RSS,
                                              METRIC_AFTER};
    struct compare_verdict v[TCM_ARRAY_SIZE(all)];
    *figure = METRIC_PEAK_RSS;
    if (!comparison_is_clocked(c))
        return true;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(all); i++)
        if (!compare_verdict_between(c, contestant, base, all[i], &v[i]))
            return false;
    if (v[1].has_interval)
        *figure = METRIC_AVG_RSS;
    double most = COMPARE_WORTH_MEMORY * v[0].baseline;
    for (size_t i = 0; i < TCM_ARRAY_SIZE(all); i++)
        if (growth_of(&v[i]) > most) {
            most = growth_of(&v[i]);
            *figure = all[i];
        }
    return true;
}

static bool find_memory(const struct comparison *c, size_t contestant,
                        size_t base, struct compare_prospect *p) {
    if (!choose_figure(c, contestant, base, &p->figure))
        return false;
    if (p->figure == METRIC_PEAK_RSS)
        return find_range(c, contestant, base, COMPARE_MEMORY, &p->memory, p);
    bool good =
        compare_effect_over_time(c, contestant, base, p->figure, &p->memory);
    p->effect[COMPARE_MEMORY] = (struct compare_effect){
        .share = NAN, .base = NAN, .predicted = p->memory};
    return good;
}

/* The gain of the contestant at the unfavourable ends of TIME and MEMORY. */
static double safe_gain_of(const struct compare_prospect *p,
                           const struct compare_range *time,
                           const struct compare_range *memory) {
    double scale = p->share_assumed ? COMPARE_ASSUMED_SHARE : 1;
    return scale * (1 - time->high) +
           (memory->has_interval
                ? COMPARE_WORTH_TIME / COMPARE_WORTH_MEMORY * (1 - memory->high)
                : 0);
}

static const struct compare_range *predicted_or(const struct compare_effect *e,
                                                const struct compare_range *r) {
    return e->predicted.has_interval ? &e->predicted : r;
}

/* Finds the prospect of CONTESTANT beside BASE. Memory without an interval, as
   on tiny traces, counts as the same. */
static bool find_prospect(const struct comparison *c, size_t contestant,
                          size_t base, struct compare_prospect *p) {
    *p = (struct compare_prospect){.known = false};
    if (!find_range(c, contestant, base, COMPARE_CPU, &p->time, p) ||
        !find_memory(c, contestant, base, p))
        return false;
    if (!p->time.has_interval && !assume_share(c, contestant, base, p))
        return false;
    p->known = p->time.has_interval;
    if (!p->known)
        return true;
    double scale = p->share_assumed ? COMPARE_ASSUMED_SHARE : 1;
    double rate = COMPARE_WORTH_TIME / COMPARE_WORTH_MEMORY;
    p->gain = scale * (1 - p->time.ratio);
    if (p->memory.has_interval)
        p->gain += rate * (1 - p->memory.ratio);
    p->safe_gain = safe_gain_of(p, &p->time, &p->memory);
    p->predicted_gain =
        safe_gain_of(p, predicted_or(&p->effect[COMPARE_CPU], &p->time),
                     predicted_or(&p->effect[COMPARE_MEMORY], &p->memory));
    TCM_ASSERT(p->safe_gain <= p->gain);
    return true;
}

static bool is_worth_it(const struct compare_prospect *p) {
    return p->known && p->safe_gain >= COMPARE_WORTH_TIME;
}

/* Tells whether a contestant can be recommended at all. */
static bool is_candidate(const struct comparison *c, size_t i) {
    const struct compare_contestant *entry = &c->contestants.list[i];
    return i != c->baseline && entry->why == NULL && entry->failures == 0;
}

/* --- Words ---------------------------------------------------------------- */

static const char *name_of(const struct comparison *c, size_t i) {
    return compare_contestant_shown(&c->contestants.list[i]);
}

static void append_text(char *text, size_t size, const char *fmt, ...)
    TCM_PRINTF(3, 4);
static void append_text(char *text, size_t size, const char *fmt, ...) {
    size_t n = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + n, size - n, fmt, ap);
    va_end(ap);
}

/* Words for a range. */
enum change { AS_MUCH, PERHAPS, ABOUT };

static enum change change_of(const struct comparison *c,
                             const struct compare_range *r) {
    if (fabs(1 - r->ratio) < 0.0005)
        return AS_MUCH;
    if (r->low > 1 || r->high < 1)
        return ABOUT;
    return r->low >= 1 - c->margin && r->high <= 1 + c->margin ? AS_MUCH
                                                               : PERHAPS;
}

/* Appends "about 12 % less", "perhaps 12 % less", which is not shown, or "as
   much". */
static void append_change(const struct comparison *c, char *text, size_t size,
                          const struct compare_range *r) {
    double percent = 100 * fabs(1 - r->ratio);
    enum change change = change_of(c, r);
    if (change == AS_MUCH)
        append_text(text, size, "as much");
    else
        append_text(
            text, size, "%s %.*f %% %s", change == ABOUT ? "about" : "perhaps",
            percent < 9.95 ? 1 : 0, percent, r->ratio < 1 ? "less" : "more");
}

/* Appends ", about 3.0 % more memory at its peak". */
static void append_memory(const struct comparison *c, char *text, size_t size,
                          const struct compare_prospect *p) {
    append_change(c, text, size, &p->memory);
    append_text(text, size, " memory %s",
                p->figure == METRIC_AVG_RSS ? "on average"
                : p->figure == METRIC_AFTER ? "after its peak"
                                            : "at its peak");
}

/* Appends what a contestant brings: "the program takes about 12 % less time
   than with glibc, about 3.0 % more memory at its peak". BASE "": without
   "than ...". */
static void append_prospect(const struct comparison *c, char *text, size_t size,
                            const struct compare_prospect *p,
                            const char *base) {
    append_text(text, size, "%s takes ",
                p->share_assumed ? "malloc" : "the program");
    append_change(c, text, size, &p->time);
    append_text(text, size, " time");
    if (base[0] != '\0')
        append_text(text, size, " %s with %s",
                    change_of(c, &p->time) == AS_MUCH ? "as" : "than", base);
    if (p->memory.has_interval) {
        append_text(text, size, ", ");
        append_memory(c, text, size, p);
    }
}

/* Appends how the runner-up compares with the contestant. */
static void append_runner_up(const struct comparison *c,
                             struct compare_recommendation *r,
                             const struct compare_prospect *p) {
    const char *name = name_of(c, r->runner_up);
    if (change_of(c, &p->time) != AS_MUCH) {
        append_text(r->text, sizeof(r->text), " %s is not told apart from it.",
                    name);
        return;
    }
    append_text(r->text, sizeof(r->text), " %s is as fast", name);
    if (p->memory.has_interval) {
        append_text(r->text, sizeof(r->text), ", with ");
        append_memory(c, r->text, sizeof(r->text), p);
    }
    append_text(r->text, sizeof(r->text), ".");
}

/* Where an effect comes from, and what the other source has. */
enum source { PREDICTED, AGREED, OTHERWISE, MEASURED };

/* Ratios that differ by less than this agree. */
#define AGREES 0.05

static enum source source_of(const struct compare_effect *e) {
    if (is_measured(e))
        return MEASURED;
    if (!e->measured.has_interval)
        return PREDICTED;
    return fabs(e->predicted.ratio - e->measured.ratio) < AGREES ? AGREED
                                                                 : OTHERWISE;
}

/* Appends a sentence: where the COUNT effects E, all of one source, come from,
   and what the other source has of them. */
static void append_source(const struct comparison *c,
                          struct compare_recommendation *r, const char *subject,
                          const struct compare_effect *const *e,
                          const char *const *what, size_t count) {
    enum source source = source_of(e[0]);
    size_t size = sizeof(r->basis);
    append_text(r->basis, size, "%s%s ", r->basis[0] != '\0' ? " " : "",
                subject);
    append_text(r->basis, size, "%s",
                source == MEASURED ? (count > 1 ? "are those of runs of the "
                                                  "program"
                                                : "is that of runs of the "
                                                  "program")
                                   : (count > 1 ? "are predicted from the "
                                                  "replays"
                                                : "is predicted from the "
                                                  "replays"));
    if (source == AGREED)
        append_text(r->basis, size, ", and runs of the program agree");
    for (size_t i = 0; i < count && source != AGREED && source != PREDICTED;
         i++) {
        const struct compare_range *other =
            source == MEASURED ? &e[i]->predicted : &e[i]->measured;
        if (!other->has_interval)
            continue;
        append_text(r->basis, size, "%s",
                    i != 0               ? ", "
                    : source == MEASURED ? "; the replays predict "
                                         : "; runs of the program show ");
        append_change(c, r->basis, size, other);
        append_text(r->basis, size, " %s", what[i]);
    }
    append_text(r->basis, size, ".");
}

/* Appends by how much predictions of time have been wrong, unless runs of the
   program are known. */
static void append_error(char *text, size_t size,
                         const struct compare_effect *time) {
    if (!time->measured.has_interval)
        append_text(text, size,
                    " Beside programs such times missed by %.0f %% of the "
                    "program's time in the median, by %.0f %% at most.",
                    100 * COMPARE_MISS_MEDIAN, 100 * COMPARE_MISS_MOST);
}

/* Writes where the figures of P, a contestant's that is named, come from. */
static void set_basis(const struct comparison *c,
                      const struct compare_prospect *p,
                      struct compare_recommendation *r) {
    static const char *const what[] = {"time", "memory"};
    const struct compare_effect *const e[] = {&p->effect[COMPARE_CPU],
                                              &p->effect[COMPARE_MEMORY]};
    bool has_memory = p->memory.has_interval;
    if (p->share_assumed) {
        append_text(r->basis, sizeof(r->basis),
                    "What part of the program's time malloc takes is unknown: "
                    "the time is malloc's own, in the replays.");
        return;
    }
    if (has_memory && source_of(e[0]) == source_of(e[1])) {
        append_source(c, r, "Time and memory", e, what, 2);
    } else {
        append_source(c, r, "The time", e, what, 1);
        if (has_memory)
            append_source(c, r, "The memory", e + 1, what + 1, 1);
    }
    append_error(r->basis, sizeof(r->basis), e[0]);
    const char *few = comparison_few_recordings(c);
    if (has_memory && few != NULL && source_of(e[1]) != MEASURED)
        append_text(r->basis, sizeof(r->basis), " The memory is that of %s.",
                    few);
}

/* --- The answer ----------------------------------------------------------- */

static void advise_nothing(const struct comparison *c,
                           struct compare_recommendation *r) {
    size_t others = 0;
    for (size_t i = 0; i < c->contestants.count; i++)
        others += is_candidate(c, i);
    if (others == 0)
        snprintf(r->reason, sizeof(r->reason),
                 "fewer than two allocators gave figures");
    else
        snprintf(r->reason, sizeof(r->reason),
                 "too few rounds for a verdict, %zu are needed and %zu were "
                 "made",
                 compare_verdict_least_rounds(c), c->made);
    snprintf(r->text, sizeof(r->text), "No recommendation: %s.", r->reason);
}

/* Tells whether a contestant certainly gains enough in one quantity, but loses
   more in the other. */
static bool is_a_trade(const struct compare_prospect *p) {
    double scale = p->share_assumed ? COMPARE_ASSUMED_SHARE : 1;
    bool gains =
        scale * (1 - p->time.high) >= COMPARE_WORTH_TIME ||
        (p->memory.has_interval && 1 - p->memory.high >= COMPARE_WORTH_MEMORY);
    return p->known && gains && p->gain < COMPARE_WORTH_TIME;
}

/* Says which contestant the replays alone would have recommended, if runs of
   the program kept it from that. */
static void append_refuted(const struct comparison *c,
                           const struct compare_prospect *all,
                           struct compare_recommendation *r) {
    size_t most = SIZE_MAX;
    for (size_t i = 0; i < c->contestants.count; i++)
        if (all[i].known && all[i].contradicted &&
            all[i].predicted_gain >= COMPARE_WORTH_TIME &&
            (most == SIZE_MAX ||
             all[i].predicted_gain > all[most].predicted_gain))
            most = i;
    r->by_program = most != SIZE_MAX;
    if (most == SIZE_MAX)
        return;
    const struct compare_effect *e = &all[most].effect[COMPARE_CPU];
    const char *what = "time";
    if (!compare_effect_is_contradicted(e)) {
        e = &all[most].effect[COMPARE_MEMORY];
        what = "memory";
    }
    append_text(r->basis, sizeof(r->basis), "%sWith %s the replays predict ",
                r->basis[0] != '\0' ? " " : "", name_of(c, most));
    append_change(c, r->basis, sizeof(r->basis), &e->predicted);
    append_text(r->basis, sizeof(r->basis), " %s; runs of the program show ",
                what);
    append_change(c, r->basis, sizeof(r->basis), &e->measured);
    append_text(r->basis, sizeof(r->basis), ".");
}

/* BEST has the largest gain; TRADE, or SIZE_MAX, the largest of those that lose
   more than they gain. */
static void advise_to_stay(const struct comparison *c,
                           const struct compare_prospect *all, size_t best,
                           size_t trade, struct compare_recommendation *r) {
    const struct compare_prospect *p = &all[best];
    bool may = p->gain >= COMPARE_WORTH_TIME;
    r->advice = COMPARE_ADVICE_STAY;
    r->contestant = c->baseline;
    if (trade != SIZE_MAX && !may) {
        snprintf(r->reason, sizeof(r->reason), "with %s ", name_of(c, trade));
        append_prospect(c, r->reason, sizeof(r->reason), &all[trade], "");
        append_text(r->reason, sizeof(r->reason),
                    ", which loses more than it gains");
        set_basis(c, &all[trade], r);
    } else {
        snprintf(r->reason, sizeof(r->reason),
                 "nothing is shown to gain %g %% of %s time or %g %% of its "
                 "memory",
                 100 * COMPARE_WORTH_TIME /
                     (p->share_assumed ? COMPARE_ASSUMED_SHARE : 1),
                 p->share_assumed ? "malloc's" : "the program's",
                 100 * COMPARE_WORTH_MEMORY);
    }
    snprintf(r->text, sizeof(r->text), "Stay with %s: %s.",
             name_of(c, c->baseline), r->reason);
    if (may) {
        r->runner_up = best;
        append_text(r->text, sizeof(r->text),
                    " %s may gain that, which is not shown.", name_of(c, best));
    }
    append_refuted(c, all, r);
}

static bool advise_to_take(const struct comparison *c,
                           const struct compare_prospect *all, size_t best,
                           struct compare_recommendation *r) {
    struct compare_prospect between, runner_up;
    r->advice = COMPARE_ADVICE_TAKE;
    r->contestant = best;
    r->prospect = all[best];
    append_prospect(c, r->reason, sizeof(r->reason), &all[best],
                    name_of(c, c->baseline));
    for (size_t i = 0; i < c->contestants.count; i++) {
        if (i == best || !all[i].known || !is_worth_it(&all[i]) ||
            (r->runner_up != SIZE_MAX && all[i].gain <= all[r->runner_up].gain))
            continue;
        if (!find_prospect(c, best, i, &between))
            return false;
        if (!is_worth_it(&between))
            r->runner_up = i;
    }
    snprintf(r->text, sizeof(r->text), "Take %s: %s.", name_of(c, best),
             r->reason);
    set_basis(c, &all[best], r);
    if (r->runner_up == SIZE_MAX)
        return true;
    if (!find_prospect(c, r->runner_up, best, &runner_up))
        return false;
    append_runner_up(c, r, &runner_up);
    return true;
}

bool compare_recommend(const struct comparison *c,
                       struct compare_recommendation *r) {
    struct compare_prospect *all = calloc(c->contestants.count, sizeof(*all));
    size_t best = SIZE_MAX, worth = SIZE_MAX, trade = SIZE_MAX;
    bool good = all != NULL;
    *r = (struct compare_recommendation){.contestant = SIZE_MAX,
                                         .runner_up = SIZE_MAX};
    if (!good)
        tool_out_of_memory();
    for (size_t i = 0; good && i < c->contestants.count; i++) {
        struct compare_prospect *p = &all[i];
        if (!is_candidate(c, i))
            continue;
        good = find_prospect(c, i, c->baseline, p);
        if (!p->known)
            continue;
        if (best == SIZE_MAX || p->gain > all[best].gain)
            best = i;
        if (is_worth_it(p) && (worth == SIZE_MAX || p->gain > all[worth].gain))
            worth = i;
        if (is_a_trade(p) && (trade == SIZE_MAX || p->gain > all[trade].gain))
            trade = i;
    }
    if (good && worth != SIZE_MAX) {
        r->by_program = all[worth].by_program;
        good = advise_to_take(c, all, worth, r);
    } else if (good && best != SIZE_MAX) {
        advise_to_stay(c, all, best, trade, r);
    } else if (good) {
        advise_nothing(c, r);
    }
    TCM_ASSERT(!good || (r->advice == COMPARE_ADVICE_STAY) ==
                            (r->contestant == c->baseline));
    TCM_ASSERT(r->runner_up == SIZE_MAX || r->runner_up != r->contestant);
    free(all);
    return good;
}

/* --- JSON ----------------------------------------------------------------- */

/* A gain, 0.12 for 12 % less; null: unknown. */
static void put_gain(struct tool_json *j, const char *key,
                     const struct compare_range *r) {
    if (!r->has_interval) {
        tool_json_null(j, key);
        return;
    }
    tool_json_begin_object(j, key);
    tool_json_double(j, "gain", 1 - r->ratio);
    tool_json_double(j, "lo", 1 - r->high);
    tool_json_double(j, "hi", 1 - r->low);
    tool_json_end_object(j);
}

static void put_name(const struct comparison *c, struct tool_json *j,
                     const char *key, size_t i) {
    if (i == SIZE_MAX)
        tool_json_null(j, key);
    else
        tool_json_string(j, key, c->contestants.list[i].name);
}

bool compare_recommend_json(const struct comparison *c, struct tool_json *j) {
    static const char *const advice[] = {[COMPARE_ADVICE_NONE] = "none",
                                         [COMPARE_ADVICE_STAY] = "stay",
                                         [COMPARE_ADVICE_TAKE] = "take"};
    static const struct compare_range unknown;
    struct compare_recommendation r;
    if (!compare_recommend(c, &r))
        return false;
    bool assumed = r.prospect.share_assumed;
    tool_json_begin_object(j, "recommendation");
    tool_json_string(j, "text", r.text);
    tool_json_string(j, "advice", advice[r.advice]);
    put_name(c, j, "contestant", r.contestant);
    put_name(c, j, "runner_up", r.runner_up);
    tool_json_string(j, "reason", r.reason);
    put_gain(j, "time", assumed ? &unknown : &r.prospect.time);
    put_gain(j, "malloc_time", assumed ? &r.prospect.time : &unknown);
    put_gain(j, "memory", &r.prospect.memory);
    if (r.prospect.known)
        tool_json_string(j, "memory_figure",
                         compare_metric[r.prospect.figure].key);
    else
        tool_json_null(j, "memory_figure");
    tool_json_string(j, "basis", r.by_program ? "program" : "replay");
    tool_json_end_object(j);
    return true;
}
