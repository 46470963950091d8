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

/* Finds the prospect of CONTESTANT beside BASE. Memory without an interval, as
   on tiny traces, counts as the same. */
static bool find_prospect(const struct comparison *c, size_t contestant,
                          size_t base, struct compare_prospect *p) {
    *p = (struct compare_prospect){.known = false};
    if (!find_range(c, contestant, base, COMPARE_CPU, &p->time, p) ||
        !find_range(c, contestant, base, COMPARE_MEMORY, &p->memory, p))
        return false;
    if (!p->time.has_interval && !assume_share(c, contestant, base, p))
        return false;
    p->known = p->time.has_interval;
    if (!p->known)
        return true;
    double scale = p->share_assumed ? COMPARE_ASSUMED_SHARE : 1;
    double rate = COMPARE_WORTH_TIME / COMPARE_WORTH_MEMORY;
    p->gain = scale * (1 - p->time.ratio);
    p->safe_gain = scale * (1 - p->time.high);
    if (p->memory.has_interval) {
        p->gain += rate * (1 - p->memory.ratio);
        p->safe_gain += rate * (1 - p->memory.high);
    }
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

static bool is_change(const struct compare_range *r) {
    return fabs(1 - r->ratio) >= 0.0005 && (r->low > 1 || r->high < 1);
}

/* Appends "about 12 % less", or "as much". */
static void append_change(char *text, size_t size,
                          const struct compare_range *r) {
    double percent = 100 * fabs(1 - r->ratio);
    if (!is_change(r))
        append_text(text, size, "as much");
    else
        append_text(text, size, "about %.*f %% %s", percent < 9.95 ? 1 : 0,
                    percent, r->ratio < 1 ? "less" : "more");
}

/* Appends what a contestant brings: "the program takes about 12 % less time
   than with glibc, about 3.0 % more memory". BASE "": without "than ...". */
static void append_prospect(char *text, size_t size,
                            const struct compare_prospect *p,
                            const char *base) {
    append_text(text, size, "%s takes ",
                p->share_assumed ? "malloc" : "the program");
    append_change(text, size, &p->time);
    append_text(text, size, " time");
    if (base[0] != '\0')
        append_text(text, size, " %s with %s",
                    is_change(&p->time) ? "than" : "as", base);
    if (p->memory.has_interval) {
        append_text(text, size, ", ");
        append_change(text, size, &p->memory);
        append_text(text, size, " memory");
    }
}

/* Appends how the runner-up compares with the contestant. */
static void append_runner_up(const struct comparison *c,
                             struct compare_recommendation *r,
                             const struct compare_prospect *p) {
    const char *name = name_of(c, r->runner_up);
    if (p->time.low > 1 || p->time.high < 1) {
        append_text(r->text, sizeof(r->text), " %s is not told apart from it.",
                    name);
        return;
    }
    append_text(r->text, sizeof(r->text), " %s is as fast", name);
    if (p->memory.has_interval) {
        append_text(r->text, sizeof(r->text), ", with ");
        append_change(r->text, sizeof(r->text), &p->memory);
        append_text(r->text, sizeof(r->text), " memory");
    }
    append_text(r->text, sizeof(r->text), ".");
}

/* Appends what the replays predict instead of what was measured, behind LEAD;
   returns what leads another such text. */
static const char *append_predicted(char *text, size_t size,
                                    const struct compare_effect *e,
                                    const char *what, const char *lead) {
    if (!compare_effect_is_contradicted(e))
        return lead;
    append_text(text, size, "%s", lead);
    append_change(text, size, &e->predicted);
    append_text(text, size, " %s", what);
    return ", ";
}

/* Appends a sentence: where the figures WHAT (1: time, 2: memory, 3: both),
   which are all measured or all predicted, come from. */
static void append_source(struct compare_recommendation *r, unsigned what) {
    static const char *const subject[] = {"", "The time is", "The memory is",
                                          "Time and memory are"};
    const struct compare_effect *effect = r->prospect.effect;
    bool time = (what & 1) != 0, memory = (what & 2) != 0;
    size_t size = sizeof(r->basis);
    const char *between = r->basis[0] != '\0' ? " " : "";
    if (!is_measured(&effect[time ? COMPARE_CPU : COMPARE_MEMORY])) {
        bool agree = (!time || effect[COMPARE_CPU].measured.has_interval) &&
                     (!memory || effect[COMPARE_MEMORY].measured.has_interval);
        append_text(r->basis, size, "%s%s predicted from the replays%s.",
                    between, subject[what],
                    agree ? ", and runs of the program agree" : "");
        return;
    }
    append_text(r->basis, size, "%s%s %s of runs of the program", between,
                subject[what], time && memory ? "those" : "that");
    const char *lead = "; the replays predict ";
    if (time)
        lead = append_predicted(r->basis, size, &effect[COMPARE_CPU], "time",
                                lead);
    if (memory)
        (void)append_predicted(r->basis, size, &effect[COMPARE_MEMORY],
                               "memory", lead);
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

/* Writes where the figures of the recommended contestant come from. */
static void set_basis(struct compare_recommendation *r) {
    const struct compare_prospect *p = &r->prospect;
    bool has_memory = p->memory.has_interval;
    if (p->share_assumed) {
        append_text(r->basis, sizeof(r->basis),
                    "What part of the program's time malloc takes is unknown: "
                    "the time is malloc's own, in the replays.");
    } else if (has_memory && is_measured(&p->effect[COMPARE_CPU]) ==
                                 is_measured(&p->effect[COMPARE_MEMORY])) {
        append_source(r, 3);
    } else {
        append_source(r, 1);
        if (has_memory)
            append_source(r, 2);
    }
    if (!p->share_assumed)
        append_error(r->basis, sizeof(r->basis), &p->effect[COMPARE_CPU]);
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

/* BEST has the largest gain; TRADE, or SIZE_MAX, the largest of those that lose
   more than they gain. */
static void advise_to_stay(const struct comparison *c,
                           const struct compare_prospect *all, size_t best,
                           size_t trade, struct compare_recommendation *r) {
    const struct compare_prospect *p = &all[best];
    bool may = p->gain >= COMPARE_WORTH_TIME, contradicted = false;
    r->advice = COMPARE_ADVICE_STAY;
    r->contestant = c->baseline;
    if (trade != SIZE_MAX && !may) {
        snprintf(r->reason, sizeof(r->reason), "with %s ", name_of(c, trade));
        append_prospect(r->reason, sizeof(r->reason), &all[trade], "");
        append_text(r->reason, sizeof(r->reason),
                    ", which loses more than it gains");
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
                    " %s may gain that, and is not told apart from %s.",
                    name_of(c, best), name_of(c, c->baseline));
    }
    for (size_t i = 0; i < c->contestants.count; i++)
        contradicted = contradicted || all[i].contradicted;
    if (contradicted)
        append_text(r->basis, sizeof(r->basis),
                    "Runs of the program show that; the replays predict "
                    "otherwise.");
}

static bool advise_to_take(const struct comparison *c,
                           const struct compare_prospect *all, size_t best,
                           struct compare_recommendation *r) {
    struct compare_prospect between, runner_up;
    r->advice = COMPARE_ADVICE_TAKE;
    r->contestant = best;
    r->prospect = all[best];
    append_prospect(r->reason, sizeof(r->reason), &all[best],
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
    set_basis(r);
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
        tool_error("out of memory");
    for (size_t i = 0; good && i < c->contestants.count; i++) {
        struct compare_prospect *p = &all[i];
        if (!is_candidate(c, i))
            continue;
        good = find_prospect(c, i, c->baseline, p);
        if (!p->known)
            continue;
        r->by_program = r->by_program || p->by_program;
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
    tool_json_string(j, "basis", r.by_program ? "program" : "replay");
    tool_json_end_object(j);
    return true;
}
