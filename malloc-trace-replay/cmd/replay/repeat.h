/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --repeat: several runs, each a new process with the same command line, and
 * the spread of their figures. Also executes this program again: for decoding,
 * and under the allocator of -a.
 *
 * Why: an option in front of the command line marks a process as one of the
 * runs and names its JSON file, so the rest of the command line is passed on
 * unread.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_REPEAT_H
#define TOOL_CMD_REPLAY_REPEAT_H

#include "base/compiler.h"

/* --- This program once more ----------------------------------------------- */

/* Copies ARGV, with an empty place behind the first word and without what
   replay_again_under put there. NULL: out of memory. */
char **replay_again_words(int argc, char **argv);
/* Executes this program with WORDS, without what LD_PRELOAD names. Returns only
   on failure, with errno. */
void replay_again(char *const *words);

/* Executes this program with WORDS as it was, but at the addresses of any other
   run. Returns if it has these already, or the system refuses. */
void replay_again_fixed(char **words);

/* Option of a process that replay_again_under made, without the dashes; its
   value is what LD_PRELOAD names. */
#define REPLAY_UNDER "under-library"
/* Executes this program with WORDS in the same process, under LIBRARY in place
   of what LD_PRELOAD names; "" is the C library. Returns only on failure, after
   a message. */
void replay_again_under(const char *library, char **words);
/* Called in the process that replay_again_under made, with the value UNDER of
   its option. Removes what was made for LD_PRELOAD. False: malloc does not come
   from LIBRARY, after a message. */
bool replay_again_is_under(const char *library, const char *under);

/* The name by which this program was executed. */
const char *replay_again_file(void);

/* --- Several runs --------------------------------------------------------- */

/* Option that makes a process one of several runs, without the dashes. */
#define REPLAY_REPEAT_RUN "run-of-repeat"

/* True if all COUNT files can be read again. False: not, after a message. */
bool replay_repeat_can(char *const *file, int count);
/* Makes RUNS runs and returns the exit status. JSON: a file name, or NULL.
   WORDS: from replay_again_words. */
int replay_repeat(uint64_t runs, const char *json, char **words);

/* Parses the value of that option: number of the run, and file of its JSON. */
bool replay_repeat_parse(const char *text, const char **json, uint64_t *number);
/* Makes the name of a file of run NUMBER of NAME, with the number before the
   ending. False: it is too long. */
bool replay_repeat_name(char *to, size_t size, const char *name,
                        uint64_t number);

#endif
