/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the static archive one piece: a program that takes any member of it
 * takes all.
 *
 * Invariants: each file of this folder that defines an exported function has an
 * entry here; thread_state.c, which all of them need, refers to the table.
 *
 * Why: the linker takes an archive's members by name, and passes the archives
 * once. With malloc taken from here and realloc asked for by a member of libc.a
 * later, libc.a would bring its realloc, and in the same member its malloc.
 */
#include "api/export.h"
#include "api/thread_state.h"
#include "gperftools/malloc_extension_c.h"

struct ThreadCacheState;

void *TCM_EXPORT(_Znwm)(size_t size);
size_t TCM_EXPORT(nallocx)(size_t size, int flags);
void TCM_EXPORT(MallocExtension_MarkThreadBusy)(void);
int TCM_EXPORT(MallocExtension_GetNumericProperty)(const char *property,
                                                   size_t *value);
bool TCM_EXPORT(set_malloc_thread_cache)(struct ThreadCacheState *state);
bool TCM_EXPORT(malloc_trace_stop)(void);

struct tcm_family {
    void *(*malloc_c)(size_t);
    void *(*realloc_c)(void *, size_t);
    void *(*aligned_c)(size_t, size_t);
    size_t (*malloc_info_c)(void *);
    void (*stats_text_c)(void);
    void *(*cxx_operators_c)(size_t);
    size_t (*nallocx_c)(size_t, int);
    void (*malloc_extension_c)(void);
    int (*properties_c)(const char *, size_t *);
    bool (*cache_switch_c)(struct ThreadCacheState *);
    bool (*malloc_trace_c)(void);
    void (*fork_exit_c)(void);
};

const struct tcm_family tcm_family = {
    .malloc_c = TCM_EXPORT(malloc),
    .realloc_c = TCM_EXPORT(realloc),
    .aligned_c = TCM_EXPORT(memalign),
    .malloc_info_c = TCM_EXPORT(malloc_usable_size),
    .stats_text_c = TCM_EXPORT(malloc_stats),
    .cxx_operators_c = TCM_EXPORT(_Znwm),
    .nallocx_c = TCM_EXPORT(nallocx),
    .malloc_extension_c = TCM_EXPORT(MallocExtension_MarkThreadBusy),
    .properties_c = TCM_EXPORT(MallocExtension_GetNumericProperty),
    .cache_switch_c = TCM_EXPORT(set_malloc_thread_cache),
    .malloc_trace_c = TCM_EXPORT(malloc_trace_stop),
    .fork_exit_c = tcm_library_anchor,
};
