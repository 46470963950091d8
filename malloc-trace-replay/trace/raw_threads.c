/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/raw_threads.h"

#include "base/bits.h"
#include "common/array.h"

#include <stdlib.h>
#include <string.h>

struct raw_thread *raw_threads_find(struct raw_threads *t, uint32_t id) {
    /* Room first: the map has no thread that is not there. */
    if (!tool_array_reserve(&t->thread, &t->capacity, t->count + 1,
                            sizeof(*t->thread)))
        return NULL;
    struct tool_map_entry *e = tool_map_get(&t->by_id, (uint64_t)id + 1);
    if (e == NULL)
        return NULL;
    if (e->value != 0)
        return &t->thread[e->value - 1];
    struct raw_thread *r = &t->thread[t->count++];
    e->value = t->count;
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
    tool_map_fini(&t->by_id);
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
        n += tcm_max_u64(r->gap_events, r->stream.state.dropped);
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
