/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text and numbers as people read them. Each function of a number writes into a
 * buffer that the caller gives and returns it, so that several fit into one
 * printf. What is left out rounds to the nearest, a half upwards, into the next
 * unit if it gets there; so does a report's page
 * (pages/report_page.js).
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
/* V to the nearest, for the functions above: 0 below that, and what fits. */
uint64_t tool_text_whole(double v);
/* "12 %"; WHOLE not 0, and the share below 2^64 / 100 */
const char *tool_text_percent(struct tool_text *t, uint64_t part,
                              uint64_t whole);

/* --- Text of others ------------------------------------------------------- */

/*
 * Names and messages in files, and of other programs, go to a terminal by these
 * functions alone: control characters (C0, DEL and C1) command it, some
 * characters turn the direction of the text around them, and bytes that are no
 * UTF-8 may be either. A newline would make a line that this program did not
 * write. base/utf8.h says which characters these are.
 */
bool tool_text_is_plain(const char *text);
/* Room for a byte that may not be shown, as \n or \xNN. */
struct tool_text_byte {
    char s[5];
};
const char *tool_text_escape(struct tool_text_byte *room, char byte);
/* TEXT itself if it is plain; else a copy with such bytes escaped, which stays
   until the eighth next call in this thread. A copy of long text is cut. */
const char *tool_text_shown(const char *text);

/* --- Words for the shell -------------------------------------------------- */

/* TEXT in quotes, as one word. */
void shell_put_quoted(FILE *f, const char *text);
/* The same, without quotes where none are needed. */
void shell_put_word(FILE *f, const char *text);

#endif
