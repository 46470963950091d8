/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of the C library itself, and differences between its versions.
 *
 * Why: the loader may bind a name to the program, or to another library that
 * interposes the C library. Such a function would see threads that the program
 * did not make, or be called before its library's constructor.
 *
 * Only the recording library has this file: a program that links the other one
 * may be without the functions of threads.
 *
 * Threads: one thread finds the functions before others use them.
 */
#ifndef TCM_BASE_LINUX_OS_LIBC_H
#define TCM_BASE_LINUX_OS_LIBC_H

#include "base/compiler.h"

#include <pthread.h>

struct tcm_libc {
    __typeof__(pthread_create) *create;
    __typeof__(pthread_join) *join;
    __typeof__(pthread_attr_init) *attr_init;
    __typeof__(pthread_attr_setstacksize) *attr_setstacksize;
    __typeof__(pthread_attr_destroy) *attr_destroy;
    unsigned
        *thread_count; /* count of threads in the C library; NULL: unknown */
};
/* Initially the functions that the loader binds. */
extern struct tcm_libc tcm_libc;

/* Finds the functions without the loader. false: not possible with this C
   library. */
bool tcm_libc_find(void);
/* Returns the C library's own function NAME, found without the loader, or
   NULL. */
void *tcm_libc_function(const char *name);
/* Finds the functions by the loader, which may allocate and takes its locks. */
void tcm_libc_find_by_loader(void);

/* Text of errno ERROR, in English, without a lock or memory. NULL: there is
   none. */
const char *tcm_libc_error_text(int error);

#endif
