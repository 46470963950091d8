/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live blocks by address, with the neighbours of each: a treap, whose shape is
 * for nobody to choose, as its priorities are random.
 *
 * Invariants: no two blocks have one address; memory is 48 bytes a live block
 * and as much again while it grows. Each call takes logarithmic time.
 * Threads: none shared.
 */
#ifndef TOOL_MODEL_ADDRESS_MAP_H
#define TOOL_MODEL_ADDRESS_MAP_H

#include "base/compiler.h"

struct address_block {
    uint64_t address, size;
    uint64_t line; /* where it was allocated */
};

struct address_node {
    struct address_block block;
    uint32_t child[2]; /* at lower and at higher addresses; 0: none */
    uint32_t priority; /* not below those of the children */
};

/* All zero is empty. */
struct address_map {
    struct address_node *node; /* [0] is no node */
    size_t room, used;
    uint32_t root, spare; /* spare: list by child[0] */
    uint64_t random;
    size_t count;
};

/* NULL: none. Good until the next change. */
const struct address_block *address_map_find(const struct address_map *m,
                                             uint64_t address);
/* The nearest blocks that begin below and above ADDRESS; NULL: none. */
void address_map_near(const struct address_map *m, uint64_t address,
                      const struct address_block **below,
                      const struct address_block **above);
/* BLOCK's address is in no block of the map. False: out of memory. */
bool address_map_add(struct address_map *m, const struct address_block *block);
/* The block of ADDRESS, which is there. */
void address_map_remove(struct address_map *m, uint64_t address);
void address_map_fini(struct address_map *m);

#endif
