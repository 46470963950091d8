/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of malloc-trace record, in the order of their use: the program that is
 * to run (record_program.c), and the summary when it has run (record_report.c).
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_RECORD_RECORD_H
#define TOOL_CMD_MALLOC_TRACE_RECORD_RECORD_H

#include "base/compiler.h"

#include <limits.h>
#include <sys/types.h>

/* Finds the recording library: that of MALLOC_TRACE_LIBRARY, or the one that
   belongs to this program. false: a message was printed. */
bool record_find_library(char path[PATH_MAX]);

/* --- Program -------------------------------------------------------------- */

/* Facts about the program that a command runs, read from its file: obstacles to
   recording it, and allocators of its own. */
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
    /* Allocator in the file, and how to do without it; NULL: none was seen. */
    const char *allocator, *allocator_remedy;
    bool own_malloc;   /* the file defines malloc */
    bool has_recorder; /* and that is a recording one */
    /* Interpreter or virtual machine; NULL: none that is known. */
    const struct record_runtime *runtime;
};

/* Fills P for COMMAND, which is looked up like execvp does. LIBRARY: path of
   the library to preload. */
void record_program_examine(struct record_program *p, const char *command,
                            const char *library);

/* Prints the obstacle as an error. */
void record_program_refuse(const struct record_program *p);

/* Prints what the trace will lack, each in one line: blocks of an allocator of
   the program's own, and objects of its runtime. */
void record_program_caution(const struct record_program *p);

/* --- Summary -------------------------------------------------------------- */

/* Summary of a recorded command: its traces, their contents, why they may have
   none, and the commands to go on with. */
struct record_report;

/* Notes the files that match PATTERN (as in TCMALLOC_TRACE_OUTPUT, absolute)
   before the command runs. PATTERN must stay valid. NULL: out of memory. */
struct record_report *record_report_before(const char *pattern);

/* Returns the file or folder for which no trace can be made under PATTERN;
   errno tells why. NULL: it can, or that depends on the process. */
const char *record_report_bad_output(const char *pattern);

/* Tells whether PATTERN has %p, so that each process gets a file, at its first
   request. */
bool record_report_per_process(const char *pattern);

/* Prints the summary on stderr, for the PROGRAM that ran as process PID. NAME:
   that of its end, as in struct tool_child_end. */
void record_report_after(struct record_report *r,
                         const struct record_program *program, pid_t pid,
                         const char *name);

void record_report_free(struct record_report *r);

#endif
