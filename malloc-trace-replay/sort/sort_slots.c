/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block of entries is created with the first of its tokens. Each new block
 * triggers a check of a few of the oldest: empty ones are released, and while
 * blocks take more than their share of memory, the objects of half-empty ones
 * move to the hash table. So memory follows the live objects, with constant
 * work for each block.
 */
#include "sort/sort_slots.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/linux/os_mem.h"
#include "common/collections.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define NONE            UINT64_MAX
#define DIRECTORY_FIRST 1024u
#define QUEUE_FIRST     1024u
#define BLOCK_BYTES     (SLOTS_BLOCK * sizeof(struct slots_entry))
/* Blocks checked for each new one; the newest, which are still being filled,
   are not. */
#define BLOCKS_CHECKED 4u
#define BLOCKS_NEWEST  16u
/* Slabs are cut into blocks at page boundaries, so that the memory of a spare
   block can go back to the system. Some spare blocks keep it, because the first
   touch of a page costs as much as a hundred events. */
#define SLAB_BLOCKS     32u
#define SPARES_RESIDENT (SLOTS_SLACK / BLOCK_BYTES)
/* Tag of a spare block whose memory was returned to the system: its entries
   have to be emptied before use. */
#define RELEASED ((uintptr_t)1)

/* --- The table of old objects --------------------------------------------- */

#define OLD_HOMES_FIRST 1024u
/* Entries behind the last home; a run that needs more makes the table grow. */
#define OLD_TAIL(homes) (64 + (homes) / 64)
/* More steps than this for each of many searches are no accident: the trace has
   chosen tokens that collide. */
#define OLD_STEPS_USUAL 512u
#define OLD_STEPS_LIMIT ((uint64_t)1 << 17)

static void slots_old_init(struct slots_old *s) {
    memset(s, 0, sizeof(*s));
    s->multiplier = 0x9E3779B97F4A7C15u;
}

static void slots_old_fini(struct slots_old *s) {
    free(s->table);
}

static bool old_is_empty(const struct slots_old_entry *e) {
    return e->slot == SLOTS_EMPTY;
}

static void old_clear(struct slots_old *s, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++)
        s->table[i].slot = SLOTS_EMPTY;
}

/* --- Size of the table ---------------------------------------------------- */

static bool old_set_room(struct slots_old *s, uint64_t room) {
    struct slots_old_entry *table = realloc(s->table, room * sizeof(*table));
    if (table == NULL)
        return false;
    s->table = table;
    s->room = room;
    return true;
}

/* Moves the taken entries to the beginning of the table, in their order. */
static void old_pack(struct slots_old *s) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < s->room; i++)
        if (!old_is_empty(&s->table[i]))
            s->table[n++] = s->table[i];
    TCM_ASSERT(n == s->count);
}

/*
 * Moves the entries from the end of the first ROOM places to those for the
 * present number of homes. Places are filled in rising order with room behind
 * for all that are left, so no entry is overwritten before it is read. False:
 * the last entries did not fit, and stand sorted at the end of ROOM.
 */
static bool old_spread(struct slots_old *s, uint64_t room) {
    TCM_ASSERT(s->count <= room && room <= s->room);
    uint64_t next = 0, left = s->count;
    bool fits = true;
    for (uint64_t from = room - left; left > 0; left--, from++) {
        struct slots_old_entry e = s->table[from];
        uint64_t at = tcm_max_u64(slots_old_home(s, e.token), next);
        if (at > room - left) {
            at = room - left;
            fits = false;
        }
        old_clear(s, next, at);
        s->table[at] = e;
        next = at + 1;
    }
    old_clear(s, next, room);
    return fits;
}

static bool old_spread_packed(struct slots_old *s, uint64_t homes,
                              uint64_t room) {
    memmove(s->table + room - s->count, s->table, s->count * sizeof(*s->table));
    s->homes = homes;
    return old_spread(s, room);
}

/* Spreads the packed entries over HOMES homes, or more if they do not fit.
   False: no memory; the table is as it was before it was packed. */
static bool old_place_packed(struct slots_old *s, uint64_t homes) {
    uint64_t homes_before = s->homes, room_before = s->room;
    for (;; homes += homes / 4) {
        uint64_t room = homes + OLD_TAIL(homes);
        if (room > s->room && !old_set_room(s, room)) {
            if (s->table != NULL) {
                (void)old_spread_packed(s, homes_before, room_before);
                old_clear(s, room_before, s->room);
            }
            return false;
        }
        if (old_spread_packed(s, homes, room)) {
            if (room < s->room && !old_set_room(s, room))
                old_clear(s, room, s->room);
            return true;
        }
        old_clear(s, room, s->room);
        old_pack(s);
    }
}

static bool old_resize(struct slots_old *s, uint64_t homes) {
    old_pack(s);
    return old_place_packed(s, homes);
}

static bool old_grow(struct slots_old *s) {
    return old_resize(s, s->table == NULL ? OLD_HOMES_FIRST
                                          : s->homes + s->homes / 5);
}

static int old_by_hash(const void *a, const void *b, void *s) {
    uint64_t x = slots_old_hash(s, ((const struct slots_old_entry *)a)->token);
    uint64_t y = slots_old_hash(s, ((const struct slots_old_entry *)b)->token);
    return x < y ? -1 : x > y;
}

/* Makes the hash random, so that a trace cannot choose tokens that collide.
   False: no memory. */
static bool old_scatter(struct slots_old *s) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        random = (uint64_t)(uintptr_t)s->table * 0xD6E8FEB86659FD93u;
    s->scattered = true;
    s->multiplier = random | 1;
    old_pack(s);
    qsort_r(s->table, s->count, sizeof(*s->table), old_by_hash, s);
    return old_place_packed(s, s->homes);
}

/* --- Entries of the table ------------------------------------------------- */

/* Notes that a search took STEPS. */
static TCM_ALWAYS_INLINE void old_count_steps(struct slots_old *s,
                                              uint64_t steps) {
    if (TCM_LIKELY(steps <= OLD_STEPS_USUAL && s->steps == 0))
        return;
    s->steps += steps;
    s->steps -= tcm_min_u64(s->steps, OLD_STEPS_USUAL);
}

/* Keeps searches short; called before each of them. False: no memory. */
static bool old_keep_short(struct slots_old *s) {
    return s->steps <= OLD_STEPS_LIMIT || s->scattered || old_scatter(s);
}

/* Adds OBJECT with TOKEN, instead of any that TOKEN named. False: no memory. */
static bool slots_old_put(struct slots_old *s, uint64_t token,
                          const struct slots_object *object) {
    if ((s->count * 5 >= s->homes * 4 && !old_grow(s)) || !old_keep_short(s))
        return false;
    const struct slots_old_entry entry = {
        .token = token,
        .size = object->size & (((uint64_t)1 << 48) - 1),
        .birth_high = object->place.birth >> 32 & 0xffff,
        .birth_low = (uint32_t)object->place.birth,
        .slot = object->place.slot,
    };
    uint64_t home, at, end;
    for (;;) {
        uint64_t hash = slots_old_hash(s, token);
        home = slots_old_home(s, token);
        at = home;
        while (at < s->room && !old_is_empty(&s->table[at]) &&
               slots_old_hash(s, s->table[at].token) <= hash) {
            if (s->table[at].token == token) {
                s->table[at] = entry;
                old_count_steps(s, at - home);
                return true;
            }
            at++;
        }
        end = at;
        while (end < s->room && !old_is_empty(&s->table[end]))
            end++;
        old_count_steps(s, end - home);
        if (end < s->room)
            break;
        if (!old_grow(s))
            return false;
    }
    memmove(&s->table[at + 1], &s->table[at], (end - at) * sizeof(*s->table));
    s->table[at] = entry;
    s->count++;
    TCM_ASSERT(at == home || slots_old_hash(s, s->table[at - 1].token) <=
                                 slots_old_hash(s, token));
    TCM_ASSERT(s->count <= s->room);
    return true;
}

/* Returns the index of TOKEN's entry, or s->room. */
static uint64_t old_find(struct slots_old *s, uint64_t token) {
    if (s->table == NULL || !old_keep_short(s))
        return s->room;
    uint64_t home = slots_old_home(s, token), at = home;
    while (at < s->room && !old_is_empty(&s->table[at]) &&
           s->table[at].token != token)
        at++;
    old_count_steps(s, at - home);
    return at < s->room && !old_is_empty(&s->table[at]) ? at : s->room;
}

bool slots_old_has(struct slots_old *s, uint64_t token) {
    return old_find(s, token) < s->room;
}

bool slots_old_take(struct slots_old *s, uint64_t token,
                    struct slots_object *object) {
    uint64_t at = old_find(s, token);
    if (at >= s->room)
        return false;
    const struct slots_old_entry *e = &s->table[at];
    object->size = e->size;
    object->place.birth = (uint64_t)e->birth_high << 32 | e->birth_low;
    object->place.slot = e->slot;
    TCM_ASSERT(s->count != 0 && e->token == token);
    uint64_t end = at + 1;
    while (end < s->room && !old_is_empty(&s->table[end]) &&
           slots_old_home(s, s->table[end].token) < end)
        end++;
    memmove(&s->table[at], &s->table[at + 1],
            (end - at - 1) * sizeof(*s->table));
    old_count_steps(s, end - at);
    s->table[end - 1].slot = SLOTS_EMPTY;
    s->count--;
    /* Memory shrinks with the live objects, too; a failure does no harm. */
    if (s->homes > OLD_HOMES_FIRST && s->count * 100 < s->homes * 62)
        (void)old_resize(s, tcm_max_u64(s->count / 18 * 25, OLD_HOMES_FIRST));
    return true;
}

/* --- Blocks of objects ---------------------------------------------------- */

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

/* Moves the object of TOKEN at E to the table. An object that TOKEN names there
   has no name any more. */
static void move_to_table(struct slots *s, uint64_t token,
                          const struct slots_entry *e) {
    struct slots_object object;
    uint64_t count = s->old.count;
    slots_unpack(e, &object);
    if (!slots_old_put(&s->old, token, &object))
        s->failed = true;
    else
        s->unnamed += s->old.count == count;
}

/* Takes the block from PLACE and returns it with all entries empty; its objects
   move to the table. */
static struct slots_entry *evict_block(struct slots *s,
                                       struct slots_place *place) {
    uint64_t first = place->number << SLOTS_BLOCK_LOG2;
    for (uint64_t i = 0; place->live != 0; i++) {
        TCM_ASSERT(i < SLOTS_BLOCK);
        struct slots_entry *e = &place->block[i];
        if (slots_is_empty(e))
            continue;
        move_to_table(s, first + i, e);
        e->slot_birth = SLOTS_EMPTY;
        place->live--;
    }
    place->number = NONE;
    s->blocks--;
    return place->block;
}

/* Makes the block of PLACE a spare one. */
static void release_block(struct slots *s, struct slots_place *place) {
    uintptr_t block = (uintptr_t)evict_block(s, place);
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
    TCM_ASSERT(s->unnamed + s->old.count <= s->live);
    uint64_t live = s->live - s->unnamed - s->old.count;
    return s->blocks * BLOCK_BYTES > SLOTS_SLACK + 32 * live;
}

static void check_oldest_blocks(struct slots *s) {
    for (unsigned i = 0;
         i < BLOCKS_CHECKED && s->queue_tail - s->queue_head > BLOCKS_NEWEST;
         i++) {
        uint64_t number = s->queue[s->queue_head++ & s->queue_mask];
        struct slots_place *place = &s->directory[number & s->mask];
        if (place->number != number)
            continue; /* released already */
        if (place->live == 0 ||
            (place->live <= SLOTS_BLOCK / 2 && is_over_budget(s)))
            release_block(s, place);
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
    check_oldest_blocks(s);
    struct slots_place *place = &s->directory[number & s->mask];
    while (place->number != NONE && s->blocks * 4 > s->mask) {
        if (!grow_directory(s, 2 * (s->mask + 1)))
            break;
        place = &s->directory[number & s->mask];
    }
    if (place->number != NONE)
        release_block(s, place);
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
