/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slow functions of allocation and free, which the inline paths of
 * malloc_path.h fall back to. They serve a call in any state of thread and
 * library, and record it if a recording is on.
 *
 * On failure the allocating functions set errno and return NULL.
 *
 * Threads: any; the caller holds no lock.
 */
#ifndef TCM_API_ALLOC_SLOW_H
#define TCM_API_ALLOC_SLOW_H

#include "base/compiler.h"
#include "traceformat/trace_event.h"

TCM_COLD void *tcm_alloc_slow(size_t size, enum mtf_call call);
/* tcm_alloc_slow that records no failure, for callers that try again. */
TCM_COLD void *tcm_alloc_try_slow(size_t size, enum mtf_call call);
/* calloc, which clears no memory that is known to be 0. */
TCM_COLD void *tcm_calloc_slow(size_t size);
/* Records a call that failed. ALIGN_LOG2: log2 of the requested alignment, 0
   for a plain call, TCM_ALIGN_REFUSED for an alignment that no block can have.
 */
#define TCM_ALIGN_REFUSED 255u
TCM_COLD void tcm_alloc_record_failure(uint64_t size, enum mtf_call call,
                                       unsigned align_log2);
/* A block of SIZE bytes aligned to ALIGN, a power of two. RECORD_FAILURE: a
   failure is recorded, and in new mode the new-handler is called; else the
   caller does both. */
void *tcm_alloc_aligned(size_t size, size_t align, enum mtf_call call,
                        bool record_failure);
/* tcm_alloc_aligned of SIZE bytes for a request of ASKED bytes, which is the
   recorded size: pvalloc allocates whole pages. */
void *tcm_alloc_aligned_as(size_t size, size_t asked, size_t align,
                           enum mtf_call call);

TCM_COLD void tcm_free_slow(void *ptr, enum mtf_call call);
/* A sized free: the caller states that the block was made with SIZE and ALIGN
   (0: a plain block). */
TCM_COLD void tcm_free_sized_slow(void *ptr, size_t size, size_t align,
                                  enum mtf_call call);
/* A free that no inline path serves: plain frees of NULL and of blocks outside
   the first range, and all slow ones. */
void tcm_free_elsewhere(void *ptr, enum mtf_call call);
/* tcm_free_elsewhere for a sized free. ALIGN: 0 for a plain block. */
void tcm_free_sized_elsewhere(void *ptr, size_t size, size_t align,
                              enum mtf_call call);

/* Debug builds: stops the program if SIZE and ALIGN (0: none) cannot be what
   PTR, or NULL, was made with by operator new. */
TCM_COLD void tcm_delete_check(const void *ptr, size_t size, size_t align);
/* tcm_delete_check for a block of malloc. realloc may have left the block
   larger than a new one would be, so only a larger SIZE and another ALIGN are
   known to be wrong. */
TCM_COLD void tcm_free_sized_check(const void *ptr, size_t size, size_t align);

#endif
