/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Map from a token to its live object: slot in the processed trace, and size.
 *
 * A thread takes its tokens in sequence, so a block holds the objects of
 * neighbouring tokens, and a directory finds it by the token's high bits,
 * without stored keys. The last few objects of a block move to a hash table.
 *
 *     token >> 9 --> directory --> block of 512 entries of 16 bytes
 *                        \--(none)--> hash table, 24 bytes an entry
 *
 * Invariants: a live object is either in a block or in the table. Blocks take
 * at most SLOTS_SLACK and 32 bytes for each object in them, and as many bytes
 * again are kept in spare blocks; the table takes at most 40 bytes for each
 * object in it. A token that is born twice (inconsistent trace) names the later
 * object; the earlier object stays alive without a token.
 * Threads: none shared.
 */
#ifndef TOOL_SORT_SORT_SLOTS_H
#define TOOL_SORT_SORT_SLOTS_H

#include "base/check.h"
#include "base/compiler.h"
#include "traceformat/proc_writer.h"

/* --- The table of old objects --------------------------------------------- */

/*
 * Hash table of the objects that outlived most of their neighbours: linear
 * probing, with entries sorted by their hash (Celis, Robin Hood Hashing, 1986).
 *
 * Why sorted: an entry's home, where its search begins, is the high half of a
 * product, so it rises with the hash for every size of the table. So the table
 * grows and shrinks in place, in two passes. Removal moves the following
 * entries back, so marks of removed entries do not pile up in long traces.
 *
 * Invariants: from some thousand objects on, between 62 and 80 % of the homes
 * are taken. Tokens of one group, SLOTS_GROUP tokens, stay neighbours, because
 * objects that were made together are often freed together.
 */

#define SLOTS_EMPTY UINT32_MAX /* slot of an entry without object */
#define SLOTS_GROUP 4u

struct slots_object {
    uint64_t size;
    struct mtf_proc_object place;
};

struct slots_old_entry {
    uint64_t token;
    uint64_t size : 48;
    uint64_t birth_high : 16;
    uint32_t birth_low;
    uint32_t slot;
};
TCM_STATIC_ASSERT(sizeof(struct slots_old_entry) == 24, "entry of the table");

struct slots_old {
    struct slots_old_entry *table; /* NULL until the first object */
    uint64_t homes;                /* entries where a search can begin */
    uint64_t room;                 /* entries, taken and empty */
    uint64_t count;                /* entries taken */
    uint64_t multiplier;           /* of the hash */
    uint64_t steps; /* of recent searches, beyond the usual number */
    bool scattered; /* the multiplier is random */
};

/* Removes the object of TOKEN into *OBJECT; false: there is none. */
bool slots_old_take(struct slots_old *s, uint64_t token,
                    struct slots_object *object);
bool slots_old_has(struct slots_old *s, uint64_t token);

static TCM_ALWAYS_INLINE uint64_t slots_old_hash(const struct slots_old *s,
                                                 uint64_t token) {
    return token / SLOTS_GROUP * s->multiplier;
}

/* Entry where the search for TOKEN begins: one for all tokens of a group. */
static TCM_ALWAYS_INLINE uint64_t slots_old_home(const struct slots_old *s,
                                                 uint64_t token) {
    return (uint64_t)((unsigned __int128)slots_old_hash(s, token) * s->homes >>
                      64);
}

static TCM_ALWAYS_INLINE void slots_old_prefetch(const struct slots_old *s,
                                                 uint64_t token) {
    if (s->table != NULL)
        __builtin_prefetch(&s->table[slots_old_home(s, token)], 1, 2);
}

/* --- Blocks of objects ---------------------------------------------------- */

#define SLOTS_BLOCK_LOG2 9u
#define SLOTS_BLOCK      (1u << SLOTS_BLOCK_LOG2)
#define SLOTS_SLACK      ((uint64_t)4 << 20)

/* Two words: slot | birth << 32, and birth >> 32 | size << 16. */
struct slots_entry {
    uint64_t slot_birth, birth_size;
};

struct slots_place {
    uint64_t number; /* of the block: its tokens >> 9; UINT64_MAX: no block */
    struct slots_entry *block;
    uint32_t live; /* objects in the block */
};

struct slots {
    struct slots_place *directory; /* by the low bits of a block's number */
    uint64_t mask;                 /* entries of the directory - 1 */
    uint64_t live;                 /* live objects */
    uint64_t unnamed;              /* live objects that no token names */
    uint64_t blocks;               /* in the directory */
    uintptr_t *spare; /* unused blocks, perhaps tagged; see sort_slots.c */
    size_t spares, spare_room, spares_resident;
    struct slots_entry **slab; /* memory that blocks are cut from */
    size_t slabs, slab_room;
    size_t slab_used; /* blocks cut from the last slab */
    uint64_t *queue;  /* numbers of blocks, the next to be checked first */
    uint64_t queue_mask, queue_head, queue_tail;
    struct slots_old old;
    bool failed; /* no memory */
};

/* False: no memory; slots_fini is still to be called. */
bool slots_init(struct slots *s);
void slots_fini(struct slots *s);
/* Makes the block with NUMBER. NULL: no memory, and S has failed. */
struct slots_place *slots_make_block(struct slots *s, uint64_t number);

static TCM_ALWAYS_INLINE struct slots_place *
slots_place_of(const struct slots *s, uint64_t token) {
    return &s->directory[token >> SLOTS_BLOCK_LOG2 & s->mask];
}

static TCM_ALWAYS_INLINE bool slots_is_empty(const struct slots_entry *e) {
    return (uint32_t)e->slot_birth == SLOTS_EMPTY;
}

static TCM_ALWAYS_INLINE void slots_unpack(const struct slots_entry *e,
                                           struct slots_object *object) {
    object->size = e->birth_size >> 16;
    object->place.birth = (e->birth_size & 0xffff) << 32 | e->slot_birth >> 32;
    object->place.slot = (uint32_t)e->slot_birth;
}

/* Removes the live object of TOKEN into *OBJECT; false: there is none. */
static TCM_ALWAYS_INLINE bool slots_take(struct slots *s, uint64_t token,
                                         struct slots_object *object) {
    struct slots_place *place = slots_place_of(s, token);
    if (TCM_LIKELY(place->number == token >> SLOTS_BLOCK_LOG2)) {
        struct slots_entry *e = &place->block[token % SLOTS_BLOCK];
        if (TCM_LIKELY(!slots_is_empty(e))) {
            slots_unpack(e, object);
            e->slot_birth = SLOTS_EMPTY;
            TCM_ASSERT(place->live != 0 && s->live != 0);
            place->live--;
            s->live--;
            return true;
        }
    }
    if (!slots_old_take(&s->old, token, object))
        return false;
    s->live--;
    return true;
}

static TCM_ALWAYS_INLINE bool slots_has(struct slots *s, uint64_t token) {
    const struct slots_place *place = slots_place_of(s, token);
    return (place->number == token >> SLOTS_BLOCK_LOG2 &&
            !slots_is_empty(&place->block[token % SLOTS_BLOCK])) ||
           slots_old_has(&s->old, token);
}

/* Adds an object with TOKEN, of SIZE bytes, at WHERE. SIZE is cut to 48 bits:
   no block of memory is larger. Without memory S has failed. */
static TCM_ALWAYS_INLINE void slots_put(struct slots *s, uint64_t token,
                                        uint64_t size,
                                        struct mtf_proc_object where) {
    struct slots_place *place = slots_place_of(s, token);
    if (TCM_UNLIKELY(place->number != token >> SLOTS_BLOCK_LOG2)) {
        place = slots_make_block(s, token >> SLOTS_BLOCK_LOG2);
        if (place == NULL)
            return;
    }
    struct slots_entry *e = &place->block[token % SLOTS_BLOCK];
    if (TCM_UNLIKELY(!slots_is_empty(e)))
        s->unnamed++;
    else
        place->live++;
    TCM_ASSERT(where.slot != SLOTS_EMPTY && where.birth >> 48 == 0);
    TCM_ASSERT(place->live <= SLOTS_BLOCK);
    e->slot_birth = where.slot | where.birth << 32;
    e->birth_size = where.birth >> 32 | size << 16;
    s->live++;
}

/* Prefetches the entry that slots_take(TOKEN) will read. */
static TCM_ALWAYS_INLINE void slots_prefetch(const struct slots *s,
                                             uint64_t token) {
    const struct slots_place *place = slots_place_of(s, token);
    if (TCM_LIKELY(place->number == token >> SLOTS_BLOCK_LOG2))
        __builtin_prefetch(&place->block[token % SLOTS_BLOCK], 1, 2);
    else
        slots_old_prefetch(&s->old, token);
}

#endif
