/* SPDX-License-Identifier: BSD-3-Clause */
#include "sort/peak_bound.h"

#include "base/bits.h"
#include "base/check.h"
#include "common/collections.h"

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
    b->used = true;
}

/* --- Pieces that reach beyond the window ---------------------------------- */

static bool carry(struct peak_bound *b, struct peak_piece p) {
    b->carried_bytes += p.bytes;
    if (p.hi == UINT64_MAX) {
        b->endless = true;
        return true;
    }
    if (!tool_array_reserve(&b->carried, &b->carried_room, b->carried_count + 1,
                            sizeof(*b->carried)))
        return false;
    size_t i = b->carried_count++;
    for (; i > 0 && p.hi < b->carried[(i - 1) / 2].hi; i = (i - 1) / 2)
        b->carried[i] = b->carried[(i - 1) / 2];
    b->carried[i] = p;
    return true;
}

/* Takes the piece with the least hi out. */
static struct peak_piece take_first(struct peak_bound *b) {
    TCM_ASSERT(b->carried_count != 0 &&
               b->carried_bytes >= b->carried[0].bytes);
    struct peak_piece first = b->carried[0];
    struct peak_piece last = b->carried[--b->carried_count];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < b->carried_count) {
        if (child + 1 < b->carried_count &&
            b->carried[child + 1].hi < b->carried[child].hi)
            child++;
        if (b->carried[child].hi >= last.hi)
            break;
        b->carried[i] = b->carried[child];
        i = child;
    }
    b->carried[i] = last;
    b->carried_bytes -= first.bytes;
    return first;
}

static bool reaches(const struct peak_bound *b, uint64_t time) {
    return b->carried_count == 0 || b->carried[0].hi >= time;
}

/* Puts the pieces that were carried into the window that begins: those that end
   in it for the last time, the others as if they ended with it. */
static void put_carried(struct peak_bound *b) {
    while (!reaches(b, b->from))
        (void)take_first(b);
    if (b->carried_count == 0 && !b->endless)
        b->any = b->many = false;
    while (!reaches(b, b->to)) {
        struct peak_piece p = take_first(b);
        put(b, b->from, p.hi, p.bytes);
    }
    if (b->carried_bytes != 0)
        put(b, b->from, UINT64_MAX, b->carried_bytes);
}

/* --- Windows -------------------------------------------------------------- */

void peak_bound_begin(struct peak_bound *b, uint64_t to) {
    if (b->held) { /* its last bucket has what comes now */
        b->to = tcm_max_u64(b->to, to);
        return;
    }
    b->from = b->to;
    b->to = tcm_max_u64(b->from, to);
    TCM_ASSERT(b->from <= b->to);
    b->shift = 0;
    while ((b->to - b->from) >> b->shift >= PEAK_BUCKETS)
        b->shift++;
    if (b->used) {
        memset(b->begins, 0, sizeof(b->begins));
        memset(b->ends, 0, sizeof(b->ends));
        b->used = false;
    }
    b->level = 0;
    put_carried(b);
}

void peak_bound_add(struct peak_bound *b, uint32_t thread, uint64_t lo,
                    uint64_t hi, uint64_t bytes) {
    if (bytes == 0)
        return;
    b->many = b->many || (b->any && b->thread != thread);
    b->any = true;
    b->thread = thread;
    put(b, lo, hi, bytes);
    if (hi >= b->to && !carry(b, (struct peak_piece){hi, bytes}))
        b->failed = true;
}

void peak_bound_end(struct peak_bound *b, uint64_t live, uint64_t peak) {
    uint64_t open = 0, most = 0;
    for (unsigned i = 0; b->used && i < PEAK_BUCKETS; i++) {
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
