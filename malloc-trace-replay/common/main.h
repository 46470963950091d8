/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every program shares: its name in messages, exit statuses, options,
 * --help and --version.
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

#define TOOL_OPTIONAL 2u

/* One option. A table of them ends with {NULL, 0, 0, 0}. */
struct tool_option {
    const char *name; /* without the dashes; abbreviations are not taken */
    char letter;      /* the short form, or 0 */
    /* true: --name=VALUE, --name VALUE, -lVALUE or -l VALUE; or
       TOOL_OPTIONAL: --name=VALUE, or without one */
    uint8_t has_value;
    int id; /* what tool_option_next returns, above 0 */
};

/*
 * Walks the options. -h, --help, -V, --version, -q and --quiet are known by
 * themselves unless the table has them. Usage:
 *
 *     struct tool_options o;
 *     int id;
 *     tool_options_init(&o, argc, argv, table, help_text);
 *     while ((id = tool_option_next(&o)) > 0)
 *         switch (id) { case OPT_JSON: json = o.value; break; }
 *     if (id < 0)
 *         return tool_end(o.status);
 *     o.operand[0 .. o.operand_count - 1] ...
 *
 * Operands are gathered at the front of ARGV (from 1); options may stand
 * after them unless stop_at_operand is set. "--" ends the options.
 */
struct tool_options {
    int argc;
    char **argv;
    const struct tool_option *table;
    const char *help;
    bool stop_at_operand;
    const char *value; /* of the option just returned; NULL: without one */
    int status;        /* to exit with when tool_option_next returned -1 */
    char **operand;    /* complete when tool_option_next returned 0 */
    int operand_count;
    int next;            /* index of the next word to look at */
    const char *letters; /* rest of a word of short options */
};

void tool_options_init(struct tool_options *o, int argc, char **argv,
                       const struct tool_option *table, const char *help);

/* The id of the next option; 0 at the end; -1 when the program has to exit
   with o->status (help, version, a bad option: the message is out). */
int tool_option_next(struct tool_options *o);

/* -q was given: a program says nothing but what is wrong. */
bool tool_is_quiet(void);

/* A whole decimal number of at most MAX. false: it is none; no message. */
bool tool_parse_u64(const char *text, uint64_t max, uint64_t *value);
/* A time: seconds, or a number with h, m, s, ms, us or ns, or several of these
   (1m30s). Digits behind the point are allowed. */
bool tool_parse_time(const char *text, uint64_t *ns);

#endif
