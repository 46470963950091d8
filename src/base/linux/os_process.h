/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process, as the kernel shows it in /proc: its program, its threads, its
 * memory.
 *
 * Threads: any, each with its own struct tcm_statm. No memory is allocated,
 * errno stays.
 */
#ifndef TCM_BASE_LINUX_OS_PROCESS_H
#define TCM_BASE_LINUX_OS_PROCESS_H

#include "base/compiler.h"

/* The path of the program's file into PATH, which has ROOM bytes, terminated
   and perhaps cut. Also of a program that was given to the loader as an
   argument. Returns its length, 0 if it is not known. */
size_t tcm_os_program_path(char *path, size_t room);

/* Clock ticks from boot to the start of process PID; 0: unknown. */
uint64_t tcm_os_process_start(uint32_t pid);
/* Whether the process was forked and has not called exec since. */
bool tcm_os_is_forked(void);
/* Whether its parent's memory is its own, as in the child of a vfork; true also
   where the kernel does not tell. */
bool tcm_os_shares_memory(void);
/* The status that the first thread gave its exit system call; 0 while it
   lives. */
int tcm_os_first_exit_code(void);

/* Threads of the process: the first one to the end, dead or not, others while
   they live. 0: unknown. */
uint64_t tcm_os_thread_count(void);
/* The processor time of thread TID. false: it is gone. */
bool tcm_os_thread_cpu_ns(uint32_t tid, uint64_t *ns);
/* Whether thread TID waits for something other than a page. true also where
   there is no /proc. */
bool tcm_os_thread_is_asleep(uint32_t tid);

/*
 * /proc/self/statm, which is that of the first thread while it lives, and all
 * zeros without it; then that of the thread that reads first after that.
 */
struct tcm_statm {
    int fd; /* -1: none */
    bool first_is_gone;
};
void tcm_statm_open(struct tcm_statm *m);
void tcm_statm_close(struct tcm_statm *m);
/* Size, resident and shared pages of the process. false: unknown. */
bool tcm_statm_read(struct tcm_statm *m, uint64_t field[3]);

#endif
