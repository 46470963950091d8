/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints a hash of the offsets, in their address ranges, of the blocks of a
 * fixed sequence of calls. Built with and without object words; core_offsets.sh
 * compares. With an argument, object words are wanted and used.
 */
#include "core/page_heap.h"
#include "core_test.h"

#include <inttypes.h>

#define SLOTS  30000
#define STEPS  400000
#define CACHES 4

static uint64_t hash = 0xcbf29ce484222325u;

static void note(const void *p) {
    uintptr_t a = (uintptr_t)p;
    uint64_t place = UINT64_MAX;
    for (uint32_t i = 0; i < tcm_ranges.count; i++) {
        const struct tcm_range *range = &tcm_ranges.range[i];
        if (a >= range->start && a < range->start + range->length)
            place = a - range->start + ((uint64_t)i << 48);
    }
    for (unsigned i = 0; i < 64; i += 8)
        hash = (hash ^ ((place >> i) & 255)) * 0x100000001b3u;
}

static void use_word(const void *p, uint64_t value) {
    uint64_t *word = tcm_object_words ? tcm_object_word(p, true) : NULL;
    if (word != NULL)
        *word = value;
}

static size_t some_size(struct prng *random) {
    switch (prng_below(random, 16)) {
    case 0:
        return prng_below(random, 300000);
    case 1:
        return prng_below(random, 3000000);
    case 2:
    case 3:
        return prng_below(random, 20000);
    default:
        return prng_below(random, 600);
    }
}

static void resize(struct prng *random, void *p) {
    struct tcm_block_info info = tcm_block_info(p);
    if (info.kind == TCM_BLOCK_LARGE)
        hash += tcm_large_resize(info.span,
                                 300000 + prng_below(random, 2 * info.size));
}

int main(int argc, char **argv) {
    static void *slot[SLOTS];
    struct tcm_thread_cache *cache[CACHES];
    struct prng random;
    bool words = argc > 1;
    (void)argv;
    tcm_heap_init();
    prng_seed(&random, 7);
    for (unsigned i = 0; i < CACHES; i++) {
        cache[i] = tcm_cache_new();
        tcm_cache_want_words(cache[i], words);
    }
    for (unsigned step = 0; step < STEPS; step++) {
        struct tcm_thread_cache *c = cache[step / 1000 % CACHES];
        unsigned live = step < STEPS / 2 ? SLOTS : SLOTS / 5;
        unsigned i = (unsigned)prng_below(&random, live);
        if (slot[i] == NULL) {
            slot[i] = test_alloc(c, some_size(&random));
            note(slot[i]);
            if (words)
                use_word(slot[i], step);
        } else if (prng_below(&random, 20) == 0) {
            resize(&random, slot[i]);
        } else {
            if (words)
                use_word(slot[i], 0);
            test_free(c, slot[i]);
            slot[i] = NULL;
        }
        if (step % 50000 == 49999)
            hash += tcm_heap_release((size_t)8 << 20);
        if (step % 70000 == 0)
            tcm_arena_free(tcm_arena_alloc(step, 16));
    }
    tcm_heap_verify();
    struct tcm_stats s;
    tcm_stats_read(&s);
#define X(name) printf(#name " %" PRIu64 "\n", s.name);
    TCM_STATS(X)
#undef X
    printf("places %016" PRIx64 "\n", hash);
    return 0;
}
