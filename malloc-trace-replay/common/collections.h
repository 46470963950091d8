/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Growing arrays, hashing of numbers, and two tables that are made of them: a
 * map from number to number, and an index of an array's entries by 32-bit id.
 *
 * Why each table has a random seed: keys come from traces. With a fixed hash, a
 * small hostile file could make all of its keys collide, and each search would
 * walk the whole table.
 *
 * Invariants: at most half of a map's places are taken, and no empty place lies
 * between a key's home and the key.
 * Threads: hashing any number; an array or a table one user at a time.
 */
#ifndef TOOL_COMMON_COLLECTIONS_H
#define TOOL_COMMON_COLLECTIONS_H

#include "base/check.h"

/* --- Arrays --------------------------------------------------------------- */

/*
 * Makes room for NEED entries of SIZE bytes in *ARRAY, a pointer of any type
 * that came from malloc or is NULL, with room for *ROOM entries; updates both.
 * The room at least doubles, so that appending takes constant time an entry.
 * false: out of memory, nothing changed.
 */
bool tool_array_reserve(void *array, size_t *room, size_t need, size_t size);

/*
 * Makes *USED, the number of entries in use, at least NEED, with room for them
 * as by tool_array_reserve; the new ones are zeroed. Spare room is not written,
 * so it takes no memory. false: out of memory, nothing changed.
 */
bool tool_array_extend(void *array, size_t *room, size_t *used, size_t need,
                       size_t size);

/* --- Numbers -------------------------------------------------------------- */

/* Returns a random seed, a new one at each call. */
uint64_t tool_hash_seed(void);

/* Hash of KEY; all 64 bits are usable. */
static inline uint64_t tool_hash(uint64_t key, uint64_t seed) {
    uint64_t h = (key ^ seed) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 32 ^ seed) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

/* Returns the next number of STATE, by splitmix64: a seed repeats them. */
static inline uint64_t tool_random_next(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Puts 0 to N - 1 into ORDER in random order, by the numbers of STATE. */
void tool_random_order(size_t *order, size_t n, uint64_t *state);

/* --- Maps ----------------------------------------------------------------- */

struct tool_map_entry {
    uint64_t key; /* 0: the place is empty */
    uint64_t value;
};

/* Map from keys other than 0 to values. All bytes zero: an empty map. */
struct tool_map {
    struct tool_map_entry *entry; /* NULL: no places yet */
    size_t mask, count;
    uint64_t seed;
};

/* Returns the place of KEY, or the empty place where it would go. The map must
   have places. */
static inline struct tool_map_entry *tool_map_place(const struct tool_map *m,
                                                    uint64_t key) {
    size_t i = tool_hash(key, m->seed) & m->mask;
    while (m->entry[i].key != 0 && m->entry[i].key != key)
        i = (i + 1) & m->mask;
    return &m->entry[i];
}

/* Returns the entry of KEY; NULL: KEY is not in the map. */
static inline struct tool_map_entry *tool_map_find(const struct tool_map *m,
                                                   uint64_t key) {
    if (m->count == 0)
        return NULL;
    struct tool_map_entry *e = tool_map_place(m, key);
    return e->key != 0 ? e : NULL;
}

/* Prefetches the home of KEY. */
static inline void tool_map_prefetch(const struct tool_map *m, uint64_t key) {
    if (m->count != 0)
        __builtin_prefetch(&m->entry[tool_hash(key, m->seed) & m->mask], 1);
}

/* Doubles the places. false: out of memory, nothing changed. */
bool tool_map_grow(struct tool_map *m);

/* Returns the entry of KEY, added with the value 0 if it is missing. Other
   entries may move. NULL: out of memory. */
static inline struct tool_map_entry *tool_map_get(struct tool_map *m,
                                                  uint64_t key) {
    TCM_ASSERT(key != 0);
    if (2 * m->count >= m->mask && !tool_map_grow(m))
        return NULL;
    struct tool_map_entry *e = tool_map_place(m, key);
    m->count += e->key == 0;
    e->key = key;
    TCM_ASSERT(2 * m->count <= m->mask + 1);
    return e;
}

/* Removes the entry E. Other entries may move. */
void tool_map_remove(struct tool_map *m, struct tool_map_entry *e);
/* Frees the places and leaves an empty map. */
void tool_map_fini(struct tool_map *m);

/* --- Index of an array ---------------------------------------------------- */

/*
 * Index of an array's entries by a 32-bit id, such as a thread's. The caller
 * owns the array: a pointer from malloc, NULL at first. All bytes zero: an
 * empty index.
 */
struct tool_ids {
    size_t count, room;
    struct tool_map place; /* key: id + 1; value: index + 1 */
};

/* Returns the entry of ID in *ARRAY, a pointer of any type to entries of SIZE
   bytes. A missing one is appended with all bytes 0, and the others may move.
   NULL: out of memory. */
void *tool_ids_get(struct tool_ids *t, void *array, size_t size, uint32_t id);
/* Returns the index of ID; SIZE_MAX: ID has no entry. */
static inline size_t tool_ids_find(const struct tool_ids *t, uint32_t id) {
    const struct tool_map_entry *e = tool_map_find(&t->place, (uint64_t)id + 1);
    TCM_ASSERT(e == NULL || e->value - 1 < t->count);
    return e == NULL ? SIZE_MAX : e->value - 1;
}
/* Frees the index; the array stays. */
void tool_ids_fini(struct tool_ids *t);

#endif
