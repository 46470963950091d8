/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/raw_threads.h"

#include "base/bits.h"
#include "common/hash.h"

#include <stdlib.h>
#include <string.h>

static size_t index_of(const struct raw_threads *t, uint32_t id, size_t size) {
    return tool_hash(id, t->seed) & (size - 1);
}

static bool grow_index(struct raw_threads *t) {
    size_t size = t->index_size == 0 ? 64 : 2 * t->index_size;
    if (t->index_size == 0)
        t->seed = tool_hash_seed();
    uint32_t *table = calloc(size, sizeof(*table));
    if (table == NULL)
        return false;
    for (size_t i = 0; i < t->count; i++) {
        size_t at = index_of(t, t->thread[i].id, size);
        while (table[at] != 0)
            at = (at + 1) & (size - 1);
        table[at] = (uint32_t)i + 1;
    }
    free(t->index);
    t->index = table;
    t->index_size = size;
    return true;
}

struct raw_thread *raw_threads_find(struct raw_threads *t, uint32_t id) {
    if (2 * (t->count + 1) > t->index_size && !grow_index(t))
        return NULL;
    size_t at = index_of(t, id, t->index_size);
    for (; t->index[at] != 0; at = (at + 1) & (t->index_size - 1))
        if (t->thread[t->index[at] - 1].id == id)
            return &t->thread[t->index[at] - 1];
    if (t->count == t->capacity) {
        size_t capacity = t->capacity == 0 ? 16 : 2 * t->capacity;
        void *p = realloc(t->thread, capacity * sizeof(*t->thread));
        if (p == NULL)
            return NULL;
        t->thread = p;
        t->capacity = capacity;
    }
    struct raw_thread *r = &t->thread[t->count++];
    t->index[at] = (uint32_t)t->count;
    memset(r, 0, sizeof(*r));
    r->id = id;
    if (t->begins_late)
        mtf_stream_init_late(&r->stream);
    else
        mtf_stream_init(&r->stream);
    return r;
}

void raw_threads_free(struct raw_threads *t) {
    free(t->thread);
    free(t->index);
}

uint64_t raw_threads_with_events(const struct raw_threads *t) {
    uint64_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        n += t->thread[i].events != 0;
    return n;
}

uint64_t raw_threads_dropped(const struct raw_threads *t) {
    uint64_t n = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct raw_thread *r = &t->thread[i];
        uint64_t dropped = r->stream.state.dropped;
        n += r->gap_events > dropped ? r->gap_events : dropped;
    }
    return n;
}

uint64_t raw_threads_untraced(const struct raw_threads *t) {
    uint64_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        n += t->thread[i].stream.state.untraced_frees;
    return n;
}

const char *raw_end_problem(const struct tool_raw *t) {
    if (tool_raw_is_growing(t))
        return "still being recorded";
    if (tool_raw_complete(t))
        return NULL;
    return tool_raw_forced_stop(t) ? "recording was forced to stop"
                                   : "ends without a footer, and there is no "
                                     "spool with the rest";
}
