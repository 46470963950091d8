/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which process records: the environment and the owner of a recording.
 *
 * Threads: the one that sets up or starts a recording, then the saver.
 */
#ifndef TCM_TRACER_TRACE_PROCESS_H
#define TCM_TRACER_TRACE_PROCESS_H

#include "base/compiler.h"
#include "traceformat/trace_event.h"

struct mtr_host;

/* Reads the environment into mtr_config: NAMED, and WANTED if this
   process is to be recorded without a call of the program. */
void mtr_process_configure(const struct mtr_host *host);
/* Makes NAME the absolute pattern in OUT (PATH_MAX bytes); *PER_PROCESS tells
   of %p. 0, or an errno: it is too long, or there is no current folder. */
int mtr_process_pattern(const char *name, char *out, bool *per_process);
/* A number that others cannot predict, not 0. */
uint64_t mtr_process_random(void);
/* The identity of process PID, which is this one, or has made it to use its
   memory (vfork); the one before becomes the parent's. */
void mtr_process_identify(uint32_t pid);
/* Whether the environment names an output. */
bool mtr_process_is_named(void);
/* This process is not the one that the environment's output is for, nor are
   images to come. */
void mtr_process_disown(void);
/* Names this process as owner in the environment, for images to come; with
   MTR_NO_NUMBER they begin with the first name themselves. */
void mtr_process_own(uint32_t name_number);

/*
 * True when a name with %p was given and the program has installed a filter of
 * system calls since it began: it may end the program at a call that opens a
 * file or makes a thread, so files and saver that are not there are not made.
 * For a program that began with a filter, as in a container, calls that fail
 * tell.
 */
bool mtr_process_is_confined(void);
/*
 * Present bytes: how many bytes of a large block have memory behind them when
 * it ends, or when the recording does. A replay that writes more than the
 * program did would show memory that the program never had.
 *
 * False: all of them, or it is not known. It may take a while (os_mem.h), and
 * calls the system, so it is for slow paths, and for blocks above the bound.
 */
#define MTR_PRESENT_ABOVE ((size_t)MTF_PRESENT_ABOVE)
bool mtr_present(const void *block, size_t bytes, size_t *present);

#endif
