/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/replay/feed/thread_map.h"

#include "base/check.h"
#include "common/collections.h"

#include <stdlib.h>
#include <string.h>

struct replay_thread *replay_threads_get(struct replay_thread_map *t,
                                         uint32_t id) {
    struct replay_thread *thread =
        tool_ids_get(&t->ids, &t->thread, sizeof(*t->thread), id);
    if (thread != NULL)
        thread->id = id;
    return thread;
}

bool replay_threads_index(struct replay_thread_map *t,
                          struct replay_thread *entry) {
    if (t->free_count != 0) {
        entry->index = t->free_index[--t->free_count];
        return true;
    }
    if (t->indices == 0)
        t->indices = 1;
    /* Room for this index now, so that taking it back cannot fail. */
    if (!tool_array_reserve(&t->free_index, &t->free_room,
                            (size_t)t->indices + 1, sizeof(*t->free_index)))
        return false;
    entry->index = t->indices++;
    return true;
}

uint32_t replay_threads_end(struct replay_thread_map *t, uint32_t id) {
    size_t place = tool_ids_find(&t->ids, id);
    if (place == SIZE_MAX)
        return 0;
    struct replay_thread *thread = &t->thread[place];
    uint32_t index = thread->index;
    TCM_ASSERT(index < t->indices || index == 0);
    TCM_ASSERT(index == 0 || t->free_count < t->free_room);
    if (index != 0)
        t->free_index[t->free_count++] = index;
    thread->index = 0;
    return index;
}

void replay_threads_forget(struct replay_thread_map *t) {
    /* so that a table of a large trace does not cost each small one after it */
    free(t->thread);
    t->thread = NULL;
    tool_ids_fini(&t->ids);
}

void replay_threads_fini(struct replay_thread_map *t) {
    replay_threads_forget(t);
    free(t->free_index);
    memset(t, 0, sizeof(*t));
}
