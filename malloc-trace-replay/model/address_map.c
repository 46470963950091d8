/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/address_map.h"

#include "base/check.h"
#include "common/array.h"

#include <stdlib.h>
#include <string.h>

const struct address_block *address_map_find(const struct address_map *m,
                                             uint64_t address) {
    const struct tool_map_entry *e = tool_map_find(&m->nodes, address);
    return e == NULL ? NULL : &m->node[e->value].block;
}

void address_map_near(const struct address_map *m,
                      const struct address_block *b,
                      const struct address_block **below,
                      const struct address_block **above) {
    const struct address_node *n =
        TCM_CONTAINER_OF(b, const struct address_node, block);
    *below = n->near[0] == 0 ? NULL : &m->node[n->near[0]].block;
    *above = n->near[1] == 0 ? NULL : &m->node[n->near[1]].block;
}

/* --- Chunks --------------------------------------------------------------- */

static uint32_t next_random(struct address_map *m) {
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return (uint32_t)(m->random >> 32);
}

/* An empty chunk, in no tree. 0: out of memory. */
static uint32_t new_chunk(struct address_map *m, uint64_t from) {
    uint32_t at = m->spare_chunk;
    if (at != 0) {
        m->spare_chunk = m->place[at].child[0];
    } else {
        size_t n = m->chunks == 0 ? 1 : m->chunks;
        if (n == UINT32_MAX ||
            !tool_array_reserve(&m->chunk, &m->chunk_room, n + 1,
                                sizeof(*m->chunk)) ||
            !tool_array_reserve(&m->place, &m->place_room, n + 1,
                                sizeof(*m->place)))
            return 0;
        m->chunks = n + 1;
        at = (uint32_t)n;
    }
    m->place[at] = (struct address_place){from, {0, 0}, next_random(m), 0};
    return at;
}

/* The chunk of ADDRESS. */
static uint32_t chunk_of(const struct address_map *m, uint64_t address) {
    uint32_t at = m->root, best = 0;
    while (at != 0) {
        unsigned side = m->place[at].from <= address;
        best = side ? at : best;
        at = m->place[at].child[side];
    }
    return best;
}

/* How many addresses of the chunk are below ADDRESS. */
static uint32_t position_in(const struct address_map *m, uint32_t chunk,
                            uint64_t address) {
    const uint64_t *a = m->chunk[chunk].address;
    uint32_t low = 0, high = m->place[chunk].count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (a[middle] < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void tree_add(struct address_map *m, uint32_t at) {
    struct address_place *n = &m->place[at];
    uint32_t *place = &m->root;
    while (*place != 0 && m->place[*place].priority >= n->priority)
        place = &m->place[*place].child[m->place[*place].from < n->from];
    /* split what is there into a lower and a higher tree */
    uint32_t rest = *place, *part[2] = {&n->child[0], &n->child[1]};
    while (rest != 0) {
        unsigned side = m->place[rest].from < n->from;
        *part[1 - side] = rest;
        part[1 - side] = &m->place[rest].child[side];
        rest = *part[1 - side];
    }
    *part[0] = *part[1] = 0;
    *place = at;
}

static void tree_remove(struct address_map *m, uint32_t at) {
    uint32_t *place = &m->root;
    while (*place != at)
        place =
            &m->place[*place].child[m->place[*place].from < m->place[at].from];
    uint32_t low = m->place[at].child[0], high = m->place[at].child[1];
    while (low != 0 && high != 0) { /* join the children */
        unsigned side = m->place[low].priority >= m->place[high].priority;
        *place = side ? low : high;
        place = &m->place[*place].child[side];
        *(side ? &low : &high) = *place;
    }
    *place = low != 0 ? low : high;
    m->place[at].child[0] = m->spare_chunk;
    m->spare_chunk = at;
}

/* Moves the upper half of a full chunk into a new one. */
static bool halve(struct address_map *m, uint32_t at) {
    uint32_t half = ADDRESS_CHUNK / 2;
    uint32_t upper = new_chunk(m, m->chunk[at].address[half]);
    if (upper == 0)
        return false;
    struct address_chunk *from = &m->chunk[at], *to = &m->chunk[upper];
    memcpy(to->address, from->address + half, half * sizeof(*to->address));
    memcpy(to->node, from->node + half, half * sizeof(*to->node));
    m->place[at].count = m->place[upper].count = half;
    tree_add(m, upper);
    return true;
}

/* --- Blocks --------------------------------------------------------------- */

static uint32_t new_node(struct address_map *m) {
    uint32_t at = m->spare;
    if (at != 0) {
        m->spare = m->node[at].near[0];
        return at;
    }
    size_t n = m->used == 0 ? 1 : m->used;
    if (n == UINT32_MAX ||
        !tool_array_reserve(&m->node, &m->room, n + 1, sizeof(*m->node)))
        return 0;
    if (m->used == 0)
        memset(&m->node[0], 0, sizeof(m->node[0]));
    m->used = n + 1;
    return (uint32_t)n;
}

static void free_node(struct address_map *m, uint32_t at) {
    m->node[at].near[0] = m->spare;
    m->spare = at;
}

/* Puts node AT into the list before node ABOVE (0: at the end). */
static void list_add(struct address_map *m, uint32_t at, uint32_t above) {
    uint32_t below = m->node[above].near[0];
    m->node[at].near[0] = below;
    m->node[at].near[1] = above;
    m->node[below].near[1] = at;
    m->node[above].near[0] = at;
}

/* The chunk for ADDRESS, with room for it. 0: out of memory. */
static uint32_t chunk_with_room(struct address_map *m, uint64_t address) {
    if (m->root == 0) {
        m->random = tool_hash_seed() | 1;
        m->root = new_chunk(m, 0);
        return m->root;
    }
    uint32_t at = chunk_of(m, address);
    if (m->place[at].count < ADDRESS_CHUNK)
        return at;
    return halve(m, at) ? chunk_of(m, address) : 0;
}

bool address_map_add(struct address_map *m, const struct address_block *block) {
    uint32_t chunk = chunk_with_room(m, block->address);
    uint32_t at = chunk == 0 ? 0 : new_node(m);
    struct tool_map_entry *e =
        at == 0 ? NULL : tool_map_get(&m->nodes, block->address);
    if (e == NULL) {
        if (at != 0)
            free_node(m, at);
        return false;
    }
    TCM_ASSERT(e->value == 0);
    e->value = at;
    m->node[at].block = *block;
    struct address_chunk *c = &m->chunk[chunk];
    uint32_t i = position_in(m, chunk, block->address);
    uint32_t rest = m->place[chunk].count++ - i, above;
    if (rest != 0)
        above = c->node[i];
    else if (i != 0)
        above = m->node[c->node[i - 1]].near[1];
    else
        above = m->node[0].near[1]; /* only the first chunk may be empty */
    list_add(m, at, above);
    memmove(c->address + i + 1, c->address + i, rest * sizeof(*c->address));
    memmove(c->node + i + 1, c->node + i, rest * sizeof(*c->node));
    c->address[i] = block->address;
    c->node[i] = at;
    return true;
}

void address_map_remove(struct address_map *m, uint64_t address) {
    struct tool_map_entry *e = tool_map_find(&m->nodes, address);
    TCM_ASSERT(e != NULL);
    if (e == NULL)
        return;
    uint32_t at = (uint32_t)e->value, chunk = chunk_of(m, address);
    const struct address_node *n = &m->node[at];
    tool_map_remove(&m->nodes, e);
    m->node[n->near[0]].near[1] = n->near[1];
    m->node[n->near[1]].near[0] = n->near[0];
    free_node(m, at);
    struct address_chunk *c = &m->chunk[chunk];
    uint32_t i = position_in(m, chunk, address);
    uint32_t rest = --m->place[chunk].count - i;
    memmove(c->address + i, c->address + i + 1, rest * sizeof(*c->address));
    memmove(c->node + i, c->node + i + 1, rest * sizeof(*c->node));
    if (m->place[chunk].count == 0 && m->place[chunk].from != 0)
        tree_remove(m, chunk);
}

void address_map_fini(struct address_map *m) {
    free(m->node);
    free(m->chunk);
    free(m->place);
    tool_map_fini(&m->nodes);
    memset(m, 0, sizeof(*m));
}
