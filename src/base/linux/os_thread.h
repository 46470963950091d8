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
/* tcm_futex_wait and _wake for a word that processes share. */
void tcm_futex_wait_shared(uint32_t *word, uint32_t expected,
                           uint64_t timeout_ns);
void tcm_futex_wake_shared(uint32_t *word, int count);

/* Asks for the shortest slices of a processor, for the calling thread and those
   that it makes. A kernel without such a choice changes nothing. */
void tcm_os_short_slice(void);

/* Kernel ids of the calling thread and its process. */
uint32_t tcm_os_tid(void);
uint32_t tcm_os_pid(void);
/* Whether the caller is the first thread of its process. */
bool tcm_os_is_first_thread(void);
/* CPU that the caller runs on at this moment. */
uint32_t tcm_os_cpu(void);

/*
 * Blocks the calling thread's signals, but for those by which the C library
 * cancels threads and changes their user: setuid() would wait for ever. By the
 * system's call, since a library may stand before pthread_sigmask. Returns the
 * mask before, for tcm_restore_signals.
 */
uint64_t tcm_block_signals(void);
void tcm_restore_signals(uint64_t before);

#endif
