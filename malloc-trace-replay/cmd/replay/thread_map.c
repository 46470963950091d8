/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/thread_map.h"

#include "common/hash.h"

#include <stdlib.h>
#include <string.h>

#define THREADS_FIRST 64u

static uint32_t home(const struct replay_thread_map *t, uint32_t id) {
    return (uint32_t)tool_hash(id, t->seed) & (t->capacity - 1);
}

static struct replay_thread *place(struct replay_thread_map *t, uint32_t id) {
    uint32_t i = home(t, id);
    while (t->entry[i].id != 0 && t->entry[i].id != id)
        i = (i + 1) & (t->capacity - 1);
    return &t->entry[i];
}

static bool grow(struct replay_thread_map *t) {
    struct replay_thread_map old = *t;
    uint32_t capacity = old.capacity == 0 ? THREADS_FIRST : old.capacity * 2;
    t->entry = calloc(capacity, sizeof(*t->entry));
    if (t->entry == NULL) {
        t->entry = old.entry;
        return false;
    }
    t->capacity = capacity;
    if (old.capacity == 0)
        t->seed = tool_hash_seed();
    for (uint32_t i = 0; i < old.capacity; i++)
        if (old.entry[i].id != 0)
            *place(t, old.entry[i].id) = old.entry[i];
    free(old.entry);
    return true;
}

struct replay_thread *replay_threads_get(struct replay_thread_map *t,
                                         uint32_t id) {
    if (t->count * 2 >= t->capacity && !grow(t))
        return NULL;
    struct replay_thread *e = place(t, id);
    if (e->id == 0) {
        *e = (struct replay_thread){.id = id};
        t->count++;
    }
    return e;
}

bool replay_threads_index(struct replay_thread_map *t,
                          struct replay_thread *entry) {
    if (t->free_count != 0) {
        entry->index = t->free_index[--t->free_count];
        return true;
    }
    if (t->indices == 0)
        t->indices = 1;
    /* So that every index given out can be taken back. */
    if (t->indices >= t->free_capacity) {
        uint32_t capacity = t->free_capacity * 2 + THREADS_FIRST;
        uint32_t *p = realloc(t->free_index, capacity * sizeof(*p));
        if (p == NULL)
            return false;
        t->free_index = p;
        t->free_capacity = capacity;
    }
    entry->index = t->indices++;
    return true;
}

uint32_t replay_threads_end(struct replay_thread_map *t, uint32_t id) {
    if (t->capacity == 0)
        return 0;
    struct replay_thread *e = place(t, id);
    uint32_t index = e->id == 0 ? 0 : e->index;
    if (index != 0)
        t->free_index[t->free_count++] = index;
    e->index = 0;
    return index;
}

void replay_threads_forget(struct replay_thread_map *t) {
    /* a table once made for many is not for each of a row of small traces */
    free(t->entry);
    t->entry = NULL;
    t->capacity = 0;
    t->count = 0;
}

void replay_threads_fini(struct replay_thread_map *t) {
    free(t->entry);
    free(t->free_index);
    memset(t, 0, sizeof(*t));
}
