/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words for the shell.
 *
 * Threads: any.
 */
#ifndef TOOL_COMMON_SHELL_WORD_H
#define TOOL_COMMON_SHELL_WORD_H

#include <stdio.h>

/* TEXT in quotes, as one word. */
void shell_put_quoted(FILE *f, const char *text);
/* The same, without quotes where none are needed. */
void shell_put_word(FILE *f, const char *text);

#endif
