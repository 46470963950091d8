/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/arena.h"
#include "core_test.h"

#define SLOTS 300
#define STEPS 30000

struct slot {
    unsigned char *p;
    size_t size;
    unsigned char value;
};

static struct slot slot[SLOTS];

static bool intact(const struct slot *s) {
    for (size_t i = 0; i < s->size; i++) {
        if (s->p[i] != s->value)
            return false;
    }
    return true;
}

static void test_model(void) {
    struct prng random;
    bool kept = true, aligned = true, known = true;
    prng_seed(&random, 6);
    for (unsigned step = 0; step < STEPS; step++) {
        struct slot *s = &slot[prng_below(&random, SLOTS)];
        if (s->p != NULL) {
            kept &= intact(s);
            struct tcm_block_info info = tcm_block_info(s->p);
            known &= info.kind == TCM_BLOCK_PRIVATE && info.size >= s->size;
            tcm_arena_free(s->p);
            s->p = NULL;
            continue;
        }
        size_t align = (size_t)1 << prng_below(&random, 14);
        s->size = prng_below(&random, 1u << prng_below(&random, 17));
        s->p = tcm_arena_alloc(s->size, align);
        if (s->p == NULL)
            tap_bail("out of memory");
        aligned &= (uintptr_t)s->p % align == 0 && (uintptr_t)s->p % 16 == 0;
        s->value = (unsigned char)step;
        memset(s->p, s->value, s->size);
        if (step % 500 == 0)
            tcm_arena_verify();
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slot[i].p != NULL) {
            kept &= intact(&slot[i]);
            tcm_arena_free(slot[i].p);
        }
    }
    tcm_arena_verify();
    tap_ok(kept, "blocks do not overlap");
    tap_ok(aligned, "and are aligned");
    tap_ok(known, "and are known as private, with their size");
}

static void test_reuse(void) {
    void *first = tcm_arena_alloc(100000, 16);
    bool same = true;
    tcm_arena_free(first);
    for (unsigned i = 0; i < 2000; i++) {
        void *p = tcm_arena_alloc(100000, 16);
        same &= p == first;
        tcm_arena_free(p);
    }
    tap_ok(same, "freed memory is used again");
    tap_ok(tcm_arena_alloc(SIZE_MAX, 16) == NULL &&
               tcm_arena_alloc(16, (size_t)1 << 63) == NULL &&
               tcm_arena_alloc(TCM_MAX_REQUEST, (size_t)1 << 61) == NULL,
           "nonsense is refused");
}

static void test_separate(void) {
    void *p = tcm_arena_alloc(64, 16);
    struct tcm_heap_figures f;
    tcm_heap_figures(&f);
    tap_is_u64(f.heap_bytes, 0, "the program's heap has grown by nothing");
    tap_is_u64(tcm_page_entry(p), 0, "no size class");
    tap_ok(tcm_block_info((char *)p + 8).kind == TCM_BLOCK_INTERIOR,
           "inside a private block");
    tap_ok(tcm_object_word(p, true) == NULL, "no object word");
    tcm_arena_free(p);
}

static void free_it(void *p) {
    tcm_arena_free(p);
}

static void test_bad_free(void) {
    void *p = tcm_arena_alloc(64, 16);
    tap_ok(test_dies_with(free_it, (char *)p + 16, "invalid pointer"),
           "freeing an inner pointer dies");
    tcm_arena_free(p);
    tap_ok(test_dies_with(free_it, p, "invalid pointer"),
           "and so does a double free");
}

int main(void) {
    tcm_heap_init();
    test_separate();
    test_model();
    test_reuse();
    test_bad_free();
    return tap_done();
}
