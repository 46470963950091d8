/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that a tool writes to, by their names on its command line.
 *
 * Threads: one.
 */
#ifndef TOOL_COMMON_FILES_H
#define TOOL_COMMON_FILES_H

#include "base/compiler.h"

#include <limits.h>
#include <stdio.h>

/* The folder for temporary files: TMPDIR if it is absolute, short enough for a
   name of 300 bytes in it, and may be written to, else /tmp. */
const char *tool_file_temporary(void);

/* NAME is NULL, "-", or another name of descriptor 1. */
bool tool_file_is_stdout(const char *name);
/* NAME ends as that of a part of a flight recording does: in .k0 to .k7. */
bool tool_file_is_part(const char *name);
/* Tells whether the file NAME is a trace or LZ4 frames: one that was named in
   the wrong place is not to be lost. */
bool tool_file_is_trace(const char *name);

/*
 * Opens NAME to be written from its beginning: a file that is made with the
 * mode that the umask says or emptied, a FIFO or device as it is. Nothing that
 * another user may have put there (os_file.h); but a regular file is taken
 * where not everybody can make one. -1: errno, or TCM_EFOREIGN in its place,
 * tells.
 */
int tool_file_open_output(const char *name);
/* Opens NAME as a stream, which is standard output where NAME is. NULL: a
   message is out. */
FILE *tool_file_stream(const char *name);
/* Ends it: closes F, or flushes standard output. false: something was not
   written, a message is out. */
bool tool_file_stream_end(FILE *f, const char *name);
/* The text for an errno that this header's functions leave. */
const char *tool_file_error_text(int error);

/* A file that gets its name when it is whole. */
struct tool_file_new {
    int folder; /* -1: what was opened has its name already */
    char name[NAME_MAX + 1];
    char temp[64]; /* and the one that it has meanwhile, beside it */
};
/*
 * The same for a file that gets the name NAME with tool_file_keep: until then
 * what has it stays. That is where nothing has the name, or a regular file of
 * this user with no other name, and the folder may be written to; anything
 * else, also behind a link, is opened as above. A stop by a second signal
 * (common/stop.h) removes the file.
 */
int tool_file_open_new(struct tool_file_new *n, const char *name);
/* Names it. False: errno tells, and the file is gone. */
bool tool_file_keep(struct tool_file_new *n);
void tool_file_drop(struct tool_file_new *n);

/*
 * Whether a command line uses one file twice: one of the OUTS names of outputs
 * is that of another one, or of one of the INS inputs, or of what else is read
 * with these. However it is named; terminals and other devices aside. Outputs
 * may be NULL, which stands for standard output; a name "-" of an input is
 * standard input. true: a message is out, the status is TOOL_USAGE.
 */
bool tool_files_collide(const char *const *out, int outs, const char *const *in,
                        int ins);
/* The same for a tool that prints text, and writes JSON to the file JSON (NULL:
   none), in place of the text where that is standard output. */
bool tool_files_collide_text(const char *json, const char *const *in, int ins);

#endif
