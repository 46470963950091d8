/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of entries, made when the first token of theirs is born. With each new
 * one the oldest few are looked at: empty ones are given back, and, when blocks
 * take more than their share of memory, those that are half empty go to the
 * hash table. So what is held follows the live objects, for a constant number
 * of steps a block.
 */
#include "sort/sort_slots.h"

#include "base/check.h"
#include "base/linux/os_mem.h"
#include "common/collections.h"

#include <stdlib.h>
#include <string.h>

#define NONE            UINT64_MAX
#define DIRECTORY_FIRST 1024u
#define QUEUE_FIRST     1024u
#define BLOCK_BYTES     (SLOTS_BLOCK * sizeof(struct slots_entry))
/* Blocks looked at for each new one; the newest ones, which are being filled,
   are left alone. */
#define LOOKS  4u
#define NEWEST 16u
/* Blocks are cut from larger pieces, at page boundaries, so that the system can
   have the memory of those that are not needed: objects that move to the table
   leave holes that nothing else would fill. Some stay at hand, because a first
   touch of a page costs as much as a hundred events. */
#define SLAB_BLOCKS     32u
#define SPARES_RESIDENT (SLOTS_SLACK / BLOCK_BYTES)
/* Tag of a spare block whose memory was given back, and has to be emptied. */
#define RELEASED ((uintptr_t)1)

static bool grow_directory(struct slots *s, uint64_t entries) {
    struct slots_place *directory = malloc(entries * sizeof(*directory));
    if (directory == NULL)
        return false;
    for (uint64_t i = 0; i < entries; i++)
        directory[i] = (struct slots_place){.number = NONE};
    for (uint64_t i = 0; s->directory != NULL && i <= s->mask; i++) {
        const struct slots_place *place = &s->directory[i];
        if (place->number != NONE)
            directory[place->number & (entries - 1)] = *place;
    }
    free(s->directory);
    s->directory = directory;
    s->mask = entries - 1;
    return true;
}

static bool grow_queue(struct slots *s, uint64_t entries) {
    uint64_t *queue = malloc(entries * sizeof(*queue));
    if (queue == NULL)
        return false;
    uint64_t n = 0;
    for (uint64_t i = s->queue_head; i != s->queue_tail; i++)
        queue[n++] = s->queue[i & s->queue_mask];
    free(s->queue);
    s->queue = queue;
    s->queue_mask = entries - 1;
    s->queue_head = 0;
    s->queue_tail = n;
    return true;
}

static bool enqueue(struct slots *s, uint64_t number) {
    if (s->queue_tail - s->queue_head > s->queue_mask &&
        !grow_queue(s, 2 * (s->queue_mask + 1)))
        return false;
    s->queue[s->queue_tail++ & s->queue_mask] = number;
    return true;
}

bool slots_init(struct slots *s) {
    memset(s, 0, sizeof(*s));
    slots_old_init(&s->old);
    return grow_directory(s, DIRECTORY_FIRST) && grow_queue(s, QUEUE_FIRST);
}

void slots_fini(struct slots *s) {
    for (size_t i = 0; i < s->slabs; i++)
        free(s->slab[i]);
    free(s->slab);
    free(s->spare);
    free(s->directory);
    free(s->queue);
    slots_old_fini(&s->old);
}

/* To the table, if no later object has its token. */
static void put_aside(struct slots *s, uint64_t token,
                      const struct slots_entry *e) {
    struct slots_object object;
    uint64_t count = s->old.count;
    slots_unpack(e, &object);
    if (!slots_old_put(&s->old, token, &object))
        s->failed = true;
    else
        s->unnamed += s->old.count == count;
}

/* The block of PLACE, which then has none; its entries are empty. */
static struct slots_entry *evict(struct slots *s, struct slots_place *place) {
    uint64_t first = place->number << SLOTS_BLOCK_LOG2;
    for (uint64_t i = 0; place->live != 0; i++) {
        struct slots_entry *e = &place->block[i];
        if (slots_is_empty(e))
            continue;
        put_aside(s, first + i, e);
        e->slot_birth = SLOTS_EMPTY;
        place->live--;
    }
    place->number = NONE;
    s->blocks--;
    return place->block;
}

/* The block of PLACE is not needed any more. */
static void give_back(struct slots *s, struct slots_place *place) {
    uintptr_t block = (uintptr_t)evict(s, place);
    if (!tool_array_reserve(&s->spare, &s->spare_room, s->spares + 1,
                            sizeof(*s->spare))) {
        s->failed = true;
        return;
    }
    if (s->spares_resident >= SPARES_RESIDENT &&
        BLOCK_BYTES % tcm_os_page_size() == 0 &&
        tcm_os_release((void *)block, BLOCK_BYTES))
        block |= RELEASED;
    else
        s->spares_resident++;
    s->spare[s->spares++] = block;
}

static bool is_over_budget(const struct slots *s) {
    uint64_t live = s->live - s->unnamed - s->old.count;
    return s->blocks * BLOCK_BYTES > SLOTS_SLACK + 32 * live;
}

static void look_at_oldest(struct slots *s) {
    for (unsigned i = 0; i < LOOKS && s->queue_tail - s->queue_head > NEWEST;
         i++) {
        uint64_t number = s->queue[s->queue_head++ & s->queue_mask];
        struct slots_place *place = &s->directory[number & s->mask];
        if (place->number != number)
            continue; /* gone already */
        if (place->live == 0 ||
            (place->live <= SLOTS_BLOCK / 2 && is_over_budget(s)))
            give_back(s, place);
        else
            s->queue[s->queue_tail++ & s->queue_mask] = number;
    }
}

static bool new_slab(struct slots *s) {
    if (!tool_array_reserve(&s->slab, &s->slab_room, s->slabs + 1,
                            sizeof(*s->slab)))
        return false;
    struct slots_entry *more =
        aligned_alloc(BLOCK_BYTES, SLAB_BLOCKS * BLOCK_BYTES);
    if (more == NULL)
        return false;
    s->slab[s->slabs++] = more;
    s->slab_used = 0;
    return true;
}

static struct slots_entry *new_block(struct slots *s) {
    struct slots_entry *block;
    if (s->spares != 0) {
        uintptr_t spare = s->spare[--s->spares];
        block = (struct slots_entry *)(spare & ~RELEASED);
        if ((spare & RELEASED) == 0) {
            s->spares_resident--;
            return block;
        }
    } else {
        if ((s->slabs == 0 || s->slab_used == SLAB_BLOCKS) && !new_slab(s))
            return NULL;
        block = s->slab[s->slabs - 1] + SLOTS_BLOCK * s->slab_used++;
    }
    TCM_ASSERT((uintptr_t)block % BLOCK_BYTES == 0);
    for (unsigned i = 0; i < SLOTS_BLOCK; i++)
        block[i].slot_birth = SLOTS_EMPTY;
    return block;
}

struct slots_place *slots_make_block(struct slots *s, uint64_t number) {
    look_at_oldest(s);
    struct slots_place *place = &s->directory[number & s->mask];
    while (place->number != NONE && s->blocks * 4 > s->mask) {
        if (!grow_directory(s, 2 * (s->mask + 1)))
            break;
        place = &s->directory[number & s->mask];
    }
    if (place->number != NONE)
        give_back(s, place);
    struct slots_entry *block = new_block(s);
    if (block == NULL || !enqueue(s, number)) {
        s->failed = true;
        return NULL;
    }
    *place = (struct slots_place){.number = number, .block = block};
    s->blocks++;
    TCM_ASSERT(s->blocks <= s->mask + 1 && s->slab_used <= SLAB_BLOCKS);
    return place;
}
