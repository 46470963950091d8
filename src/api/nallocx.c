/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How large a block would be, without making it; contract in
 * gperftools/nallocx.h and gperftools/malloc_extension_c.h.
 */
#include "gperftools/nallocx.h"
#include "api/export.h"
#include "api/library.h"
#include "base/bits.h"
#include "base/check.h"
#include "gperftools/malloc_extension_c.h"

/* LG: log2 of the alignment. Returns 0 if there can be no such block. */
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
