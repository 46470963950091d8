/* SPDX-License-Identifier: BSD-3-Clause */
#include "sort/slots_old.h"

#include "base/bits.h"
#include "base/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define HOMES_FIRST 1024u
/* Places behind the last home; a run that needs more makes the table grow. */
#define TAIL(homes) (64 + (homes) / 64)
/* More steps than these for each search, over many searches, are no chance. */
#define STEPS_USUAL 512u
#define STEPS_LIMIT ((uint64_t)1 << 17)

void slots_old_init(struct slots_old *s) {
    memset(s, 0, sizeof(*s));
    s->multiplier = 0x9E3779B97F4A7C15u;
}

void slots_old_fini(struct slots_old *s) {
    free(s->table);
}

static bool is_empty(const struct slots_old_entry *e) {
    return e->slot == SLOTS_EMPTY;
}

static void clear(struct slots_old *s, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++)
        s->table[i].slot = SLOTS_EMPTY;
}

/* --- Size ---------------------------------------------------------------- */

static bool set_room(struct slots_old *s, uint64_t room) {
    struct slots_old_entry *table = realloc(s->table, room * sizeof(*table));
    if (table == NULL)
        return false;
    s->table = table;
    s->room = room;
    return true;
}

/* The entries to the first places, in their order. */
static void pack(struct slots_old *s) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < s->room; i++)
        if (!is_empty(&s->table[i]))
            s->table[n++] = s->table[i];
    TCM_ASSERT(n == s->count);
}

/*
 * The entries, which stand at the end of ROOM places, to where they belong with
 * the present number of homes. None is written before it was read: places are
 * taken in rising order, and behind each are as many as there are entries left.
 * False: the last ones did not fit, and stand, sorted, at the end of ROOM.
 */
static bool spread(struct slots_old *s, uint64_t room) {
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
        clear(s, next, at);
        s->table[at] = e;
        next = at + 1;
    }
    clear(s, next, room);
    return fits;
}

static bool spread_packed(struct slots_old *s, uint64_t homes, uint64_t room) {
    memmove(s->table + room - s->count, s->table, s->count * sizeof(*s->table));
    s->homes = homes;
    return spread(s, room);
}

/* The same entries, which are packed, with HOMES places to begin at, or more if
   they do not fit. false: no memory; they are where they were. */
static bool place_packed(struct slots_old *s, uint64_t homes) {
    uint64_t homes_before = s->homes, room_before = s->room;
    for (;; homes += homes / 4) {
        uint64_t room = homes + TAIL(homes);
        if (room > s->room && !set_room(s, room)) {
            if (s->table != NULL)
                (void)spread_packed(s, homes_before, room_before);
            return false;
        }
        if (spread_packed(s, homes, room)) {
            if (room < s->room && !set_room(s, room))
                clear(s, room, s->room);
            return true;
        }
        clear(s, room, s->room);
        pack(s);
    }
}

static bool resize(struct slots_old *s, uint64_t homes) {
    pack(s);
    return place_packed(s, homes);
}

static bool grow(struct slots_old *s) {
    return resize(s, s->table == NULL ? HOMES_FIRST : s->homes + s->homes / 5);
}

static int by_hash(const void *a, const void *b, void *s) {
    uint64_t x = slots_old_hash(s, ((const struct slots_old_entry *)a)->token);
    uint64_t y = slots_old_hash(s, ((const struct slots_old_entry *)b)->token);
    return x < y ? -1 : x > y;
}

/* Tokens that fall on few places are no accident: from now on the hash is
   random, so a trace cannot choose where they fall. */
static bool scatter(struct slots_old *s) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        random = (uint64_t)(uintptr_t)s->table * 0xD6E8FEB86659FD93u;
    s->scattered = true;
    s->multiplier = random | 1;
    pack(s);
    qsort_r(s->table, s->count, sizeof(*s->table), by_hash, s);
    return place_packed(s, s->homes);
}

/* --- Entries ------------------------------------------------------------- */

/* A search took STEPS. */
static TCM_ALWAYS_INLINE void count_steps(struct slots_old *s, uint64_t steps) {
    if (TCM_LIKELY(steps <= STEPS_USUAL && s->steps == 0))
        return;
    s->steps += steps;
    s->steps -= tcm_min_u64(s->steps, STEPS_USUAL);
}

/* Before a search. false: no memory. */
static bool keep_short(struct slots_old *s) {
    return s->steps <= STEPS_LIMIT || s->scattered || scatter(s);
}

bool slots_old_put(struct slots_old *s, uint64_t token,
                   const struct slots_object *object) {
    if ((s->count * 5 >= s->homes * 4 && !grow(s)) || !keep_short(s))
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
        while (at < s->room && !is_empty(&s->table[at]) &&
               slots_old_hash(s, s->table[at].token) <= hash) {
            if (s->table[at].token == token) {
                s->table[at] = entry;
                count_steps(s, at - home);
                return true;
            }
            at++;
        }
        end = at;
        while (end < s->room && !is_empty(&s->table[end]))
            end++;
        count_steps(s, end - home);
        if (end < s->room)
            break;
        if (!grow(s))
            return false;
    }
    memmove(&s->table[at + 1], &s->table[at], (end - at) * sizeof(*s->table));
    s->table[at] = entry;
    s->count++;
    return true;
}

/* The entry of TOKEN, or s->room. */
static uint64_t find(struct slots_old *s, uint64_t token) {
    if (s->table == NULL || !keep_short(s))
        return s->room;
    uint64_t home = slots_old_home(s, token), at = home;
    while (at < s->room && !is_empty(&s->table[at]) &&
           s->table[at].token != token)
        at++;
    count_steps(s, at - home);
    return at < s->room && !is_empty(&s->table[at]) ? at : s->room;
}

bool slots_old_has(struct slots_old *s, uint64_t token) {
    return find(s, token) < s->room;
}

bool slots_old_take(struct slots_old *s, uint64_t token,
                    struct slots_object *object) {
    uint64_t at = find(s, token);
    if (at >= s->room)
        return false;
    const struct slots_old_entry *e = &s->table[at];
    object->size = e->size;
    object->place.birth = (uint64_t)e->birth_high << 32 | e->birth_low;
    object->place.slot = e->slot;
    TCM_ASSERT(s->count != 0 && e->token == token);
    uint64_t end = at + 1;
    while (end < s->room && !is_empty(&s->table[end]) &&
           slots_old_home(s, s->table[end].token) < end)
        end++;
    memmove(&s->table[at], &s->table[at + 1],
            (end - at - 1) * sizeof(*s->table));
    count_steps(s, end - at);
    s->table[end - 1].slot = SLOTS_EMPTY;
    s->count--;
    /* Memory follows the live objects down, too; a failure does no harm. */
    if (s->homes > HOMES_FIRST && s->count * 100 < s->homes * 62)
        (void)resize(s, tcm_max_u64(s->count / 18 * 25, HOMES_FIRST));
    return true;
}
