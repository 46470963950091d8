/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The traces of a comparison: recorded from a command, sorted where they are
 * raw, and checked; and what the command lines of compare, tune and memory have
 * alike.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_TRACES_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_TRACES_H

#include "cmd/malloc_trace/compare/compare_model.h"
#include "common/opts.h"

/* --- Command lines -------------------------------------------------------- */

/* Operands, and files of results. */
struct compare_files {
    bool is_command; /* the operands are a COMMAND */
    bool is_merge;   /* they are folders of plans; else traces */
    char **operand;  /* NULL behind the last one */
    size_t operands;
    const char *json, *html, *csv, *other; /* NULL: not written */
    /* For a COMMAND */
    bool all_processes;
    bool must_succeed; /* else a failure is a warning */
    bool again;        /* it was recorded before: notes are not repeated */
    bool needs_sites;
    const char *record; /* the recording stays in this file; NULL: it goes */
    const char *sites;  /* mode of `record`; NULL: one that suits the program,
                          unless the environment has one */
};

/* Rows of a table of options: of replay, for the comparison *C. */
#define COMPARE_REPLAY_OPTIONS(c)                                              \
    {.name = "touch",                                                          \
     .rare = true,                                                             \
     .value = "WHAT",                                                          \
     .help = "passed to replay",                                               \
     .text = &(c)->touch},                                                     \
    {                                                                          \
        .name = "clock", .rare = true, .value = "CLOCK",                       \
        .help = "time that allocators see: recorded, that of the recorded "    \
                "run, or real, that of the replay. Default: recorded for "     \
                "traces with times",                                           \
        .text = &(c)->clock, .words = compare_clock_name                       \
    }
extern const char *const compare_clock_name[];

/* Rows of --all-processes, and of --no-check, which sets *SKIPS_CHECK. */
#define COMPARE_SEARCH_OPTIONS(files, skips_check)                             \
    {.name = "all-processes",                                                  \
     .rare = true,                                                             \
     .help = "take the traces of all processes of COMMAND with at least a "    \
             "twentieth of the calls of the largest, not of the largest "      \
             "alone",                                                          \
     .flag = &(files)->all_processes},                                         \
    {                                                                          \
        .name = "no-check", .rare = true,                                      \
        .help = "do not check first that the allocators handle blocks "        \
                "correctly",                                                   \
        .flag = (skips_check)                                                  \
    }

/* Rows of the results. */
#define COMPARE_RESULT_OPTIONS(files)                                          \
    {.name = "json",                                                           \
     .value = "FILE",                                                          \
     .help = "write everything as JSON (-: to standard output in place of "    \
             "the text)",                                                      \
     .text = &(files)->json},                                                  \
    {                                                                          \
        .name = "html", .value = "FILE", .help = "write everything as a page", \
        .text = &(files)->html                                                 \
    }

/* Takes the operands of O, and checks all names. false: a message was printed,
   for TOOL_USAGE. */
bool compare_files_take(struct compare_files *f, const struct tool_opts *o);
/* Tells whether a result goes to standard output, in place of the text. */
bool compare_files_take_stdout(const struct compare_files *f);

/* --- Traces --------------------------------------------------------------- */

/* Adds COUNT traces, a single one as open_recordings_choose does, until a stop
   is requested. A raw one is sorted into the folder SORTED once, so that each
   run reads the sorted form. SORTED NULL: traces are taken as they are and not
   scanned: their numbers of operations and threads, and whether they have
   times, are unknown. false: a message was printed, or a stop was requested. */
bool compare_traces_add_all(struct comparison *c, const char *const *operand,
                            size_t count, const char *sorted);

/* How a recorded command ended. */
struct compare_recorded {
    int status; /* as from wait */
    uint64_t wall_ns;
    bool ended_by_user; /* this process got a signal meanwhile */
};

/*
 * Adds the traces that F names, and sets their modes. A COMMAND is recorded
 * into FOLDER, with this process's descriptors, but standard error for standard
 * output where that gets a result. Of its processes the one with the most
 * events is taken, or all that have at least a twentieth of its events; a
 * warning names the others. SIGINT and SIGTERM end COMMAND alone: SIGINT first,
 * where the terminal has not sent it to all, and SIGTERM after a while. R gets
 * how it ended. SORTED: as of compare_traces_add_all. false: a message was
 * printed, or a stop was requested.
 */
bool compare_traces_gather(struct comparison *c, const struct compare_files *f,
                           const char *folder, const char *sorted,
                           struct compare_recorded *r);

/* Tells by trace_not_seen whether NAME can be judged; if not, for
   compare_traces_failed, too. */
bool compare_traces_seen(struct comparison *c, const char *name, uint64_t calls,
                         const char *allocator);
/* Exit status where the traces of C could not be had. */
int compare_traces_failed(const struct comparison *c);

/* Allocator that the program of all traces would have without the recorder, and
   how it came there, as in MTF_TAG_ALLOCATOR: by its name in the table of
   settings, or its file's. NULL: the C library's, or it is not known. */
const char *compare_traces_allocator(const struct comparison *c,
                                     const char **origin);
/* Tells whether ENTRY is that allocator. */
bool compare_traces_has_own(const struct comparison *c,
                            const struct compare_contestant *entry);
/* Makes that allocator the baseline, where none was named: a contestant, or
   with ADD one that is installed. A line says so, and how OPTION names another
   one. false: a message was printed. */
bool compare_traces_take_own(struct comparison *c, bool add,
                             const char *option);

/* Records the command of F up to MOST times more, for 30 s or three times in
   all, whichever is more, and adds the recordings to trace 0, until a stop is
   requested. R: how it ended first. Their files go into FOLDER. A program that
   ends in another way is not recorded further, after a warning. */
void compare_traces_record_again(struct comparison *c,
                                 const struct compare_files *f,
                                 const char *folder, size_t most,
                                 const struct compare_recorded *r);

/* Sets the mode in which each trace is replayed, and whether recorded time
   passes there. false: a message was printed, or a stop was requested. */
bool compare_traces_set_modes(struct comparison *c);

#endif
