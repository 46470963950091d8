/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live blocks by address, with the neighbours of each. A hash table finds the
 * node of a block; the nodes form a list in the order of addresses. To find
 * where a new block belongs, addresses also lie in chunks, each sorted, and the
 * chunks in a treap, so that a search touches few cache lines. The treap's
 * priorities are random, so no input can choose its shape.
 *
 *     treap of chunks, by `from` --> chunk: the addresses from `from` up to the
 *                                    next chunk's `from`
 *
 * Invariants: no two blocks have the same address, and none has address 0. One
 * chunk begins at 0; no other is empty. Memory is about 100 bytes a live block,
 * twice that while it grows. Adding and removing take logarithmic time, all
 * else constant time.
 *
 * Threads: none shared.
 */
#ifndef TOOL_MODEL_ADDRESS_MAP_H
#define TOOL_MODEL_ADDRESS_MAP_H

#include "common/hash.h"

struct address_block {
    uint64_t address, size;
    uint64_t line; /* where it was allocated */
};

struct address_node {
    struct address_block block;
    uint32_t near[2]; /* the nodes of the list below and above; 0: none */
};

#define ADDRESS_CHUNK 64u

struct address_chunk {
    uint64_t address[ADDRESS_CHUNK];
    uint32_t node[ADDRESS_CHUNK];
};

struct address_place {
    uint64_t from;
    uint32_t child[2]; /* at lower and at higher addresses; 0: none */
    uint32_t priority; /* not below those of the children */
    uint32_t count;    /* addresses in the chunk of the same number */
};

/* A map of all zeros is empty. */
struct address_map {
    struct address_node *node; /* [0] is the list's head and end */
    size_t room, used;
    uint32_t spare;        /* list by near[0] */
    struct tool_map nodes; /* by address */
    struct address_chunk *chunk;
    struct address_place *place; /* of chunks; [0] is none */
    size_t chunk_room, place_room, chunks;
    uint32_t root, spare_chunk; /* spare: list by child[0] */
    uint64_t random;
};

static inline size_t address_map_count(const struct address_map *m) {
    return m->nodes.count;
}

/* The block at ADDRESS, or NULL. Valid until the next change. */
const struct address_block *address_map_find(const struct address_map *m,
                                             uint64_t address);
/* The nearest blocks before and behind B, which is in the map; NULL: none. */
void address_map_near(const struct address_map *m,
                      const struct address_block *b,
                      const struct address_block **below,
                      const struct address_block **above);
/* No block at BLOCK's address may be in the map. False: out of memory. */
bool address_map_add(struct address_map *m, const struct address_block *block);
/* The block at ADDRESS must be in the map. */
void address_map_remove(struct address_map *m, uint64_t address);
void address_map_fini(struct address_map *m);

#endif
