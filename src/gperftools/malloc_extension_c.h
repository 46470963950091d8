/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the allocator beyond malloc. Names and meaning are gperftools';
 * doc/extension.md has the properties. Functions that return int return 1 for
 * yes and 0 for no.
 */
#ifndef GPERFTOOLS_MALLOC_EXTENSION_C_H
#define GPERFTOOLS_MALLOC_EXTENSION_C_H

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define kMallocExtensionHistogramSize 64

/*
 * Walks the heap's own records and stops the program at the first
 * contradiction. Returns 1. Other threads may run meanwhile: each object in
 * their caches is checked to be an object, but not to be there only once.
 */
int MallocExtension_VerifyAllMemory(void);

/* 1 if P is a block in use, or NULL. The three mean the same: blocks of new,
   new[] and malloc are not told apart. */
int MallocExtension_VerifyNewMemory(const void *p);
int MallocExtension_VerifyArrayNewMemory(const void *p);
int MallocExtension_VerifyMallocMemory(const void *p);

/*
 * Counts the blocks in use, by their usable size: number, bytes, and in
 * HISTOGRAM[i] how many have 2^(i-1) up to 2^i - 1 bytes. Returns 1. The counts
 * are exact when no other thread allocates or frees.
 */
int MallocExtension_MallocMemoryStats(
    int *blocks, size_t *total, int histogram[kMallocExtensionHistogramSize]);

/*
 * Writes a text about the heap to BUFFER, terminated by 0 and cut where it does
 * not fit. A BUFFER of 10,000 bytes or more gets a line for each size class
 * too.
 */
void MallocExtension_GetStats(char *buffer, int buffer_length);

/*
 * Not one of gperftools'. Writes where the resident memory of the heap is to
 * BUFFER, as GetStats writes: pages wholly in blocks, partly in blocks, empty,
 * and never used, then a line for each size class. 20,000 bytes are enough. The
 * kernel is asked about every page of the heap, with mmap, madvise, prctl,
 * openat, ioctl or mincore, process_vm_readv, close and munmap. 0: there is no
 * memory for the work, or the kernel does not tell.
 */
int MallocExtension_GetMemoryTable(char *buffer, int buffer_length);

/* Read and set a numeric property. 0: there is no such property, or it cannot
   be set. */
int MallocExtension_GetNumericProperty(const char *property, size_t *value);
int MallocExtension_SetNumericProperty(const char *property, size_t value);

/* Empties and frees the calling thread's cache, for a thread that will not
   allocate for a while. Its next allocation, or MarkThreadBusy, makes a new
   cache. */
void MallocExtension_MarkThreadIdle(void);
void MallocExtension_MarkThreadBusy(void);
/* Empties the cache like MarkThreadIdle, but keeps it. */
void MallocExtension_MarkThreadTemporarilyIdle(void);

/* Returns free pages to the system: NUM_BYTES at least, or all there are. */
void MallocExtension_ReleaseToSystem(size_t num_bytes);
void MallocExtension_ReleaseFreeMemory(void);

/* Usable bytes of the block that malloc(SIZE) would return; SIZE if there can
   be no such block. */
size_t MallocExtension_GetEstimatedAllocatedSize(size_t size);
/* Usable bytes of block P, 0 for NULL; another P stops the program. */
size_t MallocExtension_GetAllocatedSize(const void *p);
/* Bytes of free objects in the calling thread's cache. */
size_t MallocExtension_GetThreadCacheSize(void);

typedef enum {
    MallocExtension_kUnknownOwnership = 0,
    MallocExtension_kOwned,
    MallocExtension_kNotOwned
} MallocExtension_Ownership;

/* Owner of P, a block in use: this allocator or not. Never unknown. */
MallocExtension_Ownership MallocExtension_GetOwnership(const void *p);

#ifdef __cplusplus
}
#endif

#endif
