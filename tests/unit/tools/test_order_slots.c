/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The map of live objects against a plain one: objects that die young and old,
 * sparse and dense survivors, tokens born twice, and tokens chosen to collide.
 */
#include "malloc-trace-replay/sort/sort_slots.h"
#include "base/linux/os_mem.h"
#include "prng.h"
#include "tap.h"

#include <sys/mman.h>

#define TOKENS (1u << 19)

static uint64_t size_of(uint64_t token) {
    return token * 0x9E3779B97F4A7C15u >> 20;
}

#define BITS_48 (((uint64_t)1 << 48) - 1)

static void insert(struct slots *s, uint64_t token) {
    struct mtf_proc_object place = {.birth = token << 10 & BITS_48,
                                    .slot = (uint32_t)token & 0xffffff};
    slots_put(s, token, size_of(token), place);
}

/* Takes the object of TOKEN. True: it is the right one, or there is none and
   TOKEN is not ALIVE. */
static bool take(struct slots *s, uint64_t token, bool alive) {
    struct slots_object o;
    bool has = slots_has(s, token);
    if (!slots_take(s, token, &o))
        return !alive && !has;
    return alive && has && o.size == size_of(token) &&
           o.place.birth == (token << 10 & BITS_48) &&
           o.place.slot == ((uint32_t)token & 0xffffff);
}

static uint64_t held_bytes(const struct slots *s) {
    return s->old.room * sizeof(struct slots_old_entry) +
           s->blocks * SLOTS_BLOCK * sizeof(struct slots_entry);
}

/* One in KEEP objects is kept alive; others die soon. */
static void test_against_plain(unsigned keep) {
    struct slots s;
    struct prng p;
    uint8_t *alive = calloc(1, TOKENS);
    uint64_t wrong = 0, live = 0, over = 0;
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
            if (victim % keep == 0 && i == 0) {
                wrong += slots_has(&s, victim) != alive[victim];
                continue;
            }
            wrong += !take(&s, victim, alive[victim]);
            live -= alive[victim];
            alive[victim] = 0;
        }
        over += held_bytes(&s) > 40 * live + SLOTS_SLACK + (512 << 10);
    }
    tap_is_u64(wrong, 0, "kept 1 in %u: every search", keep);
    tap_is_u64(s.live, live, "kept 1 in %u: the count", keep);
    tap_is_u64(over, 0, "kept 1 in %u: memory follows the live objects", keep);
    for (uint64_t t = 1; t < TOKENS; t++)
        wrong += !take(&s, t, alive[t]);
    tap_is_u64(wrong, 0, "kept 1 in %u: what is left", keep);
    tap_ok(s.live == 0 && s.old.count == 0 && s.old.room < 1 << 13,
           "kept 1 in %u: and becomes small again", keep);
    slots_fini(&s);
    free(alive);
}

/* Many objects, of which one in KEEP stays: all are in the table in the end. */
static void test_long_lived(uint64_t tokens, unsigned keep) {
    struct slots s;
    uint64_t wrong = 0;
    slots_init(&s);
    for (uint64_t t = 0; t < tokens; t++) {
        insert(&s, t);
        if (t % keep != 0)
            wrong += !take(&s, t, true);
    }
    tap_ok(held_bytes(&s) < 40 * s.live + SLOTS_SLACK + (64 << 10),
           "%llu of %llu: %llu bytes", (unsigned long long)s.live,
           (unsigned long long)tokens, (unsigned long long)held_bytes(&s));
    for (uint64_t t = 0; t < tokens; t += keep)
        wrong += !take(&s, t, true);
    tap_ok(wrong == 0 && !s.old.scattered, "and each is found");
    slots_fini(&s);
}

/* Counts the resident bytes of the blocks. */
static uint64_t resident_bytes(const struct slots *s) {
    size_t page = tcm_os_page_size(), slab = (size_t)32 * SLOTS_BLOCK * 16;
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->slabs; i++)
        for (size_t at = 0; at < slab; at += page) {
            unsigned char in;
            if (mincore((char *)s->slab[i] + at, page, &in) == 0)
                bytes += (in & 1) * page;
        }
    return bytes;
}

/* Blocks that are full at first and sparse later leave no holes behind. */
static void test_holes(void) {
    struct slots s;
    struct prng p;
    uint64_t wrong = 0;
    if (tcm_os_page_size() > SLOTS_BLOCK * sizeof(struct slots_entry)) {
        tap_skip("pages are larger than blocks");
        return;
    }
    prng_seed(&p, 5);
    slots_init(&s);
    for (uint64_t t = 0; t < 2 * TOKENS; t++) {
        insert(&s, t);
        uint64_t before = t - TOKENS;
        if (t >= TOKENS && before % 16 != 0)
            wrong += !take(&s, before, true);
        if (t >= TOKENS && before % 16 != 8)
            wrong += !take(&s, t, true);
    }
    uint64_t blocks = s.blocks * SLOTS_BLOCK * sizeof(struct slots_entry);
    tap_ok(wrong == 0 && resident_bytes(&s) < blocks + SLOTS_SLACK + (1 << 20),
           "blocks of %llu bytes: %llu are resident",
           (unsigned long long)blocks, (unsigned long long)resident_bytes(&s));
    slots_fini(&s);
}

static void test_far_tokens(void) {
    struct slots s;
    slots_init(&s);
    bool good = true;
    uint64_t tokens[] = {0,           1,
                         UINT64_MAX,  UINT64_MAX - 1,
                         SLOTS_BLOCK, (uint64_t)SLOTS_BLOCK << 30};
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(tokens); i++)
        good = good && take(&s, tokens[i], false);
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(tokens); i++)
        insert(&s, tokens[i]);
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(tokens); i++)
        good = good && take(&s, tokens[i], true);
    tap_ok(good, "tokens 0, of 64 bits, and such that share a place");
    slots_fini(&s);
}

/* A token that is born again and again has one object in the map, also when the
   object before it has moved to the table of old ones. */
static void test_twins(void) {
    struct slots s;
    slots_init(&s);
    for (unsigned i = 0; i < 100000; i++) {
        insert(&s, 7);
        insert(&s, 7 + (uint64_t)SLOTS_BLOCK * s.mask + SLOTS_BLOCK);
    }
    tap_ok(s.live == 200000 && s.old.count <= 2 && s.old.room < 2000,
           "one token of many objects takes one place");
    tap_ok(take(&s, 7, true) && s.live == 199999, "and names the last");
    insert(&s, 1);
    insert(&s, 1);
    tap_ok(take(&s, 1, true) && take(&s, 1, false),
           "the objects before have no name");
    slots_fini(&s);
}

/* All tokens collide with the first multiplier: without a new one, this takes
   10^10 steps. */
static void test_attack(void) {
    struct slots s;
    slots_init(&s);
    uint64_t inverse = 1, wrong = 0;
    for (unsigned i = 0; i < 6; i++) /* of the multiplier, modulo 2^64 */
        inverse *= 2 - s.old.multiplier * inverse;
    for (uint64_t i = 1; i <= 100000; i++) {
        uint64_t group = inverse * i & UINT64_MAX >> 4;
        insert(&s, group * SLOTS_GROUP);
    }
    for (uint64_t i = 1; i <= 100000; i++) {
        uint64_t token = (inverse * i & UINT64_MAX >> 4) * SLOTS_GROUP;
        wrong += !take(&s, token, true);
    }
    tap_ok(wrong == 0 && s.live == 0 && s.old.scattered,
           "tokens that are chosen to collide");
    slots_fini(&s);
}

int main(void) {
    test_against_plain(1);
    test_against_plain(2);
    test_against_plain(40);
    test_long_lived(1000000, 1);
    test_long_lived(4000000, 20);
    test_long_lived(2000000, 1000);
    test_holes();
    test_far_tokens();
    test_twins();
    test_attack();
    return tap_done();
}
