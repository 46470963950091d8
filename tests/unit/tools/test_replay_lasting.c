/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The greatest value that lasts: against all stretches of a curve, looked at
 * one by one, and on curves with more values than it keeps.
 */
#include "cmd/replay/watch/lasting.h"

#include "tests/lib/prng.h"
#include "tests/lib/tap.h"

#include <string.h>

static struct lasting l;

static void start(void) {
    memset(&l, 0, sizeof(l));
}

static void test_few(void) {
    start();
    tap_ok(lasting_most(&l, 5, 100) == NULL, "no value");
    lasting_add(&l, 10, -3, 1);
    tap_is_u64(lasting_most(&l, 5, 10)->tag, 1, "one that does not last");
    lasting_add(&l, 20, 900, 2);
    lasting_add(&l, 22, 900, 3);
    lasting_add(&l, 23, 40, 4);
    lasting_add(&l, 30, 50, 5);
    lasting_add(&l, 98, 60, 6);
    lasting_add(&l, 99, 800, 7);
    const struct lasting_value *v = lasting_most(&l, 3, 100);
    tap_ok(v->value == 50 && v->tag == 5, "neither a spike nor the last one");
    tap_is_u64(lasting_most(&l, 2, 100)->tag, 2, "a spike that lasts");
    tap_is_u64(lasting_most(&l, 75, 100)->tag, 4, "the least of a stretch");
    tap_is_u64(lasting_most(&l, 1000, 100)->tag, 2,
               "the greatest of all where nothing lasts");
    tap_is_u64(lasting_longest(&l, 45, 10, 100)->tag, 5, "the longest");
    tap_ok(lasting_longest(&l, 45, 70, 100) == NULL, "too long");
    tap_ok(lasting_longest(&l, 850, 3, 100) == NULL, "too much");
    lasting_add(&l, 99, 70, 8);
    tap_is_u64(lasting_most(&l, 1, 100)->tag, 2, "two values at one time");
}

/* The least value that holds, before or behind a change, in the time from FROM
   up to FROM + LENGTH. */
static int64_t least_from(const uint64_t *at, const int64_t *value, unsigned n,
                          uint64_t from, uint64_t length) {
    int64_t least = INT64_MAX;
    for (unsigned i = 0; i < n; i++)
        if (at[i] < from + length && (i + 1 == n || at[i + 1] > from)) {
            least = value[i] < least ? value[i] : least;
            if (i + 1 < n && value[i + 1] < least)
                least = value[i + 1];
        }
    return least;
}

static void test_all_stretches(void) {
    struct prng rng;
    prng_seed(&rng, 7);
    unsigned wrong = 0;
    for (unsigned round = 0; round < 300; round++) {
        uint64_t at[12], length = 1 + prng_below(&rng, 20), now = 0;
        int64_t value[12], best = INT64_MIN;
        unsigned n = 1 + (unsigned)prng_below(&rng, 12);
        start();
        for (unsigned i = 0; i < n; i++) {
            now += 1 + prng_below(&rng, 9);
            at[i] = now;
            value[i] = (int64_t)prng_below(&rng, 50) - 20;
            lasting_add(&l, now, value[i], i);
        }
        uint64_t end = now + prng_below(&rng, 9);
        for (uint64_t from = at[0]; from + length <= end; from++) {
            int64_t v = least_from(at, value, n, from, length);
            best = v > best ? v : best;
        }
        const struct lasting_value *got = lasting_most(&l, length, end);
        if (best != INT64_MIN)
            wrong += got->value != best || value[got->tag] != best;
    }
    tap_is_u64(wrong, 0, "equals the best of all stretches");
}

static void test_many(void) {
    enum { N = 1000000 };
    start();
    /* 5,000 for a twentieth of the time, spikes of 9,000 for a unit each. */
    for (uint64_t i = 0; i < N; i++) {
        bool high = i >= N / 2 && i < N / 2 + N / 20;
        lasting_add(&l, i, high ? 5000 : i % 1000 == 0 ? 9000 : 100, i);
    }
    const struct lasting_value *v = lasting_most(&l, N / 100, N);
    tap_ok(v->value == 5000 && v->tag >= N / 2 && v->tag < N / 2 + N / 20,
           "a million values");
    /* A dense beginning does not take the places of a long pause. */
    start();
    for (uint64_t i = 0; i < 3 * LASTING_VALUES; i++)
        lasting_add(&l, i, 1000, i);
    lasting_add(&l, 100000000, 1000, 100000000);
    lasting_add(&l, 100000001, 60, 100000001);
    for (uint64_t i = 0; i < 3 * LASTING_VALUES; i++)
        lasting_add(&l, 200000000 + i, 2000, 2 * i);
    v = lasting_most(&l, 2000000, 200000000 + 3 * LASTING_VALUES);
    tap_is_u64((uint64_t)v->value, 1000, "what holds through a pause");
}

int main(void) {
    test_few();
    test_all_stretches();
    test_many();
    return tap_done();
}
