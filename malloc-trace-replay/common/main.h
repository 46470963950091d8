/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every program shares: its name in messages, exit statuses, numbers and
 * times on command lines (their options: common/opts.h).
 *
 * Invariants: a message is one line, written by one call; bytes that would
 * break the line or command the terminal are shown as \n or \xNN
 * (common/text.h). Nothing
 * here allocates.
 *
 * Threads: tool_error and tool_warn from any, the rest from the main thread.
 */
#ifndef TOOL_COMMON_MAIN_H
#define TOOL_COMMON_MAIN_H

#include "base/compiler.h"

#include <limits.h>

enum tool_status {
    TOOL_OK = 0,
    TOOL_FAILED = 1,   /* system error, or no trace of the kind asked for */
    TOOL_USAGE = 2,    /* the command line */
    TOOL_DAMAGED = 3,  /* input cut, damaged, or known to lack something */
    TOOL_BUDGET = 4,   /* a budget was missed */
    TOOL_ALLOCATOR = 5 /* the allocator under test is at fault */
};

/* First of all calls: names the program and makes writing to a closed pipe an
   error (EPIPE) instead of a signal. NAME must live on. */
void tool_begin(const char *name);
/* Before an exec of another program: undoes what tool_begin did to signals. */
void tool_before_exec(void);
const char *tool_name(void);
/* Folder of the running program. false: unknown. */
bool tool_own_folder(char folder[PATH_MAX]);
/* Path of the program NAME beside the running one. false: a message is out. */
bool tool_own_program(const char *name, char path[PATH_MAX]);

/* "NAME: text" on stderr. */
void tool_error(const char *fmt, ...) TCM_PRINTF(1, 2);
/* "NAME: warning: text" on stderr. */
void tool_warn(const char *fmt, ...) TCM_PRINTF(1, 2);
/* "NAME: text (try 'NAME --help')" on stderr; returns TOOL_USAGE. */
int tool_usage_error(const char *fmt, ...) TCM_PRINTF(1, 2);

/* Flushes stdout; tool_end says what went wrong. */
void tool_flush(void);
/* Last of all calls: `return tool_end(status);` from main. Flushes stdout; when
   that, or an earlier write to it, failed, says so and returns TOOL_FAILED. */
int tool_end(int status);

/* -q was given: a program says nothing but what is wrong. */
bool tool_is_quiet(void);
void tool_be_quiet(void);
/* On standard output: the version, and which optional libraries there are. */
void tool_print_version(void);

/* A whole decimal number of at most MAX. false: it is none; no message. */
bool tool_parse_u64(const char *text, uint64_t max, uint64_t *value);
/* A time: seconds, or a number with h, m, s, ms, us or ns, or several of these
   (1m30s). Digits behind the point are allowed. */
bool tool_parse_time(const char *text, uint64_t *ns);
/* NS as tool_parse_time reads it, in the largest unit of which it is a whole
   number: "1500ms", "2s". Returns TEXT. */
const char *tool_time_text(char text[32], uint64_t ns);

/* --- Progress ------------------------------------------------------------- */

/*
 * A line on standard error that says how far reading a trace has come, if that
 * is a terminal.
 *
 * Threads: one.
 */
struct tool_progress {
    bool shown; /* it is a terminal, and -q was not given */
    uint64_t start_ns, last_ns;
    int length; /* of the line there now */
};

void tool_progress_init(struct tool_progress *p);
/* COUNT things named WHAT so far; DONE of TOTAL stored bytes, 0: unknown. Draws
   at most five times a second. */
void tool_progress_show(struct tool_progress *p, uint64_t count,
                        const char *what, uint64_t done, uint64_t total);
void tool_progress_clear(struct tool_progress *p);

#endif
