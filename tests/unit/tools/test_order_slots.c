/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of live objects against a plain one: objects that die young and
 * old, sparse and dense survivors, tokens born twice, and tokens chosen to fall
 * on one place.
 */
#include "malloc-trace-replay/cmd/postprocess/slots.h"
#include "prng.h"
#include "tap.h"

#define TOKENS (1u << 19)

static uint64_t size_of(uint64_t token) {
    return token * 0x9E3779B97F4A7C15u >> 20;
}

static void insert(struct slots *s, uint64_t token) {
    struct mtf_proc_object place = {.birth = token << 10,
                                    .slot = (uint32_t)token};
    slots_fill(slots_insert(s, token), size_of(token), place);
}

static bool is_right(const struct slots_object *o, uint64_t token) {
    return o != NULL && o->token == token && o->size == size_of(token) &&
           slots_place(o).birth == token << 10 && o->slot == (uint32_t)token;
}

/* One in KEEP objects is kept alive; others die soon. */
static void test_against_plain(unsigned keep) {
    struct slots s;
    struct prng p;
    uint8_t *alive = calloc(1, TOKENS);
    uint64_t wrong = 0, live = 0;
    prng_seed(&p, keep);
    slots_init(&s);
    for (uint64_t t = 1; t < TOKENS; t++) {
        insert(&s, t);
        alive[t] = 1;
        live++;
        for (unsigned i = 0; i < 2; i++) {
            uint64_t back = prng_below(&p, 4) != 0 ? 1 + prng_below(&p, 50)
                                                   : 1 + prng_below(&p, t);
            uint64_t victim = t - (back < t ? back : t - 1);
            struct slots_object *o = slots_find(&s, victim);
            wrong += alive[victim] ? !is_right(o, victim) : o != NULL;
            if (o != NULL && (victim % keep != 0 || i == 1)) {
                slots_remove(&s, o);
                alive[victim] = 0;
                live--;
            }
        }
    }
    for (uint64_t t = 1; t < TOKENS; t++) {
        struct slots_object *o = slots_find(&s, t);
        wrong += alive[t] ? !is_right(o, t) : o != NULL;
    }
    tap_is_u64(wrong, 0, "kept 1 in %u: every search", keep);
    tap_ok(s.old == NULL || s.old_mask < 64 * live + (1 << 14),
           "kept 1 in %u: the table follows the live objects", keep);
    for (uint64_t t = 1; t < TOKENS; t++)
        if (alive[t])
            slots_remove(&s, slots_find(&s, t));
    tap_ok(s.old_count == 0 && (s.old == NULL || s.old_mask < 1 << 13),
           "kept 1 in %u: and becomes small again", keep);
    slots_fini(&s);
    free(alive);
}

static void test_far_tokens(void) {
    struct slots s;
    slots_init(&s);
    bool good = true;
    uint64_t tokens[] = {0,           1,
                         UINT64_MAX,  UINT64_MAX - 1,
                         SLOTS_YOUNG, (uint64_t)SLOTS_YOUNG << 20};
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(tokens); i++)
        good = good && slots_find(&s, tokens[i]) == NULL;
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(tokens); i++)
        insert(&s, tokens[i]);
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(tokens); i++) {
        struct slots_object *o = slots_find(&s, tokens[i]);
        good = good && o != NULL && o->token == tokens[i];
    }
    tap_ok(good, "tokens 0, of 64 bits, and such that share a place");
    insert(&s, 1);
    slots_remove(&s, slots_find(&s, 1));
    tap_ok(slots_find(&s, 1) != NULL, "born twice: two objects");
    slots_remove(&s, slots_find(&s, 1));
    tap_ok(slots_find(&s, 1) == NULL, "and both can go");
    slots_fini(&s);
}

/* All fall on one place with the first multiplier: without a new one, this is
   10^10 steps. */
static void test_attack(void) {
    struct slots s;
    slots_init(&s);
    uint64_t inverse = 1, wrong = 0;
    for (unsigned i = 0; i < 6; i++) /* of the multiplier, modulo 2^64 */
        inverse *= 2 - s.multiplier * inverse;
    for (uint64_t i = 1; i <= 300000; i++) {
        uint64_t group = inverse * i & UINT64_MAX >> 4;
        insert(&s, group * SLOTS_GROUP);
        insert(&s, group * SLOTS_GROUP); /* the one before becomes old */
    }
    for (uint64_t i = 1; i <= 300000; i++) {
        uint64_t token = (inverse * i & UINT64_MAX >> 4) * SLOTS_GROUP;
        wrong += slots_find(&s, token) == NULL;
    }
    tap_ok(wrong == 0 && s.scattered, "tokens that are chosen to collide");
    slots_fini(&s);
}

int main(void) {
    test_against_plain(1);
    test_against_plain(2);
    test_against_plain(40);
    test_far_tokens();
    test_attack();
    return tap_done();
}
