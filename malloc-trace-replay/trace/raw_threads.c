/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/raw_threads.h"

#include "base/bits.h"

#include <stdlib.h>

struct raw_thread *raw_threads_find(struct raw_threads *t, uint32_t id) {
    size_t before = t->ids.count;
    struct raw_thread *r =
        tool_ids_get(&t->ids, &t->thread, sizeof(*t->thread), id);
    if (r == NULL || t->ids.count == before)
        return r;
    r->id = id;
    if (t->begins_late)
        mtf_stream_init_late(&r->stream);
    else
        mtf_stream_init(&r->stream);
    return r;
}

void raw_threads_free(struct raw_threads *t) {
    free(t->thread);
    tool_ids_fini(&t->ids);
}

uint64_t raw_threads_with_events(const struct raw_threads *t) {
    uint64_t n = 0;
    for (size_t i = 0; i < t->ids.count; i++)
        n += t->thread[i].events != 0;
    return n;
}

uint64_t raw_threads_dropped(const struct raw_threads *t) {
    uint64_t n = 0;
    for (size_t i = 0; i < t->ids.count; i++) {
        const struct raw_thread *r = &t->thread[i];
        n += tcm_max_u64(r->gap_events, r->stream.state.dropped);
    }
    return n;
}

uint64_t raw_threads_untraced(const struct raw_threads *t) {
    uint64_t n = 0;
    for (size_t i = 0; i < t->ids.count; i++)
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
