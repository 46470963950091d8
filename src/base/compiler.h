/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compiler features beyond C11.
 */
#ifndef TCM_BASE_COMPILER_H
#define TCM_BASE_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TCM_LIKELY(x)     __builtin_expect(!!(x), 1)
#define TCM_UNLIKELY(x)   __builtin_expect(!!(x), 0)
#define TCM_ALWAYS_INLINE inline __attribute__((always_inline))
#define TCM_NOINLINE      __attribute__((noinline))
#define TCM_COLD          __attribute__((noinline, cold))
#define TCM_NORETURN      __attribute__((noreturn))
/* Hidden visibility, for the declaration of a hot variable that another file of
   the library defines: its address needs no load from the global offset table.
 */
#define TCM_LOCAL           __attribute__((visibility("hidden")))
#define TCM_ALIGNED(n)      __attribute__((aligned(n)))
#define TCM_PRINTF(fmt, va) __attribute__((format(printf, fmt, va)))
#define TCM_CACHE_LINE      64

/* TCM_TAIL before a return makes the call in it a jump, whatever the compiler's
   options are, in a function with the attribute TCM_TAIL_CALLS. */
#if defined(__has_attribute)
#if __has_attribute(musttail)
#define TCM_TAIL __attribute__((musttail))
#define TCM_TAIL_CALLS
#endif
#endif
#ifndef TCM_TAIL
#define TCM_TAIL
#define TCM_TAIL_CALLS __attribute__((optimize("O2", "optimize-sibling-calls")))
#endif

/*
 * The initial-exec model reads a thread-local variable with one load through
 * the thread register and never calls __tls_get_addr, which could malloc.
 */
#define TCM_TLS __thread __attribute__((tls_model("initial-exec")))

/* The thread register: addresses of initial-exec variables are relative to it.
   For x86-64, gcc has the builtin function since version 11. */
#if defined(__x86_64__)
static inline uintptr_t tcm_thread_pointer(void) {
    uintptr_t p;
    __asm__("movq %%fs:0, %0" : "=r"(p));
    return p;
}
#else
static inline uintptr_t tcm_thread_pointer(void) {
    return (uintptr_t)__builtin_thread_pointer();
}
#endif

/* Prefetches the cache line at P for a store; never faults. On x86 the
   instruction is spelled out, because the compiler's baseline form fetches the
   line in shared state; processors without it execute it as a no-op. */
#if defined(__x86_64__)
static TCM_ALWAYS_INLINE void tcm_prefetch_write(const void *p) {
    __asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)p));
}
#else
static TCM_ALWAYS_INLINE void tcm_prefetch_write(const void *p) {
    __builtin_prefetch(p, 1);
}
#endif

/* Hides the value of X from the compiler. An address that was computed from X
   before is not kept in a register: it is computed again in the addressing mode
   of the next instruction. */
#define TCM_FORGET(x) __asm__("" : "+r"(x))
/* Keeps X in the register of the return value, which the compiler may fail to
   choose. */
#if defined(__x86_64__)
#define TCM_IN_RESULT(x) __asm__("" : "+a"(x))
#else
#define TCM_IN_RESULT(x) ((void)(x))
#endif

#define TCM_CONTAINER_OF(ptr, type, member)                                    \
    ((type *)((char *)(ptr)-offsetof(type, member)))
#define TCM_ARRAY_SIZE(a)       (sizeof(a) / sizeof((a)[0]))
#define TCM_STATIC_ASSERT(c, m) _Static_assert(c, m)
/* The macro X, expanded, as a string. */
#define TCM_TEXT(x)    TCM_TEXT_OF(x)
#define TCM_TEXT_OF(x) #x

/* Properties of the build are ordinary constants, so that the code of all
   builds always compiles. */
#ifndef TCM_DEBUG
#define TCM_DEBUG 0
#endif
#ifndef TCM_TESTING
#define TCM_TESTING 0
#endif
enum {
    tcm_debug = TCM_DEBUG,    /* assertions are checked */
    tcm_testing = TCM_TESTING /* test points are active */
};

#endif
