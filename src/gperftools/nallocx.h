/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes of blocks, without making the blocks. Names and meaning are
 * jemalloc's and gperftools'.
 */
#ifndef GPERFTOOLS_NALLOCX_H
#define GPERFTOOLS_NALLOCX_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The flag for an alignment of 2^LG bytes; other flags are ignored. */
#define MALLOCX_LG_ALIGN(lg) ((int)(lg))

/*
 * Usable bytes of the block that malloc(SIZE), or aligned_alloc with the
 * alignment in FLAGS, would return: at least SIZE. 0 if there can be no such
 * block, however much memory there is. A block that grew by realloc can be
 * larger. tc_nallocx is another name of nallocx.
 */
size_t nallocx(size_t size, int flags);
size_t tc_nallocx(size_t size, int flags);

#ifdef __cplusplus
}
#endif

#endif
