/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds out whether the allocator under test bypasses the C library's clocks,
 * which recorded_clock.h replaces: by the processor's time-stamp counter, or by
 * its own system calls.
 *
 * The probe executes this program in a new process, with the allocator under
 * test. There the counter's instructions fault (prctl, PR_SET_TSC), and system
 * calls from code other than the C library's and this program's trap (a seccomp
 * filter on the instruction pointer). Handlers carry both out, while two
 * threads allocate.
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
