/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which live object a token names: its slot in the processed trace, and size.
 *
 * Tokens are given out nearly in sequence and most objects die young, so the
 * newest tokens lie in a table indexed by the token's low bits, which stays in
 * the cache; an object that is still alive when its place there is needed again
 * moves, once, to a hash table.
 *
 * Invariants: a live object is in exactly one of the two tables. Memory follows
 * the number of live objects. A token that is born twice (inconsistent trace)
 * names the later object; the earlier one stays alive.
 * Threads: none shared.
 */
#ifndef POSTPROCESS_SLOTS_H
#define POSTPROCESS_SLOTS_H

#include "base/compiler.h"
#include "traceformat/proc_writer.h"

/* Packed, because how many fit into the cache decides the speed. */
struct slots_object {
    uint64_t token;
    uint64_t size : 48;
    uint64_t birth_high : 16;
    uint32_t birth_low;
    uint32_t slot;
};
TCM_STATIC_ASSERT(sizeof(struct slots_object) == 24, "slots object");

static TCM_ALWAYS_INLINE struct mtf_proc_object
slots_place(const struct slots_object *o) {
    return (struct mtf_proc_object){
        .birth = (uint64_t)o->birth_high << 32 | o->birth_low, .slot = o->slot};
}

/* SIZE is cut to 48 bits; no block that exists is larger. */
static TCM_ALWAYS_INLINE void slots_fill(struct slots_object *o, uint64_t size,
                                         struct mtf_proc_object place) {
    o->size = size & (((uint64_t)1 << 48) - 1);
    o->birth_high = (uint16_t)(place.birth >> 32);
    o->birth_low = (uint32_t)place.birth;
    o->slot = place.slot;
}

#define SLOTS_YOUNG (1u << 15)
#define SLOTS_AHEAD 12u /* tokens from looking ahead to being moved */
/* Tokens that stay neighbours in the hash table: what was made together is
   often freed together. */
#define SLOTS_GROUP 16u
#define SLOTS_EMPTY UINT32_MAX /* slot of an entry without object */

struct slots {
    struct slots_object *young;
    struct slots_object *old; /* NULL until the first object is old */
    uint64_t old_mask;
    uint64_t old_count;
    unsigned old_shift;
    bool scattered;      /* the multiplier is a random one */
    uint64_t multiplier; /* of the hash */
    bool failed;         /* no memory */
};

bool slots_init(struct slots *s);
void slots_fini(struct slots *s);
struct slots_object *slots_find_old(const struct slots *s, uint64_t token);
void slots_remove_old(struct slots *s, struct slots_object *o);
void slots_grow_old(struct slots *s, const struct slots_object *o);

static TCM_ALWAYS_INLINE uint64_t slots_hash(const struct slots *s,
                                             uint64_t token) {
    return ((token / SLOTS_GROUP) * s->multiplier >> s->old_shift &
            ~(uint64_t)(SLOTS_GROUP - 1)) +
           token % SLOTS_GROUP;
}

/* The live object of TOKEN, or NULL. */
static TCM_ALWAYS_INLINE struct slots_object *slots_find(const struct slots *s,
                                                         uint64_t token) {
    struct slots_object *o = &s->young[token % SLOTS_YOUNG];
    if (TCM_LIKELY(o->token == token))
        return o;
    return s->old == NULL ? NULL : slots_find_old(s, token);
}

/* A place for the object of TOKEN; the caller fills size and place. */
static TCM_ALWAYS_INLINE struct slots_object *slots_insert(struct slots *s,
                                                           uint64_t token) {
    struct slots_object *o = &s->young[token % SLOTS_YOUNG];
    if (o->slot != SLOTS_EMPTY)
        slots_grow_old(s, o);
    o->token = token;
    /* who has to move soon is known: the tokens come in sequence */
    const struct slots_object *soon =
        &s->young[(token + SLOTS_AHEAD) % SLOTS_YOUNG];
    if (soon->slot != SLOTS_EMPTY && s->old != NULL)
        __builtin_prefetch(&s->old[slots_hash(s, soon->token)], 1, 2);
    return o;
}

static TCM_ALWAYS_INLINE void slots_remove(struct slots *s,
                                           struct slots_object *o) {
    uint64_t i = (uint64_t)(o - s->young);
    if (TCM_LIKELY(i < SLOTS_YOUNG)) {
        o->token = i ^ 1; /* belongs elsewhere, so no search finds it here */
        o->slot = SLOTS_EMPTY;
    } else {
        slots_remove_old(s, o);
    }
}

/* Brings what slots_find(TOKEN) will read nearer. */
static TCM_ALWAYS_INLINE void slots_prefetch(const struct slots *s,
                                             uint64_t token, uint64_t newest) {
    if (newest - token > SLOTS_YOUNG / 2 && s->old != NULL)
        __builtin_prefetch(&s->old[slots_hash(s, token)], 1, 2);
}

#endif
