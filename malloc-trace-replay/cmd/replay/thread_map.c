/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/thread_map.h"

#include "base/check.h"
#include "common/array.h"

#include <stdlib.h>
#include <string.h>

struct replay_thread *replay_threads_get(struct replay_thread_map *t,
                                         uint32_t id) {
    if (!tool_array_reserve(&t->thread, &t->room, t->count + 1,
                            sizeof(*t->thread)))
        return NULL;
    struct tool_map_entry *e = tool_map_get(&t->by_id, (uint64_t)id + 1);
    if (e == NULL)
        return NULL;
    if (e->value == 0) {
        t->thread[t->count++] = (struct replay_thread){.id = id};
        e->value = t->count;
    }
    return &t->thread[e->value - 1];
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
    if (!tool_array_reserve(&t->free_index, &t->free_room,
                            (size_t)t->indices + 1, sizeof(*t->free_index)))
        return false;
    entry->index = t->indices++;
    return true;
}

uint32_t replay_threads_end(struct replay_thread_map *t, uint32_t id) {
    const struct tool_map_entry *e = tool_map_find(&t->by_id, (uint64_t)id + 1);
    if (e == NULL)
        return 0;
    struct replay_thread *thread = &t->thread[e->value - 1];
    uint32_t index = thread->index;
    TCM_ASSERT(index < t->indices || index == 0);
    TCM_ASSERT(index == 0 || t->free_count < t->free_room);
    if (index != 0)
        t->free_index[t->free_count++] = index;
    thread->index = 0;
    return index;
}

void replay_threads_forget(struct replay_thread_map *t) {
    /* a table grown for one trace must not cost each small one after it */
    free(t->thread);
    t->thread = NULL;
    t->count = t->room = 0;
    tool_map_fini(&t->by_id);
}

void replay_threads_fini(struct replay_thread_map *t) {
    replay_threads_forget(t);
    free(t->free_index);
    memset(t, 0, sizeof(*t));
}
