/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of old objects: open addressing with linear probing, at most two
 * thirds full. Removal moves later entries of the run back, so that no marks of
 * removed entries pile up in a trace of any length.
 */
#include "slots.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#define OLD_FIRST_LOG2 12u
#define HUGE_PAGE      ((size_t)2 << 20)
#define STEPS_MAX      4000u

bool slots_init(struct slots *s) {
    memset(s, 0, sizeof(*s));
    s->multiplier = 0x9E3779B97F4A7C15u;
    s->young = malloc(SLOTS_YOUNG * sizeof(*s->young));
    if (s->young == NULL)
        return false;
    for (uint64_t i = 0; i < SLOTS_YOUNG; i++)
        s->young[i] =
            (struct slots_object){.token = i ^ 1, .slot = SLOTS_EMPTY};
    return true;
}

void slots_fini(struct slots *s) {
    free(s->young);
    free(s->old);
}

struct slots_object *slots_find_old(const struct slots *s, uint64_t token) {
    uint64_t i = slots_hash(s, token);
    for (;; i = (i + 1) & s->old_mask) {
        struct slots_object *o = &s->old[i];
        if (o->slot == SLOTS_EMPTY)
            return NULL;
        if (o->token == token)
            return o;
    }
}

/* Returns how many entries were in the way. */
static uint64_t put_old(struct slots *s, const struct slots_object *o) {
    uint64_t i = slots_hash(s, o->token), steps = 0;
    for (; s->old[i].slot != SLOTS_EMPTY; steps++)
        i = (i + 1) & s->old_mask;
    s->old[i] = *o;
    return steps;
}

/* Entries are read at random, so a large table wants large pages. */
static void *get_table(size_t bytes) {
    if (bytes < HUGE_PAGE)
        return malloc(bytes);
    bytes = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    void *p = aligned_alloc(HUGE_PAGE, bytes);
    if (p != NULL)
        (void)madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static bool resize_old(struct slots *s, unsigned log2) {
    struct slots_object *before = s->old;
    uint64_t entries = before == NULL ? 0 : s->old_mask + 1;
    size_t n = (size_t)1 << log2;
    struct slots_object *after = get_table(n * sizeof(*after));
    if (after == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        after[i].slot = SLOTS_EMPTY;
    s->old = after;
    s->old_mask = n - 1;
    s->old_shift = 64 - log2;
    for (uint64_t i = 0; i < entries; i++)
        if (before[i].slot != SLOTS_EMPTY)
            put_old(s, &before[i]);
    free(before);
    return true;
}

/* Tokens that all fall on one place are no accident: from now on nobody can
   tell where they fall. */
static void scatter(struct slots *s) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        random = (uint64_t)(uintptr_t)s->old * 0xD6E8FEB86659FD93u;
    s->scattered = true;
    s->multiplier = random | 1;
    if (!resize_old(s, 64 - s->old_shift))
        s->failed = true;
}

/* Moves the young object O to the old table. */
TCM_NOINLINE void slots_grow_old(struct slots *s,
                                 const struct slots_object *o) {
    if (s->old == NULL || s->old_count * 3 >= (s->old_mask + 1) * 2) {
        unsigned log2 = s->old == NULL ? OLD_FIRST_LOG2 : 65 - s->old_shift;
        if (!resize_old(s, log2)) {
            s->failed = true;
            return;
        }
    }
    s->old_count++;
    if (put_old(s, o) > STEPS_MAX && !s->scattered)
        scatter(s);
}

void slots_remove_old(struct slots *s, struct slots_object *o) {
    uint64_t hole = (uint64_t)(o - s->old), i = hole;
    for (;;) {
        i = (i + 1) & s->old_mask;
        if (s->old[i].slot == SLOTS_EMPTY)
            break;
        /* an entry may fill the hole if its search begins at or before it */
        uint64_t home = slots_hash(s, s->old[i].token);
        if (((i - home) & s->old_mask) >= ((i - hole) & s->old_mask)) {
            s->old[hole] = s->old[i];
            hole = i;
        }
    }
    s->old[hole].slot = SLOTS_EMPTY;
    s->old_count--;
    /* memory follows the live objects down, too; failing is no harm */
    if (s->old_count * 16 < s->old_mask && 64 - s->old_shift > OLD_FIRST_LOG2)
        resize_old(s, 63 - s->old_shift);
}
