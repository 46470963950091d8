/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds out whether the allocator under test takes its time from elsewhere than
 * the C library's functions, which recorded_clock.h stands before: from the
 * processor's time-stamp counter, or from the kernel by system calls of its
 * own.
 *
 * The probe is a process of its own, this program executed anew with the
 * allocator under test. It lets the counter's instructions fault (prctl,
 * PR_SET_TSC) and the calls trap that come from code other than the C library's
 * and this program's (a seccomp filter on the instruction pointer), carries
 * them out in the handlers, and allocates for a while in two threads.
 *
 * Threads: replay_clock_probe is called by the main thread, before the
 * allocator is measured.
 */
#ifndef TOOL_CMD_REPLAY_RUN_CLOCK_PROBE_H
#define TOOL_CMD_REPLAY_RUN_CLOCK_PROBE_H

#include "base/compiler.h"

#define REPLAY_CLOCK_PROBE "probe-clock"

/* Modules with a clock of their own. */
struct replay_clock_foreign {
    char counter[64]; /* name of a module that reads the time-stamp counter; "":
                         none */
    char kernel[64];  /* name of a module that calls the kernel; "": none */
    bool counter_unknown, kernel_unknown;
};

/* Runs the probe. WORDS: from replay_again_words. If the probe cannot run,
   nothing is known. */
void replay_clock_probe(struct replay_clock_foreign *found, char **words);
/* Runs in the process of the probe: writes its findings to descriptor FD and
   exits. */
TCM_NORETURN void replay_clock_probe_main(int fd);

#endif
