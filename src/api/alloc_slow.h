/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slow functions of allocation and free, which the inline paths of
 * malloc_path.h end in. They serve a call whatever state thread and library are
 * in, and record it if it is to be recorded.
 *
 * On failure the allocating functions set errno and return NULL.
 */
#ifndef TCM_API_ALLOC_SLOW_H
#define TCM_API_ALLOC_SLOW_H

#include "base/compiler.h"
#include "traceformat/trace_event.h"

TCM_COLD void *tcm_alloc_slow(size_t size, enum mtf_call call);
/* tcm_alloc_slow that records no failure, for callers that try again. */
TCM_COLD void *tcm_alloc_try_slow(size_t size, enum mtf_call call);
/* calloc of more than TCM_MAX_SMALL bytes. */
TCM_COLD void *tcm_calloc_large(size_t size);
/* Records a call that failed. ALIGN_LOG2: of the alignment asked for, 0 for a
   plain call, TCM_ALIGN_REFUSED for one that no block can have. */
#define TCM_ALIGN_REFUSED 255u
TCM_COLD void tcm_alloc_record_failure(uint64_t size, enum mtf_call call,
                                       unsigned align_log2);
/* ALIGN: a power of two. */
void *tcm_alloc_aligned(size_t size, size_t align, enum mtf_call call,
                        bool record_failure);
/* tcm_alloc_aligned of SIZE bytes for a caller that asked for ASKED, which is
   recorded: pvalloc rounds up. */
void *tcm_alloc_aligned_as(size_t size, size_t asked, size_t align,
                           enum mtf_call call);

TCM_COLD void tcm_free_slow(void *ptr, enum mtf_call call);
/* A sized free: the caller claims that the block was made with SIZE and ALIGN
   (0: a plain block). */
TCM_COLD void tcm_free_sized_slow(void *ptr, size_t size, size_t align,
                                  enum mtf_call call);
/* A free that no inline path serves: plain ones of NULL and of blocks outside
   the first range, and all that is slow. */
void tcm_free_elsewhere(void *ptr, enum mtf_call call);
/* ALIGN: 0 for a plain block. */
void tcm_free_sized_elsewhere(void *ptr, size_t size, size_t align,
                              enum mtf_call call);

/* Debug builds: stops the program if SIZE and ALIGN (0: none) cannot be what
   PTR, or NULL, was made with by operator new. */
TCM_COLD void tcm_delete_check(const void *ptr, size_t size, size_t align);
/* tcm_delete_check for a block of malloc, which realloc may have left roomier
   than a new one: only a larger size and another alignment are known to be
   wrong. */
TCM_COLD void tcm_free_sized_check(const void *ptr, size_t size, size_t align);

#endif
