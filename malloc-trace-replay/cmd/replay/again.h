/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This program once more, in a process that was forked for it, with the same
 * command line and one word more.
 *
 * Invariants: nothing here allocates.
 */
#ifndef TOOL_CMD_REPLAY_AGAIN_H
#define TOOL_CMD_REPLAY_AGAIN_H

#include "base/compiler.h"

/* A copy of ARGV with an empty place behind the first word. NULL: out of
   memory. */
char **replay_again_words(int argc, char **argv);
/* Executes this program with WORDS. PRELOADED: with what LD_PRELOAD names, else
   without. Comes back, with errno, only if that cannot be done. */
void replay_again(char *const *words, bool preloaded);

#endif
