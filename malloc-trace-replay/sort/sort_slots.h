/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which live object a token names: its slot in the processed trace, and size.
 *
 * A thread takes its tokens in sequence, so objects of neighbouring tokens lie
 * side by side in a block, found by the token's high bits in a directory; no
 * key is stored or compared. A block of which little is left moves, object by
 * object, to a hash table.
 *
 *     token >> 9 --> directory --> block of 512 entries of 16 bytes
 *                        \--(none)--> hash table, 24 bytes an entry
 *
 * Invariants: a live object is in one of the two. Blocks take at most 32 bytes
 * an object in them and SLOTS_SLACK, and as much again is kept for the next
 * ones; the table at most 40 bytes an object in it. A token that is born twice
 * (inconsistent trace) names the later object; the earlier one stays alive, and
 * nothing names it any more.
 * Threads: none shared.
 */
#ifndef TOOL_SORT_SORT_SLOTS_H
#define TOOL_SORT_SORT_SLOTS_H

#include "base/check.h"
#include "base/compiler.h"
#include "traceformat/proc_writer.h"

/* --- The table of old objects --------------------------------------------- */

/*
 * Objects that outlived most of their neighbours: a hash table with linear
 * probing whose entries are sorted by their hash.
 *
 * Why sorted: the place where a search begins is a monotone function of the
 * hash, whatever the size of the table, so the table grows and shrinks in
 * place, in two passes, and no second one is ever needed. Removal moves the
 * following entries back, so no marks of removed entries pile up in a trace of
 * any length. (Sorted linear probing: Celis, Robin Hood Hashing, 1986; the
 * monotone map: multiplication and the high half of the product.)
 *
 * Invariants: from some thousand objects on, between 62 and 80 % of the places
 * are taken. Tokens of one group of 16 stay neighbours: what was made together
 * is often freed together.
 * Threads: none shared.
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
    struct slots_old_entry *table; /* NULL until there is an object */
    uint64_t homes;                /* places where a search can begin */
    uint64_t room;                 /* places in all */
    uint64_t count;
    uint64_t multiplier; /* of the hash */
    uint64_t steps;      /* beyond the usual ones, lately */
    bool scattered;      /* it is a random one */
};

/* Takes the object of TOKEN out; false: there is none. */
bool slots_old_take(struct slots_old *s, uint64_t token,
                    struct slots_object *object);
bool slots_old_has(struct slots_old *s, uint64_t token);

static TCM_ALWAYS_INLINE uint64_t slots_old_hash(const struct slots_old *s,
                                                 uint64_t token) {
    return token / SLOTS_GROUP * s->multiplier;
}

/* Where the search for TOKEN begins: the same for a group. */
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
    uint64_t number; /* of the block, UINT64_MAX if there is none */
    struct slots_entry *block;
    uint32_t live; /* objects in it */
};

struct slots {
    struct slots_place *directory; /* by the low bits of the number */
    uint64_t mask;
    uint64_t live;    /* objects in all */
    uint64_t unnamed; /* of them, those that no token names */
    uint64_t blocks;  /* in the directory */
    uintptr_t *spare; /* blocks without use; see sort_slots.c */
    size_t spares, spare_room, spares_resident;
    struct slots_entry **slab;          /* what blocks are cut from */
    size_t slabs, slab_room, slab_used; /* used: blocks of the last one */
    uint64_t *queue; /* numbers of blocks in the order to look at them */
    uint64_t queue_mask, queue_head, queue_tail;
    struct slots_old old;
    bool failed; /* no memory */
};

bool slots_init(struct slots *s);
void slots_fini(struct slots *s);
/* The block of NUMBER, made; NULL: no memory (failed). */
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

/* Takes the live object of TOKEN out; false: there is none. */
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

/* A new object of TOKEN. SIZE is cut to 48 bits; no block that exists is
   larger. */
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

/* Brings what slots_take(TOKEN) will read nearer. */
static TCM_ALWAYS_INLINE void slots_prefetch(const struct slots *s,
                                             uint64_t token) {
    const struct slots_place *place = slots_place_of(s, token);
    if (TCM_LIKELY(place->number == token >> SLOTS_BLOCK_LOG2))
        __builtin_prefetch(&place->block[token % SLOTS_BLOCK], 1, 2);
    else
        slots_old_prefetch(&s->old, token);
}

#endif
