/* SPDX-License-Identifier: BSD-3-Clause */
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
#ifndef TOOL_SORT_SLOTS_OLD_H
#define TOOL_SORT_SLOTS_OLD_H

#include "base/compiler.h"
#include "traceformat/proc_writer.h"

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

void slots_old_init(struct slots_old *s);
void slots_old_fini(struct slots_old *s);
/* An object that the token had is forgotten. false: no memory. */
bool slots_old_put(struct slots_old *s, uint64_t token,
                   const struct slots_object *object);
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

#endif
