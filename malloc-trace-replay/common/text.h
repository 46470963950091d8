/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text and numbers for people, text from outside for a terminal, and words for
 * a shell.
 *
 * A function that formats a number writes into a buffer of the caller and
 * returns a pointer into it, so that several fit into one printf. Numbers are
 * rounded to the nearest, halves up; a value that reaches the next unit by
 * rounding is given in that unit. A report's page rounds in the same way
 * (pages/report_page.js).
 *
 * Threads: any.
 */
#ifndef TOOL_COMMON_TEXT_H
#define TOOL_COMMON_TEXT_H

#include "base/compiler.h"

#include <stdio.h>

struct tool_text {
    char s[32];
};

/* 1234567 -> "1,234,567" */
const char *tool_text_count(struct tool_text *t, uint64_t n);
/* "512 B", "1.5 KiB", "3.2 GiB" */
const char *tool_text_bytes(struct tool_text *t, uint64_t n);
/* "850 ns", "12.3 us", "4.56 ms", "7.89 s", "3 min 05 s", "2 h 07 min" */
const char *tool_text_ns(struct tool_text *t, uint64_t ns);
/* Rounds V for the functions above: 0 if V is negative or NAN, UINT64_MAX if V
   is larger. */
uint64_t tool_text_whole(double v);
/* Prints a row of a summary on stderr, NAME and N; nothing if N is 0. */
void tool_text_print_row(const char *name, uint64_t n);
/* PART of WHOLE, "12 %". WHOLE is not 0, and the share below 2^64 / 100. */
const char *tool_text_percent(struct tool_text *t, uint64_t part,
                              uint64_t whole);

/* --- Text from outside ---------------------------------------------------- */

/*
 * Names and messages that come from files or other programs reach a terminal
 * only through these functions: control characters (C0, DEL and C1) command the
 * terminal, some characters reverse the direction of the text around them, and
 * bytes that are not UTF-8 may be either. A newline would forge a line of this
 * program's output. base/fmt.h defines which characters are plain.
 */
bool tool_text_is_plain(const char *text);
/* Appends *TEXT to the USED bytes of OUT, with bytes that are not plain as \n
   or \xNN, as far as it fits into ROOM bytes, and advances *TEXT. Returns the
   new length. */
size_t tool_text_put_shown(char *out, size_t used, size_t room,
                           const char **text);
/* Returns TEXT if it is plain, else a copy with the other bytes escaped. The
   copy is valid until this thread's eighth later call; a long one is cut. */
const char *tool_text_shown(const char *text);

/* --- Lines of a terminal -------------------------------------------------- */

#define TOOL_TEXT_COLUMNS_LEAST 40u
#define TOOL_TEXT_COLUMNS_MOST  600u

struct tool_text_line {
    char s[4 * TOOL_TEXT_COLUMNS_MOST + 4];
};

/* Columns of the terminal FD, within the limits above; 80: FD is none. */
unsigned tool_text_columns(int fd);
/* Characters of TEXT, which is UTF-8. */
size_t tool_text_width(const char *text);
/* Returns TEXT, or a copy in ROOM with "..." in place of its middle if TEXT is
   longer than COLUMNS, which is 8 to TOOL_TEXT_COLUMNS_MOST. */
const char *tool_text_middle(struct tool_text_line *room, const char *text,
                             size_t columns);
/* Like tool_text_middle, but keeps the last END characters of TEXT if there are
   columns for them. */
const char *tool_text_middle_before(struct tool_text_line *room,
                                    const char *text, size_t columns,
                                    size_t end);
/*
 * Prints TEXT, parts with " < " between them, behind USED columns of a line.
 * Breaks in front of a "<" where the line would exceed COLUMNS; further lines
 * begin behind INDENT blanks. A part that is longer than a line is shortened in
 * its middle. Ends the last line.
 */
void tool_text_put_chain(FILE *f, const char *text, size_t used, size_t indent,
                         size_t columns);

/* --- Words for a shell ---------------------------------------------------- */

/* Writes TEXT in quotes, as one word. */
void tool_shell_put_quoted(FILE *f, const char *text);
/* Writes TEXT as one word, in quotes only where a shell needs them. */
void tool_shell_put_word(FILE *f, const char *text);
/* Returns the command line of PROGRAM as a shell takes it, from malloc. NULL:
   out of memory. */
char *tool_shell_command_line(const char *program, int argc, char **argv);

/* --- CSV ------------------------------------------------------------------ */

/* Writes TEXT as a field of RFC 4180: quoted, quotes doubled. */
void tool_csv_put_quoted(FILE *f, const char *text);

#endif
