/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/info.h"

#include "base/bits.h"
#include "base/check.h"
#include "common/collections.h"

#include <stdlib.h>
#include <string.h>

/* Size of a block that was freed, or resized, before its allocation was
   seen. */
#define SIZE_FREED   UINT64_MAX
#define SIZE_RESIZED (UINT64_MAX - 1)

static bool is_early(uint64_t size) {
    return size >= SIZE_RESIZED;
}

void info_live_free(struct info_live *l) {
    tool_map_fini(&l->block);
    free(l->slot);
    free(l->early[0].token);
    free(l->early[1].token);
}

void info_live_forget(struct info_live *l) {
    info_live_free(l);
    l->slot = NULL;
    l->slots = l->slot_room = 0;
    memset(l->early, 0, sizeof(l->early));
}

/* --- Sums ----------------------------------------------------------------- */

static void count_size(struct info_live *l, uint64_t size) {
    l->sizes[size == 0 ? 0 : 64 - (unsigned)__builtin_clzll(size)]++;
}

/* Counts a block that was made (BLOCKS 1, OLD 0) or resized from OLD bytes
   (BLOCKS 0) to SIZE bytes. */
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
    TCM_ASSERT(l->blocks != 0);
    /* The sum may wrap around: a hostile trace has sizes up to 2^64. */
    l->bytes -= size;
    l->blocks--;
    l->freed += size;
}

/* --- Raw traces ----------------------------------------------------------- */

/* Returns the entry of TOKEN, which is made if there is none (*IS_NEW). NULL:
   no memory, or token 0, which names no block. */
static struct tool_map_entry *place(struct info_live *l, uint64_t token,
                                    bool *is_new) {
    if (l->failed || token == 0)
        return NULL;
    size_t before = l->block.count;
    struct tool_map_entry *b = tool_map_get(&l->block, token);
    l->failed = b == NULL;
    *is_new = l->block.count != before;
    return b;
}

/* Ends the block of TOKEN and returns its size. If its allocation was not seen
   yet, makes EARLY its size, for two rounds, and returns EARLY. */
static uint64_t end_block(struct info_live *l, uint64_t token, uint64_t early) {
    bool is_new;
    struct tool_map_entry *b = place(l, token, &is_new);
    struct info_early *e = &l->early[0];
    if (b == NULL)
        return early;
    if (!is_new) {
        uint64_t size = b->value;
        if (!is_early(size))
            tool_map_remove(&l->block, b);
        return size;
    }
    if (!tool_array_reserve(&e->token, &e->capacity, e->count + 1,
                            sizeof(*e->token))) {
        tool_map_remove(&l->block, b);
        l->failed = true;
        return early;
    }
    e->token[e->count++] = token;
    b->value = early;
    l->older_frees += early == SIZE_FREED;
    return early;
}

/* Begins a block. False: its end was seen already, or no memory. */
static bool begin_block(struct info_live *l, uint64_t token, uint64_t size) {
    bool is_new;
    struct tool_map_entry *b = place(l, token, &is_new);
    if (b == NULL)
        return false;
    if (is_new) {
        b->value = size;
        return true;
    }
    /* A block that begins twice is of a damaged trace. */
    if (is_early(b->value)) {
        l->older_frees -= b->value == SIZE_FREED;
        tool_map_remove(&l->block, b);
    }
    return false;
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
        struct tool_map_entry *b = tool_map_find(&l->block, old->token[i]);
        if (b != NULL && is_early(b->value))
            tool_map_remove(&l->block, b);
    }
    old->count = 0;
    struct info_early swap = l->early[0];
    l->early[0] = l->early[1];
    l->early[1] = swap;
}

/* --- Processed traces ----------------------------------------------------- */

bool info_live_slot(struct info_live *l, uint32_t slot, uint64_t limit,
                    uint64_t size, uint64_t ns) {
    count_size(l, size);
    if (slot >= limit)
        return false;
    if (slot >= l->slots &&
        !tool_array_extend(&l->slot, &l->slot_room, &l->slots, (size_t)slot + 1,
                           sizeof(*l->slot))) {
        l->failed = true;
        return false;
    }
    struct info_live_slot *s = &l->slot[slot];
    grew(l, !s->lives, size, s->lives ? s->size : 0, ns);
    *s = (struct info_live_slot){true, size};
    return true;
}

bool info_live_slot_lives(const struct info_live *l, uint32_t slot) {
    return slot < l->slots && l->slot[slot].lives;
}

void info_live_slot_freed(struct info_live *l, uint32_t slot) {
    if (!info_live_slot_lives(l, slot))
        return;
    shrank(l, l->slot[slot].size);
    l->slot[slot].lives = false;
}
