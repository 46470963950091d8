/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory from the system. os_mem.c alone calls mmap, munmap, mremap, mprotect,
 * madvise and mincore. Lengths and addresses are multiples of the system's
 * page size. No function changes errno.
 *
 * Threads: any; the kernel serialises.
 */
#ifndef TCM_BASE_LINUX_OS_MEM_H
#define TCM_BASE_LINUX_OS_MEM_H

#include "base/compiler.h"

/* Bytes of a page of the system: 4, 16 or 64 KiB. */
size_t tcm_os_page_size(void);

/*
 * Reserves LENGTH bytes of address space without access and without memory
 * behind it, aligned to ALIGN (a power of two, at least a page). HINT is a
 * preferred address, or NULL. Core files have none of it before it is
 * committed. Returns NULL when the address space has no room.
 */
void *tcm_os_reserve(size_t length, size_t align, void *hint);

/* Finds LENGTH bytes of addresses that are in no mapping now, aligned to ALIGN,
   at HINT if that is possible. Another thread may map something there before
   the caller does. NULL: there is no such place, or RLIMIT_AS leaves less. */
void *tcm_os_find_free(size_t length, size_t align, void *hint);
/* Maps memory like that of tcm_os_map at AT, where nothing may be mapped.
   Returns 0, ENOMEM (as for tcm_os_commit) or EEXIST: something is mapped
   there, or the kernel maps nothing there. */
int tcm_os_map_at(void *at, size_t length);

/* Gives part of a reservation read and write access; zeroed on first touch.
   false: out of memory (overcommit, RLIMIT_AS, RLIMIT_DATA, map count). */
bool tcm_os_commit(void *start, size_t length);
/* Gives read access only: reads as zero, and is not charged as memory. */
bool tcm_os_commit_read_only(void *start, size_t length);

/* Private anonymous memory, readable and writable, zeroed. NULL: out of
   memory. */
void *tcm_os_map(size_t length);
/* Memory like that of tcm_os_map, shared with children of a later fork. */
void *tcm_os_map_shared(size_t length);
/* Changes the length of a mapping, contents kept, perhaps moved; what is added
   is zeroed. NULL: out of memory, nothing changed. */
void *tcm_os_remap(void *start, size_t length, size_t new_length);
void tcm_os_unmap(void *start, size_t length);

/* Returns the memory of the pages to the system; the pages read as zero
   afterwards. false: the kernel refused (locked pages), contents unchanged. */
bool tcm_os_release(void *start, size_t length);

/* Sets what the child of a later fork has in place of the range: zeros (wipe),
   or nothing (dont_fork). false: the kernel does not support it. */
bool tcm_os_wipe_on_fork(void *start, size_t length);
bool tcm_os_dont_fork(void *start, size_t length);

/*
 * Counts the bytes of the range that have memory behind them, whole pages
 * except at the ends; a page that was only read counts too. LENGTH may be any
 * number. Up to TCM_RESIDENT_EXACT pages, each page is checked. Of a longer
 * range a sample is checked: TCM_RESIDENT_RUNS runs of TCM_RESIDENT_RUN_PAGES
 * pages, at equal distances. false: the system does not tell.
 */
#define TCM_RESIDENT_EXACT     ((size_t)64 << 10)
#define TCM_RESIDENT_RUNS      1024u
#define TCM_RESIDENT_RUN_PAGES 64u
bool tcm_os_resident(const void *start, size_t length, size_t *bytes);

/*
 * Puts the state of each of the PAGES pages from START on, which are mapped,
 * into STATE: 0, or TCM_STATE_RESIDENT with or without TCM_STATE_HUGE, if the
 * page is part of a huge page. PAGEMAP is the descriptor that
 * tcm_os_pagemap_open gave. With -1 huge pages are not known, and a page of
 * zeros that was only read, which no memory is behind, counts as resident.
 * false: the system does not tell.
 */
#define TCM_STATE_RESIDENT 1u
#define TCM_STATE_HUGE     2u
bool tcm_os_page_states(int pagemap, uintptr_t start, size_t pages,
                        uint8_t *state);
/* Opens the map of the process's pages. -1: the kernel cannot scan it (before
   Linux 6.7), it is not readable, or a seccomp filter may end the program for
   the calls. The caller closes it with tcm_os_pagemap_close, which accepts
   -1. */
int tcm_os_pagemap_open(void);
void tcm_os_pagemap_close(int pagemap);

/* True if the 8 bytes at ADDRESS, a multiple of 8, can be read now. */
bool tcm_os_is_readable(uintptr_t address);

/* Copies BYTES bytes at address FROM of process PID, the calling process.
   false: they are not mapped, or cease to be while they are copied. Where the
   kernel cannot copy, or a seccomp filter may end the program for the call,
   tcm_os_is_readable checks both ends and the bytes are read directly. */
bool tcm_os_copy(uint32_t pid, void *to, uintptr_t from, size_t bytes);

/* Asks for huge pages in the range, or forbids them for memory that is touched
   sparsely. false: the kernel has none. */
bool tcm_os_huge_pages(void *start, size_t length);
bool tcm_os_no_huge_pages(void *start, size_t length);

/* A shared, writable mapping of LENGTH bytes of FD from OFFSET on. NULL on
   failure. */
void *tcm_os_map_file(int fd, uint64_t offset, size_t length);

/* RLIMIT_AS in bytes, or UINT64_MAX. */
uint64_t tcm_os_address_limit(void);

/* True if this process runs with a fixed address layout (setarch -R). */
bool tcm_os_layout_is_fixed(void);

#endif
