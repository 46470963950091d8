/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The malloc family but realloc. The aligned members follow glibc's rules:
 * memalign and aligned_alloc round an odd alignment up to a power of two,
 * posix_memalign refuses it, and sets errno only when memory is out.
 */
#include "api/export.h"
#include "api/malloc_path.h"
#include "base/bits.h"
#include "base/linux/os_mem.h"

#include <errno.h>
#include <string.h>

static TCM_COLD void *slow_malloc(size_t size) {
    tcm_trace_from_here();
    return tcm_alloc_slow(size, MTF_CALL_MALLOC);
}

static TCM_COLD void *slow_calloc(size_t size) {
    tcm_trace_from_here();
    return tcm_calloc_slow(size);
}

/* Serves no request, so that the caller takes its own slow path. */
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

/* Slow path of tc_malloc_skip_new_handler. */
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

TCM_PUBLIC_FAST void *TCM_EXPORT(malloc)(size_t size) {
    return tcm_alloc_path(size, far_malloc, slow_malloc);
}

TCM_PUBLIC_FAST void TCM_EXPORT(free)(void *ptr) {
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
        return tcm_calloc_slow(bytes);
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

/* Other names of glibc for its own functions. */
TCM_ALIAS(__libc_malloc, malloc);
TCM_ALIAS(__libc_calloc, calloc);
TCM_ALIAS(__libc_free, free);
TCM_ALIAS(__libc_cfree, cfree);

/* ------------------------------------------------------------------------ */
/* Aligned members                                                           */

/* The plain fast path; recording threads, threads without a cache and all other
   cases take the slow one. */
static TCM_ALWAYS_INLINE void *aligned_path(size_t size, size_t align,
                                            enum mtf_call call) {
    void *ptr = tcm_alloc_aligned_plain(size, align);
    if (TCM_LIKELY(ptr != NULL))
        return ptr;
    tcm_trace_from_here();
    return tcm_alloc_aligned(size, align, call, true);
}

static TCM_ALWAYS_INLINE void *aligned(size_t align, size_t size,
                                       enum mtf_call call) {
    if (align > SIZE_MAX / 2 + 1) {
        tcm_trace_from_here();
        tcm_alloc_record_failure(size, call, TCM_ALIGN_REFUSED);
        errno = EINVAL;
        return NULL;
    }
    if (!tcm_is_pow2(align))
        align = align == 0 ? 1 : (size_t)1 << tcm_log2_ceil(align);
    return aligned_path(size, align, call);
}

TCM_PUBLIC void *TCM_EXPORT(memalign)(size_t align, size_t size) {
    return aligned(align, size, MTF_CALL_MEMALIGN);
}

TCM_PUBLIC void *TCM_EXPORT(aligned_alloc)(size_t align, size_t size) {
    return aligned(align, size, MTF_CALL_ALIGNED_ALLOC);
}

TCM_PUBLIC int TCM_EXPORT(posix_memalign)(void **out, size_t align,
                                          size_t size) {
    if (!tcm_is_pow2(align) || align % sizeof(void *) != 0) {
        tcm_trace_from_here();
        tcm_alloc_record_failure(size, MTF_CALL_POSIX_MEMALIGN,
                                 tcm_is_pow2(align) ? tcm_log2_floor(align)
                                                    : TCM_ALIGN_REFUSED);
        return EINVAL;
    }
    void *p = aligned_path(size, align, MTF_CALL_POSIX_MEMALIGN);
    if (p == NULL)
        return ENOMEM;
    *out = p;
    return 0;
}

TCM_PUBLIC void *TCM_EXPORT(valloc)(size_t size) {
    tcm_trace_from_here();
    return tcm_alloc_aligned(size, tcm_os_page_size(), MTF_CALL_VALLOC, true);
}

/* The recorded size is the requested one; the block has whole pages. */
TCM_PUBLIC void *TCM_EXPORT(pvalloc)(size_t size) {
    tcm_trace_from_here();
    size_t page = tcm_os_page_size();
    size_t rounded = size <= TCM_MAX_REQUEST - page
                         ? tcm_align_up(size == 0 ? 1 : size, page)
                         : size;
    return tcm_alloc_aligned_as(rounded, size, page, MTF_CALL_PVALLOC);
}

TCM_ALIAS(tc_memalign, memalign);
TCM_ALIAS(tc_posix_memalign, posix_memalign);
TCM_ALIAS(tc_valloc, valloc);
TCM_ALIAS(tc_pvalloc, pvalloc);
TCM_ALIAS(__libc_memalign, memalign);
TCM_ALIAS(__libc_valloc, valloc);
TCM_ALIAS(__libc_pvalloc, pvalloc);
TCM_ALIAS(__posix_memalign, posix_memalign);
