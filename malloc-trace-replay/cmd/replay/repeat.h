/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several runs, each a new process with the same command line, and the spread
 * of their figures.
 *
 * Why: an option in front of the command line tells a process that it is a run,
 * and where its JSON goes; so the rest need not be understood here.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_REPEAT_H
#define TOOL_CMD_REPLAY_REPEAT_H

#include "base/compiler.h"

/* --- This program once more ----------------------------------------------- */

/* A copy of ARGV with an empty place behind the first word. NULL: out of
   memory. */
char **replay_again_words(int argc, char **argv);
/* Executes this program with WORDS, without what LD_PRELOAD names. Comes
   back, with errno, only if that cannot be done. */
void replay_again(char *const *words);

/* --- Several runs --------------------------------------------------------- */

/* The option that makes a process one of several runs, without the dashes. */
#define REPLAY_REPEAT_RUN "run-of-repeat"

/* True if all COUNT files can be read again. False: a message was printed. */
bool replay_repeat_can(char *const *file, int count);
/* Makes RUNS runs; returns the exit status. JSON: a file name or NULL. WORDS:
   of replay_again_words. */
int replay_repeat(uint64_t runs, const char *json, char **words);

/* Parses what the option tells: the run's number, and where its JSON goes. */
bool replay_repeat_parse(const char *text, const char **json, uint64_t *number);
/* Makes NAME the name of a file of run NUMBER, with the number before its
   ending. False: it is too long. */
bool replay_repeat_name(char *to, size_t size, const char *name,
                        uint64_t number);

#endif
