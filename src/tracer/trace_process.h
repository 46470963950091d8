/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process that records: its environment, its identity, and the owner of a
 * recording.
 *
 * Threads: the one that sets up or starts a recording, then the saver.
 */
#ifndef TCM_TRACER_TRACE_PROCESS_H
#define TCM_TRACER_TRACE_PROCESS_H

#include "base/compiler.h"
#include "traceformat/trace_event.h"

struct mtr_host;

/* Reads the environment into mtr_config: NAMED, and WANTED if this process is
   recorded without a call of the program. */
void mtr_process_configure(const struct mtr_host *host);
/*
 * Chooses the mode of call sites, as TCMALLOC_TRACE_SITES does, for recordings
 * to come. false: TEXT is no mode; or this process or one that it was forked
 * from has begun a recording with another mode, of which threads may still have
 * state. The caller keeps recordings from beginning.
 */
bool mtr_process_choose_sites(const char *text);
/* Puts the absolute pattern of NAME into OUT (PATH_MAX bytes); *PER_PROCESS:
   it has %p. Returns 0 or an errno: it is too long, or there is no current
   folder. */
int mtr_process_pattern(const char *name, char *out, bool *per_process);
/* A random number that other processes cannot predict, not 0. */
uint64_t mtr_process_random(void);
/* Updates the identity to process PID, which is this process, or the parent of
   this one if it is the child of a vfork. The previous identity becomes that of
   the parent. */
void mtr_process_identify(uint32_t pid);
/* True if the environment names an output. */
bool mtr_process_is_named(void);
/* Notes that the environment's output is not for this process, nor for images
   to come. */
void mtr_process_disown(void);
/* Names this process as owner in the environment, for images to come; with
   MTR_NO_NUMBER they begin with the first name themselves. */
void mtr_process_set_owner(uint32_t name_number);

/*
 * True if the name has %p and the program has installed a seccomp filter. That
 * may kill the program at a call that opens a file or creates a thread, so no
 * further files and no saver are created. Under a filter that the program began
 * with, as in a container, such calls are made, and may fail.
 */
bool mtr_process_is_confined(void);
/*
 * Blocks the calling thread's signals for a section that other threads wait
 * for, and returns a mask for mtr_signals_restore. A handler that ran in the
 * section could leave it by a jump, or wait for its own thread in exit. In a
 * confined process both do nothing.
 */
uint64_t mtr_signals_block(void);
/*
 * mtr_signals_block for a lock that a call of malloc takes. It does nothing
 * where recorded threads must not call rt_sigprocmask (doc/containers.md): for
 * a name without %p, unless stacks are recorded.
 */
uint64_t mtr_signals_block_in_call(void);
void mtr_signals_restore(uint64_t mask);
/* True if the calling thread has a filter of system calls that it did not have
   when the program began. For processes with a control socket. */
bool mtr_process_has_new_filter(void);
/* True if the system may be asked which pages have memory (thread_looks.h): it
   is wanted, and the calling thread has no filter of system calls, which may
   not allow that call. */
bool mtr_process_may_look(void);

#endif
