/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which live object a token names: its slot in the processed trace, and size.
 *
 * A thread takes its tokens in sequence, so objects of neighbouring tokens lie
 * side by side in a block, found by the token's high bits in a directory; no
 * key is stored or compared. A block of which little is left moves, object by
 * object, to a hash table (slots_old.h).
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
#include "sort/slots_old.h"

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
    uintptr_t *spare; /* blocks without use; see slots.c */
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
