/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a tool writes its trace: stdout, a FIFO or device as it is, or a
 * regular file, which gets its name when it is whole where that is possible
 * (tool_file_open_new). Buffered; plain or as LZ4 frames.
 * Compression and writing go on a thread of their own if there is a second
 * processor for it.
 *
 * Invariants: the first failure ends the writing; its errno is kept, every
 * later call returns false, and tool_output_close tells it again. Nothing
 * counts as written until tool_output_close has returned true. The bytes depend
 * on what is written alone, not on the thread nor on how writes are cut.
 * Threads: one user at a time.
 */
#ifndef TOOL_COMMON_OUTPUT_H
#define TOOL_COMMON_OUTPUT_H

#include "base/compiler.h"

struct tool_output;

enum tool_output_form {
    TOOL_OUTPUT_PLAIN,
    TOOL_OUTPUT_LZ4 /* frames of at most TOOL_OUTPUT_FRAME bytes of content,
                       each with a checksum of it; only if
                       mtf_compress_available() */
};
#define TOOL_OUTPUT_FRAME ((size_t)4 << 20)

/* NAME NULL, "-" or "/dev/stdout": stdout. NULL with errno set on failure. The
   caller ignores SIGPIPE, so that a closed pipe is an error like others. */
struct tool_output *tool_output_open(const char *name,
                                     enum tool_output_form form);
bool tool_output_write(struct tool_output *out, const void *data, size_t n);
/* Puts out what was written so far, in LZ4 as whole frames, and waits for MS
   milliseconds, or until nobody reads any more, which is a failure. */
bool tool_output_wait(struct tool_output *out, int ms);
/* Ends the frame, writes what is left, closes (stdout too) and frees. false:
   something was not written; errno says why, and a file that would have got its
   name now is gone. */
bool tool_output_close(struct tool_output *out);
/* The same for a trace that is given up: if a new file was written it is
   removed, and the file that has the name stays. */
void tool_output_drop(struct tool_output *out);

/* For messages: the file's name, or "standard output". */
const char *tool_output_name(const struct tool_output *out);
/* errno of the first failure, or 0. */
int tool_output_error(const struct tool_output *out);

#endif
