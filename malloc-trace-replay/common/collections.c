/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/collections.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* --- Arrays --------------------------------------------------------------- */

#define ROOM_FIRST 16u

bool tool_array_reserve(void *array, size_t *room, size_t need, size_t size) {
    TCM_ASSERT(size != 0);
    if (need <= *room)
        return true;
    size_t more = *room == 0 ? ROOM_FIRST : 2 * *room;
    if (more < need)
        more = need;
    void *p; /* memcpy, because *ARRAY is a pointer of any type */
    memcpy(&p, array, sizeof(p));
    TCM_ASSERT((p != NULL) == (*room != 0));
    p = reallocarray(p, more, size);
    if (p == NULL)
        return false;
    memcpy(array, &p, sizeof(p));
    *room = more;
    return true;
}

bool tool_array_extend(void *array, size_t *room, size_t *used, size_t need,
                       size_t size) {
    char *p;
    TCM_ASSERT(*used <= *room);
    if (need <= *used)
        return true;
    if (!tool_array_reserve(array, room, need, size))
        return false;
    memcpy(&p, array, sizeof(p));
    memset(p + *used * size, 0, (need - *used) * size);
    *used = need;
    return true;
}

/* --- Numbers -------------------------------------------------------------- */

uint64_t tool_hash_seed(void) {
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = (uintptr_t)&seed; /* differs with address randomization */
    return seed;
}

/* For assertions: sums of the indices and of their squares are those of 0 to
   N - 1. */
static bool is_permutation(const size_t *order, size_t n) {
    size_t sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        if (order[i] >= n)
            return false;
        sum += order[i] - i;
        squares += order[i] * order[i] - i * i;
    }
    return sum == 0 && squares == 0;
}

/* Fisher and Yates. */
void tool_random_order(size_t *order, size_t n, uint64_t *state) {
    for (size_t i = 0; i < n; i++) {
        size_t j = (size_t)(tool_random_next(state) % (i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    TCM_ASSERT_SLOW(is_permutation(order, n));
}

/* --- Maps ----------------------------------------------------------------- */

#define MAP_FIRST 64u

bool tool_map_grow(struct tool_map *m) {
    struct tool_map old = *m;
    size_t places = old.entry == NULL ? MAP_FIRST : 2 * (old.mask + 1);
    m->entry = calloc(places, sizeof(*m->entry));
    if (m->entry == NULL) {
        m->entry = old.entry;
        return false;
    }
    m->mask = places - 1;
    if (old.entry == NULL)
        m->seed = tool_hash_seed();
    for (size_t i = 0; old.entry != NULL && i <= old.mask; i++)
        if (old.entry[i].key != 0)
            *tool_map_place(m, old.entry[i].key) = old.entry[i];
    free(old.entry);
    return true;
}

void tool_map_remove(struct tool_map *m, struct tool_map_entry *e) {
    size_t hole = (size_t)(e - m->entry);
    TCM_ASSERT(hole <= m->mask && e->key != 0 && m->count != 0);
    /* Moves into the hole each entry that it would cut off from its home. */
    for (size_t i = (hole + 1) & m->mask; m->entry[i].key != 0;
         i = (i + 1) & m->mask) {
        size_t home = tool_hash(m->entry[i].key, m->seed) & m->mask;
        if (((i - home) & m->mask) >= ((i - hole) & m->mask)) {
            m->entry[hole] = m->entry[i];
            hole = i;
        }
    }
    m->entry[hole] = (struct tool_map_entry){0};
    m->count--;
}

void tool_map_fini(struct tool_map *m) {
    free(m->entry);
    *m = (struct tool_map){0};
}

/* --- Index of an array ---------------------------------------------------- */

void *tool_ids_get(struct tool_ids *t, void *array, size_t size, uint32_t id) {
    size_t at = tool_ids_find(t, id);
    bool is_new = at == SIZE_MAX;
    if (is_new) {
        /* Room first, so that the map never names a missing entry. */
        if (!tool_array_reserve(array, &t->room, t->count + 1, size))
            return NULL;
        struct tool_map_entry *e = tool_map_get(&t->place, (uint64_t)id + 1);
        if (e == NULL)
            return NULL;
        at = t->count++;
        e->value = t->count;
    }
    unsigned char *first; /* memcpy as in tool_array_reserve */
    memcpy(&first, array, sizeof(first));
    void *entry = first + at * size;
    return is_new ? memset(entry, 0, size) : entry;
}

void tool_ids_fini(struct tool_ids *t) {
    tool_map_fini(&t->place);
    t->count = t->room = 0;
}
