/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/compare/compare_rounds.h"

#include "base/check.h"
#include "base/clock.h"
#include "cmd/malloc_trace/compare/compare_program.h"
#include "cmd/malloc_trace/compare/compare_result.h"
#include "cmd/malloc_trace/compare/compare_run.h"
#include "cmd/malloc_trace/compare/verdict.h"
#include "common/main.h"
#include "common/stop.h"
#include "common/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* With --until: no more rounds than this; the intervals of a machine on which
   these are not enough do not become narrow. */
enum { MOST_ROUNDS = 400 };

/* --- Order ---------------------------------------------------------------- */

static uint64_t shuffle_next(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Sums of the indices and of their squares are those of 0 to N - 1. */
static bool is_permutation(const size_t *order, size_t n) {
    size_t sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        if (order[i] >= n)
            return false;
        sum += order[i] - i;
        squares += order[i] * order[i] - i * i;
    }
    return sum == 0 && squares == 0;
}

void compare_shuffle(size_t *order, size_t n, uint64_t *state) {
    for (size_t i = 0; i < n; i++) {
        size_t j = (size_t)(shuffle_next(state) % (i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    TCM_ASSERT_SLOW(is_permutation(order, n));
}

/* --- Progress ------------------------------------------------------------- */

struct work {
    struct comparison *c;
    const struct compare_rounds *r;
    bool shown;
    int length;
    uint64_t start_ns, made, expected;
    size_t *order;
};

static void show(struct work *w, size_t round, size_t who) {
    char line[160];
    struct tool_text t;
    if (!w->shown)
        return;
    int n = round == 0 ? snprintf(line, sizeof(line), "warming up: %.40s",
                                  contestant_shown(&w->c->who.list[who]))
                       : snprintf(line, sizeof(line), "round %zu of %zu: %.40s",
                                  round, w->c->rounds,
                                  contestant_shown(&w->c->who.list[who]));
    if (w->made > w->c->who.count && w->expected > w->made) {
        double spent = (double)(tcm_clock_ns() - w->start_ns);
        double left = spent / (double)w->made * (double)(w->expected - w->made);
        n += snprintf(line + n, sizeof(line) - (size_t)n, ", %s left",
                      tool_text_ns(&t, (uint64_t)left));
    }
    fprintf(stderr, "\r%-*s", w->length, line);
    w->length = n;
}

static void show_end(struct work *w) {
    if (w->shown && w->length != 0)
        fprintf(stderr, "\r%*s\r", w->length, "");
    w->length = 0;
}

/* --- Runs ---------------------------------------------------------------- */

/* One run, whose figures are taken. false: a message is out, or a stop was
   requested. */
static bool run_once(struct comparison *c, size_t round, size_t trace,
                     size_t who) {
    char problem[200];
    size_t n;
    char *text = compare_run_make(c, round, trace, who, &n);
    if (text == NULL)
        return false;
    TCM_ASSERT(!comparison_run(c, round, trace, who)->there);
    bool good = compare_result_take(c, text, n, round, trace, who, problem);
    TCM_ASSERT(!good || comparison_run(c, round, trace, who)->there);
    free(text);
    if (!good)
        tool_error("a run of %s left no result: %s", c->who.list[who].name,
                   problem);
    return good;
}

/* Tells which runs are left out: a failed one is not tried again. */
static bool skipped(const struct comparison *c, size_t round, size_t trace,
                    size_t who) {
    if (c->who.list[who].why != NULL || c->who.list[who].rests)
        return true;
    for (size_t r = 0; r < round; r++)
        if (comparison_run(c, r, trace, who)->failed)
            return true;
    return false;
}

static bool make_run(struct work *w, size_t round, size_t trace, size_t who) {
    struct comparison *c = w->c;
    if (skipped(c, round, trace, who))
        return true;
    show(w, round, who);
    if (tool_stop_requested() || !run_once(c, round, trace, who))
        return false;
    if (w->r->program != NULL && trace == 0 &&
        !compare_program_run(c, w->r->program, round, who))
        return false;
    w->made++;
    return true;
}

static bool one_round(struct work *w, size_t round, uint64_t *state) {
    struct comparison *c = w->c;
    size_t n = c->traces * c->who.count;
    bool first = c->limit_ns == 0;
    uint64_t longest_ns = 0;
    /* the baseline's first runs tell when others hang */
    for (size_t t = 0; first && t < c->traces; t++) {
        uint64_t before = tcm_clock_ns();
        if (!make_run(w, round, t, c->baseline))
            return false;
        uint64_t took_ns = tcm_clock_ns() - before;
        longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
    }
    if (first)
        c->limit_ns = compare_run_limit_ns(longest_ns);
    compare_shuffle(w->order, n, state);
    for (size_t i = 0; i < n; i++) {
        size_t trace = w->order[i] / c->who.count;
        size_t who = w->order[i] % c->who.count;
        if ((!first || who != c->baseline) && !make_run(w, round, trace, who))
            return false;
    }
    return true;
}

/* --- Successive halving -------------------------------------------------- */

/* Jamieson, Talwalkar: Non-stochastic Best Arm Identification and
   Hyperparameter Optimization, section 2: as many runs for each halving, so
   that those that stay get twice as many each time. What counts is how many
   others are better in time and in memory both, then the product of the
   ratios; so the ends of the frontier stay. */

struct standing {
    size_t who, above; /* contestants that are better in both */
    double time, memory;
};

static int standing_compare(const void *a, const void *b) {
    const struct standing *x = a, *y = b;
    if (x->above != y->above)
        return x->above < y->above ? -1 : 1;
    double p = x->time * x->memory, q = y->time * y->memory;
    return p < q ? -1 : p > q;
}

static size_t active(const struct comparison *c) {
    size_t n = 0;
    for (size_t i = 0; i < c->who.count; i++)
        n += i != c->baseline && c->who.list[i].why == NULL &&
             !c->who.list[i].rests;
    return n;
}

/* Lets the worse half rest. */
static bool halve(struct comparison *c) {
    size_t n = 0, count = active(c);
    struct standing *s = calloc(c->who.count, sizeof(*s));
    if (s == NULL || !verdict_settle(c)) {
        free(s);
        return false;
    }
    for (size_t i = 0; i < c->who.count; i++) {
        struct verdict time, memory;
        if (i == c->baseline || c->who.list[i].why != NULL ||
            c->who.list[i].rests)
            continue;
        if (!verdict_of(c, i, METRIC_TIME, &time) ||
            !verdict_of(c, i, METRIC_PEAK_RSS, &memory))
            break;
        s[n] =
            (struct standing){.who = i,
                              .time = time.measured ? time.ratio : 1e9,
                              .memory = memory.measured ? memory.ratio : 1e9};
        n++;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            s[i].above += s[k].time < s[i].time && s[k].memory < s[i].memory;
    TCM_ASSERT(n <= count);
    qsort(s, n, sizeof(*s), standing_compare);
    for (size_t i = (count + 1) / 2; i < n; i++)
        c->who.list[s[i].who].rests = true;
    TCM_ASSERT(n != count || active(c) == (count + 1) / 2);
    free(s);
    return true;
}

/* The rounds until the next halving, with LEFT runs and HALVINGS to come. */
static size_t rounds_of_stage(const struct comparison *c, uint64_t left,
                              size_t halvings) {
    uint64_t a_round = (active(c) + 1) * c->traces;
    uint64_t rounds = left / (halvings + 1) / a_round;
    return rounds == 0 ? 1 : (size_t)rounds;
}

/* --- How many ------------------------------------------------------------ */

/* Half of the widest interval; 0: none is known. */
static double widest(const struct comparison *c) {
    static const enum compare_metric these[] = {METRIC_TIME, METRIC_PEAK_RSS};
    double most = 0;
    for (size_t i = 0; i < c->who.count; i++)
        for (size_t k = 0; i != c->baseline && k < 2; k++) {
            struct verdict v;
            if (!verdict_of(c, i, these[k], &v) || !v.measured)
                continue;
            if (!v.has_interval)
                return 0;
            most = fmax(most, sqrt(v.high / v.low) - 1);
        }
    return most;
}

static void note(struct comparison *c, const char *text, double a, double b) {
    struct compare_machine_notes *n = &c->disturbances;
    if (n->count == COMPARE_MACHINE_NOTES)
        n->count--;
    /* NOLINTNEXTLINE */
    snprintf(n->text[n->count++], sizeof(n->text[0]),
             "%s %.2f %% (%.2f %% was "
             "asked for)",
             text, a, b);
}

/* Tells whether there is more to do after ROUND. Intervals become narrow with
   the root of the number of rounds. */
static bool goes_on(struct work *w, size_t round) {
    struct comparison *c = w->c;
    if (w->r->until == 0 || round < c->rounds)
        return round < c->rounds;
    double width = verdict_settle(c) ? widest(c) : 0;
    size_t more = c->rounds + 4;
    if (width != 0) {
        if (width <= w->r->until)
            return false;
        double needed = (double)round * pow(width / w->r->until, 2) + 1;
        if (needed > MOST_ROUNDS) {
            note(c,
                 "more rounds would not do: after all of these the widest "
                 "interval is +-",
                 100 * width, 100 * w->r->until);
            return false;
        }
        more = (size_t)fmin(needed, (double)(2 * c->rounds));
        more = more > c->rounds ? more : c->rounds + 1;
    }
    if (!comparison_make_room(c, more))
        return false;
    w->expected = (more + 1) * c->traces * c->who.count;
    return true;
}

/* The rounds of --budget-runs. */
static bool halving_rounds(struct work *w, uint64_t *state) {
    struct comparison *c = w->c;
    size_t halvings = 0;
    for (size_t n = active(c); n > 2; n = (n + 1) / 2)
        halvings++;
    w->expected = w->r->most_runs;
    if (!one_round(w, 0, state))
        return false;
    for (;;) {
        uint64_t left =
            w->made < w->r->most_runs ? w->r->most_runs - w->made : 0;
        if (left < (active(c) + 1) * c->traces)
            return true;
        size_t stage = rounds_of_stage(c, left, halvings);
        if (!comparison_make_room(c, c->made + stage))
            return false;
        for (size_t i = 0; i < stage; i++) {
            if (!one_round(w, c->made + 1, state))
                return false;
            c->made++;
        }
        if (halvings != 0 && !halve(c))
            return false;
        halvings -= halvings != 0;
    }
}

bool compare_rounds_make(struct comparison *c, const struct compare_rounds *r) {
    struct compare_machine_load from, to;
    size_t n = c->traces * c->who.count;
    struct work w = {.c = c,
                     .r = r,
                     .shown = !tool_is_quiet() && isatty(STDERR_FILENO) == 1,
                     .start_ns = tcm_clock_ns(),
                     .expected = (r->wanted + 1) * n,
                     .order = calloc(n, sizeof(size_t))};
    uint64_t state = c->seed;
    if (w.order == NULL ||
        !comparison_make_room(c, r->most_runs != 0 ? 1 : r->wanted)) {
        free(w.order);
        return false;
    }
    compare_machine_look(&c->machine);
    compare_machine_before(&c->machine, &c->disturbances);
    compare_machine_load(&from);
    bool good = r->most_runs == 0 || halving_rounds(&w, &state);
    for (size_t round = 0; good && r->most_runs == 0; round++) {
        good = one_round(&w, round, &state);
        if (!good)
            break;
        c->made = round;
        if (!goes_on(&w, round))
            break;
    }
    TCM_ASSERT(c->made <= c->rounds);
    TCM_ASSERT_SLOW(comparison_is_consistent(c));
    show_end(&w);
    compare_machine_load(&to);
    compare_machine_during(&c->machine, &from, &to, &c->disturbances);
    free(w.order);
    c->ran_program = r->program != NULL;
    c->interrupted = tool_stop_requested();
    return good || c->interrupted;
}
