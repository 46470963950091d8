/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/address_map.h"

#include "base/check.h"
#include "common/collections.h"

#include <stdlib.h>
#include <string.h>

TCM_STATIC_ASSERT(ADDRESS_LEAF == 32 && ADDRESS_INNER == 64,
                  "the searches halve these numbers");

/* --- Searching ------------------------------------------------------------ */

/* Returns the index of N's child that has ADDRESS: the number of entries of
   from[1..] that are not above it. */
static uint32_t child_of(const struct address_inner *n, uint64_t address) {
    const uint64_t *from = n->from + 1;
    uint32_t at = 0;
    for (uint32_t step = ADDRESS_INNER / 2; step != 0; step /= 2)
        at += from[at + step - 1] <= address ? step : 0;
    return at < n->count ? at : n->count - 1;
}

/* Counts the addresses of L that are below ADDRESS. */
static uint32_t position_in(const struct address_leaf *l, uint64_t address) {
    const uint64_t *a = l->address;
    uint32_t at = 0;
    for (uint32_t step = ADDRESS_LEAF / 2; step != 0; step /= 2)
        at += a[at + step - 1] < address ? step : 0;
    return at + (a[at] < address);
}

/* Prefetches all of a node, because a binary search reads it from both ends.
   Inline: the compiler drops a call without effect. */
static TCM_ALWAYS_INLINE void prefetch(const void *start, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch((const char *)start + i);
}

static TCM_ALWAYS_INLINE void prefetch_leaf(const struct address_map *m,
                                            uint32_t leaf) {
    prefetch(m->leaf[leaf].address, sizeof(m->leaf->address));
    __builtin_prefetch(&m->link[leaf]);
}

/* Returns the leaf where ADDRESS belongs. The map is not empty. */
static uint32_t leaf_of(const struct address_map *m, uint64_t address) {
    uint32_t node = m->root;
    for (unsigned level = m->levels; level != 0; level--) {
        const struct address_inner *n = &m->inner[node];
        node = n->child[child_of(n, address)];
    }
    prefetch_leaf(m, node);
    return node;
}

void address_map_ahead(const struct address_map *m, const uint64_t *address,
                       uint32_t *leaf, size_t n) {
    for (size_t i = 0; i < n; i++)
        leaf[i] = m->root;
    for (unsigned level = m->levels; level-- != 0;)
        for (size_t i = 0; i < n; i++) {
            const struct address_inner *node = &m->inner[leaf[i]];
            leaf[i] = node->child[child_of(node, address[i])];
            /* The few nodes higher up are in the cache. */
            if (level == 0)
                prefetch_leaf(m, leaf[i]);
            else if (level == 1)
                prefetch(&m->inner[leaf[i]], sizeof(*m->inner));
        }
}

/* Tells whether ADDRESS is between the first and last block of LEAF, and so
   belongs there. LEAF may be spare. */
static bool is_within(const struct address_map *m, uint32_t leaf,
                      uint64_t address) {
    const uint64_t *a = m->leaf[leaf].address;
    uint32_t n = m->link[leaf].count;
    return n != 0 && a[0] <= address && address <= a[n - 1];
}

bool address_map_find(const struct address_map *m, uint64_t address,
                      uint32_t leaf, struct address_spot *spot) {
    *spot = (struct address_spot){0, 0};
    if (m->root == 0)
        return false;
    if (leaf == 0 || !is_within(m, leaf, address))
        leaf = leaf_of(m, address);
    spot->leaf = leaf;
    spot->at = position_in(&m->leaf[leaf], address);
    return spot->at < m->link[leaf].count &&
           m->leaf[leaf].address[spot->at] == address;
}

struct address_block address_map_get(const struct address_map *m,
                                     struct address_spot spot) {
    const struct address_leaf *l = &m->leaf[spot.leaf];
    return (struct address_block){l->address[spot.at], l->size[spot.at],
                                  l->line[spot.at]};
}

bool address_map_below(const struct address_map *m, struct address_spot spot,
                       struct address_block *block) {
    if (spot.at == 0) {
        spot.leaf = m->link[spot.leaf].near[0];
        if (spot.leaf == 0)
            return false;
        spot.at = m->link[spot.leaf].count;
    }
    spot.at--;
    *block = address_map_get(m, spot);
    return true;
}

bool address_map_above(const struct address_map *m, struct address_spot spot,
                       struct address_block *block) {
    if (++spot.at == m->link[spot.leaf].count) {
        spot.leaf = m->link[spot.leaf].near[1];
        if (spot.leaf == 0)
            return false;
        spot.at = 0;
    }
    *block = address_map_get(m, spot);
    return true;
}

/* --- Nodes ---------------------------------------------------------------- */

/* Returns an empty leaf, without neighbours. 0: out of memory. */
static uint32_t new_leaf(struct address_map *m) {
    uint32_t at = m->spare_leaf;
    if (at != 0) {
        m->spare_leaf = m->link[at].near[0];
    } else {
        size_t n = (size_t)m->leaves + 2;
        if (m->leaves == UINT32_MAX - 1 ||
            !tool_array_reserve(&m->leaf, &m->leaf_room, n, sizeof(*m->leaf)) ||
            !tool_array_reserve(&m->link, &m->link_room, n, sizeof(*m->link)))
            return 0;
        at = ++m->leaves;
    }
    memset(m->leaf[at].address, 0xff, sizeof(m->leaf->address));
    m->link[at] = (struct address_link){{0, 0}, 0};
    return at;
}

static uint32_t new_inner(struct address_map *m) {
    uint32_t at = m->spare_inner;
    if (at != 0) {
        m->spare_inner = m->inner[at].child[0];
    } else {
        size_t n = (size_t)m->inners + 2;
        if (!tool_array_reserve(&m->inner, &m->inner_room, n,
                                sizeof(*m->inner)))
            return 0;
        at = ++m->inners;
    }
    memset(m->inner[at].from, 0xff, sizeof(m->inner->from));
    m->inner[at].count = 0;
    return at;
}

static void free_leaf(struct address_map *m, uint32_t at) {
    uint32_t below = m->link[at].near[0], above = m->link[at].near[1];
    if (below != 0)
        m->link[below].near[1] = above;
    if (above != 0)
        m->link[above].near[0] = below;
    m->link[at].near[0] = m->spare_leaf;
    m->spare_leaf = at;
}

static void free_inner(struct address_map *m, uint32_t at) {
    m->inner[at].child[0] = m->spare_inner;
    m->spare_inner = at;
}

static void inner_add(struct address_inner *n, uint32_t at, uint64_t from,
                      uint32_t child) {
    uint32_t rest = n->count++ - at;
    TCM_ASSERT(n->count <= ADDRESS_INNER);
    memmove(n->from + at + 1, n->from + at, rest * sizeof(*n->from));
    memmove(n->child + at + 1, n->child + at, rest * sizeof(*n->child));
    n->from[at] = from;
    n->child[at] = child;
}

static void inner_remove(struct address_inner *n, uint32_t at) {
    uint32_t rest = --n->count - at;
    memmove(n->from + at, n->from + at + 1, rest * sizeof(*n->from));
    memmove(n->child + at, n->child + at + 1, rest * sizeof(*n->child));
    n->from[n->count] = UINT64_MAX;
}

/* Moves the last N entries of leaf FROM, from START on, behind those of TO. */
static void leaf_move(struct address_map *m, uint32_t from, uint32_t start,
                      uint32_t to, uint32_t n) {
    struct address_leaf *f = &m->leaf[from], *t = &m->leaf[to];
    uint32_t at = m->link[to].count;
    TCM_ASSERT(at + n <= ADDRESS_LEAF && start + n == m->link[from].count);
    memcpy(t->address + at, f->address + start, n * sizeof(*t->address));
    memcpy(t->size + at, f->size + start, n * sizeof(*t->size));
    memcpy(t->line + at, f->line + start, n * sizeof(*t->line));
    memset(f->address + start, 0xff, n * sizeof(*f->address));
    m->link[to].count += n;
    m->link[from].count -= n;
}

/* --- Adding --------------------------------------------------------------- */

static bool is_full(const struct address_map *m, uint32_t node,
                    unsigned level) {
    return level == 0 ? m->link[node].count == ADDRESS_LEAF
                      : m->inner[node].count == ADDRESS_INNER;
}

/* Moves the upper half of leaf LOW into a new leaf, and returns that. *FROM:
   its first address. 0: out of memory. */
static uint32_t split_leaf(struct address_map *m, uint32_t low,
                           uint64_t *from) {
    uint32_t high = new_leaf(m), half = ADDRESS_LEAF / 2, above;
    if (high == 0)
        return 0;
    leaf_move(m, low, half, high, half);
    above = m->link[low].near[1];
    m->link[high].near[0] = low;
    m->link[high].near[1] = above;
    m->link[low].near[1] = high;
    if (above != 0)
        m->link[above].near[0] = high;
    *from = m->leaf[high].address[0];
    return high;
}

static uint32_t split_inner(struct address_map *m, uint32_t low,
                            uint64_t *from) {
    uint32_t high = new_inner(m), half = ADDRESS_INNER / 2;
    if (high == 0)
        return 0;
    struct address_inner *l = &m->inner[low], *h = &m->inner[high];
    *from = l->from[half];
    memcpy(h->from, l->from + half, half * sizeof(*h->from));
    memcpy(h->child, l->child + half, half * sizeof(*h->child));
    memset(l->from + half, 0xff, half * sizeof(*l->from));
    l->count = h->count = half;
    return high;
}

/* Splits child I of PARENT, of level LEVEL. False: out of memory. */
static bool split_child(struct address_map *m, uint32_t parent, uint32_t i,
                        unsigned level) {
    uint32_t low = m->inner[parent].child[i];
    uint64_t from;
    uint32_t high =
        level == 0 ? split_leaf(m, low, &from) : split_inner(m, low, &from);
    if (high == 0)
        return false;
    inner_add(&m->inner[parent], i + 1, from, high);
    return true;
}

/* Splits the full root below a new one. False: out of memory. */
static bool raise_root(struct address_map *m) {
    uint32_t root = m->levels == ADDRESS_LEVELS ? 0 : new_inner(m);
    if (root == 0)
        return false;
    inner_add(&m->inner[root], 0, 0, m->root);
    if (!split_child(m, root, 0, m->levels)) {
        free_inner(m, root);
        return false;
    }
    m->root = root;
    m->levels++;
    return true;
}

/* Returns the leaf where ADDRESS belongs, with room for it. Full nodes on the
   path are split, so that each parent has room for another child. 0: out of
   memory. */
static uint32_t leaf_with_room(struct address_map *m, uint64_t address) {
    if (m->root == 0)
        m->root = new_leaf(m);
    if (m->root == 0 || (is_full(m, m->root, m->levels) && !raise_root(m)))
        return 0;
    uint32_t node = m->root;
    for (unsigned level = m->levels; level-- != 0;) {
        uint32_t i = child_of(&m->inner[node], address);
        if (is_full(m, m->inner[node].child[i], level)) {
            if (!split_child(m, node, i, level))
                return 0;
            i += m->inner[node].from[i + 1] <= address;
        }
        node = m->inner[node].child[i];
    }
    return node;
}

bool address_map_add(struct address_map *m, const struct address_block *block,
                     struct address_spot *spot) {
    if (spot->leaf == 0 || m->link[spot->leaf].count == ADDRESS_LEAF) {
        spot->leaf = leaf_with_room(m, block->address);
        if (spot->leaf == 0)
            return false;
        spot->at = position_in(&m->leaf[spot->leaf], block->address);
    }
    struct address_leaf *l = &m->leaf[spot->leaf];
    uint32_t at = spot->at, rest = m->link[spot->leaf].count++ - at;
    TCM_ASSERT(at == position_in(l, block->address));
    TCM_ASSERT(rest == 0 || l->address[at] != block->address);
    memmove(l->address + at + 1, l->address + at, rest * sizeof(*l->address));
    memmove(l->size + at + 1, l->size + at, rest * sizeof(*l->size));
    memmove(l->line + at + 1, l->line + at, rest * sizeof(*l->line));
    l->address[at] = block->address;
    l->size[at] = block->size;
    l->line[at] = block->line;
    m->count++;
    return true;
}

/* --- Removing ------------------------------------------------------------- */

/* Joins children I and I + 1 of PARENT, of level LEVEL, if they fill at most
   half a node together. Returns true if it did. */
static bool join(struct address_map *m, uint32_t parent, uint32_t i,
                 unsigned level) {
    struct address_inner *p = &m->inner[parent];
    if (i + 1 >= p->count)
        return false;
    uint32_t low = p->child[i], high = p->child[i + 1];
    if (level == 0) {
        uint32_t n = m->link[high].count;
        if (m->link[low].count + n > ADDRESS_LEAF / 2)
            return false;
        leaf_move(m, high, 0, low, n);
        free_leaf(m, high);
    } else {
        struct address_inner *l = &m->inner[low], *h = &m->inner[high];
        if (l->count + h->count > ADDRESS_INNER / 2)
            return false;
        h->from[0] = p->from[i + 1];
        memcpy(l->from + l->count, h->from, h->count * sizeof(*h->from));
        memcpy(l->child + l->count, h->child, h->count * sizeof(*h->child));
        l->count += h->count;
        free_inner(m, high);
    }
    inner_remove(p, i + 1);
    return true;
}

static uint32_t count_of(const struct address_map *m, uint32_t node,
                         unsigned level) {
    return level == 0 ? m->link[node].count : m->inner[node].count;
}

/* Frees or joins child I of PARENT, of level LEVEL, which lost an entry.
   Returns true if PARENT lost an entry by that. */
static bool shrink(struct address_map *m, uint32_t parent, uint32_t i,
                   unsigned level) {
    struct address_inner *p = &m->inner[parent];
    uint32_t child = p->child[i], n = count_of(m, child, level);
    if (n >= (level == 0 ? ADDRESS_LEAF : ADDRESS_INNER) / 4)
        return false;
    if (n != 0)
        return join(m, parent, i, level) ||
               (i != 0 && join(m, parent, i - 1, level));
    if (level == 0)
        free_leaf(m, child);
    else
        free_inner(m, child);
    inner_remove(p, i);
    return true;
}

/* Frees or joins the nodes on the path to ADDRESS, whose leaf lost an entry. */
static void shrink_path(struct address_map *m, uint64_t address) {
    uint32_t parent[ADDRESS_LEVELS], index[ADDRESS_LEVELS], node = m->root;
    for (unsigned level = m->levels; level-- != 0;) {
        parent[level] = node;
        index[level] = child_of(&m->inner[node], address);
        node = m->inner[node].child[index[level]];
    }
    for (unsigned level = 0; level < m->levels; level++)
        if (!shrink(m, parent[level], index[level], level))
            break;
    while (m->levels != 0 && m->inner[m->root].count <= 1) {
        uint32_t old = m->root;
        m->root = m->inner[old].count == 0 ? 0 : m->inner[old].child[0];
        m->levels = m->root == 0 ? 0 : m->levels - 1;
        free_inner(m, old);
    }
    if (m->levels == 0 && m->root != 0 && m->link[m->root].count == 0) {
        free_leaf(m, m->root);
        m->root = 0;
    }
}

void address_map_remove(struct address_map *m, struct address_spot spot) {
    struct address_leaf *l = &m->leaf[spot.leaf];
    uint32_t at = spot.at, rest = --m->link[spot.leaf].count - at;
    uint64_t address = l->address[at];
    memmove(l->address + at, l->address + at + 1, rest * sizeof(*l->address));
    memmove(l->size + at, l->size + at + 1, rest * sizeof(*l->size));
    memmove(l->line + at, l->line + at + 1, rest * sizeof(*l->line));
    l->address[at + rest] = UINT64_MAX;
    m->count--;
    if (at + rest < ADDRESS_LEAF / 4)
        shrink_path(m, address);
}

void address_map_fini(struct address_map *m) {
    free(m->leaf);
    free(m->link);
    free(m->inner);
    memset(m, 0, sizeof(*m));
}
