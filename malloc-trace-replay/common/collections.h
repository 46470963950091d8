/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays that grow, hashing of numbers, and two tables that are made of these:
 * a map from number to number, and places in an array by a 32-bit number.
 *
 * Why a random seed in each table: the numbers stand in a trace. Which of them
 * fall together must not be for the trace to choose, or a small file makes
 * every search a long walk.
 *
 * Invariants: at most half of a map's places are taken, and each key stands
 * behind its home with no empty place between.
 * Threads: hashing any number, an array or a map one user at a time.
 */
#ifndef TOOL_COMMON_COLLECTIONS_H
#define TOOL_COMMON_COLLECTIONS_H

#include "base/check.h"

/* --- Arrays --------------------------------------------------------------- */

/*
 * Makes room for NEED entries of SIZE bytes at *ARRAY, a pointer of any type,
 * which has *ROOM of them; both change. Room at least doubles, so that entries
 * added one by one cost constant time each. False: out of memory, nothing
 * changed.
 */
bool tool_array_reserve(void *array, size_t *room, size_t need, size_t size);

/* --- Numbers -------------------------------------------------------------- */

/* Random; another one for each table. */
uint64_t tool_hash_seed(void);

/* All 64 bits are good. */
static inline uint64_t tool_hash(uint64_t key, uint64_t seed) {
    uint64_t h = (key ^ seed) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 32 ^ seed) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

/* --- Maps ----------------------------------------------------------------- */

struct tool_map_entry {
    uint64_t key; /* 0: an empty place */
    uint64_t value;
};

/* From keys other than 0 to values; all zero is an empty map. */
struct tool_map {
    struct tool_map_entry *entry; /* NULL: none yet */
    size_t mask, count;
    uint64_t seed;
};

/* The place of KEY, or the empty one where it would be. The map has places. */
static inline struct tool_map_entry *tool_map_place(const struct tool_map *m,
                                                    uint64_t key) {
    size_t i = tool_hash(key, m->seed) & m->mask;
    while (m->entry[i].key != 0 && m->entry[i].key != key)
        i = (i + 1) & m->mask;
    return &m->entry[i];
}

/* NULL: KEY is not in the map. */
static inline struct tool_map_entry *tool_map_find(const struct tool_map *m,
                                                   uint64_t key) {
    if (m->count == 0)
        return NULL;
    struct tool_map_entry *e = tool_map_place(m, key);
    return e->key != 0 ? e : NULL;
}

/* Asks for the memory of KEY's place before it is needed. */
static inline void tool_map_ahead(const struct tool_map *m, uint64_t key) {
    if (m->count != 0)
        __builtin_prefetch(&m->entry[tool_hash(key, m->seed) & m->mask], 1);
}

bool tool_map_grow(struct tool_map *m);

/* The entry of KEY, made with the value 0 if there is none. Other entries may
   move. NULL: out of memory. */
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

/* Takes E out. Other entries may move. */
void tool_map_remove(struct tool_map *m, struct tool_map_entry *e);
/* Frees the places; the map is empty. */
void tool_map_fini(struct tool_map *m);

/* --- Places in an array --------------------------------------------------- */

/*
 * The places of entries in an array, by a 32-bit number such as a thread's. The
 * array is the user's: a pointer from malloc, NULL at first. All zero is empty.
 */
struct tool_ids {
    size_t count, room;
    struct tool_map place; /* key: id plus 1; value: place plus 1 */
};

/* The entry of ID in *ARRAY, a pointer of any type, of SIZE bytes. If there is
   none it is made behind the others, which may move, with all bytes 0. NULL:
   out of memory. */
void *tool_ids_get(struct tool_ids *t, void *array, size_t size, uint32_t id);
/* The place of ID; SIZE_MAX: none. */
static inline size_t tool_ids_find(const struct tool_ids *t, uint32_t id) {
    const struct tool_map_entry *e = tool_map_find(&t->place, (uint64_t)id + 1);
    return e == NULL ? SIZE_MAX : e->value - 1;
}
void tool_ids_fini(struct tool_ids *t);

#endif
