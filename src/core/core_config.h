/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words of the allocator and its constants.
 *
 * page        8 KiB of heap (TCM_PAGE_SIZE), whatever the system's page is
 * range       address space reserved ahead, without memory, aligned to its size
 * span        a run of pages: free in the page heap, or holding the objects of
 *             one size class, or one large block
 * size class  a size that small requests are rounded up to
 * object      a block of a size class; a slot is its place in its span
 * object word one 64-bit word an object, in a table of its span, for the layer
 *             above (builds with TCM_OBJECT_WORDS only); core knows no meaning
 * bin         the free objects of one class in a thread cache
 * batch       objects moved at once between a bin and the transfer cache
 * central     free objects of one class for all threads
 */
#ifndef TCM_CORE_CONFIG_H
#define TCM_CORE_CONFIG_H

#include "base/compiler.h"

/* 1 in the tracing library: bins carry object words' addresses, spans have
   tables. Addresses handed out do not depend on it. */
#ifndef TCM_OBJECT_WORDS
#define TCM_OBJECT_WORDS 0
#endif

#define TCM_PAGE_SHIFT   13
#define TCM_PAGE_SIZE    ((size_t)1 << TCM_PAGE_SHIFT)
#define TCM_ADDRESS_BITS 48

/* Largest size of a size class; more is a large block of its own pages. */
#define TCM_MAX_SMALL ((size_t)256 << 10)
/* Up to here classes are found in a table by 8 bytes, above by 128. */
#define TCM_TABLE_SMALL 1024
#define TCM_MIN_ALIGN   16
#define TCM_MAX_CLASSES 128
#define TCM_MAX_OBJECTS 1024 /* in a span */
#define TCM_MAX_BATCH   64

/* The heap grows by multiples of this, aligned to it. */
#define TCM_GROW_STEP ((size_t)2 << 20)

/* Largest request: half of the address space, as glibc (PTRDIFF_MAX). */
#define TCM_MAX_REQUEST ((size_t)PTRDIFF_MAX)

#endif
