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

/* What a run of several is told: its number, and where its JSON goes. */
bool replay_repeat_parse(const char *text, const char **json, uint64_t *number);
/* NAME of a file that each run has of its own: NUMBER before its ending. False:
   it is too long. */
bool replay_repeat_name(char *to, size_t size, const char *name,
                        uint64_t number);

#endif
