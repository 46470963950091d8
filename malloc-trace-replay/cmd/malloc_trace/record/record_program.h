/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts about the program that a command runs, read from its file: obstacles to
 * recording it, and allocators of its own.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_RECORD_RECORD_PROGRAM_H
#define TOOL_CMD_MALLOC_TRACE_RECORD_RECORD_PROGRAM_H

#include "base/compiler.h"

#include <limits.h>

struct record_program {
    const char *command; /* as it was given */
    /* File of the command; for a script, of its interpreter, also where that
       is run by env. Empty: not found. */
    char path[PATH_MAX];
    bool is_script;
    /* A file that the recording library can be preloaded into. */
    bool takes_library;
    /* Reason why the program cannot be recorded, and a remedy; NULL: none is
       known. */
    const char *obstacle, *remedy;
    /* Name that shows an allocator beside malloc; NULL: none was seen. */
    const char *allocator;
    /* CPython, whose small objects its own allocator serves. */
    bool hides_objects;
};

/* Fills P for COMMAND, which is looked up like execvp does. LIBRARY: path of
   the library to preload. */
void record_program_examine(struct record_program *p, const char *command,
                            const char *library);

/* Prints the obstacle as an error. */
void record_program_refuse(const struct record_program *p);

/* Prints what the trace will lack, each in one line. */
void record_program_caution(const struct record_program *p);

#endif
