/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A comparison as text, JSON, CSV and HTML page. All functions need
 * compare_verdict_prepare; false: a message was printed.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PRINT_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_PRINT_H

#include "cmd/malloc_trace/compare/compare_model.h"

#include "common/json.h"

#include <stdio.h>

/* Prints the recommendation, the verdict in words, the ranked tables, and what
   disturbed. */
bool compare_print(const struct comparison *c, FILE *out);
/* Prints the recommendation and the words alone: sentences, each with a
   newline. */
bool compare_print_words(const struct comparison *c, FILE *out);
/* Prints contestants of which no other takes less time and less memory, with
   their settings as words for a shell. */
bool compare_print_frontier(const struct comparison *c, FILE *out);
/* Prints a line for each trace whose replays write more memory than the
   recorded process had, or lack what it had before the recording. */
void compare_print_untouched(const struct comparison *c, FILE *out);
/* Prints what was compared, and the lines above. */
void compare_print_head(const struct comparison *c, FILE *out);

/* Reservation about the clock of all replays; NULL: there is none. */
const char *compare_note_clocks(const struct comparison *c);
/* Lines with a reservation about all figures, which may be in TEXT; NULL: there
   is none. */
const char *compare_note(const struct comparison *c, char text[400]);
/* Says in TEXT that contestant I reads a clock of its own. false: it does
   not. */
bool compare_note_own_clock(const struct comparison *c, size_t i,
                            char text[400]);
/* Mean memory times recorded time, with its unit; "": unknown. */
const char *compare_gb_hours_text(const struct comparison *c, size_t contestant,
                                  char text[32]);
/* A figure with its unit. */
const char *compare_figure_text(char text[32], enum compare_metric m,
                                double value);
const char *compare_ratio_text(char text[16], double ratio);

bool compare_json(const struct comparison *c, const char *path);
/* Writes the JSON as a part of another document. */
bool compare_json_put(const struct comparison *c, const char *key,
                      struct tool_json *j);
/* Writes a row for each run. */
bool compare_csv(const struct comparison *c, const char *path);
/* Writes a page for people (pages/page.h). */
bool compare_page_write(const struct comparison *c, const char *path);

#endif
