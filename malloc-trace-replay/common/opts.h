/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of a program: one table of its options, from which they are
 * read, --help is printed, and messages about wrong values are made.
 *
 * A row's destination says of which type the option is. Each wrong value has
 * the same message: --NAME: "VALUE" is not WHAT IS ALLOWED.
 *
 * Invariants: nothing here allocates.
 * Threads: the main thread alone.
 */
#ifndef TOOL_COMMON_OPTS_H
#define TOOL_COMMON_OPTS_H

#include "base/compiler.h"

/* Values of an option that may be repeated. */
struct tool_opt_list {
    const char **at; /* ROOM of them, the caller's */
    size_t count, room;
};

/*
 * A row of the table:
 * - an option, with a letter or a name and one destination, if HELP is NULL not
 *   shown by --help;
 * - without letter and name, but with VALUE: an operand that --help explains;
 * - with HELP alone: a heading of --help.
 * The last row is {0}.
 */
struct tool_opt {
    char letter;
    const char *name;    /* without the dashes; abbreviations are not taken */
    const char *value;   /* "FILE"; NULL: the option takes none */
    const char *help;    /* wrapped into lines when it is printed */
    bool value_optional; /* --NAME or --NAME=VALUE, never --NAME VALUE */

    bool *flag;        /* true if given; the only one without VALUE */
    const char **text; /* the words of ARGV themselves; NULL: without a value */
    uint64_t *count;   /* a whole decimal number from LEAST to MOST */
    uint64_t *ns;      /* a time (tool_parse_time) from LEAST to MOST */
    uint64_t least, most; /* MOST 0: no limit */
    double *number;       /* from LOW to HIGH */
    double low, high;
    double *ratio; /* "2%" or "0.02", between 0 and 1 */
    /* Allowed values, up to NULL, of a WORD or a TEXT. */
    const char *const *words;
    unsigned *word; /* index into WORDS */
    struct tool_opt_list *list;
    /* Takes a value (NULL: given without). false: it is not what EXPECTS says,
       or, with EXPECTS NULL, a message is out. */
    bool (*take)(void *ctx, const char *value);
    void *ctx;
    const char *expects; /* "a list of names" */
    bool *given;         /* also set, if not NULL */
};

struct tool_command {
    const char *usage; /* lines of the synopsis, without "Usage: " */
    const char *about; /* wrapped */
    const struct tool_opt *opts;
    const char *notes; /* below the options, wrapped; NULL: none */
    const char *quiet; /* of --quiet; NULL: prints nothing but what is wrong */
    bool stop_at_operand; /* words after the first operand are operands */
};

struct tool_opts {
    char **operand; /* gathered at the front of ARGV, from 1 */
    int operand_count;
    int status; /* to exit with if tool_opts_parse returned false */
};

/*
 * Reads a command line. -h, --help, -V, --version, -q and --quiet are known by
 * themselves. Options may stand behind operands; "--" ends the options.
 * false: the program has to exit with O->status; what there is to say is said.
 */
bool tool_opts_parse(struct tool_opts *o, const struct tool_command *c,
                     int argc, char **argv);

#endif
