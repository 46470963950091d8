/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Budgets of thread caches against a model with each budget and the total; the
 * memory of bins; sums over existing and removed caches.
 */
#include "core/cache_registry.h"
#include "core/meta_alloc.h"
#include "core_test.h"

#define MIN_BUDGET ((int64_t)TCM_MIN_CACHE_BUDGET)
#define MIN_SHARE  ((int64_t)TCM_LEAST_CACHE_BUDGET)
#define CLAIM_STEP ((int64_t)TCM_CACHE_BUDGET_STEP)
#define CACHES     6 /* few enough that one search for budget reaches all */
#define STEPS      20000

static struct tcm_thread_cache *cache[CACHES];
static int64_t model[CACHES]; /* budgets */
static unsigned count;
static int64_t total;

static int64_t unclaimed(void) {
    int64_t sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += model[i];
    return total - sum;
}

/* Budget that no cache gives away. */
static int64_t least(void) {
    int64_t share = count > 1 ? total / count : total;
    return share > MIN_BUDGET  ? MIN_BUDGET
           : share < MIN_SHARE ? MIN_SHARE
                               : share;
}

static int64_t above(unsigned i) {
    return model[i] > least() ? model[i] - least() : 0;
}

static bool same_as_model(void) {
    bool good = tcm_registry_budget() == (uint64_t)total;
    for (unsigned i = 0; i < count; i++)
        good &= cache[i]->budget_bytes == (uint64_t)model[i];
    return good;
}

struct verdict {
    bool add, claim, rob, told, total, others;
};

/* A new cache has its share; other caches give what is missing. */
static void step_add(struct verdict *v) {
    cache[count] = tcm_cache_new();
    if (cache[count] == NULL)
        tap_bail("out of memory");
    count++;
    model[count - 1] = least();
    int64_t missing = -unclaimed(), most = 0, given = 0;
    for (unsigned i = 0; i < count - 1; i++) {
        int64_t gave = model[i] - (int64_t)cache[i]->budget_bytes;
        v->add &= gave >= 0 && gave <= above(i);
        most += above(i);
        given += gave;
        model[i] -= gave;
    }
    v->add &= given == (missing < 0 ? 0 : missing < most ? missing : most);
}

static void step_claim(struct prng *random, struct verdict *v) {
    unsigned who = (unsigned)prng_below(random, count);
    int64_t bytes = (int64_t)prng_below(random, 300 << 10);
    int64_t want = bytes > CLAIM_STEP ? bytes : CLAIM_STEP;
    int64_t left = unclaimed();
    bool done = tcm_registry_claim(cache[who], (uint64_t)bytes);
    int64_t got = (int64_t)cache[who]->budget_bytes - model[who];
    v->told &= done == (got >= bytes);
    if (left >= want) {
        v->claim &= got == want;
        model[who] += want;
        return;
    }
    /* the most, up to WANT, that another cache has above the minimum */
    unsigned victims = 0;
    int64_t most = 0;
    for (unsigned i = 0; i < count; i++) {
        int64_t now = (int64_t)cache[i]->budget_bytes;
        if (i == who)
            continue;
        most = above(i) > most ? above(i) : most;
        if (now == model[i])
            continue;
        victims++;
        v->rob &=
            model[i] - now == got && got == (above(i) < want ? above(i) : want);
        model[i] = now;
    }
    v->rob &= victims == (most > 0 ? 1 : 0) && got >= 0;
    model[who] += got;
}

static void step_total(struct prng *random) {
    total = (int64_t)prng_below(random, 12 << 20);
    tcm_registry_set_budget((uint64_t)total);
    for (unsigned i = 0; i < count; i++) {
        int64_t left = unclaimed();
        if (left < 0)
            model[i] -= above(i) < -left ? above(i) : -left;
    }
}

static void test_budgets(void) {
    struct prng random;
    struct verdict v = {true, true, true, true, true, true};
    prng_seed(&random, 4);
    total = (int64_t)tcm_registry_budget();
    tap_is_i64(total, 48 << 20, "the total at first");
    total = 6 << 20;
    tcm_registry_set_budget((uint64_t)total);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned what = (unsigned)prng_below(&random, 100);
        if (count == 0 || (what < 3 && count < CACHES)) {
            step_add(&v);
        } else if (what < 5) {
            unsigned i = (unsigned)prng_below(&random, count);
            tcm_cache_destroy(cache[i]);
            count--;
            memmove(&cache[i], &cache[i + 1], (count - i) * sizeof(cache[0]));
            memmove(&model[i], &model[i + 1], (count - i) * sizeof(model[0]));
        } else if (what < 8) {
            step_total(&random);
            v.total &= same_as_model();
        } else {
            step_claim(&random, &v);
        }
        v.others &= same_as_model();
    }
    tap_ok(v.add, "a new cache has the minimum or its share of the total");
    tap_ok(v.claim, "what is unclaimed is given, in steps");
    tap_ok(v.rob, "then one other cache gives what it has above that");
    tap_ok(v.told, "the answer tells whether it was enough");
    tap_ok(v.total, "a lower total is taken from the caches, in their order");
    tap_ok(v.others, "no other budget changes");
    tcm_registry_set_budget(UINT64_MAX);
    total = INT64_MAX / 2;
    tap_ok(same_as_model(), "a total without bound is bounded");
    while (count != 0)
        tcm_cache_destroy(cache[--count]);
    total = 48 << 20;
    tcm_registry_set_budget((uint64_t)total);
    tap_is_i64(unclaimed(), total, "all is unclaimed again");
    cache[count] = tcm_cache_new();
    model[count++] = MIN_BUDGET;
    bool all = tcm_registry_claim(cache[0], (uint64_t)(total - MIN_BUDGET));
    tap_ok(all && cache[0]->budget_bytes == (uint64_t)total,
           "and one cache can have it");
    tap_ok(!tcm_registry_claim(cache[0], 1), "no more");
    tcm_cache_destroy(cache[--count]);
}

/* A thousand caches, each with many objects to keep: the sum stays near the
   total. */
static void test_many(void) {
    enum { MANY = 1000, BLOCKS = 400, ROUNDS = 8 };
    static struct tcm_thread_cache *many[MANY];
    static void *block[BLOCKS];
    struct prng random;
    prng_seed(&random, 9);
    for (unsigned i = 0; i < MANY; i++) {
        many[i] = tcm_cache_new();
        if (many[i] == NULL)
            tap_bail("out of memory");
    }
    uint64_t budgets = 0;
    for (unsigned i = 0; i < MANY; i++)
        budgets += many[i]->budget_bytes;
    tap_ok(budgets <= ((uint64_t)56 << 20), "budgets of %d caches: %llu KiB",
           MANY, (unsigned long long)budgets / 1024);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            for (unsigned k = 0; k < BLOCKS; k++)
                block[k] = test_alloc(many[i], prng_below(&random, 4000));
            unsigned other = (unsigned)prng_below(&random, MANY);
            for (unsigned k = 0; k < BLOCKS; k++)
                test_free(many[other], block[k]);
        }
    }
    struct tcm_registry_totals now;
    tcm_registry_totals(&now);
    tap_ok(now.cached_bytes <= ((uint64_t)64 << 20),
           "what they hold after use: %llu KiB",
           (unsigned long long)now.cached_bytes / 1024);
    for (unsigned i = 0; i < MANY; i++)
        tcm_cache_destroy(many[i]);
}

/* Registered round by round; the search goes on where it ended. */
static void test_turns(void) {
    unsigned robbed[3] = {0, 0, 0};
    uint64_t more = 20 * CLAIM_STEP;
    for (count = 0; count < 4; count++)
        cache[count] = tcm_cache_new();
    for (unsigned i = 1; i < 4; i++)
        tcm_registry_claim(cache[i], more);
    /* All of the total is claimed. */
    uint64_t sum = 0;
    for (unsigned i = 0; i < 4; i++)
        sum += cache[i]->budget_bytes;
    tcm_registry_set_budget(sum);
    for (unsigned turn = 0; turn < 30; turn++) {
        uint64_t before[4];
        for (unsigned i = 0; i < 4; i++)
            before[i] = cache[i]->budget_bytes;
        tcm_registry_claim(cache[0], 1);
        for (unsigned i = 1; i < 4; i++)
            robbed[i - 1] += cache[i]->budget_bytes < before[i];
    }
    tap_ok(robbed[0] == 10 && robbed[1] == 10 && robbed[2] == 10,
           "caches give in turn: %u %u %u", robbed[0], robbed[1], robbed[2]);
    while (count != 0)
        tcm_cache_destroy(cache[--count]);
    tcm_registry_set_budget(48 << 20);
}

static void test_regions(void) {
    enum { EACH = 4 };
    static struct tcm_entry *region[TCM_MAX_REGION_LOG + 1][EACH];
    bool kept = true, again = true;
    for (unsigned k = 0; k <= TCM_MAX_REGION_LOG; k++) {
        for (unsigned i = 0; i < EACH; i++) {
            region[k][i] = tcm_registry_get_region(k);
            if (region[k][i] == NULL)
                tap_bail("out of memory");
            memset(region[k][i], (int)(k * EACH + i + 1),
                   sizeof(struct tcm_entry) << k);
        }
    }
    for (unsigned k = 0; k <= TCM_MAX_REGION_LOG; k++) {
        for (unsigned i = 0; i < EACH; i++) {
            const uint8_t *p = (const uint8_t *)region[k][i];
            for (size_t b = 0; b < sizeof(struct tcm_entry) << k; b++)
                kept &= p[b] == k * EACH + i + 1;
        }
    }
    for (unsigned k = 0; k <= TCM_MAX_REGION_LOG; k++) {
        tcm_registry_put_region(k, region[k][1]);
        tcm_registry_put_region(k, region[k][2]);
        again &= tcm_registry_get_region(k) == region[k][2] &&
                 tcm_registry_get_region(k) == region[k][1];
    }
    tap_ok(kept, "regions of all lengths do not overlap");
    tap_ok(again, "and are used again");
}

static void note_order(struct tcm_thread_cache *c, void *argument) {
    unsigned *next = argument;
    if (*next < CACHES && cache[*next] == c)
        (*next)++;
    else
        *next = CACHES + 1;
}

static void test_totals(void) {
    struct tcm_registry_totals before, now;
    tcm_registry_totals(&before);
    tap_ok(before.caches == 0 && before.cached_bytes == 0, "none at first");
    for (count = 0; count < CACHES; count++)
        cache[count] = tcm_cache_new();
    unsigned seen = 0;
    tcm_registry_each(note_order, &seen);
    tap_is_u64(seen, CACHES, "each is visited, in the order of their making");

    unsigned size_class = tcm_size_class(100);
    void *block[40];
    for (unsigned i = 0; i < 40; i++)
        block[i] = test_alloc(cache[i % 2], 100);
    for (unsigned i = 0; i < 40; i++)
        test_free(cache[i % 2], block[i]);
    uint64_t bytes = 0, misses = 0, overflows = 0;
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned k = 1; k < tcm_class_count; k++) {
            size_t n = (size_t)(cache[i]->bin[k].top - cache[i]->cold[k].base);
            bytes += n * tcm_class[k].size;
        }
        misses += cache[i]->misses;
        overflows += cache[i]->overflows;
    }
    tcm_registry_totals(&now);
    tap_is_u64(now.caches, CACHES, "caches");
    tap_ok(bytes >= tcm_class[size_class].size && now.cached_bytes == bytes,
           "bytes in them: %llu", (unsigned long long)bytes);
    tap_ok(misses != 0 && now.misses == before.misses + misses, "misses");
    cache[3]->overflows += 1000;
    overflows += 1000;
    while (count != 0)
        tcm_cache_destroy(cache[--count]);
    tcm_registry_totals(&now);
    tap_ok(now.caches == 0 && now.cached_bytes == 0, "none at last");
    tap_ok(now.misses >= before.misses + misses &&
               now.overflows >= before.overflows + overflows,
           "the counters of those that are gone stay in the sums");
}

static void test_memory(void) {
    struct tcm_thread_cache *first = tcm_cache_new();
    tcm_cache_destroy(first);
    char *before = tcm_meta_alloc(1);
    bool same = true;
    for (unsigned i = 0; i < 50; i++) {
        struct tcm_thread_cache *c = tcm_cache_new();
        same &= c == first;
        tcm_cache_destroy(c);
    }
    tap_ok(same && (char *)tcm_meta_alloc(1) == before + TCM_META_ALIGN,
           "a cache's memory is used for the next one");
}

int main(void) {
    if (!tcm_heap_init())
        tap_bail("no heap");
    test_totals();
    test_budgets();
    test_turns();
    test_many();
    test_regions();
    test_memory();
    return tap_done();
}
