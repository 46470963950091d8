/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The map of live blocks by address against a table of all addresses: random
 * blocks that grow to many and shrink to none, in order and out of order, found
 * with and without the right leaf; the lowest and the highest address; and how
 * much memory remains with few blocks where many have been.
 */
#include "model/address_map.h"
#include "tests/lib/prng.h"
#include "tests/lib/rounds.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>

#define SPACE 65536u /* addresses, each of STEP bytes */
#define STEP  40u
#define BASE  0x7f0000000000u

static uint8_t lives[SPACE];
static struct address_map map;
static size_t live;

static uint64_t size_of(uint32_t at) {
    return at % 37;
}

static struct address_block block_at(uint32_t at) {
    return (struct address_block){BASE + (uint64_t)at * STEP, size_of(at),
                                  at * 3ull + 1};
}

static bool same(const struct address_block *a, const struct address_block *b) {
    return a->address == b->address && a->size == b->size && a->line == b->line;
}

/* Tells whether the neighbours of the block at AT are those of the table. */
static bool has_neighbours(uint32_t at, struct address_spot spot) {
    struct address_block near, want;
    const uint8_t *p = memrchr(lives, 1, at);
    bool below = address_map_below(&map, spot, &near);
    if (p != NULL)
        want = block_at((uint32_t)(p - lives));
    if (below != (p != NULL) || (below && !same(&near, &want)))
        return false;
    p = memchr(lives + at + 1, 1, SPACE - at - 1);
    bool above = address_map_above(&map, spot, &near);
    if (p != NULL)
        want = block_at((uint32_t)(p - lives));
    return above == (p != NULL) && (!above || same(&near, &want));
}

/* Tells whether a search that begins at LEAF finds the block at SPOT. */
static bool same_near(uint32_t at, uint32_t leaf, struct address_spot spot) {
    struct address_spot near;
    return address_map_find(&map, block_at(at).address, leaf, &near) ==
               lives[at] &&
           near.leaf == spot.leaf && near.at == spot.at;
}

static bool check(uint32_t at) {
    struct address_spot spot;
    struct address_block want = block_at(at), got;
    bool found = address_map_find(&map, want.address, 0, &spot);
    uint32_t leaf, any = map.leaves == 0 ? 0 : at % map.leaves + 1;
    if (found != lives[at])
        return false;
    address_map_ahead(&map, &want.address, &leaf, 1);
    if (leaf != spot.leaf || !same_near(at, leaf, spot) ||
        !same_near(at, any, spot)) /* a wrong one, or a spare one */
        return false;
    if (!found)
        return true;
    got = address_map_get(&map, spot);
    return same(&got, &want) && has_neighbours(at, spot);
}

static bool change(uint32_t at) {
    struct address_block b = block_at(at);
    struct address_spot spot;
    if (address_map_find(&map, b.address, 0, &spot) != lives[at])
        return false;
    if (lives[at]) {
        address_map_remove(&map, spot);
        live--;
        lives[at] = 0;
        return true;
    }
    live++;
    lives[at] = 1;
    return address_map_add(&map, &b, &spot) && has_neighbours(at, spot);
}

/* Makes MANY blocks and frees them, each time with some of the other. */
static bool grow_and_shrink(struct prng *r, size_t many) {
    bool good = true;
    for (int grows = 1; grows >= 0; grows--)
        while (good && (grows ? live < many : live != 0)) {
            uint32_t at = (uint32_t)(prng_next(r) % SPACE);
            bool wanted = prng_next(r) % 8 != 0;
            if (!grows && wanted) /* the next one that lives */
                while (!lives[at])
                    at = (at + 1) % SPACE;
            if (lives[at] == (wanted != (bool)grows))
                good = change(at) && check(at) && check((at + 1) % SPACE) &&
                       address_map_count(&map) == live;
        }
    return good && map.root == 0;
}

static void test_random(void) {
    struct prng r;
    prng_seed(&r, 5);
    size_t many = SPACE / 4 / rounds_share();
    tap_ok(grow_and_shrink(&r, 40), "a few blocks");
    tap_ok(grow_and_shrink(&r, many), "many blocks");
    uint32_t leaves = map.leaves, inners = map.inners;
    tap_ok(grow_and_shrink(&r, many) && map.leaves < leaves + leaves / 4 &&
               map.inners <= inners + inners / 4 + 2,
           "again, in the memory of before (%u and %u nodes)", map.leaves,
           map.inners);
}

static void test_order(void) {
    for (int down = 0; down < 2; down++) {
        bool good = true;
        for (uint32_t i = 0; i < SPACE; i++)
            good &= change(down ? SPACE - 1 - i : i);
        for (uint32_t i = 0; i < SPACE; i += 997)
            good &= check(i);
        for (uint32_t i = 0; i < SPACE; i++)
            good &= change(i);
        tap_ok(good && map.root == 0 && map.count == 0, "in order, %s",
               down ? "downwards" : "upwards");
    }
}

/* Always new addresses, of which one in 64 stays: where the blocks around it
   were is used again. */
static void test_few_left(void) {
    bool good = true;
    address_map_fini(&map);
    for (uint32_t i = 0; i < SPACE + 4096; i++) {
        if (i < SPACE)
            good &= change(i);
        if (i >= 4096 && i % 64 != 0)
            good &= change(i - 4096);
    }
    tap_ok(good, "one in 64 stays");
    size_t bytes = map.leaves * sizeof(*map.leaf) +
                   map.inners * sizeof(*map.inner) +
                   map.leaves * sizeof(*map.link);
    tap_ok(bytes < live * 300, "in %zu bytes for %zu blocks", bytes, live);
    for (uint32_t i = 0; i < SPACE; i++)
        if (lives[i])
            good &= change(i);
    tap_ok(good && map.root == 0, "and goes");
}

static void test_ends(void) {
    static const uint64_t address[] = {0, UINT64_MAX, UINT64_MAX - 1, 1};
    struct address_spot spot;
    struct address_block near;
    bool good = !address_map_find(&map, UINT64_MAX, 0, &spot);
    for (size_t i = 0; i < 4; i++) {
        struct address_block b = {address[i], 1, i};
        good &= !address_map_find(&map, address[i], 0, &spot) &&
                address_map_add(&map, &b, &spot);
        good &= address_map_find(&map, address[i], 0, &spot);
    }
    good &= address_map_find(&map, UINT64_MAX, 0, &spot) &&
            !address_map_above(&map, spot, &near) &&
            address_map_below(&map, spot, &near) &&
            near.address == UINT64_MAX - 1;
    for (size_t i = 0; i < 4; i++)
        if (address_map_find(&map, address[i], 0, &spot))
            address_map_remove(&map, spot);
    tap_ok(good && map.root == 0, "the lowest and the highest address");
}

int main(void) {
    test_random();
    test_order();
    test_few_left();
    test_ends();
    address_map_fini(&map);
    return tap_done();
}
