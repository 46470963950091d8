/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C interface to the allocator beyond malloc, except the properties;
 * contract in gperftools/malloc_extension_c.h and gperftools/nallocx.h.
 *
 * Calls that change what the allocator holds are recorded, before they take
 * effect.
 */
#include "gperftools/malloc_extension_c.h"
#include "api/export.h"
#include "api/library.h"
#include "api/stats_text.h"
#include "api/trace_hooks.h"
#include "base/bits.h"
#include "base/check.h"
#include "core/heap.h"
#include "core/heap_census.h"
#include "gperftools/nallocx.h"
#include "gperftools/tcmalloc.h"

#include <limits.h>

#define N(name) TCM_EXPORT(MallocExtension_##name)

int N(VerifyAllMemory)(void);
int N(VerifyNewMemory)(const void *p);
int N(VerifyArrayNewMemory)(const void *p);
int N(VerifyMallocMemory)(const void *p);
int N(MallocMemoryStats)(int *blocks, size_t *total,
                         int histogram[kMallocExtensionHistogramSize]);
void N(GetStats)(char *buffer, int buffer_length);
void N(MarkThreadIdle)(void);
void N(MarkThreadBusy)(void);
void N(MarkThreadTemporarilyIdle)(void);
void N(ReleaseToSystem)(size_t num_bytes);
void N(ReleaseFreeMemory)(void);
size_t N(GetAllocatedSize)(const void *p);
size_t N(GetThreadCacheSize)(void);
MallocExtension_Ownership N(GetOwnership)(const void *p);
const char *TCM_EXPORT(tc_version)(int *major, int *minor, const char **patch);

/* ------------------------------------------------------------------------ */
/* Questions                                                                */

TCM_PUBLIC int N(VerifyAllMemory)(void) {
    if (tcm_api_init())
        tcm_heap_verify_running(tcm_self.own);
    return 1;
}

TCM_PUBLIC int N(VerifyMallocMemory)(const void *p) {
    return p == NULL || tcm_census_is_block(p);
}

TCM_ALIAS(MallocExtension_VerifyNewMemory, MallocExtension_VerifyMallocMemory);
TCM_ALIAS(MallocExtension_VerifyArrayNewMemory,
          MallocExtension_VerifyMallocMemory);

static int as_int(uint64_t n) {
    return n > INT_MAX ? INT_MAX : (int)n;
}

TCM_PUBLIC int
N(MallocMemoryStats)(int *blocks, size_t *total,
                     int histogram[kMallocExtensionHistogramSize]) {
    struct tcm_census census = {0};
    TCM_STATIC_ASSERT(TCM_ARRAY_SIZE(census.histogram) ==
                          kMallocExtensionHistogramSize,
                      "the caller's array is as long");
    if (tcm_api_init())
        tcm_census_blocks(&census);
    *blocks = as_int(census.blocks);
    *total = census.bytes;
    for (unsigned i = 0; i < kMallocExtensionHistogramSize; i++)
        histogram[i] = as_int(census.histogram[i]);
    return 1;
}

TCM_PUBLIC void N(GetStats)(char *buffer, int buffer_length) {
    if (buffer_length > 0)
        tcm_stats_text(buffer, (size_t)buffer_length);
}

TCM_PUBLIC size_t N(GetAllocatedSize)(const void *p) {
    return TCM_EXPORT(malloc_usable_size)((void *)p);
}

TCM_PUBLIC size_t N(GetThreadCacheSize)(void) {
    struct tcm_thread_cache *cache = tcm_self.own;
    return cache == TCM_NO_CACHE ? 0 : tcm_census_cache_bytes(cache);
}

TCM_PUBLIC MallocExtension_Ownership N(GetOwnership)(const void *p) {
    return tcm_block_info(p).kind == TCM_BLOCK_FOREIGN
               ? MallocExtension_kNotOwned
               : MallocExtension_kOwned;
}

TCM_PUBLIC const char *TCM_EXPORT(tc_version)(int *major, int *minor,
                                              const char **patch) {
    if (major != NULL)
        *major = TC_VERSION_MAJOR;
    if (minor != NULL)
        *minor = TC_VERSION_MINOR;
    if (patch != NULL)
        *patch = TC_VERSION_PATCH;
    return "malloc-trace " TCM_VERSION;
}

/* ------------------------------------------------------------------------ */
/* Requests                                                                 */

TCM_PUBLIC void N(ReleaseToSystem)(size_t num_bytes) {
    if (!tcm_api_init_recorded())
        return;
    tcm_trace_extension(MTF_EXTENSION_RELEASE_TO_SYSTEM, num_bytes);
    (void)tcm_heap_release(num_bytes);
}

TCM_PUBLIC void N(ReleaseFreeMemory)(void) {
    if (!tcm_api_init_recorded())
        return;
    tcm_trace_extension(MTF_EXTENSION_RELEASE_FREE_MEMORY, 0);
    (void)tcm_heap_release(SIZE_MAX);
}

TCM_PUBLIC void N(MarkThreadIdle)(void) {
    struct tcm_thread_state *self = &tcm_self;
    if (self->life != TCM_THREAD_LIVE)
        return;
    tcm_trace_extension(MTF_EXTENSION_MARK_IDLE, 0);
    struct tcm_thread_cache *cache = self->own;
    if (cache == TCM_NO_CACHE)
        return;
    tcm_thread_drop_own(self);
    tcm_cache_destroy(cache);
}

TCM_PUBLIC void N(MarkThreadTemporarilyIdle)(void) {
    struct tcm_thread_state *self = &tcm_self;
    if (self->life != TCM_THREAD_LIVE)
        return;
    tcm_trace_extension(MTF_EXTENSION_MARK_TEMPORARILY_IDLE, 0);
    if (self->own != TCM_NO_CACHE)
        tcm_cache_flush(self->own);
}

TCM_PUBLIC void N(MarkThreadBusy)(void) {
    if (!tcm_api_init_recorded())
        return;
    tcm_trace_extension(MTF_EXTENSION_MARK_BUSY, 0);
    tcm_thread_need_cache(&tcm_self);
}

/* ------------------------------------------------------------------------ */
/* Sizes of blocks that are not made                                        */

/* Returns the bytes of a block of SIZE bytes whose alignment is 1 << LG; 0 if
   there can be no such block. */
static size_t block_size(size_t size, unsigned lg) {
    if (size > TCM_MAX_REQUEST || lg >= TCM_ADDRESS_BITS || !tcm_api_init())
        return 0;
    size_t align = (size_t)1 << lg;
    unsigned size_class = tcm_size_class_request(size, align);
    TCM_ASSERT(size_class == 0 || tcm_class[size_class].size >= size);
    if (size_class != 0)
        return tcm_class[size_class].size;
    return size == 0 ? TCM_PAGE_SIZE : tcm_align_up(size, TCM_PAGE_SIZE);
}

size_t TCM_EXPORT(nallocx)(size_t size, int flags);

/* The low bits of the flags are the alignment, as MALLOCX_LG_ALIGN has it. */
TCM_PUBLIC size_t TCM_EXPORT(nallocx)(size_t size, int flags) {
    return block_size(size, (unsigned)flags & 63);
}

TCM_ALIAS(tc_nallocx, nallocx);

size_t TCM_EXPORT(MallocExtension_GetEstimatedAllocatedSize)(size_t size);

TCM_PUBLIC size_t
TCM_EXPORT(MallocExtension_GetEstimatedAllocatedSize)(size_t size) {
    size_t real = block_size(size, 0);
    return real != 0 ? real : size;
}
