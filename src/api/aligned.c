/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The aligned members of the malloc family, with glibc's rules: memalign and
 * aligned_alloc round an odd alignment up to a power of two, posix_memalign
 * refuses it, and sets errno only when memory is out.
 */
#include "api/export.h"
#include "api/malloc_path.h"
#include "base/bits.h"
#include "base/linux/os_mem.h"

#include <errno.h>

/* The plain fast path; recording, no cache and the rest are served slowly. */
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

/* The recorded size is the one asked for; the block has whole pages. */
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
