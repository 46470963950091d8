/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/tune/tune_search.h"

#include "base/check.h"
#include "common/collections.h"
#include "common/main.h"
#include "model/interval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parts of the runs, in hundredths, at which a phase ends. */
enum { SCREEN_END = 45, HALVE_END = 60, PRUNE_BEGIN = 80, LAST_BEGIN = 90 };

/* Points that a step of refinement proposes, those of them that are beside the
   best one, and tries to find one that is new. */
enum { PROPOSALS = 7, BESIDE = 4, TRIES = 60 };
/* Runs after which a point is sure enough to lead, those of the best at the
   end, and how many of the best are made so. */
enum { SURE_RUNS = 3, LAST_RUNS = 6, SURE_POINTS = 4 };

/* Cost of a setting, and of another allocator than the default: of two points
   that cost the same, the simpler one is better. */
#define SETTING_PRICE   0.001
#define ALLOCATOR_PRICE 0.002
/* Standard deviation of a score until runs have shown it. */
#define NOISE_AT_FIRST 0.01

enum phase { PHASE_SCREEN, PHASE_HALVE, PHASE_COMBINE, PHASE_REFINE };

struct tune_search {
    const struct tune_space *space;
    uint64_t runs, asked, state;
    struct tune_candidate *list;
    size_t count, room;
    size_t *queue; /* candidates that later rounds ask for */
    size_t queued, queue_room;
    enum phase phase;
    size_t keep; /* candidates of the next halving */
    bool full;   /* out of memory */
};

/* --- Chance --------------------------------------------------------------- */

static size_t random_below(struct tune_search *s, size_t n) {
    TCM_ASSERT(n != 0);
    return (size_t)(tool_random_next(&s->state) % n);
}

/* --- Candidates ----------------------------------------------------------- */

static size_t find_point(const struct tune_search *s,
                         const struct tune_point *p) {
    for (size_t i = 0; i < s->count; i++)
        if (memcmp(&s->list[i].point, p, sizeof(*p)) == 0)
            return i;
    return SIZE_MAX;
}

static size_t add_point(struct tune_search *s, const struct tune_point *p) {
    if (s->full || !tool_array_reserve(&s->list, &s->room, s->count + 1,
                                       sizeof(*s->list))) {
        s->full = true;
        return SIZE_MAX;
    }
    s->list[s->count] = (struct tune_candidate){.point = *p};
    return s->count++;
}

static void put_in_queue(struct tune_search *s, size_t candidate) {
    if (candidate == SIZE_MAX || candidate == 0)
        return;
    for (size_t i = 0; i < s->queued; i++)
        if (s->queue[i] == candidate)
            return;
    if (!tool_array_reserve(&s->queue, &s->queue_room, s->queued + 1,
                            sizeof(*s->queue))) {
        s->full = true;
        return;
    }
    s->queue[s->queued++] = candidate;
}

/* Puts a point that no candidate has into the queue. */
static bool propose(struct tune_search *s, const struct tune_point *p) {
    if (find_point(s, p) != SIZE_MAX)
        return false;
    put_in_queue(s, add_point(s, p));
    return true;
}

struct tune_search *tune_search_new(const struct tune_space *space,
                                    uint64_t runs, uint64_t seed) {
    struct tune_search *s = calloc(1, sizeof(*s));
    if (s != NULL) {
        *s = (struct tune_search){.space = space, .runs = runs, .state = seed};
        (void)add_point(s, &(struct tune_point){0});
    }
    if (s == NULL || s->full) {
        tool_out_of_memory();
        tune_search_free(s);
        return NULL;
    }
    return s;
}

void tune_search_free(struct tune_search *s) {
    if (s == NULL)
        return;
    free(s->list);
    free(s->queue);
    free(s);
}

size_t tune_search_count(const struct tune_search *s) {
    return s->count;
}

const struct tune_candidate *tune_search_at(const struct tune_search *s,
                                            size_t candidate) {
    TCM_ASSERT(candidate < s->count);
    return &s->list[candidate];
}

/* --- Ranks ---------------------------------------------------------------- */

static double variance_of(const struct tune_candidate *c) {
    double squares = c->squares - c->sum * c->sum / c->runs;
    return c->runs < 2 ? 0 : fmax(squares, 0) / (c->runs - 1);
}

/* Standard deviation of the scores of one point, from the middle of all points'
   variances: points far beyond a bound on the other quantity scatter more, and
   do not matter. Two or three runs have 0.6 of it in the middle. */
static double noise_of(const struct tune_search *s) {
    double *variance = calloc(s->count, sizeof(*variance));
    double noise = NOISE_AT_FIRST;
    size_t n = 0;
    for (size_t i = 1; variance != NULL && i < s->count; i++) {
        const struct tune_candidate *c = &s->list[i];
        if (!c->failed && c->runs >= 2)
            variance[n++] = variance_of(c);
    }
    if (n >= 4)
        noise = sqrt(interval_median(variance, n) / 0.6);
    free(variance);
    return noise;
}

/* Mean and ERRORS standard errors, and the price of its settings. */
static double cost_of(const struct tune_candidate *c, double noise,
                      double errors) {
    if (c->runs == 0 || c->failed)
        return INFINITY;
    bool is_default = c->point.allocator == 0 && c->point.set == 0;
    return c->sum / c->runs +
           (is_default ? 0 : errors * noise / sqrt(c->runs)) +
           SETTING_PRICE * __builtin_popcount(c->point.set) +
           (c->point.allocator == 0 ? 0 : ALLOCATOR_PRICE);
}

struct rank {
    size_t candidate;
    double cost;
};

static int rank_compare(const void *a, const void *b) {
    const struct rank *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? -1 : 1;
    return x->candidate < y->candidate ? -1 : x->candidate > y->candidate;
}

/* Standard errors by which a point counts as worse: of all that were tried,
   where the luckiest must not lead; and of those to try next. */
#define ERRORS_TO_LEAD 2
#define ERRORS_TO_TRY  1

/* Sorts the candidates that ran. */
static size_t sort_candidates(const struct tune_search *s, struct rank *rank,
                              double noise, double errors) {
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].runs != 0 && !s->list[i].failed) {
            rank[n].candidate = i;
            rank[n++].cost = cost_of(&s->list[i], noise, errors);
        }
    qsort(rank, n, sizeof(*rank), rank_compare);
    return n;
}

/* Square of the standard error of C's mean: its own scatter counts where it is
   larger than that of the others, as of a point at a bound. */
static double error_of(const struct tune_candidate *c, double noise) {
    return fmax(noise * noise, variance_of(c)) / c->runs;
}

/* Puts the simplest of those first that are not told apart from the best: by
   less than two standard errors of the difference. */
static void put_simplest_first(const struct tune_search *s, struct rank *rank,
                               size_t n, double noise) {
    const struct tune_candidate *first = &s->list[rank[0].candidate];
    unsigned least = (unsigned)__builtin_popcount(first->point.set);
    size_t best = 0;
    for (size_t i = 1; i < n && rank[0].candidate != 0; i++) {
        const struct tune_candidate *c = &s->list[rank[i].candidate];
        unsigned settings = (unsigned)__builtin_popcount(c->point.set);
        double error = sqrt(error_of(first, noise) + error_of(c, noise));
        if (rank[i].candidate == 0 || c->runs < SURE_RUNS ||
            settings >= least || rank[i].cost - rank[0].cost > 2 * error)
            continue;
        least = settings;
        best = i;
    }
    struct rank r = rank[best];
    memmove(rank + 1, rank, best * sizeof(*rank));
    rank[0] = r;
}

size_t tune_search_rank(const struct tune_search *s, size_t *order) {
    double noise = noise_of(s);
    struct rank *rank = calloc(s->count, sizeof(*rank));
    if (rank == NULL)
        return 0;
    size_t n = sort_candidates(s, rank, noise, ERRORS_TO_LEAD);
    if (n != 0)
        put_simplest_first(s, rank, n, noise);
    for (size_t i = 0; i < n; i++)
        order[i] = rank[i].candidate;
    free(rank);
    return n;
}

/* Works like tune_search_rank, for choosing what to try: by cost alone. */
static size_t rank_by_cost(const struct tune_search *s, size_t *order) {
    struct rank *rank = calloc(s->count, sizeof(*rank));
    if (rank == NULL)
        return 0;
    size_t n = sort_candidates(s, rank, noise_of(s), ERRORS_TO_TRY);
    for (size_t i = 0; i < n; i++)
        order[i] = rank[i].candidate;
    free(rank);
    return n;
}

/* --- Screening and halving ------------------------------------------------ */

static uint64_t share_of(const struct tune_search *s, unsigned hundredths) {
    return s->runs * hundredths / 100;
}

/* Runs of points that fit until ASKED is LIMIT; each round has one of the
   default. */
static size_t points_until(const struct tune_search *s, uint64_t limit) {
    uint64_t left = limit > s->asked ? limit - s->asked : 0;
    return (size_t)(left * (TUNE_ROUND - 1) / TUNE_ROUND);
}

/* Queues every allocator, then its settings one at a time in random order, as
   far as the runs of this phase go. */
static void begin_screen(struct tune_search *s) {
    size_t first = s->count, most;
    for (uint32_t a = 1; a < s->space->allocators; a++)
        (void)propose(s, &(struct tune_point){.allocator = a});
    size_t defaults = s->queued;
    for (uint32_t a = 0; a < s->space->allocators; a++)
        for (unsigned d = 0; d < s->space->allocator[a].dimensions; d++) {
            const struct tune_dimension *dim =
                &s->space->allocator[a].dimension[d];
            for (unsigned i = 0; i < dim->values; i++) {
                struct tune_point p = {.allocator = a};
                tune_point_set(&p, d, dim->value[i]);
                (void)propose(s, &p);
            }
        }
    for (size_t i = s->queued; i > defaults + 1; i--) {
        size_t k = defaults + random_below(s, i - defaults);
        size_t swap = s->queue[i - 1];
        s->queue[i - 1] = s->queue[k];
        s->queue[k] = swap;
    }
    TCM_ASSERT(s->full || s->queued == s->count - first);
    most = points_until(s, share_of(s, SCREEN_END));
    if (most < defaults)
        most = defaults;
    if (s->queued > most)
        s->queued = most;
    s->keep = s->queued / 3;
    s->phase = PHASE_HALVE;
}

/* Queues the best half of those that the last step queued. */
static void halve(struct tune_search *s, const size_t *order, size_t n) {
    for (size_t i = 0; i < n && s->queued < s->keep; i++)
        put_in_queue(s, order[i]);
    s->keep /= 2;
}

/* --- Combining ------------------------------------------------------------ */

/* Queues unions of the best single settings of allocator A: of two, of three,
   and so on, those that gain more than the noise. */
static void combine_singles(struct tune_search *s, const size_t *order,
                            size_t n, uint32_t a, double noise) {
    struct tune_point p = {.allocator = a};
    size_t plain = find_point(s, &p);
    unsigned taken = 0;
    if (plain == SIZE_MAX || s->list[plain].runs == 0)
        return;
    double limit = cost_of(&s->list[plain], noise, ERRORS_TO_TRY) -
                   fmax(SETTING_PRICE, noise / 2);
    for (size_t i = 0; i < n; i++) {
        const struct tune_candidate *c = &s->list[order[i]];
        if (c->point.allocator != a || (c->point.set & p.set) != 0 ||
            __builtin_popcount(c->point.set) != 1 ||
            cost_of(c, noise, ERRORS_TO_TRY) > limit)
            continue;
        unsigned d = (unsigned)__builtin_ctz(c->point.set);
        tune_point_set(&p, d, c->point.value[d]);
        if (++taken >= 2)
            (void)propose(s, &p);
    }
}

/* Queues combinations for the best allocators. */
static void combine(struct tune_search *s, const size_t *order, size_t n) {
    double noise = noise_of(s);
    uint32_t seen[3];
    size_t count = 0;
    for (size_t i = 0; i < n && count < TCM_ARRAY_SIZE(seen); i++) {
        uint32_t a = s->list[order[i]].point.allocator;
        bool known = false;
        for (size_t k = 0; k < count; k++)
            known = known || seen[k] == a;
        if (!known)
            seen[count++] = a;
    }
    for (size_t k = 0; k < count; k++)
        combine_singles(s, order, n, seen[k], noise);
}

/* --- Refining ------------------------------------------------------------- */

/* Sets a random dimension of P to a value beside the one that it has, or to
   any in the list, or unsets it. */
static void change_one(struct tune_search *s, struct tune_point *p) {
    const struct tune_allocator *a = &s->space->allocator[p->allocator];
    int64_t near[TUNE_MOST_NEIGHBOURS];
    if (a->dimensions == 0)
        return;
    unsigned d = (unsigned)random_below(s, a->dimensions);
    if (tune_point_has(p, d) && random_below(s, 4) == 0) {
        tune_point_unset(p, d);
        return;
    }
    const struct tune_dimension *dim = &a->dimension[d];
    unsigned n = tune_space_neighbours(s->space, p, d, near);
    if (n == 0 || random_below(s, 3) == 0)
        tune_point_set(p, d, dim->value[random_below(s, dim->values)]);
    else
        tune_point_set(p, d, near[random_below(s, n)]);
}

/* Takes each setting of P from it or from Q, by chance. */
static void cross(struct tune_search *s, struct tune_point *p,
                  const struct tune_point *q) {
    if (q->allocator != p->allocator)
        return;
    for (unsigned d = 0; d < s->space->allocator[p->allocator].dimensions; d++)
        if (random_below(s, 2) == 0) {
            if (tune_point_has(q, d))
                tune_point_set(p, d, q->value[d]);
            else
                tune_point_unset(p, d);
        }
}

/* Chooses one of the best points: each half as often as the one before it. */
static const struct tune_point *choose_parent(struct tune_search *s,
                                              const size_t *order, size_t n) {
    size_t rank = 0;
    while (rank + 1 < n && rank < 8 && random_below(s, 2) == 0)
        rank++;
    return &s->list[order[rank]].point;
}

/* The best point of another allocator than the best one's; NULL: there is
   none. */
static const struct tune_point *other_allocator(const struct tune_search *s,
                                                const size_t *order, size_t n) {
    for (size_t i = 1; i < n; i++)
        if (s->list[order[i]].point.allocator !=
            s->list[order[0]].point.allocator)
            return &s->list[order[i]].point;
    return NULL;
}

/* Queues one new point; false: none was found. */
static bool propose_near(struct tune_search *s, const size_t *order, size_t n) {
    for (unsigned i = 0; i < TRIES; i++) {
        const struct tune_point *other = other_allocator(s, order, n);
        const struct tune_point *parent =
            random_below(s, 6) == 0 && other != NULL
                ? other
                : choose_parent(s, order, n);
        struct tune_point p = *parent;
        size_t move = random_below(s, 10);
        if (move < 2)
            cross(s, &p, choose_parent(s, order, n));
        else
            change_one(s, &p);
        if (move >= 6)
            change_one(s, &p);
        if (move == 9)
            change_one(s, &p);
        if (propose(s, &p))
            return true;
    }
    return false;
}

/* Queues the best point with each of its settings left out. */
static void prune(struct tune_search *s, const struct tune_point *best) {
    const struct tune_point from = *best; /* candidates may move */
    for (unsigned d = 0; d < TUNE_MOST_DIMENSIONS; d++) {
        struct tune_point p = from;
        if (!tune_point_has(&p, d))
            continue;
        tune_point_unset(&p, d);
        (void)propose(s, &p);
    }
}

/* Queues the best point with a setting at a value beside the one that it has,
   MOST such points. */
static void propose_beside(struct tune_search *s, const struct tune_point *best,
                           size_t most) {
    const struct tune_point from = *best; /* candidates may move */
    unsigned dimensions = s->space->allocator[from.allocator].dimensions;
    if (from.set == 0)
        return;
    size_t first = random_below(s, dimensions);
    for (size_t i = 0; i < dimensions && most != 0; i++) {
        int64_t near[TUNE_MOST_NEIGHBOURS];
        unsigned d = (unsigned)((first + i) % dimensions);
        if (!tune_point_has(&from, d))
            continue;
        unsigned n = tune_space_neighbours(s->space, &from, d, near);
        for (unsigned k = 0; k < n && most != 0; k++) {
            struct tune_point p = from;
            tune_point_set(&p, d, near[k]);
            most -= propose(s, &p);
        }
    }
}

/* Queues the best points that ran less than RUNS times. */
static void make_sure(struct tune_search *s, const size_t *order, size_t n,
                      unsigned runs) {
    for (size_t i = 0; i < n && i < SURE_POINTS; i++)
        if (s->list[order[i]].runs < runs)
            put_in_queue(s, order[i]);
}

static void refine(struct tune_search *s, const size_t *order, size_t n) {
    bool is_last = s->asked >= share_of(s, LAST_BEGIN);
    make_sure(s, order, n, is_last ? LAST_RUNS : SURE_RUNS);
    size_t sure = s->queued;
    if (s->asked >= share_of(s, PRUNE_BEGIN))
        prune(s, &s->list[order[0]].point);
    if (is_last && s->queued != 0)
        return;
    propose_beside(s, &s->list[order[0]].point, BESIDE);
    while (s->queued < sure + PROPOSALS && propose_near(s, order, n))
        continue;
}

/* --- Rounds --------------------------------------------------------------- */

/* Fills the empty queue with the next step; leaves it empty at the end. */
static void fill_queue(struct tune_search *s) {
    if (s->phase == PHASE_SCREEN) {
        begin_screen(s);
        if (s->queued != 0)
            return;
    }
    size_t *order = calloc(s->count, sizeof(*order));
    size_t n = order == NULL ? 0 : rank_by_cost(s, order);
    if (n == 0) {
        free(order);
        return;
    }
    if (s->phase == PHASE_HALVE) {
        if (s->keep >= 2 && s->asked < share_of(s, HALVE_END))
            halve(s, order, n);
        else
            s->phase = PHASE_COMBINE;
    }
    if (s->phase == PHASE_COMBINE) {
        s->phase = PHASE_REFINE;
        combine(s, order, n);
    }
    if (s->phase == PHASE_REFINE && s->queued == 0)
        refine(s, order, n);
    free(order);
}

size_t tune_search_ask(struct tune_search *s, size_t round[TUNE_ROUND]) {
    size_t n = 1;
    if (s->asked + 2 > s->runs)
        return 0;
    if (s->queued == 0)
        fill_queue(s);
    if (s->full || s->queued == 0)
        return 0;
    round[0] = 0;
    size_t taken = 0;
    while (taken < s->queued && n < TUNE_ROUND && s->asked + n < s->runs) {
        size_t candidate = s->queue[taken++];
        if (!s->list[candidate].failed)
            round[n++] = candidate;
    }
    s->queued -= taken;
    memmove(s->queue, s->queue + taken, s->queued * sizeof(*s->queue));
    s->asked += n;
    TCM_ASSERT(s->asked <= s->runs);
    return n == 1 ? tune_search_ask(s, round) : n;
}

void tune_search_tell(struct tune_search *s, size_t candidate, double score) {
    TCM_ASSERT(candidate < s->count);
    struct tune_candidate *c = &s->list[candidate];
    TCM_ASSERT(candidate != 0 || isnan(score) || score == 0);
    if (isnan(score)) {
        c->failed = true;
        return;
    }
    c->runs++;
    c->sum += score;
    c->squares += score * score;
}
