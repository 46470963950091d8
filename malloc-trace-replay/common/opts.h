/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command lines: one table of a program's options parses them, prints --help,
 * and makes the messages about wrong values.
 *
 * A row's destination tells the type of the option. All wrong values have one
 * form of message: --NAME: "VALUE" is not (what is allowed).
 *
 * Invariants: nothing here allocates.
 * Threads: the main thread only.
 */
#ifndef TOOL_COMMON_OPTS_H
#define TOOL_COMMON_OPTS_H

#include "base/compiler.h"

/* Values of an option that may be repeated. */
struct tool_opt_list {
    const char **at; /* array of ROOM values, which the caller owns */
    size_t count, room;
};

/*
 * Row of the table:
 * - with a letter or a name, and one destination: an option, which --help omits
 *   if HELP is NULL;
 * - with VALUE, but no letter or name: an operand that --help explains;
 * - with HELP only: a heading of --help.
 * The last row is {0}.
 */
struct tool_opt {
    char letter;
    const char *name;    /* without the dashes; abbreviations are errors */
    const char *value;   /* such as "FILE"; NULL: the option takes no value */
    const char *help;    /* wrapped into lines when it is printed */
    bool value_optional; /* --NAME or --NAME=VALUE, never --NAME VALUE */
    bool rare;           /* --help leaves it out, --help-all prints it */

    bool *flag;        /* true if given; the only destination without VALUE */
    const char **text; /* points into ARGV; NULL: given without a value */
    uint64_t *count;   /* whole decimal number from LEAST to MOST */
    uint64_t *bytes;   /* size (tool_parse_bytes) from LEAST to MOST */
    uint64_t *ns;      /* time (tool_parse_time) from LEAST to MOST */
    uint64_t least, most; /* MOST 0: no limit */
    double *number;       /* from LOW to HIGH */
    double low, high;
    double *ratio; /* "2%" or "0.02", between 0 and 1 */
    /* Allowed values of WORD, TEXT or LIST, up to NULL. */
    const char *const *words;
    unsigned *word; /* index into WORDS */
    struct tool_opt_list *list;
    /* Takes a value (NULL: given without one). false: it is not what EXPECTS
       describes, or, with EXPECTS NULL, a message was printed. */
    bool (*take)(void *ctx, const char *value);
    void *ctx;
    const char *expects; /* such as "a list of names" */
    bool *given;         /* also set to true; may be NULL */
};

struct tool_command {
    const char *usage; /* lines of the synopsis, without "Usage: " */
    const char *about; /* wrapped */
    const struct tool_opt *opts;
    const char *notes;    /* below the options, wrapped; may be NULL */
    const char *quiet;    /* help of --quiet; NULL: the usual text */
    bool stop_at_operand; /* words after the first operand are operands */
};

struct tool_opts {
    char **operand; /* ARGV + 1, where the operands are moved to */
    int operand_count;
    int status; /* exit status if tool_opts_parse returned false */
};

/*
 * Parses a command line. -h, --help, -V, --version, -q and --quiet need no row.
 * Options may follow operands; "--" ends the options. false: the program must
 * exit with O->status; all messages were printed.
 */
bool tool_opts_parse(struct tool_opts *o, const struct tool_command *c,
                     int argc, char **argv);
/* Tells whether "--" stands between options and operands. */
bool tool_opts_has_dashes(int argc, char **argv);

#endif
