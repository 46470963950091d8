/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/linux/allocator_signs.h"

const char *tcm_allocator_of(const struct tcm_elf_symbols *s) {
    /* the first that fits: this project's library has gperftools' functions,
       and a build of snmalloc jemalloc's */
    static const struct {
        const char *symbol, *name;
    } sign[] = {
        {"set_malloc_thread_cache", TCM_ALLOCATOR_NAME},
        {"__malloc_end_pointer", "snmalloc"},
        {"sn_malloc", "snmalloc"},
        {"sn_rust_alloc", "snmalloc"},
        {"mallctl", "jemalloc"},
        {"mi_version", "mimalloc"},
        {"MallocExtension_Internal_GetNumericProperty", "google-tcmalloc"},
        {"MallocExtension_GetNumericProperty", "gperftools"},
        {"tc_version", "gperftools"},
        {"rpmalloc", "rpmalloc"},
        {"rpmalloc_initialize", "rpmalloc"},
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(sign); i++)
        if (tcm_elf_find(s, sign[i].symbol) != NULL)
            return sign[i].name;
    return NULL;
}
