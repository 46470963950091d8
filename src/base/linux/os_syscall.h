/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * System calls that no other library can interpose.
 *
 * A preloaded library that defines functions of the C library may call malloc
 * in them, take locks that are held while malloc is called, or be called before
 * its constructor or after its destructor. So code inside malloc, and code of
 * threads that malloc waits for, makes its system calls through this header,
 * which uses the instruction itself.
 *
 * Threads: any. No function is a cancellation point.
 */
#ifndef TCM_BASE_LINUX_OS_SYSCALL_H
#define TCM_BASE_LINUX_OS_SYSCALL_H

#include "base/compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The sanitizers' runtimes have to see the calls. The C library's structures
   are the kernel's on these processors. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TCM_SYSCALL_RAW 0
#elif (defined(__x86_64__) || defined(__aarch64__)) && defined(__LP64__)
#define TCM_SYSCALL_RAW 1
#else
#define TCM_SYSCALL_RAW 0
#endif

#if TCM_SYSCALL_RAW

/* Returns the result or the negated number of the error; errno is unchanged. */
static inline long tcm_syscall_of(long number, long a, long b, long c, long d,
                                  long e, long f) {
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ __volatile__("syscall"
                         : "=a"(result)
                         : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10),
                           "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ __volatile__("svc 0"
                         : "+r"(x0)
                         : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                         : "memory");
    return x0;
#endif
}

/* Converts such a result to that of syscall(): -1 and errno. */
static inline long tcm_syscall_result(long result) {
    if (TCM_LIKELY(result >= 0 || result < -4095))
        return result;
    errno = (int)-result;
    return -1;
}

#define TCM_SYSCALL_PAD(n, a, b, c, d, e, f, ...)                              \
    tcm_syscall_result(tcm_syscall_of((n), (long)(a), (long)(b), (long)(c),    \
                                      (long)(d), (long)(e), (long)(f)))
/* Takes the arguments of syscall() and returns its result. */
#define tcm_syscall(...) TCM_SYSCALL_PAD(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
/* System call NAME, if the C library's function of that name takes the same
   arguments. */
#define tcm_call(name, ...) tcm_syscall(SYS_##name, __VA_ARGS__)

#define tcm_fstatat(...)            tcm_call(newfstatat, __VA_ARGS__)
#define tcm_getrlimit(which, limit) tcm_call(prlimit64, 0, which, NULL, limit)

#else

#define tcm_syscall(...)            syscall(__VA_ARGS__)
#define tcm_call(name, ...)         name(__VA_ARGS__)
#define tcm_fstatat(...)            fstatat(__VA_ARGS__)
#define tcm_getrlimit(which, limit) getrlimit(which, limit)

#endif

#define tcm_fstat(fd, st) tcm_fstatat(fd, "", st, AT_EMPTY_PATH)

#endif
