/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/malloc_trace/report/history.h"

#include "base/check.h"

#include <stdlib.h>

/* A trace has a time about every millisecond. */
#define FIRST_STEP_NS 100000u

struct history *history_new(void) {
    struct history *h = calloc(1, sizeof(*h));
    if (h == NULL)
        return NULL;
    h->step_ns = FIRST_STEP_NS;
    h->key = calloc(HISTORY_KEYS, sizeof(*h->key));
    if (h->key != NULL)
        return h;
    free(h);
    return NULL;
}

void history_free(struct history *h) {
    if (h == NULL)
        return;
    free(h->key);
    free(h);
}

static void put_column(struct history *h, const struct tallies *t) {
    TCM_ASSERT(h->columns < HISTORY_COLUMNS && h->keys <= HISTORY_KEYS);
    unsigned at = h->columns++;
    h->total[at] = t->live_bytes;
    for (size_t i = 0; i < h->keys; i++) {
        TCM_ASSERT(h->key[i].tally < t->count);
        h->key[i].live[at] = t->tally[h->key[i].tally].live_bytes;
    }
}

static void drop_every_other(struct history *h) {
    h->columns = HISTORY_COLUMNS / 2;
    h->step_ns *= 2;
    for (unsigned c = 0; c < h->columns; c++)
        h->total[c] = h->total[2 * c];
    for (size_t i = 0; i < h->keys; i++)
        for (unsigned c = 0; c < h->columns; c++)
            h->key[i].live[c] = h->key[i].live[2 * c];
}

/* The times of a damaged trace may be anything: columns stay few, as each round
   of them is twice as long as the one before. */
void history_until(struct history *h, const struct tallies *t, uint64_t ns) {
    while (!h->over && h->step_ns <= UINT64_MAX / (2 * HISTORY_COLUMNS) &&
           h->columns * h->step_ns < ns) {
        if (h->columns == HISTORY_COLUMNS)
            drop_every_other(h);
        else
            put_column(h, t);
    }
}

/* Leaves out those that would not be followed now; whether there are some. */
static bool make_room(struct history *h, struct tallies *t) {
    size_t kept = 0;
    for (size_t i = 0; i < h->keys; i++) {
        struct tally *a = &t->tally[h->key[i].tally];
        a->followed = a->most_bytes >= t->highest / HISTORY_KEYS;
        if (a->followed)
            h->key[kept++] = h->key[i];
    }
    bool some = kept != h->keys;
    h->keys = kept;
    return some;
}

void history_see(struct history *h, struct tallies *t, size_t place) {
    TCM_ASSERT(place < t->count);
    struct tally *a = &t->tally[place];
    if (a->followed || h->full || h->over ||
        a->live_bytes < t->highest / HISTORY_KEYS)
        return;
    h->full = h->keys == HISTORY_KEYS && !make_room(h, t);
    if (h->full)
        return;
    TCM_ASSERT(h->keys < HISTORY_KEYS);
    h->key[h->keys++] = (struct history_key){.tally = (uint32_t)place};
    a->followed = true;
}

void history_end(struct history *h, const struct tallies *t) {
    uint64_t ns = t->end_ns > t->start_ns ? t->end_ns - t->start_ns : 0;
    if (h->over)
        return;
    history_until(h, t, ns);
    if (h->columns == HISTORY_COLUMNS)
        drop_every_other(h);
    put_column(h, t);
    h->over = true;
}
