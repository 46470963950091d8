/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc, calloc, free and their relatives without alignment.
 */
#include "api/export.h"
#include "api/malloc_path.h"
#include "base/bits.h"

#include <errno.h>
#include <string.h>

static TCM_COLD void *slow_malloc(size_t size) {
    tcm_trace_from_here();
    return tcm_alloc_slow(size, MTF_CALL_MALLOC);
}

static TCM_COLD void *slow_calloc(size_t size) {
    tcm_trace_from_here();
    void *p = tcm_alloc_slow(size, MTF_CALL_CALLOC);
    return p == NULL ? NULL : memset(p, 0, size);
}

/* The rest is served by who asked. */
static TCM_ALWAYS_INLINE void *no_block(size_t size) {
    (void)size;
    return NULL;
}

static TCM_COLD void slow_free(void *ptr) {
    tcm_free_slow(ptr, MTF_CALL_FREE);
}

static TCM_COLD void slow_free_sized(void *ptr, size_t size) {
    tcm_free_sized_slow(ptr, size, 0, MTF_CALL_FREE_SIZED);
}

static TCM_ALWAYS_INLINE void check_free(const void *ptr, size_t size,
                                         size_t align) {
    if (tcm_debug)
        tcm_free_sized_check(ptr, size, align);
}

/* For tc_malloc_skip_new_handler. */
static TCM_COLD void *slow_skip(size_t size) {
    tcm_trace_from_here();
    void *p = tcm_alloc_try_slow(size, MTF_CALL_MALLOC);
    if (p == NULL)
        tcm_alloc_record_failure(size, MTF_CALL_MALLOC, 0);
    return p;
}

static TCM_ALWAYS_INLINE void *far_malloc(size_t size) {
    return tcm_alloc_far(size, MTF_CALL_MALLOC, slow_malloc);
}

static TCM_NOINLINE void *far_calloc(size_t size) {
    void *p = tcm_alloc_far(size, MTF_CALL_CALLOC, no_block);
    return TCM_LIKELY(p != NULL) ? memset(p, 0, size) : slow_calloc(size);
}

static TCM_ALWAYS_INLINE void far_free(void *ptr) {
    tcm_free_far(ptr, MTF_CALL_FREE);
}

static TCM_NOINLINE void far_free_sized(void *ptr, size_t size) {
    tcm_free_sized_far(ptr, size, MTF_CALL_FREE_SIZED);
}

static TCM_ALWAYS_INLINE void *far_skip(size_t size) {
    return tcm_alloc_far(size, MTF_CALL_MALLOC, slow_skip);
}

TCM_PUBLIC void *TCM_EXPORT(malloc)(size_t size) {
    return tcm_alloc_path(size, far_malloc, slow_malloc);
}

TCM_PUBLIC void TCM_EXPORT(free)(void *ptr) {
    tcm_free_path(tcm_class_map_base, ptr, far_free, slow_free);
}

TCM_PUBLIC void TCM_EXPORT(cfree)(void *ptr) {
    tcm_free_slow(ptr, MTF_CALL_CFREE);
}

TCM_PUBLIC void TCM_EXPORT(free_sized)(void *ptr, size_t size) {
    check_free(ptr, size, 1);
    tcm_free_sized_path(tcm_class_map_base, ptr, size, far_free_sized,
                        slow_free_sized);
}

TCM_PUBLIC void TCM_EXPORT(free_aligned_sized)(void *ptr, size_t align,
                                               size_t size) {
    check_free(ptr, size, align);
    tcm_free_sized_slow(ptr, size, align, MTF_CALL_FREE_ALIGNED_SIZED);
}

TCM_PUBLIC void *TCM_EXPORT(calloc)(size_t n, size_t size) {
    size_t bytes;
    if (TCM_UNLIKELY(tcm_mul_overflows(n, size, &bytes))) {
        tcm_trace_from_here();
        tcm_alloc_record_failure(UINT64_MAX, MTF_CALL_CALLOC, 0);
        errno = ENOMEM;
        return NULL;
    }
    if (TCM_UNLIKELY(bytes > TCM_MAX_SMALL)) {
        tcm_trace_from_here();
        return tcm_calloc_large(bytes);
    }
    void *p = tcm_alloc_path(bytes, no_block, no_block);
    return TCM_LIKELY(p != NULL) ? memset(p, 0, bytes) : far_calloc(bytes);
}

void *TCM_EXPORT(tc_malloc_skip_new_handler)(size_t size);

/* malloc that fails at once, also in new mode. */
TCM_PUBLIC void *TCM_EXPORT(tc_malloc_skip_new_handler)(size_t size) {
    return tcm_alloc_path(size, far_skip, slow_skip);
}

TCM_ALIAS(tc_malloc, malloc);
TCM_ALIAS(tc_calloc, calloc);
TCM_ALIAS(tc_free, free);
TCM_ALIAS(tc_cfree, cfree);
TCM_ALIAS(tc_free_sized, free_sized);

/* glibc's other names of its own functions. */
TCM_ALIAS(__libc_malloc, malloc);
TCM_ALIAS(__libc_calloc, calloc);
TCM_ALIAS(__libc_free, free);
TCM_ALIAS(__libc_cfree, cfree);
