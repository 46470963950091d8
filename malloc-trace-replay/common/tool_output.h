/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a tool writes its trace: stdout, a FIFO or device as it is, or a
 * regular file that is made or truncated. Buffered.
 *
 * Invariants: the first failed system call ends the writing; its errno is kept,
 * every later call returns false, and tool_output_close tells it again. Nothing
 * counts as written until tool_output_close has returned true.
 */
#ifndef COMMON_TOOL_OUTPUT_H
#define COMMON_TOOL_OUTPUT_H

#include "base/compiler.h"

struct tool_output;

/* NAME NULL, "-" or "/dev/stdout": stdout. NULL with errno set on failure. The
   caller ignores SIGPIPE, so that a closed pipe is an error like others. */
struct tool_output *tool_output_open(const char *name);
bool tool_output_write(struct tool_output *out, const void *data, size_t n);
bool tool_output_flush(struct tool_output *out);
/* Flushes, closes (stdout too) and frees. false: something was not written;
   errno says why. */
bool tool_output_close(struct tool_output *out);

/* For messages: the file's name, or "standard output". */
const char *tool_output_name(const struct tool_output *out);
uint64_t tool_output_bytes(const struct tool_output *out);
/* errno of the first failure, or 0. */
int tool_output_error(const struct tool_output *out);

#endif
