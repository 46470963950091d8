/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Map of live blocks by address, in which the neighbours of a block are found:
 * a B+ tree. A leaf has up to 32 blocks in the order of their addresses, and
 * the numbers of the leaves below and above it, so that a block and its
 * neighbours are in a few cache lines.
 *
 *     inner node: child i has the addresses from `from[i]` up to `from[i + 1]`,
 *                 child 0 all that are lower, the last one all that are higher
 *     leaf:       address[i], size[i], line[i]
 *
 * Invariants: no two blocks have the same address. No node is empty. A node
 * that gets less than a quarter full is joined with a neighbour below the same
 * parent if both fill at most half a node. So memory is about 50 bytes for each
 * live block, and a few times that when few of many blocks are left. A spare
 * leaf has no blocks. Adding, finding and removing take logarithmic time,
 * neighbours constant time.
 *
 * Threads: none shared.
 */
#ifndef TOOL_MODEL_ADDRESS_MAP_H
#define TOOL_MODEL_ADDRESS_MAP_H

#include "base/compiler.h"

struct address_block {
    uint64_t address, size;
    uint64_t line; /* where it was allocated */
};

#define ADDRESS_LEAF  32u
#define ADDRESS_INNER 64u
/* Most inner levels: each takes 32 times as many additions as the one below. */
#define ADDRESS_LEVELS 12u

/* A leaf. Unused entries of `address` are UINT64_MAX. */
struct address_leaf {
    uint64_t address[ADDRESS_LEAF], size[ADDRESS_LEAF], line[ADDRESS_LEAF];
};

/* Links of the leaf with the same number. near: the leaves below and above, 0:
   none. near[0] of a spare leaf is the next spare leaf. */
struct address_link {
    uint32_t near[2], count;
};

/* An inner node. from[0] is not used; entries of `from` behind the last child
   are UINT64_MAX. child[0] of a spare node is the next spare node. */
struct address_inner {
    uint64_t from[ADDRESS_INNER];
    uint32_t child[ADDRESS_INNER];
    uint32_t count;
};

/* A map of all zeros is empty. Nodes are numbered from 1. */
struct address_map {
    struct address_leaf *leaf;
    struct address_link *link;
    struct address_inner *inner;
    size_t leaf_room, link_room, inner_room;
    uint32_t leaves, inners; /* greatest numbers that were used */
    uint32_t spare_leaf, spare_inner;
    uint32_t root;   /* 0: empty */
    unsigned levels; /* of inner nodes */
    size_t count;    /* blocks */
};

/* Place where a block is, or would be; valid until the map changes. */
struct address_spot {
    uint32_t leaf, at;
};

static inline size_t address_map_count(const struct address_map *m) {
    return m->count;
}

/* Finds the leaves of N addresses at once: their cache misses overlap. LEAF[i]
   is the leaf where ADDRESS[i] belongs now, 0 in an empty map. */
void address_map_ahead(const struct address_map *m, const uint64_t *address,
                       uint32_t *leaf, size_t n);
/* Finds the block at ADDRESS, from LEAF on: the one that address_map_ahead has
   found, or 0. The map may have changed since then: with a wrong leaf the
   search is only slower. False: there is no block, and *SPOT is where it would
   be. */
bool address_map_find(const struct address_map *m, uint64_t address,
                      uint32_t leaf, struct address_spot *spot);
struct address_block address_map_get(const struct address_map *m,
                                     struct address_spot spot);
/* Gets the nearest block below, or above, the block at SPOT. False: there is
   none. */
bool address_map_below(const struct address_map *m, struct address_spot spot,
                       struct address_block *block);
bool address_map_above(const struct address_map *m, struct address_spot spot,
                       struct address_block *block);
/* Adds BLOCK. SPOT: set by address_map_find, which did not find BLOCK's
   address; then the place of the block. False: out of memory. */
bool address_map_add(struct address_map *m, const struct address_block *block,
                     struct address_spot *spot);
/* Removes the block at SPOT. */
void address_map_remove(struct address_map *m, struct address_spot spot);
void address_map_fini(struct address_map *m);

#endif
