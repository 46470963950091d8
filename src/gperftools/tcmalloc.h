/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The allocator under names of its own, for programs that want to be sure which
 * malloc they call. Names, signatures and meaning are gperftools'. tc_malloc
 * and malloc are two names of one function, and so on: blocks of either may be
 * passed to the other's functions.
 */
#ifndef GPERFTOOLS_TCMALLOC_H
#define GPERFTOOLS_TCMALLOC_H

#include <malloc.h>
#include <stddef.h>
#ifdef __cplusplus
#include <new>
#endif

/* The version of gperftools that has this interface. */
#define TC_VERSION_MAJOR  2
#define TC_VERSION_MINOR  10
#define TC_VERSION_PATCH  ""
#define TC_VERSION_STRING "gperftools 2.10"

#if defined(__cplusplus) && __cplusplus >= 201103L
#define TC_NOTHROW noexcept
#elif defined(__cplusplus)
#define TC_NOTHROW throw()
#elif defined(__GNUC__)
#define TC_NOTHROW __attribute__((__nothrow__))
#else
#define TC_NOTHROW
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The name and version of this library as text. *MAJOR, *MINOR and *PATCH, each
 * of which may be NULL, get the numbers above as they were when the library was
 * built.
 */
const char *tc_version(int *major, int *minor, const char **patch) TC_NOTHROW;

void *tc_malloc(size_t size) TC_NOTHROW;
void *tc_calloc(size_t n, size_t size) TC_NOTHROW;
void *tc_realloc(void *ptr, size_t size) TC_NOTHROW;
void tc_free(void *ptr) TC_NOTHROW;
void tc_cfree(void *ptr) TC_NOTHROW;
/* free_sized of C23: SIZE is the size that was requested. Debug builds stop the
   program at a wrong SIZE, others ignore it. */
void tc_free_sized(void *ptr, size_t size) TC_NOTHROW;
/* malloc that returns NULL without calling the new-handler in new mode. */
void *tc_malloc_skip_new_handler(size_t size) TC_NOTHROW;

void *tc_memalign(size_t align, size_t size) TC_NOTHROW;
int tc_posix_memalign(void **out, size_t align, size_t size) TC_NOTHROW;
void *tc_valloc(size_t size) TC_NOTHROW;
void *tc_pvalloc(size_t size) TC_NOTHROW;

/* Another name of malloc_usable_size. */
size_t tc_malloc_size(void *ptr) TC_NOTHROW;
void tc_malloc_stats(void) TC_NOTHROW;
int tc_mallopt(int parameter, int value) TC_NOTHROW;
struct mallinfo tc_mallinfo(void) TC_NOTHROW;

/*
 * With FLAG 1, malloc and its family call the new-handler when memory is out
 * and try again, as operator new does; when there is no handler, or it throws,
 * they return NULL. With 0 (the default) they return NULL at once. Returns the
 * previous flag.
 */
int tc_set_new_mode(int flag) TC_NOTHROW;
int tc_query_new_mode(void) TC_NOTHROW;

#ifdef __cplusplus
/* operator new and delete */
void *tc_new(size_t size);
void *tc_new_nothrow(size_t size, const std::nothrow_t &) TC_NOTHROW;
void *tc_newarray(size_t size);
void *tc_newarray_nothrow(size_t size, const std::nothrow_t &) TC_NOTHROW;
void tc_delete(void *ptr) TC_NOTHROW;
void tc_delete_sized(void *ptr, size_t size) TC_NOTHROW;
void tc_delete_nothrow(void *ptr, const std::nothrow_t &) TC_NOTHROW;
void tc_deletearray(void *ptr) TC_NOTHROW;
void tc_deletearray_sized(void *ptr, size_t size) TC_NOTHROW;
void tc_deletearray_nothrow(void *ptr, const std::nothrow_t &) TC_NOTHROW;

#if __cplusplus >= 201703L
void *tc_new_aligned(size_t size, std::align_val_t align);
void *tc_new_aligned_nothrow(size_t size, std::align_val_t align,
                             const std::nothrow_t &) TC_NOTHROW;
void *tc_newarray_aligned(size_t size, std::align_val_t align);
void *tc_newarray_aligned_nothrow(size_t size, std::align_val_t align,
                                  const std::nothrow_t &) TC_NOTHROW;
void tc_delete_aligned(void *ptr, std::align_val_t align) TC_NOTHROW;
void tc_delete_sized_aligned(void *ptr, size_t size,
                             std::align_val_t align) TC_NOTHROW;
void tc_delete_aligned_nothrow(void *ptr, std::align_val_t align,
                               const std::nothrow_t &) TC_NOTHROW;
void tc_deletearray_aligned(void *ptr, std::align_val_t align) TC_NOTHROW;
void tc_deletearray_sized_aligned(void *ptr, size_t size,
                                  std::align_val_t align) TC_NOTHROW;
void tc_deletearray_aligned_nothrow(void *ptr, std::align_val_t align,
                                    const std::nothrow_t &) TC_NOTHROW;
#endif
}
#endif

#undef TC_NOTHROW

#endif
