/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/live.h"

#include "base/bits.h"
#include "common/hash.h"

#include <stdlib.h>
#include <string.h>

/* Freed, or resized, before its allocation was seen. */
#define SIZE_FREED   UINT64_MAX
#define SIZE_RESIZED (UINT64_MAX - 1)

static bool is_early(uint64_t size) {
    return size >= SIZE_RESIZED;
}

struct info_live_block {
    uint64_t token; /* 0: an empty place */
    uint64_t size;
};

void info_live_free(struct info_live *l) {
    free(l->block);
    free(l->early[0].token);
    free(l->early[1].token);
}

void info_live_forget(struct info_live *l) {
    info_live_free(l);
    l->block = NULL;
    l->capacity = l->used = 0;
    memset(l->early, 0, sizeof(l->early));
}

/* --- Sums ----------------------------------------------------------------- */

static void count_size(struct info_live *l, uint64_t size) {
    l->sizes[size == 0 ? 0 : 64 - (unsigned)__builtin_clzll(size)]++;
}

/* Blocks and bytes came; OLD bytes of the same block went. */
static void grew(struct info_live *l, uint64_t blocks, uint64_t size,
                 uint64_t old, uint64_t ns) {
    l->bytes += size - old;
    l->blocks += blocks;
    if (l->bytes > l->peak_bytes) {
        l->peak_bytes = l->bytes;
        l->peak_bytes_ns = ns;
    }
    if (l->blocks > l->peak_blocks) {
        l->peak_blocks = l->blocks;
        l->peak_blocks_ns = ns;
    }
}

static void shrank(struct info_live *l, uint64_t size) {
    l->bytes -= size;
    l->blocks--;
    l->freed += size;
}

/* --- Blocks by token ------------------------------------------------------ */

static size_t place_of(const struct info_live *l, uint64_t token) {
    return tool_hash(token, l->seed) & (l->capacity - 1);
}

/* The place of TOKEN, or the empty one where it would be. */
static struct info_live_block *find(const struct info_live *l, uint64_t token) {
    size_t at = place_of(l, token);
    while (l->block[at].token != 0 && l->block[at].token != token)
        at = (at + 1) & (l->capacity - 1);
    return &l->block[at];
}

static bool grow(struct info_live *l) {
    struct info_live_block *old = l->block;
    size_t count = l->capacity;
    if (count == 0)
        l->seed = tool_hash_seed();
    struct info_live_block *block =
        calloc(count == 0 ? 1024 : 2 * count, sizeof(*block));
    if (block == NULL) {
        l->failed = true;
        return false;
    }
    l->block = block;
    l->capacity = count == 0 ? 1024 : 2 * count;
    for (size_t i = 0; i < count; i++)
        if (old[i].token != 0)
            *find(l, old[i].token) = old[i];
    free(old);
    return true;
}

/* The place of TOKEN, which the caller fills if it is empty. NULL without
   memory. Token 0 names no block. */
static struct info_live_block *place(struct info_live *l, uint64_t token) {
    if (l->failed || token == 0 ||
        (2 * (l->used + 1) > l->capacity && !grow(l)))
        return NULL;
    return find(l, token);
}

/* Closes the gap that B leaves. */
static void take_out(struct info_live *l, struct info_live_block *b) {
    size_t mask = l->capacity - 1, hole = (size_t)(b - l->block);
    for (size_t at = (hole + 1) & mask; l->block[at].token != 0;
         at = (at + 1) & mask) {
        size_t home = place_of(l, l->block[at].token);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            l->block[hole] = l->block[at];
            hole = at;
        }
    }
    l->block[hole].token = 0;
    l->used--;
}

/* --- Raw traces ----------------------------------------------------------- */

/* Ends the block of TOKEN; returns its size, or EARLY: it was not seen yet,
   which is kept in mind. */
static uint64_t end_block(struct info_live *l, uint64_t token, uint64_t early) {
    struct info_live_block *b = place(l, token);
    struct info_early *e = &l->early[0];
    if (b == NULL)
        return early;
    if (b->token != 0) {
        uint64_t size = b->size;
        if (!is_early(size))
            take_out(l, b);
        return size;
    }
    if (e->count == e->capacity) {
        size_t capacity = e->capacity == 0 ? 256 : 2 * e->capacity;
        void *p = realloc(e->token, capacity * sizeof(*e->token));
        if (p == NULL) {
            l->failed = true;
            return early;
        }
        e->token = p;
        e->capacity = capacity;
    }
    e->token[e->count++] = token;
    *b = (struct info_live_block){token, early};
    l->used++;
    l->older_frees += early == SIZE_FREED;
    return early;
}

/* Begins a block. False: it was ended before, or there is no memory. */
static bool begin_block(struct info_live *l, uint64_t token, uint64_t size) {
    struct info_live_block *b = place(l, token);
    if (b == NULL)
        return false;
    if (b->token != 0) {
        /* or it was begun twice, in a damaged trace */
        if (is_early(b->size)) {
            l->older_frees -= b->size == SIZE_FREED;
            take_out(l, b);
        }
        return false;
    }
    *b = (struct info_live_block){token, size};
    l->used++;
    return true;
}

void info_live_made(struct info_live *l, uint64_t token, uint64_t size,
                    uint64_t ns) {
    count_size(l, size);
    l->made += size;
    if (begin_block(l, token, size))
        grew(l, 1, size, 0, ns);
}

void info_live_resized(struct info_live *l, uint64_t old, uint64_t token,
                       uint64_t size, uint64_t ns) {
    uint64_t old_size = end_block(l, old, SIZE_RESIZED);
    if (is_early(old_size)) {
        info_live_made(l, token, size, ns);
        return;
    }
    count_size(l, size);
    l->made += size;
    l->freed += old_size;
    if (begin_block(l, token, size)) {
        grew(l, 0, size, old_size, ns);
    } else {
        l->bytes -= old_size;
        l->blocks--;
    }
}

void info_live_freed(struct info_live *l, uint64_t token) {
    uint64_t size = end_block(l, token, SIZE_FREED);
    if (!is_early(size))
        shrank(l, size);
}

void info_live_round(struct info_live *l) {
    struct info_early *old = &l->early[1];
    l->at_most =
        tcm_max_u64(l->at_most, l->before_bytes + l->before_freed + l->made);
    l->before_bytes = l->bytes;
    l->before_freed = l->freed;
    l->freed = 0;
    l->made = 0;
    for (size_t i = 0; i < old->count; i++) {
        struct info_live_block *b = find(l, old->token[i]);
        if (b->token != 0 && is_early(b->size))
            take_out(l, b);
    }
    old->count = 0;
    struct info_early swap = l->early[0];
    l->early[0] = l->early[1];
    l->early[1] = swap;
}

/* --- Processed traces ----------------------------------------------------- */

/* Slots use `token` for whether one is taken. */
bool info_live_slot(struct info_live *l, uint32_t slot, uint64_t limit,
                    uint64_t size, uint64_t ns) {
    count_size(l, size);
    if (slot >= limit)
        return false;
    if (slot >= l->capacity) {
        size_t capacity = l->capacity == 0 ? 1024 : 2 * l->capacity;
        capacity = (size_t)tcm_max_u64(capacity, (uint64_t)slot + 1);
        void *p = realloc(l->block, capacity * sizeof(*l->block));
        if (p == NULL) {
            l->failed = true;
            return false;
        }
        l->block = p;
        memset(l->block + l->capacity, 0,
               (capacity - l->capacity) * sizeof(*l->block));
        l->capacity = capacity;
    }
    struct info_live_block *b = &l->block[slot];
    grew(l, b->token == 0, size, b->token == 0 ? 0 : b->size, ns);
    *b = (struct info_live_block){1, size};
    return true;
}

bool info_live_slot_lives(const struct info_live *l, uint32_t slot) {
    return slot < l->capacity && l->block[slot].token != 0;
}

void info_live_slot_freed(struct info_live *l, uint32_t slot) {
    if (!info_live_slot_lives(l, slot))
        return;
    shrank(l, l->block[slot].size);
    l->block[slot].token = 0;
}
