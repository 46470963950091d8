/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Terms of the allocator, and its constants.
 *
 * page         8 KiB of heap (TCM_PAGE_SIZE), whatever the system's page is
 * range        addresses that the heap maps from the low end up
 * span         consecutive pages with one record: free, or the objects of one
 *              size class, or one large block
 * run          a free span
 * shard        a part of the page heap with a lock of its own; each thread has
 *              one (thread_shard.h)
 * parted       said of a size class that has a central list and a transfer
 *              cache in each shard
 * home         the shard whose central list has a span
 * size class   a size that small requests are rounded up to
 * scaled class a size class as an offset to its bin (size_class.h)
 * object       a block of a size class; its slot is its index in the span
 * large block  a block with a span of its own
 * object word  a 64-bit word per object for the layer above, in a table of the
 *              span; builds with TCM_OBJECT_WORDS only
 * entry        of the page map: class and table of a page; of a bin: one object
 * central list the free objects of one class, for the threads of all shards or
 *              of one
 * bucket       spans of a central list with like shares of free objects
 * transfer     objects of one class on their way between threads
 * bin          the free objects of one class in a thread cache
 * batch        objects moved at once between a bin and the transfer cache
 * budget       bytes of capacity that the bins of a thread cache may have
 * registry     all thread caches, their memory and their budgets
 */
#ifndef TCM_CORE_CORE_CONFIG_H
#define TCM_CORE_CORE_CONFIG_H

#include "base/compiler.h"

/* 1 in the tracing library: bins' entries have the address of the object word,
   and spans have tables. The addresses handed out do not depend on it. */
#ifndef TCM_OBJECT_WORDS
#define TCM_OBJECT_WORDS 0
#endif
enum { tcm_object_words = TCM_OBJECT_WORDS };

#define TCM_PAGE_SHIFT   13
#define TCM_PAGE_SIZE    ((size_t)1 << TCM_PAGE_SHIFT)
#define TCM_ADDRESS_BITS 48

/* Largest size class; larger requests are large blocks. */
#define TCM_MAX_SMALL ((size_t)256 << 10)
/* Up to this size the class table has an entry per 8 bytes, above per 128. */
#define TCM_TABLE_SMALL 1024
#define TCM_MIN_ALIGN   16
#define TCM_MAX_CLASSES 128
#define TCM_MAX_OBJECTS 1024 /* in a span */
#define TCM_MAX_BATCH   64

/* The heap grows by multiples of this, aligned to it. */
#define TCM_GROW_STEP  ((size_t)2 << 20)
#define TCM_GROW_PAGES (TCM_GROW_STEP >> TCM_PAGE_SHIFT)

/* Largest request, as in glibc. */
#define TCM_MAX_REQUEST ((size_t)PTRDIFF_MAX)

#endif
