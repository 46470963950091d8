/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Basics of every program: its name in messages, exit statuses, progress, and
 * numbers, sizes and times on command lines (for options see common/opts.h).
 *
 * Invariants: a message is one line, written by one call; bytes that would
 * break the line or command the terminal are shown as \n or \xNN
 * (common/text.h). Nothing here allocates.
 * Threads: tool_error, tool_out_of_memory and tool_warn from any thread, the
 * rest from the main thread.
 */
#ifndef TOOL_COMMON_MAIN_H
#define TOOL_COMMON_MAIN_H

#include "base/compiler.h"

#include <limits.h>

enum tool_status {
    TOOL_OK = 0,
    TOOL_FAILED = 1,   /* system error, or no trace of the kind asked for */
    TOOL_USAGE = 2,    /* wrong command line */
    TOOL_DAMAGED = 3,  /* input cut, damaged, or known to be incomplete */
    TOOL_BUDGET = 4,   /* a budget was exceeded */
    TOOL_ALLOCATOR = 5 /* the allocator under test misbehaved */
};

/* Names the program; the first call of main. Turns writing to a closed pipe,
   or beyond the limit of a file's size, from a signal into an error (EPIPE,
   EFBIG). NAME must stay valid. */
void tool_begin(const char *name);
/* Undoes what tool_begin did to signals, before an exec of another program. */
void tool_before_exec(void);
const char *tool_name(void);
/* Stores the folder of the running program. false: it is unknown. */
bool tool_own_folder(char folder[PATH_MAX]);
/* Stores the path of the program NAME in the folder of the running one. false:
   it is missing, a message was printed. */
bool tool_own_program(const char *name, char path[PATH_MAX]);

/* "NAME: text" on stderr. */
void tool_error(const char *fmt, ...) TCM_PRINTF(1, 2);
/* That error for "out of memory"; returns false. */
bool tool_out_of_memory(void);
/* "NAME: warning: text" on stderr. */
void tool_warn(const char *fmt, ...) TCM_PRINTF(1, 2);
/* "NAME: not judged: WHAT: text" on stderr, of what was not seen, or not all
   of it; returns TOOL_DAMAGED. */
int tool_not_judged(const char *what, const char *fmt, ...) TCM_PRINTF(2, 3);
/* "NAME: text (try 'NAME --help')" on stderr; returns TOOL_USAGE. */
int tool_usage_error(const char *fmt, ...) TCM_PRINTF(1, 2);

/* Flushes stdout; a failure is reported by tool_end. */
void tool_flush(void);
/* Notes that a write to stdout failed with ERROR, for tool_end to report. */
void tool_stdout_failed(int error);
/* Ends main: `return tool_end(status);`. Flushes stdout; if that or an earlier
   write to stdout failed, prints a message and returns TOOL_FAILED. */
int tool_end(int status);

/* Option -q: print errors and warnings only. */
bool tool_is_quiet(void);
void tool_be_quiet(void);
/* Prints the version and the optional libraries on stdout. */
void tool_print_version(void);

/* Parses a whole decimal number of at most MAX. false: TEXT is not one; no
   message. */
bool tool_parse_u64(const char *text, uint64_t max, uint64_t *value);
/* Parses a number of bytes of at most MAX: a decimal number, with K, M, G or T
   behind it that many times 1024 (64K, 1.5M; also 64k, 64KiB). Decimal places
   below a byte are dropped. false: TEXT is not one; no message. */
bool tool_parse_bytes(const char *text, uint64_t max, uint64_t *bytes);
/* Parses a time: a number of seconds, or one or more numbers with the units h,
   m, s, ms, us or ns (1m30s). Numbers may have decimal places. false: TEXT is
   not a time; no message. */
bool tool_parse_time(const char *text, uint64_t *ns);
/* Writes NS in the largest unit of which it is a whole number, as
   tool_parse_time reads it: "1500ms", "2s". Returns TEXT. */
const char *tool_time_text(char text[32], uint64_t ns);

/* --- Progress ------------------------------------------------------------- */

/* Line on stderr that shows how far the work has come; one thread. */
struct tool_progress {
    bool shown; /* stderr is a terminal, and -q was not given */
    uint64_t start_ns, last_ns;
    int length; /* of the line that is on the terminal */
};

void tool_progress_init(struct tool_progress *p);
/* Draws the line at most five times a second: COUNT items of the name UNIT so
   far, DONE of TOTAL stored bytes (0: unknown). Call only if P->shown. */
void tool_progress_show(struct tool_progress *p, uint64_t count,
                        const char *unit, uint64_t done, uint64_t total);
/* Draws LINE. Call only if P->shown. */
void tool_progress_line(struct tool_progress *p, const char *line);
void tool_progress_clear(struct tool_progress *p);

#endif
