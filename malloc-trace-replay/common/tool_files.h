/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that a tool writes to, by their names on its command line.
 *
 * Threads: one.
 */
#ifndef COMMON_TOOL_FILES_H
#define COMMON_TOOL_FILES_H

#include "base/compiler.h"

/* NAME is NULL, "-", or another name of descriptor 1. */
bool tool_file_is_stdout(const char *name);

/*
 * Opens NAME to be written from its beginning: a file that is made with the
 * mode that the umask says or emptied, a FIFO or device as it is. Nothing that
 * another user may have put there (base/os_file.h): EACCES; but a regular file
 * is taken where not everybody can make one. -1: errno tells.
 */
int tool_file_open_output(const char *name);

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
