/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffered output of a trace, plain or as LZ4 frames: to stdout, to a FIFO or
 * device as it is, or to a regular file, which gets its name when it is
 * complete where that is possible (tool_file_open_new). A thread of its own
 * compresses and writes if there is a second processor.
 *
 * Invariants: the first failure ends the writing; its errno is kept, later
 * calls return false, and tool_output_close reports it again. Nothing counts as
 * written until tool_output_close has returned true. The bytes in the file
 * depend only on the bytes that were written, not on the thread or on how they
 * were divided into calls.
 * Threads: one user at a time.
 */
#ifndef TOOL_COMMON_OUTPUT_H
#define TOOL_COMMON_OUTPUT_H

#include "base/compiler.h"

struct tool_output;

enum tool_output_form {
    TOOL_OUTPUT_PLAIN,
    TOOL_OUTPUT_LZ4 /* frames of at most TOOL_OUTPUT_FRAME bytes of content;
                       needs mtf_compress_available() */
};
#define TOOL_OUTPUT_FRAME ((size_t)4 << 20)

/* Opens NAME; NULL, "-" or "/dev/stdout": stdout. NULL: errno tells why. The
   program must ignore SIGPIPE, so that a closed pipe is an error like
   others. */
struct tool_output *tool_output_open(const char *name,
                                     enum tool_output_form form);
/* Writes N bytes. false: a write failed, errno tells why. */
bool tool_output_write(struct tool_output *out, const void *data, size_t n);
/* Flushes all bytes so far, in LZ4 as whole frames, and waits for MS
   milliseconds. false: a write failed, or the pipe has no reader any more. */
bool tool_output_wait(struct tool_output *out, int ms);
/* Ends the frame, writes the rest, closes (stdout too) and frees. false:
   something was not written; errno tells why, and a file that has not got its
   name yet is removed. */
bool tool_output_close(struct tool_output *out);
/* Closes and frees, but abandons the trace: removes a new file, and keeps the
   file that has its name. */
void tool_output_drop(struct tool_output *out);

/* Returns the name for messages: the file's, or "standard output". */
const char *tool_output_name(const struct tool_output *out);
/* Returns errno of the first failure, or 0. */
int tool_output_error(const struct tool_output *out);

#endif
