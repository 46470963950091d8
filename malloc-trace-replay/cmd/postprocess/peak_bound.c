/* SPDX-License-Identifier: BSD-3-Clause */
#include "peak_bound.h"

#include <stdlib.h>
#include <string.h>

void peak_bound_fini(struct peak_bound *b) {
    free(b->carried);
}

/* Times before the window count as its first, those after it as its last. */
static unsigned bucket(const struct peak_bound *b, uint64_t time) {
    uint64_t i = time > b->from ? (time - b->from) >> b->shift : 0;
    return (unsigned)tcm_min_u64(i, PEAK_BUCKETS - 1);
}

static void put(struct peak_bound *b, uint64_t lo, uint64_t hi,
                uint64_t bytes) {
    b->begins[bucket(b, lo)] += bytes;
    b->ends[bucket(b, hi)] += bytes;
}

void peak_bound_begin(struct peak_bound *b, uint64_t to) {
    if (b->held) { /* its last bucket has what comes now */
        b->to = tcm_max_u64(b->to, to);
        return;
    }
    b->from = b->to;
    b->to = tcm_max_u64(b->from, to);
    b->shift = 0;
    while ((b->to - b->from) >> b->shift >= PEAK_BUCKETS)
        b->shift++;
    memset(b->begins, 0, sizeof(b->begins));
    memset(b->ends, 0, sizeof(b->ends));
    b->level = 0;
    size_t kept = 0;
    for (size_t i = 0; i < b->carried_count; i++) {
        struct peak_piece p = b->carried[i];
        if (p.hi < b->from)
            continue;
        put(b, b->from, p.hi, p.bytes);
        b->carried[kept++] = p;
    }
    b->carried_count = kept;
    if (kept == 0)
        b->any = b->many = false;
}

void peak_bound_add(struct peak_bound *b, uint32_t thread, uint64_t lo,
                    uint64_t hi, uint64_t bytes) {
    if (bytes == 0)
        return;
    b->many = b->many || (b->any && b->thread != thread);
    b->any = true;
    b->thread = thread;
    put(b, lo, hi, bytes);
    if (hi < b->to)
        return;
    if (b->carried_count == b->carried_room) {
        size_t room = b->carried_room == 0 ? 64 : b->carried_room * 2;
        struct peak_piece *p = realloc(b->carried, room * sizeof(*p));
        if (p == NULL) {
            b->failed = true;
            return;
        }
        b->carried = p;
        b->carried_room = room;
    }
    b->carried[b->carried_count++] = (struct peak_piece){hi, bytes};
}

void peak_bound_end(struct peak_bound *b, uint64_t live, uint64_t peak) {
    uint64_t open = 0, most = 0;
    for (unsigned i = 0; i < PEAK_BUCKETS; i++) {
        open += b->begins[i];
        most = tcm_max_u64(most, open);
        open -= b->ends[i];
    }
    if (!b->many) /* one thread alone: its order is known */
        most = 0;
    peak_bound_level(b, live);
    if (most != 0)
        b->at_most = tcm_max_u64(b->at_most, b->level + most);
    if (peak > b->peak)
        b->less_by = most;
    b->peak = peak;
}

uint64_t peak_bound_error(const struct peak_bound *b, uint64_t peak,
                          uint64_t requested) {
    uint64_t at_most = tcm_min_u64(b->at_most, requested);
    uint64_t above = at_most > peak ? at_most - peak : 0;
    return tcm_max_u64(above, tcm_min_u64(b->less_by, peak));
}
