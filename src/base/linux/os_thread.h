/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of the system: futexes, ids, CPU number. No function changes errno.
 */
#ifndef TCM_BASE_LINUX_OS_THREAD_H
#define TCM_BASE_LINUX_OS_THREAD_H

#include "base/compiler.h"

/*
 * Sleeps while *WORD is EXPECTED, for at most TIMEOUT_NS (UINT64_MAX: no
 * limit). Returns on a wake, a signal, a different value or the timeout; the
 * caller checks *WORD again.
 */
void tcm_futex_wait(uint32_t *word, uint32_t expected, uint64_t timeout_ns);
/* Wakes at most COUNT sleepers on WORD. */
void tcm_futex_wake(uint32_t *word, int count);
/* tcm_futex_wait and tcm_futex_wake for a word in memory that processes share.
 */
void tcm_futex_wait_shared(uint32_t *word, uint32_t expected,
                           uint64_t timeout_ns);
void tcm_futex_wake_shared(uint32_t *word, int count);

/* Asks for short time slices, for the calling thread and the threads that it
   makes. Has no effect on a kernel without that setting. */
void tcm_os_short_slice(void);

/* Kernel ids of the calling thread and its process. */
uint32_t tcm_os_tid(void);
uint32_t tcm_os_pid(void);
/* True if the caller is the first thread of its process. */
bool tcm_os_is_first_thread(void);
/* Number of the CPU that the caller runs on at this moment. */
uint32_t tcm_os_cpu(void);
/* Number of CPUs that the process's first thread may run on, at least 1. */
uint32_t tcm_os_cpu_count(void);

/*
 * Blocks the calling thread's signals, except those by which the C library
 * cancels threads and changes their user: setuid() would wait for ever. Makes
 * the system call itself, since a library may interpose pthread_sigmask.
 * Returns the previous mask, for tcm_restore_signals.
 */
uint64_t tcm_block_signals(void);
void tcm_restore_signals(uint64_t before);
/* Blocked signals that wait for the calling thread or its process, bit N - 1
   for signal N. */
uint64_t tcm_pending_signals(void);
/* Takes one signal of SET that waits, if there is one: it is not delivered. */
void tcm_take_signal(uint64_t set);

#endif
