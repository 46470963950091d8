/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of the C library itself, and what differs between its versions.
 *
 * A function of the same name may be the program's, or that of another library
 * which stands before the C library: it would see threads that the program did
 * not make, or be called before that library's constructor.
 *
 * Threads: found by one thread before others use it. Of the recording library
 * alone: a program that links the other one need not have threads.
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
    unsigned *thread_count; /* threads that it counts; NULL: not known */
};
/* At first the functions that the loader finds. */
extern struct tcm_libc tcm_libc;

/* Finds them without the loader. false: this C library needs it. */
bool tcm_libc_find(void);
/* Finds them by the loader, which may allocate and takes its locks. */
void tcm_libc_find_by_loader(void);

/* The text of errno ERROR, by a function that takes no lock; NULL: there is
   none (before glibc 2.32, in other C libraries). */
const char *tcm_libc_error_text(int error);

#endif
