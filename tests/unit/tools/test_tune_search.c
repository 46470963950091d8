/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The search of malloc-trace tune, on costs that are made up and hence known:
 * joint optima, values between those of the table, settings that do nothing,
 * and what always holds.
 */
#include "cmd/malloc_trace/tune/tune_search.h"

#include "cmd/malloc_trace/tune/tune_outcome.h"
#include "model/interval.h"
#include "tests/lib/prng.h"
#include "tests/lib/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct tool_setting table[] = {
    {"x", "A=", SETTING_SWITCH, "1", "0", 0, 0, 0, 0, 0, "", NULL},
    {"x", "B=", SETTING_WORD, "p,q,r", "s", 0, 0, 0, 0, 0, "", NULL},
    {"x", "C=", SETTING_NUMBER, "0,8,128", "32", 1, 1024, 2, 0, 0, "", NULL},
    {"x", "D=", SETTING_TIME, "0,1000,-1", "10000", 100, 100000, 3, 0, 0, "",
     NULL},
    {"x", "E=", SETTING_SIZE, "65536,16777216", "", 4096, 67108864, 4, 0, 0, "",
     NULL},
    {"x", "OLD=", SETTING_SWITCH, "1", "0", 0, 0, 0, 0, 200, "", NULL},
    {"x", "NEW=", SETTING_SWITCH, "1", "0", 0, 0, 0, 300, 0, "", NULL},
    {"y", "F=", SETTING_SWITCH, "1", "0", 0, 0, 0, 0, 0, "", NULL},
    {"y", "G=", SETTING_NUMBER, "1,4", "2", 1, 64, 2, 0, 0, "", NULL},
};
enum { A, B, C, D, E };

static const struct tune_library y = {.known = "y", .version = ""};
static struct tune_space space;
static struct prng rng;

/* The space of x, version 2.1, and of y. */
static void make_space(void) {
    tune_space_free(&space);
    const struct tune_library x = {.known = "x", .version = "x 2.1.7"};
    (void)tune_space_add(&space, "x", &x, table, TCM_ARRAY_SIZE(table));
    (void)tune_space_add(&space, "y", &y, table, TCM_ARRAY_SIZE(table));
}

/* About normal, with standard deviation 1. */
static double gauss(void) {
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (double)prng_below(&rng, 1000001) / 1e6;
    return sum - 6;
}

typedef double cost_function(const struct tune_point *p);

/* Searches with RUNS runs; scores have noise. */
static struct tune_search *search(cost_function *cost, uint64_t runs,
                                  uint64_t seed, double noise) {
    size_t round[TUNE_ROUND], n;
    uint64_t asked = 0;
    struct tune_search *s = tune_search_new(&space, runs, seed);
    while ((n = tune_search_ask(s, round)) != 0) {
        asked += n;
        for (size_t i = 0; i < n; i++)
            tune_search_tell(s, round[i],
                             round[i] == 0
                                 ? 0
                                 : cost(&tune_search_at(s, round[i])->point) +
                                       noise * gauss());
    }
    if (asked > runs)
        tap_diag("%llu runs", (unsigned long long)asked);
    return s;
}

static size_t best_of(const struct tune_search *s) {
    static size_t order[100000];
    return tune_search_rank(s, order) == 0 ? SIZE_MAX : order[0];
}

static const char *shown(const struct tune_search *s, size_t candidate) {
    static char name[TUNE_NAME];
    return tune_point_name(&space, &tune_search_at(s, candidate)->point, name);
}

/* --- Costs ---------------------------------------------------------------- */

/* A and B=q lose alone, and gain a quarter together; C=8 gains a little. */
static double joint_cost(const struct tune_point *p) {
    if (p->allocator != 0)
        return 0.02;
    bool a = tune_point_has(p, A);
    bool b = tune_point_has(p, B) && p->value[B] == 1;
    double cost = a && b ? -0.25 : 0.05 * (a + b);
    if (tune_point_has(p, C))
        cost -= p->value[C] == 8 ? 0.04 : -0.01;
    return cost;
}

/* The best value of D lies between those of the table. */
static double valley_cost(const struct tune_point *p) {
    double value = 10000;
    if (p->allocator != 0)
        return 0;
    if (tune_point_has(p, D))
        value = p->value[D] <= 0 ? 1e6 : (double)p->value[D];
    return 0.05 * (fabs(log(value / 300)) - log(10000.0 / 300));
}

/* Only F of y does something. */
static double one_cost(const struct tune_point *p) {
    return p->allocator == 1 && tune_point_has(p, 0) ? -0.2 : 0;
}

static double no_cost(const struct tune_point *p) {
    (void)p;
    return 0;
}

/* --- Tests ---------------------------------------------------------------- */

static void test_joint(void) {
    unsigned found = 0, single = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct tune_search *s = search(joint_cost, 200, seed, 0.01);
        double cost = joint_cost(&tune_search_at(s, best_of(s))->point);
        found += cost <= -0.25;
        single += cost <= -0.29;
        if (cost > -0.25)
            tap_diag("seed %llu: %s", (unsigned long long)seed,
                     shown(s, best_of(s)));
        tune_search_free(s);
    }
    tap_diag("joint optimum in %u of 20, with the third setting in %u", found,
             single);
    tap_ok(found >= 18, "two settings that lose alone are found together");
}

static void test_valley(void) {
    unsigned found = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct tune_search *s = search(valley_cost, 200, seed, 0.005);
        const struct tune_point *p = &tune_search_at(s, best_of(s))->point;
        /* beside 1000, the best of the table */
        found += tune_point_has(p, D) && p->value[D] > 100 && p->value[D] < 700;
        tune_search_free(s);
    }
    tap_diag("%u of 20", found);
    tap_ok(found >= 18, "a value between those of the table is found");
}

static void test_simple(void) {
    unsigned found = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct tune_search *s = search(one_cost, 200, seed, 0.005);
        found += strcmp(shown(s, best_of(s)), "y,F=1") == 0;
        tune_search_free(s);
    }
    tap_diag("%u of 20", found);
    tap_ok(found >= 17, "settings that do nothing are left out");
}

/* Nine fresh runs of a point that costs as much as the default. */
static struct tune_verdict fresh_verdict(double noise) {
    double difference[TUNE_FRESH_ROUNDS];
    struct tune_verdict v = {.of = {{.known = false}}};
    for (size_t i = 0; i < TUNE_FRESH_ROUNDS; i++)
        difference[i] = noise * gauss();
    struct interval d =
        interval_of(difference, TUNE_FRESH_ROUNDS, TUNE_FRESH_ALPHA);
    for (int g = 0; g < TUNE_GOALS; g++)
        v.of[g] = (struct compare_range){.known = true,
                                         .ratio = exp(d.middle),
                                         .has_interval = d.known,
                                         .low = exp(d.low),
                                         .high = exp(d.high)};
    return v;
}

/* A table of settings that do nothing: the search has a favourite, by luck, and
   fresh runs do not propose it. */
static void test_nothing(void) {
    struct tune_runs r = {.goal = TUNE_COST, .most_loss = 0.1};
    unsigned proposed = 0, lucky = 0;
    enum { SEARCHES = 200 };
    for (uint64_t seed = 1; seed <= SEARCHES; seed++) {
        struct tune_search *s = search(no_cost, 150, seed, 0.05);
        const struct tune_candidate *c = tune_search_at(s, best_of(s));
        lucky += best_of(s) != 0 && c->sum / c->runs < -0.02;
        tune_search_free(s);
        struct tune_verdict v = fresh_verdict(0.05);
        proposed += tune_verdict_is_worth(&r, &v, 0.02);
    }
    tap_diag("favourites that seem to gain 2 %%: %u, proposed: %u, of %u",
             lucky, proposed, SEARCHES);
    tap_ok(lucky > 0, "the figures of a search promise what is not there");
    tap_ok(proposed <= SEARCHES / 20, "fresh runs propose it in 1 of 20");
}

static void test_worth(void) {
    struct tune_runs r = {.goal = TUNE_COST, .most_loss = 0.1};
    struct tune_verdict v = {.of = {{.known = false}}};
    struct compare_range *goal = &v.of[TUNE_COST];
    tap_ok(!tune_verdict_is_worth(&r, &v, 0.02), "no figures");
    *goal = (struct compare_range){true, 0.9, true, 0.88, 0.92};
    tap_ok(tune_verdict_is_worth(&r, &v, 0.02), "a tenth less");
    goal->has_interval = false;
    tap_ok(!tune_verdict_is_worth(&r, &v, 0.02), "without an interval");
    *goal = (struct compare_range){true, 0.985, true, 0.98, 0.99};
    tap_ok(!tune_verdict_is_worth(&r, &v, 0.02), "less than the margin");
    *goal = (struct compare_range){true, 0.9, true, 0.7, 1.01};
    tap_ok(!tune_verdict_is_worth(&r, &v, 0.02), "not shown");
    r.goal = TUNE_TIME;
    v.of[TUNE_TIME] = (struct compare_range){true, 0.9, true, 0.88, 0.92};
    v.of[TUNE_MEMORY] = (struct compare_range){true, 1.3, true, 1.2, 1.4};
    tap_ok(!tune_verdict_is_worth(&r, &v, 0.02), "for a fifth more memory");
    v.of[TUNE_MEMORY] = (struct compare_range){true, 1.08, true, 1.05, 1.2};
    tap_ok(tune_verdict_is_worth(&r, &v, 0.02), "for memory within the bound");
}

static bool is_in_range(const struct tool_setting *s,
                        const struct tune_dimension *d, int64_t v) {
    for (unsigned i = 0; i < d->values; i++)
        if (d->value[i] == v)
            return true;
    return s->step != 0 && v >= s->low && v <= s->high;
}

/* Invariants of searches with any scores. */
static void test_always(void) {
    bool budget = true, first = true, again = true, failed = true, range = true;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        size_t round[TUNE_ROUND], n;
        uint64_t runs = 8 + prng_below(&rng, 400), asked = 0;
        struct tune_search *s = tune_search_new(&space, runs, seed);
        while ((n = tune_search_ask(s, round)) != 0) {
            asked += n;
            first = first && round[0] == 0 && n >= 2 && n <= TUNE_ROUND;
            for (size_t i = 0; i < n; i++) {
                const struct tune_candidate *c = tune_search_at(s, round[i]);
                const struct tune_allocator *a =
                    &space.allocator[c->point.allocator];
                failed = failed && !c->failed;
                for (size_t k = 0; k < i; k++)
                    again = again && round[k] != round[i];
                for (unsigned d = 0; d < a->dimensions; d++)
                    range = range &&
                            (!tune_point_has(&c->point, d) ||
                             is_in_range(a->dimension[d].setting,
                                         &a->dimension[d], c->point.value[d]));
                tune_search_tell(s, round[i],
                                 round[i] == 0               ? 0
                                 : prng_below(&rng, 20) == 0 ? NAN
                                                             : gauss());
            }
        }
        budget = budget && asked <= runs && (asked + 24 > runs);
        tune_search_free(s);
    }
    tap_ok(budget, "no more runs than asked for, and about as many");
    tap_ok(first, "each round begins with the default");
    tap_ok(again, "a round has a point once");
    tap_ok(failed, "a point that failed is not asked for again");
    tap_ok(range, "values are in their ranges");
}

/* Hash of all rounds of a search without noise. */
static uint64_t course_of(uint64_t seed) {
    size_t round[TUNE_ROUND], n;
    uint64_t hash = 0;
    struct tune_search *s = tune_search_new(&space, 150, seed);
    while ((n = tune_search_ask(s, round)) != 0)
        for (size_t i = 0; i < n; i++) {
            const struct tune_point *p = &tune_search_at(s, round[i])->point;
            hash = (hash ^ p->set ^ p->allocator) * 0x100000001b3u;
            for (unsigned d = 0; d < TUNE_MOST_DIMENSIONS; d++)
                hash = (hash ^ (uint64_t)p->value[d]) * 0x100000001b3u;
            tune_search_tell(s, round[i], round[i] == 0 ? 0 : joint_cost(p));
        }
    tune_search_free(s);
    return hash;
}

static void test_seed(void) {
    tap_ok(course_of(7) == course_of(7), "a seed repeats the search");
    tap_ok(course_of(7) != course_of(8), "another one does not");
}

static void test_end(void) {
    struct tune_space small = {.allocator = NULL};
    struct tune_space all = space;
    (void)tune_space_add(&small, "y", &y, table, 8);
    space = small;
    struct tune_search *s = search(no_cost, 1000, 1, 0.01);
    tap_ok(tune_search_count(s) == 2, "a space of two points has two");
    tune_search_free(s);
    tune_space_free(&small);
    space = all;
}

static void test_space(void) {
    int64_t near[TUNE_MOST_NEIGHBOURS];
    char name[TUNE_NAME];
    struct tune_point p = {.allocator = 0};
    tap_ok(space.allocator[0].dimensions == 5, "settings of a version");
    unsigned n = tune_space_neighbours(&space, &p, C, near);
    bool good = n != 0;
    for (unsigned i = 0; i < n; i++)
        good = good && near[i] != 32 && near[i] >= 8 && near[i] <= 128;
    tap_ok(good, "beside a default");
    tune_point_set(&p, D, -1);
    n = tune_space_neighbours(&space, &p, D, near);
    tap_ok(n == 1 && near[0] == 0, "beside never");
    n = tune_space_neighbours(&space, &p, E, near);
    tap_ok(n == 2, "beside a default that is no number");
    tune_point_set(&p, B, 2);
    tap_ok(strcmp(tune_point_name(&space, &p, name), "x,B=r,D=-1") == 0,
           "a name");
    tune_point_unset(&p, B);
    tune_point_unset(&p, D);
    tap_ok(memcmp(&p, &(struct tune_point){0}, sizeof(p)) == 0,
           "unset settings leave nothing behind");
}

/* The table of known settings fits what the search expects of it. */
static void test_table(void) {
    size_t count;
    bool good = true;
    const struct tool_setting *s = tool_settings(&count);
    static const char *const name[] = {"glibc",           "jemalloc",
                                       "mimalloc",        "gperftools",
                                       "google-tcmalloc", TCM_ALLOCATOR_NAME};
    for (size_t i = 0; i < count; i++) {
        bool is_word = s[i].kind == SETTING_SWITCH || s[i].kind == SETTING_WORD;
        bool has_range = s[i].low < s[i].high && s[i].low > 0 && s[i].step >= 2;
        if (is_word ? s[i].step != 0 || s[i].unset[0] == '\0' : !has_range) {
            good = false;
            tap_diag("%s", s[i].setting);
        }
    }
    tap_ok(good, "numbers of the table have ranges and steps");
    size_t known_rows = 0, twice = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < TCM_ARRAY_SIZE(name); k++)
            known_rows += strcmp(s[i].allocator, name[k]) == 0;
        for (size_t k = 0; k < i; k++)
            twice += strcmp(s[i].allocator, s[k].allocator) == 0 &&
                     strcmp(s[i].setting, s[k].setting) == 0 &&
                     (s[k].below == 0 || s[i].from < s[k].below) &&
                     (s[i].below == 0 || s[k].from < s[i].below);
    }
    tap_ok(known_rows == count, "all rows belong to known allocators");
    tap_is_u64(twice, 0, "no version has two rows of a setting");
}

/* Default of SETTING and its number of values in mimalloc VERSION, which says
   TOLD of its settings; "": it is no part of the search. */
static const char *default_of(const char *setting, const char *version,
                              const char *told, unsigned *values) {
    static char text[TUNE_TEXT];
    char copy[TUNE_TEXT];
    char *list[] = {copy};
    size_t count;
    const struct tool_setting *s = tool_settings(&count);
    const struct tune_library library = {.known = "mimalloc",
                                         .version = version,
                                         .told = list,
                                         .tolds = told == NULL ? 0 : 1};
    struct tune_space known = {.allocator = NULL};
    snprintf(copy, sizeof(copy), "%s", told == NULL ? "" : told);
    (void)tune_space_add(&known, "m", &library, s, count);
    text[0] = '\0';
    *values = 0;
    for (unsigned d = 0; d < known.allocator[0].dimensions; d++) {
        const struct tune_dimension *dim = &known.allocator[0].dimension[d];
        if (strcmp(dim->setting->setting, setting) == 0) {
            snprintf(text, sizeof(text), "%s", dim->unset);
            *values = dim->values;
        }
    }
    tune_space_free(&known);
    return text;
}

static void test_versions(void) {
    unsigned n;
    tap_ok(tool_setting_version("mimalloc 3.4.3") == 304 &&
               tool_setting_version("glibc 2.36") == 236 &&
               tool_setting_version("jemalloc 5.3.0") == 503 &&
               tool_setting_version("tcmalloc") == 0 &&
               tool_setting_version("") == 0,
           "versions are read from what a library calls itself");
    tap_is_str(default_of("MIMALLOC_PURGE_DELAY=", "mimalloc 3.4.3", NULL, &n),
               "1000", "mimalloc 3 purges after 1000 ms");
    tap_is_str(default_of("MIMALLOC_PURGE_DELAY=", "mimalloc 2.1.7", NULL, &n),
               "10", "mimalloc 2 purges after 10 ms");
    tap_is_str(default_of("MIMALLOC_EAGER_COMMIT=", "mimalloc 3.4.3", NULL, &n),
               "", "a deprecated setting is not searched");
    tap_is_str(
        default_of("MIMALLOC_PAGE_FULL_RETAIN=", "mimalloc 2.4.1", NULL, &n),
        "", "a setting of a later version is not searched");
    tap_is_str(default_of("MIMALLOC_PURGE_DELAY=", "mimalloc 3.4.3",
                          "MIMALLOC_PURGE_DELAY=100", &n),
               "100", "what the library says goes before the table's default");
    tap_ok(n == 4, "the table's default is then worth a try");
    tap_is_str(default_of("MIMALLOC_ALLOW_THP=", "mimalloc 3.4.3",
                          "MIMALLOC_ALLOW_THP=0", &n),
               "0", "so it does for words");
    tap_ok(n == 2, "which have the other values left");
    tap_is_str(default_of("MIMALLOC_ALLOW_THP=", "mimalloc 3.4.3",
                          "MIMALLOC_ALLOW_THP=", &n),
               "", "a setting that the library lacks is not searched");
}

/* --- Finalists ------------------------------------------------------------ */

/* A run in a search for memory in which F=1 halves it and takes 15 % more time,
   and all else gains a tenth and costs nothing; or HARD: all costs as much. */
static void run_point(struct tune_runs *r, const struct tune_point *p,
                      bool hard) {
    char name[TUNE_NAME];
    bool is_f = tune_point_has(p, 0);
    struct tune_run *run = &r->run[r->count++];
    struct tune_figures *f = calloc(1, sizeof(*f));
    *f = (struct tune_figures){.time_ns =
                                   is_f || (hard && p->set != 0) ? 11.5 : 10,
                               .mean_bytes = is_f          ? 5e8
                                             : p->set == 0 ? 1e9
                                                           : 9e8,
                               .peak_bytes = 1e9};
    *run =
        (struct tune_run){.point = strdup(tune_point_name(&r->space, p, name)),
                          .round = r->rounds,
                          .trace = f};
}

static void test_finalists(bool hard) {
    static double rest[1];
    size_t round[TUNE_ROUND], n;
    char name[TUNE_NAME];
    struct compare_trace trace = {.ops = 1};
    struct tune_runs r = {.base = {.trace = &trace, .traces = 1},
                          .goal = TUNE_MEMORY,
                          .most_loss = 0.1,
                          .rest_ns = rest,
                          .run = calloc(200, sizeof(*r.run))};
    (void)tune_space_add(&r.space, "y", &y, table, TCM_ARRAY_SIZE(table));
    struct tune_search *s = tune_search_new(&r.space, 60, 1);
    while ((n = tune_search_ask(s, round)) != 0) {
        size_t first = r.count;
        r.rounds++;
        for (size_t i = 0; i < n; i++)
            run_point(&r, &tune_search_at(s, round[i])->point, hard);
        for (size_t i = 0; i < n; i++)
            tune_search_tell(s, round[i],
                             i == 0 ? 0
                                    : tune_runs_score(&r, &r.run[first + i]));
    }
    struct tune_outcome o = {.runs = &r, .search = s};
    bool good = tune_outcome_begin(&o) && o.finalists == 2;
    for (size_t i = 0; good && i < o.finalists; i++) {
        (void)tune_point_name(&r.space,
                              &tune_search_at(s, o.finalist[i])->point, name);
        good = tune_runs_is_within(&r, name) != hard;
    }
    tap_ok(good, hard ? "where all points lose too much, the best ones are "
                        "finalists"
                      : "finalists lose no more than is allowed");
    tap_ok(!tune_runs_is_within(&r, "y,F=1") &&
               fabs(tune_runs_loss(&r, "y,F=1") - 1.15) < 1e-9,
           "what a point loses is known");
    tune_outcome_free(&o);
    tune_search_free(s);
    tune_space_free(&r.space);
    for (size_t i = 0; i < r.count; i++) {
        free(r.run[i].point);
        free(r.run[i].trace);
    }
    free(r.run);
}

int main(void) {
    prng_seed(&rng, 20261125);
    make_space();
    test_space();
    test_table();
    test_versions();
    test_finalists(false);
    test_finalists(true);
    test_worth();
    test_always();
    test_seed();
    test_end();
    test_joint();
    test_valley();
    test_simple();
    test_nothing();
    tune_space_free(&space);
    return tap_done();
}
