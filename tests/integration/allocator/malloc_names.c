/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each function of the malloc family has more names: glibc's own, gperftools',
 * C++'s. A block by any of them may go to any other. Names that the malloc of
 * this process lacks are left out.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

enum arguments {
    SIZE,        /* (size) */
    COUNT_SIZE,  /* (1, size) */
    NULL_SIZE,   /* (NULL, size) */
    NULL_ARRAY,  /* (NULL, 1, size) */
    ALIGN_SIZE,  /* (align, size) */
    POSIX,       /* (&block, align, size) */
    SIZE_ANY,    /* (size, align), or a reference that is not looked at */
    BLOCK,       /* (block) */
    BLOCK_SIZE,  /* (block, size) */
    BLOCK_ALIGN, /* (block, align) */
    BLOCK_BOTH,  /* (block, size, align) */
    BLOCK_C23    /* (block, align, size) */
};

struct name {
    const char *name;
    enum arguments arguments;
    void *function;
};

/* clang-format off */
static struct name makers[] = {
    {"malloc", SIZE, 0}, {"__libc_malloc", SIZE, 0}, {"tc_malloc", SIZE, 0},
    {"tc_malloc_skip_new_handler", SIZE, 0},
    {"calloc", COUNT_SIZE, 0}, {"__libc_calloc", COUNT_SIZE, 0},
    {"tc_calloc", COUNT_SIZE, 0},
    {"realloc", NULL_SIZE, 0}, {"__libc_realloc", NULL_SIZE, 0},
    {"tc_realloc", NULL_SIZE, 0},
    {"reallocarray", NULL_ARRAY, 0}, {"__libc_reallocarray", NULL_ARRAY, 0},
    {"memalign", ALIGN_SIZE, 0}, {"__libc_memalign", ALIGN_SIZE, 0},
    {"tc_memalign", ALIGN_SIZE, 0}, {"aligned_alloc", ALIGN_SIZE, 0},
    {"posix_memalign", POSIX, 0}, {"__posix_memalign", POSIX, 0},
    {"tc_posix_memalign", POSIX, 0},
    {"valloc", SIZE, 0}, {"__libc_valloc", SIZE, 0}, {"tc_valloc", SIZE, 0},
    {"pvalloc", SIZE, 0}, {"__libc_pvalloc", SIZE, 0}, {"tc_pvalloc", SIZE, 0},
    {"_Znwm", SIZE, 0}, {"_Znam", SIZE, 0}, {"tc_new", SIZE, 0},
    {"_ZnwmRKSt9nothrow_t", SIZE_ANY, 0}, {"tc_newarray_nothrow", SIZE_ANY, 0},
    {"_ZnwmSt11align_val_t", SIZE_ANY, 0}, {"tc_newarray_aligned", SIZE_ANY, 0},
};

static struct name enders[] = {
    {"free", BLOCK, 0}, {"__libc_free", BLOCK, 0}, {"tc_free", BLOCK, 0},
    {"cfree", BLOCK, 0}, {"__libc_cfree", BLOCK, 0}, {"tc_cfree", BLOCK, 0},
    {"_ZdlPv", BLOCK, 0}, {"_ZdaPv", BLOCK, 0}, {"tc_delete", BLOCK, 0},
    {"free_sized", BLOCK_SIZE, 0}, {"tc_free_sized", BLOCK_SIZE, 0},
    {"free_aligned_sized", BLOCK_C23, 0},
    {"_ZdlPvm", BLOCK_SIZE, 0}, {"_ZdaPvm", BLOCK_SIZE, 0},
    {"tc_delete_sized", BLOCK_SIZE, 0}, {"tc_deletearray_sized", BLOCK_SIZE, 0},
    {"_ZdlPvSt11align_val_t", BLOCK_ALIGN, 0},
    {"tc_deletearray_aligned", BLOCK_ALIGN, 0},
    {"_ZdlPvmSt11align_val_t", BLOCK_BOTH, 0},
    {"_ZdaPvmSt11align_val_t", BLOCK_BOTH, 0},
    {"tc_delete_sized_aligned", BLOCK_BOTH, 0},
    {"tc_deletearray_sized_aligned", BLOCK_BOTH, 0},
};

static struct name resizers[] = {
    {"realloc", SIZE, 0}, {"__libc_realloc", SIZE, 0}, {"tc_realloc", SIZE, 0},
    {"reallocarray", COUNT_SIZE, 0}, {"__libc_reallocarray", COUNT_SIZE, 0},
};

static struct name sizers[] = {
    {"malloc_usable_size", BLOCK, 0}, {"malloc_size", BLOCK, 0},
    {"tc_malloc_size", BLOCK, 0},
};
/* clang-format on */

#define FIND(names) find(names, sizeof(names) / sizeof *(names))

static unsigned find(struct name *names, size_t n) {
    unsigned found = 0;
    for (size_t i = 0; i < n; i++) {
        names[i].function = dlsym(RTLD_DEFAULT, names[i].name);
        found += names[i].function != NULL;
    }
    return found;
}

#define AS(type, n) ((type)(uintptr_t)(n)->function)

static void *make(const struct name *n, size_t align, size_t size) {
    void *block = NULL;
    switch (n->arguments) {
    case SIZE:
        return AS(void *(*)(size_t), n)(size);
    case COUNT_SIZE:
        return AS(void *(*)(size_t, size_t), n)(1, size);
    case NULL_SIZE:
        return AS(void *(*)(void *, size_t), n)(NULL, size);
    case NULL_ARRAY:
        return AS(void *(*)(void *, size_t, size_t), n)(NULL, 1, size);
    case ALIGN_SIZE:
        return AS(void *(*)(size_t, size_t), n)(align, size);
    case SIZE_ANY:
        return AS(void *(*)(size_t, size_t), n)(size, align);
    default:
        return AS(int (*)(void **, size_t, size_t), n)(&block, align, size)
                   ? NULL
                   : block;
    }
}

static void *resize(const struct name *n, void *block, size_t size) {
    return n->arguments == SIZE
               ? AS(void *(*)(void *, size_t), n)(block, size)
               : AS(void *(*)(void *, size_t, size_t), n)(block, 1, size);
}

static void end(const struct name *n, void *block, size_t align, size_t size) {
    switch (n->arguments) {
    case BLOCK:
        AS(void (*)(void *), n)(block);
        break;
    case BLOCK_SIZE:
        AS(void (*)(void *, size_t), n)(block, size);
        break;
    case BLOCK_ALIGN:
        AS(void (*)(void *, size_t), n)(block, align);
        break;
    case BLOCK_BOTH:
        AS(void (*)(void *, size_t, size_t), n)(block, size, align);
        break;
    default:
        AS(void (*)(void *, size_t, size_t), n)(block, align, size);
        break;
    }
}

static bool takes_align(const struct name *ender) {
    return ender->arguments == BLOCK_ALIGN || ender->arguments == BLOCK_BOTH ||
           ender->arguments == BLOCK_C23;
}

static bool has_room(void *block, size_t size) {
    for (size_t i = 0; i < sizeof sizers / sizeof *sizers; i++)
        if (sizers[i].function &&
            AS(size_t(*)(void *), &sizers[i])(block) < size)
            return false;
    return true;
}

/* Sizes are of whole pages, so that a sized form is right whatever the block
   was made by. */
static bool mix(const struct name *maker, const struct name *ender) {
    const size_t align = 4096;
    for (size_t size = align; size <= 64 * align; size *= 16) {
        void *block = make(maker, align, size);
        if (!block || !has_room(block, size))
            return false;
        memset(block, 3, size);
        if (takes_align(ender) && (uintptr_t)block % align != 0)
            free(block);
        else
            end(ender, block, align, size);
    }
    return true;
}

/* Like mix(), but through a resizer, which makes a block of another size. */
static bool mix_resized(const struct name *maker, const struct name *ender) {
    const size_t size = 4096;
    for (size_t i = 0; i < sizeof resizers / sizeof *resizers; i++) {
        if (!resizers[i].function || ender->arguments != BLOCK)
            continue;
        char *block = make(maker, size, size);
        memset(block, 3, size);
        block = resize(&resizers[i], block, 3 * size);
        if (!block || block[0] != 3 || block[size - 1] != 3)
            return false;
        end(ender, block, 0, 0);
    }
    return true;
}

int main(void) {
    unsigned made = FIND(makers), ended = FIND(enders);
    FIND(resizers);
    FIND(sizers);
    bool good = true;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        for (size_t j = 0; j < sizeof enders / sizeof *enders; j++)
            if (makers[i].function && enders[j].function &&
                !(mix(&makers[i], &enders[j]) &&
                  mix_resized(&makers[i], &enders[j]))) {
                good = false;
                tap_diag("%s, %s", makers[i].name, enders[j].name);
            }
    tap_ok(good, "blocks by %u names go by %u others", made, ended);
    tap_ok(made >= 10 && ended >= 2, "there are enough of them");
    return tap_done();
}
