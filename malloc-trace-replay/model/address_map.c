/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/address_map.h"

#include "base/check.h"
#include "common/array.h"
#include "common/hash.h"

#include <stdlib.h>
#include <string.h>

const struct address_block *address_map_find(const struct address_map *m,
                                             uint64_t address) {
    uint32_t at = m->root;
    while (at != 0 && m->node[at].block.address != address)
        at = m->node[at].child[m->node[at].block.address < address];
    return at == 0 ? NULL : &m->node[at].block;
}

void address_map_near(const struct address_map *m, uint64_t address,
                      const struct address_block **below,
                      const struct address_block **above) {
    uint32_t at = m->root;
    *below = *above = NULL;
    while (at != 0) {
        const struct address_node *n = &m->node[at];
        if (n->block.address < address)
            *below = &n->block;
        else if (n->block.address > address)
            *above = &n->block;
        if (n->block.address == address)
            break;
        at = n->child[n->block.address < address];
    }
    if (at == 0)
        return;
    /* what is nearer lies below the node itself */
    for (unsigned side = 0; side < 2; side++)
        for (uint32_t i = m->node[at].child[side]; i != 0;
             i = m->node[i].child[1 - side])
            *(side == 0 ? below : above) = &m->node[i].block;
}

static uint32_t new_node(struct address_map *m) {
    uint32_t at = m->spare;
    if (at != 0) {
        m->spare = m->node[at].child[0];
        return at;
    }
    if (m->used == 0)
        m->random = tool_hash_seed() | 1;
    m->used += m->used == 0;
    if (m->used == UINT32_MAX ||
        !tool_array_reserve(&m->node, &m->room, m->used + 1, sizeof(*m->node)))
        return 0;
    return (uint32_t)m->used++;
}

static uint32_t next_random(struct address_map *m) {
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return (uint32_t)(m->random >> 32);
}

/* Parts the tree at *AT: what begins below ADDRESS comes to *LOW, the rest to
   *HIGH. AT may be one of the two. */
static void split(struct address_map *m, uint32_t at, uint64_t address,
                  uint32_t *low, uint32_t *high) {
    while (at != 0) {
        struct address_node *n = &m->node[at];
        if (n->block.address < address) {
            *low = at;
            low = &n->child[1];
            at = *low;
        } else {
            *high = at;
            high = &n->child[0];
            at = *high;
        }
    }
    *low = *high = 0;
}

bool address_map_add(struct address_map *m, const struct address_block *block) {
    uint32_t at = new_node(m);
    if (at == 0)
        return false;
    struct address_node *n = &m->node[at];
    n->block = *block;
    n->priority = next_random(m);
    uint32_t *place = &m->root;
    while (*place != 0 && m->node[*place].priority >= n->priority) {
        const struct address_node *p = &m->node[*place];
        TCM_ASSERT(p->block.address != block->address);
        place = &m->node[*place].child[p->block.address < block->address];
    }
    split(m, *place, block->address, &n->child[0], &n->child[1]);
    *place = at;
    m->count++;
    return true;
}

void address_map_remove(struct address_map *m, uint64_t address) {
    uint32_t *place = &m->root;
    while (m->node[*place].block.address != address) {
        TCM_ASSERT(*place != 0);
        place = &m->node[*place].child[m->node[*place].block.address < address];
    }
    uint32_t at = *place, low = m->node[at].child[0],
             high = m->node[at].child[1];
    while (low != 0 && high != 0) { /* the two become one */
        unsigned side = m->node[low].priority >= m->node[high].priority;
        *place = side ? low : high;
        place = &m->node[*place].child[side];
        *(side ? &low : &high) = *place;
    }
    *place = low != 0 ? low : high;
    m->node[at].child[0] = m->spare;
    m->spare = at;
    m->count--;
}

void address_map_fini(struct address_map *m) {
    free(m->node);
    memset(m, 0, sizeof(*m));
}
