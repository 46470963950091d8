/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Definition of exported functions. TCM_EXPORT(name) is the function's name in
 * the libraries, and tcmtest_name in the renamed build, which must not replace
 * the malloc of the test program and its sanitizer.
 */
#ifndef TCM_API_EXPORT_H
#define TCM_API_EXPORT_H

#include "base/compiler.h"

#if defined(TCM_TESTING) && TCM_TESTING
#define TCM_EXPORT(name) tcmtest_##name
#else
#define TCM_EXPORT(name) name
#endif

#define TCM_PUBLIC __attribute__((visibility("default")))
/* An exported function with a fast path. Its cache lines do not depend on what
   the compiler makes of other functions: by these a recorded malloc and free
   differ by a fifth of a nanosecond each. */
#define TCM_PUBLIC_FAST TCM_PUBLIC TCM_ALIGNED(TCM_CACHE_LINE)

/* Makes NAME an alias of the exported function TARGET of the same file. The
   compiler warns unless it has all attributes that TARGET was declared with. */
#if defined(__has_attribute)
#if __has_attribute(copy)
#define TCM_LIKE(target) __attribute__((copy(target)))
#endif
#endif
#ifndef TCM_LIKE
#define TCM_LIKE(target)
#endif
#define TCM_ALIAS(name, target)                                                \
    extern TCM_PUBLIC TCM_LIKE(                                                \
        TCM_EXPORT(target)) __typeof__(TCM_EXPORT(target))                     \
    TCM_EXPORT(name) __attribute__((alias(TCM_TEXT(TCM_EXPORT(target)))))

/* Makes NAME the exported function TARGET of the same file as this library
   defines it, whatever TARGET the program has. */
#define TCM_OWN(name, target)                                                  \
    static TCM_LIKE(TCM_EXPORT(target)) __typeof__(TCM_EXPORT(target)) name    \
        __attribute__((alias(TCM_TEXT(TCM_EXPORT(target)))))

/* Makes NAME the function that TARGET is in the program: the loader binds it.
 */
#define TCM_BOUND(name, target)                                                \
    extern TCM_PUBLIC __typeof__(TCM_EXPORT(target)) name __asm__(             \
        TCM_TEXT(TCM_EXPORT(target)))

/* The malloc family as this library defines it. The library calls these, so
   that no call goes through the procedure linkage table to another library. */
struct mallinfo;
struct mallinfo2;

void *TCM_EXPORT(malloc)(size_t size);
void *TCM_EXPORT(calloc)(size_t n, size_t size);
void *TCM_EXPORT(realloc)(void *ptr, size_t size);
void *TCM_EXPORT(reallocarray)(void *ptr, size_t n, size_t size);
void TCM_EXPORT(free)(void *ptr);
void TCM_EXPORT(cfree)(void *ptr);
void TCM_EXPORT(free_sized)(void *ptr, size_t size);
void TCM_EXPORT(free_aligned_sized)(void *ptr, size_t align, size_t size);
void *TCM_EXPORT(memalign)(size_t align, size_t size);
void *TCM_EXPORT(aligned_alloc)(size_t align, size_t size);
int TCM_EXPORT(posix_memalign)(void **out, size_t align, size_t size);
void *TCM_EXPORT(valloc)(size_t size);
void *TCM_EXPORT(pvalloc)(size_t size);
size_t TCM_EXPORT(malloc_usable_size)(void *ptr);
struct mallinfo TCM_EXPORT(mallinfo)(void);
struct mallinfo2 TCM_EXPORT(mallinfo2)(void);
int TCM_EXPORT(mallopt)(int parameter, int value);
int TCM_EXPORT(malloc_trim)(size_t pad);
void TCM_EXPORT(malloc_stats)(void);

#endif
