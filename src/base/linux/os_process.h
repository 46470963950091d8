/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process: its environment, and its program, threads and memory as the
 * kernel shows them in /proc.
 *
 * Threads: any, each with its own struct tcm_statm. No memory is allocated,
 * errno stays.
 */
#ifndef TCM_BASE_LINUX_OS_PROCESS_H
#define TCM_BASE_LINUX_OS_PROCESS_H

#include "base/compiler.h"

/* --- Environment ---------------------------------------------------------- */

/*
 * The environment is read early: before main, perhaps before the C library is
 * ready. In a setuid or setgid program every variable counts as unset.
 */

/* Value of NAME, or NULL. Points into the environment block. */
const char *tcm_env_get(const char *name);

/* False when NAME is unset, empty, or one of 0, no, false, off. */
bool tcm_env_bool(const char *name);

/* Decimal value of NAME, clamped to LOW and HIGH; FALLBACK when it is unset or
   not a number. */
uint64_t tcm_env_u64(const char *name, uint64_t fallback, uint64_t low,
                     uint64_t high);

/* --- Program, threads, memory --------------------------------------------- */

/* Writes the path of the program's file to PATH, which has ROOM bytes:
   terminated, perhaps cut. A program that was passed to the loader as an
   argument is found too. Returns the length; 0: unknown. */
size_t tcm_os_program_path(char *path, size_t room);

/* Clock ticks from boot to the start of process PID; 0: unknown. */
uint64_t tcm_os_process_start(uint32_t pid);
/* True if process PID has ended, whether or not its parent has waited for it.
   false also where neither the kernel nor /proc tells. */
bool tcm_os_process_is_gone(uint32_t pid);
/* True if the process was forked and has not called exec since. */
bool tcm_os_is_forked(void);
/* True if the process shares its parent's memory, as the child of a vfork does,
   or if the kernel does not tell. */
bool tcm_os_shares_memory(void);
/* Status that the first thread passed to its exit system call; 0 while it
   lives. */
int tcm_os_first_exit_code(void);

/* Number of threads of the process. The first thread counts until the process
   ends, even when it is dead. 0: unknown. */
uint64_t tcm_os_thread_count(void);
/* Processor time of thread TID. false: the thread is gone. */
bool tcm_os_thread_cpu_ns(uint32_t tid, uint64_t *ns);
/* True if thread TID waits for something other than a page, or if there is no
   /proc. */
bool tcm_os_thread_is_asleep(uint32_t tid);

/*
 * Reader of /proc/self/statm. That file is the first thread's: it is all zeros
 * when that thread is gone. Then the reader goes on with the same file of the
 * thread that calls it.
 */
struct tcm_statm {
    int fd; /* -1: none */
    bool first_is_gone;
};
void tcm_statm_open(struct tcm_statm *m);
void tcm_statm_close(struct tcm_statm *m);
/* Size, resident and shared pages of the process in FIELD. false: unknown. */
bool tcm_statm_read(struct tcm_statm *m, uint64_t field[3]);

#endif
