/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sized deletes in a build with debug checks: the size of the new is taken, one
 * of another class stops the program.
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
    /* Cached before, so that the fast path is taken; and an array. */
    TCM_EXPORT(_ZdlPvm)(TCM_EXPORT(_Znwm)(pair->made), pair->made);
    TCM_EXPORT(_ZdaPvm)(TCM_EXPORT(_Znwm)(pair->made), pair->given);
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
    return tap_done();
}
