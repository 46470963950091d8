/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sized deletes and frees in a build with debug checks. Sized delete: the size
 * that new got is accepted, a size of another class stops the program. Sized
 * free: any size that the block has is accepted.
 */
#include "api/export.h"
#include "unit/core/core_test.h"

#include <sys/resource.h>

void *TCM_EXPORT(_Znwm)(size_t size);
void *TCM_EXPORT(_ZnwmSt11align_val_t)(size_t size, size_t align);
void TCM_EXPORT(_ZdlPvm)(void *ptr, size_t size);
void TCM_EXPORT(_ZdaPvm)(void *ptr, size_t size);
void TCM_EXPORT(_ZdlPvmSt11align_val_t)(void *ptr, size_t size, size_t align);

struct pair {
    size_t made;
    size_t given;
    size_t align; /* 0: the plain forms */
};

static void make_and_delete(void *argument) {
    const struct pair *pair = argument;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (pair->align != 0) {
        void *p = TCM_EXPORT(_ZnwmSt11align_val_t)(pair->made, pair->align);
        TCM_EXPORT(_ZdlPvmSt11align_val_t)(p, pair->given, pair->align);
        return;
    }
    /* The blocks are in the cache before, so that the fast path is taken; also
       for an array. */
    TCM_EXPORT(_ZdlPvm)(TCM_EXPORT(_Znwm)(pair->made), pair->made);
    TCM_EXPORT(_ZdaPvm)(TCM_EXPORT(_Znwm)(pair->made), pair->given);
}

static void make_and_free(void *argument) {
    const struct pair *pair = argument;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (pair->align != 0) {
        void *p = TCM_EXPORT(aligned_alloc)(64, pair->made);
        TCM_EXPORT(free_aligned_sized)(p, pair->align, pair->given);
        return;
    }
    TCM_EXPORT(free_sized)(TCM_EXPORT(malloc)(pair->made), pair->given);
}

static void check_frees(void) {
    static struct pair wrong[] = {{10, 1000, 0},
                                  {100, 10000000, 0},
                                  {3000000, 4000000, 0},
                                  {100, 1000, 64}};
    static const size_t right[] = {0, 1, 8, 100, 1000, 5000, 262144, 3000000};
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(right); i++) {
        struct pair pair = {right[i], right[i], 0};
        make_and_free(&pair);
        pair.align = 64;
        make_and_free(&pair);
        /* realloc leaves room behind blocks that grow or shrink. */
        void *p = TCM_EXPORT(malloc)(right[i]);
        p = TCM_EXPORT(realloc)(p, right[i] + 20);
        TCM_EXPORT(free_sized)(p, right[i] + 20);
        p = TCM_EXPORT(malloc)(right[i] + 1);
        p = TCM_EXPORT(realloc)(p, right[i] / 2 + 1);
        TCM_EXPORT(free_sized)(p, right[i] / 2 + 1);
    }
    TCM_EXPORT(free_sized)(NULL, 77);
    TCM_EXPORT(free_aligned_sized)(NULL, 64, 77);
    tap_ok(true, "sized free: the size of the block is taken");
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(wrong); i++) {
        tap_ok(test_dies_with(make_and_free, &wrong[i],
                              "sized free with a wrong size of 0x"),
               "%zu bytes freed as %zu", wrong[i].made, wrong[i].given);
    }
    struct pair aligned = {100, 100, 1 << 30};
    tap_ok(test_dies_with(make_and_free, &aligned,
                          "sized free with a wrong alignment of 0x"),
           "64 freed as aligned to 2^30");
}

int main(void) {
    static struct pair wrong[] = {
        {10, 1000, 0},
        {1000, 10, 0},
        {100, 10000000, 0},
        {10000000, 1, 0},
        {10000000, 20000000, 0},
        {100, 1000, 64},
        {10000000, 20000000, 4096},
    };
    static const size_t right[] = {0, 1, 8, 100, 1000, 5000, 262144, 3000000};
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(right); i++) {
        struct pair pair = {right[i], right[i], 0};
        make_and_delete(&pair);
        for (pair.align = 16; pair.align <= 8192; pair.align *= 8)
            make_and_delete(&pair);
    }
    TCM_EXPORT(_ZdlPvm)(NULL, 77);
    tap_ok(true, "the size of the new is taken");
    for (unsigned i = 0; i < TCM_ARRAY_SIZE(wrong); i++) {
        tap_ok(test_dies_with(make_and_delete, &wrong[i],
                              "sized delete with a wrong size of 0x"),
               "%zu bytes deleted as %zu", wrong[i].made, wrong[i].given);
    }
    check_frees();
    return tap_done();
}
