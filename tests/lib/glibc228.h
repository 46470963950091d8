/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Headers of a newer glibc as 2.28 has them: functions that came later get
 * other names. A build with -include of this file shows that the sources need
 * none of them.
 */
#ifndef TESTS_LIB_GLIBC228_H
#define TESTS_LIB_GLIBC228_H

/* libstdc++'s headers use those of the glibc that it was built with. */
#if !defined(__cplusplus) && !defined(__ASSEMBLER__)

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#define TEST_NEWER(name) name##_is_newer_than_glibc_2_28

#define gettid                     TEST_NEWER(gettid)             /* 2.30 */
#define getdents64                 TEST_NEWER(getdents64)         /* 2.30 */
#define tgkill                     TEST_NEWER(tgkill)             /* 2.30 */
#define pthread_cond_clockwait     TEST_NEWER(cond_clockwait)     /* 2.30 */
#define pthread_mutex_clocklock    TEST_NEWER(mutex_clocklock)    /* 2.30 */
#define pthread_rwlock_clockrdlock TEST_NEWER(rwlock_clockrdlock) /* 2.30 */
#define pthread_rwlock_clockwrlock TEST_NEWER(rwlock_clockwrlock) /* 2.30 */
#define sem_clockwait              TEST_NEWER(sem_clockwait)      /* 2.30 */
#define pthread_clockjoin_np       TEST_NEWER(clockjoin)          /* 2.31 */
#define pthread_attr_setsigmask_np TEST_NEWER(attr_setsigmask)    /* 2.32 */
#define pthread_attr_getsigmask_np TEST_NEWER(attr_getsigmask)    /* 2.32 */
#define sigabbrev_np               TEST_NEWER(sigabbrev)          /* 2.32 */
#define sigdescr_np                TEST_NEWER(sigdescr)           /* 2.32 */
#define strerrordesc_np            TEST_NEWER(strerrordesc)       /* 2.32 */
#define strerrorname_np            TEST_NEWER(strerrorname)       /* 2.32 */
#define mallinfo2                  TEST_NEWER(mallinfo2)          /* 2.33 */
#define close_range                TEST_NEWER(close_range)        /* 2.34 */
#define closefrom                  TEST_NEWER(closefrom)          /* 2.34 */
#define _Fork                      TEST_NEWER(fork)               /* 2.34 */
#define timespec_getres            TEST_NEWER(timespec_getres)    /* 2.34 */
#define execveat                   TEST_NEWER(execveat)           /* 2.34 */
#define _dl_find_object            TEST_NEWER(dl_find_object)     /* 2.35 */
#define dl_find_object             TEST_NEWER(dl_find_object_result)
#define epoll_pwait2               TEST_NEWER(epoll_pwait2)     /* 2.35 */
#define process_madvise            TEST_NEWER(process_madvise)  /* 2.36 */
#define process_mrelease           TEST_NEWER(process_mrelease) /* 2.36 */
#define arc4random                 TEST_NEWER(arc4random)       /* 2.36 */
#define arc4random_buf             TEST_NEWER(arc4random_buf)   /* 2.36 */
#define arc4random_uniform         TEST_NEWER(arc4random_below) /* 2.36 */
#define strlcpy                    TEST_NEWER(strlcpy)          /* 2.38 */
#define strlcat                    TEST_NEWER(strlcat)          /* 2.38 */

#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#undef gettid
#undef getdents64
#undef tgkill
#undef pthread_cond_clockwait
#undef pthread_mutex_clocklock
#undef pthread_rwlock_clockrdlock
#undef pthread_rwlock_clockwrlock
#undef sem_clockwait
#undef pthread_clockjoin_np
#undef pthread_attr_setsigmask_np
#undef pthread_attr_getsigmask_np
#undef sigabbrev_np
#undef sigdescr_np
#undef strerrordesc_np
#undef strerrorname_np
#undef mallinfo2
#undef close_range
#undef closefrom
#undef _Fork
#undef timespec_getres
#undef execveat
#undef _dl_find_object
#undef dl_find_object
#undef epoll_pwait2
#undef process_madvise
#undef process_mrelease
#undef arc4random
#undef arc4random_buf
#undef arc4random_uniform
#undef strlcpy
#undef strlcat

#endif

#endif
