/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several runs, each a new process with the same command line, and what their
 * figures have in common.
 *
 * Why: a process is told that it is a run by an option that names where its
 * JSON goes, as the first word, so that no other word needs to be understood.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_REPEAT_H
#define TOOL_CMD_REPLAY_REPEAT_H

#include "base/compiler.h"

/* That option, without dashes. */
#define REPLAY_REPEAT_RUN "run-of-repeat"

/* Whether all COUNT files can be read again. False: a message is out. */
bool replay_repeat_can(char *const *file, int count);
/* Makes RUNS runs. JSON: a file name or NULL. The exit status. */
int replay_repeat(uint64_t runs, const char *json);

#endif
