/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces that report and leaks read, and the lists that change which frames
 * rows name and which leaks are left out.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_INPUT_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_INPUT_H

#include "cmd/malloc_trace/report/report_frames.h"
#include "cmd/malloc_trace/report/report_suppress.h"
#include "cmd/malloc_trace/report/report_tally.h"
#include "common/opts.h"

#include <limits.h>

enum { REPORT_INPUT_LIST = 64 }; /* values of an option, at most */

struct report_input {
    const char *const *traces;
    size_t count;
    const char *named;  /* TRACE as it was given, if there is one; or NULL */
    const char *chosen; /* of the recordings under that name */
    char chosen_room[PATH_MAX];
    const char *modules; /* folder, or NULL */
    struct report_skip skip;
    struct report_suppressions suppressions;
    /* values of --skip and --suppressions */
    struct tool_opt_list skips, files;
    const char *skip_text[REPORT_INPUT_LIST], *file[REPORT_INPUT_LIST];
    regex_t match[REPORT_INPUT_LIST];
};

/* Rows of a table of options that set *IN. RARE: of those that --help may leave
   out. */
#define REPORT_INPUT_OPTIONS(in, is_rare)                                      \
    {.name = "suppressions",                                                   \
     .rare = is_rare,                                                          \
     .value = "FILE",                                                          \
     .help = "leave out leaks that FILE suppresses, in LeakSanitizer's "       \
             "format (repeatable)",                                            \
     .list = &(in)->files},                                                    \
        REPORT_NAME_OPTIONS(in, is_rare)

/* Those of them that change which names rows have. */
#define REPORT_NAME_OPTIONS(in, is_rare)                                       \
    {.name = "skip",                                                           \
     .rare = is_rare,                                                          \
     .value = "REGEX",                                                         \
     .help = "do not name functions, files or modules that match, but "        \
             "their callers (repeatable)",                                     \
     .list = &(in)->skips},                                                    \
        {.name = "no-skip",                                                    \
         .rare = true,                                                         \
         .help = "name the innermost frame, also of a library",                \
         .flag = &(in)->skip.off},                                             \
    {                                                                          \
        .name = "modules", .rare = true, .value = "DIR",                       \
        .help = "also look in DIR for programs and libraries",                 \
        .text = &(in)->modules                                                 \
    }

/* Compiles the extended regular expression TEXT of OPTION. Returns TOOL_OK, or
   TOOL_USAGE after a message. */
int report_input_compile(const char *option, const char *text, regex_t *match);
/* Makes IN, all zero, ready for its options. */
void report_input_init(struct report_input *in);
/* Takes the operands of O as traces, a single one as open_recordings_choose
   does, and the values of the options. Returns TOOL_OK, or another enum
   tool_status after a message. IN must not move from then on. */
int report_input_take(struct report_input *in, const struct tool_opts *o);
/* Adds the traces to T. False: like report_tally_read. */
bool report_input_read(const struct report_input *in, struct report_tallies *t);
void report_input_fini(struct report_input *in);

#endif
