/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of files, and the outputs that a command line names.
 *
 * Threads: one.
 */
#ifndef TOOL_COMMON_FILES_H
#define TOOL_COMMON_FILES_H

#include "base/compiler.h"

#include <limits.h>
#include <stdio.h>

/* Returns the last name of PATH, behind its folders; empty if PATH ends with a
   slash. */
const char *tool_file_base(const char *path);
/* Stores the file that execvp would run for COMMAND: COMMAND itself if it has a
   slash, else a program of this name in PATH. false: there is none. */
bool tool_file_find_command(const char *command, char path[PATH_MAX]);
/* Tells whether NAME is NULL, "-", or another name of descriptor 1. */
bool tool_file_is_stdout(const char *name);
/* Tells whether NAME ends like a part of a flight recording: in .k0 to .k7. */
bool tool_file_is_part(const char *name);
/* Tells whether the file NAME holds a trace or LZ4 frames, which an output must
   not replace: the name may stand in the wrong place of a command line. */
bool tool_file_is_trace(const char *name);

/* Calls VISIT for each entry of the folder behind the descriptor FOLDER, "."
   and ".." left out, until it returns true. Returns whether it did; false also
   for a folder that cannot be read. */
bool tool_file_any_in(int folder, bool (*visit)(int folder, const char *name));

/* Writes S to OUT with each % doubled, cut to ROOM bytes with the null byte.
   Returns the length that it has uncut. */
size_t tool_file_escape(char *out, size_t room, const char *s);
/* Makes a pattern (as in TCMALLOC_TRACE_OUTPUT) absolute: stores in OUT, which
   has ROOM bytes, FILE behind the current folder, whose % are no part of the
   pattern. false: a message was printed. */
bool tool_file_make_pattern(char *out, size_t room, const char *file);

/*
 * Opens NAME for writing: creates a file with the mode of the umask, truncates
 * an existing one, opens a FIFO or device as it is. Refuses what another user
 * may have put there (base/linux/os_file.h), but takes another user's regular
 * file in a folder where not everybody can make files. -1: errno tells why,
 * TCM_EFOREIGN among its values.
 */
int tool_file_open_output(const char *name);
/* Opens NAME as a stream, or returns stdout for its names. NULL: a message was
   printed. */
FILE *tool_file_stream(const char *name);
/* Closes F, or flushes it if it is stdout. false: something was not written, a
   message was printed, or tool_end prints it. */
bool tool_file_stream_end(FILE *f, const char *name);
/* Returns the text for an errno of the functions here. */
const char *tool_file_error_text(int error);

/* File that gets its name when it is complete. */
struct tool_file_new {
    int folder; /* -1: the file has its name already */
    int lock;   /* descriptor that keeps the file locked until then */
    char name[NAME_MAX + 1];
    char temp[64]; /* its name until then, in the same folder */
};
/*
 * Opens a new file that gets the name NAME with tool_file_keep; a file that has
 * the name stays until then. This needs a writable folder in which NAME does
 * not exist, or is a regular file of this user with no other name. Anything
 * else, also behind a link, is opened like tool_file_open_output does. A stop
 * by a second signal (common/stop.h) removes the new file.
 */
int tool_file_open_new(struct tool_file_new *n, const char *name);
/* Gives the file its name. false: errno tells why, and the file is removed. */
bool tool_file_keep(struct tool_file_new *n);
/* Removes the file if it has not got its name. */
void tool_file_drop(struct tool_file_new *n);

/*
 * Tells whether a command line uses one file twice, under any of its names: for
 * two of the OUTS outputs, or for an output and one of the INS inputs or a file
 * that is read with that input (its spool, its parts). Terminals and other
 * devices may be used twice. An output NULL is standard output, an input "-"
 * standard input. true: a message was printed, the status is TOOL_USAGE.
 */
bool tool_files_collide(const char *const *out, int outs, const char *const *in,
                        int ins);
/* Works like tool_files_collide, for a tool that prints text and may write JSON
   to the file JSON (NULL: none), which replaces the text on standard output. */
bool tool_files_collide_text(const char *json, const char *const *in, int ins);

#endif
