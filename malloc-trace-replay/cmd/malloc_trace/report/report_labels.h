/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts of rows: what a site, or a stack, is called when rows are by function,
 * line, file and so on.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_LABELS_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_REPORT_LABELS_H

#include "cmd/malloc_trace/report/report_frames.h"
#include "cmd/malloc_trace/report/report_suppress.h"
#include "common/collections.h"
#include "symbols/symbol_names.h"

/* Meaning of the rows of a report. */
enum report_by {
    REPORT_BY_SITE,
    REPORT_BY_FUNCTION,
    REPORT_BY_LINE,
    REPORT_BY_FILE,
    REPORT_BY_MODULE,
    REPORT_BY_LANGUAGE,
    REPORT_BY_STACK,
    REPORT_BY_SIZE,
    REPORT_BY_THREAD
};

/* --- Texts ---------------------------------------------------------------- */

#define REPORT_TEXTS_NONE UINT32_MAX

/* A set of texts, numbered from 0 in order of arrival. A text keeps its address
   until report_texts_fini. All zero is empty. */
struct report_texts {
    char **text;
    size_t count, room;
    struct tool_map place; /* number plus 1, by hash */
    uint64_t seed;
};

/* The number of TEXT, which is copied if it is new. REPORT_TEXTS_NONE: out of
   memory. */
uint32_t report_texts_number(struct report_texts *t, const char *text);
void report_texts_fini(struct report_texts *t);

/* --- Labels --------------------------------------------------------------- */

/* Results of a test of stacks; 0: not tested. */
struct report_labels_memo {
    uint32_t *of_frame; /* with its callers, by index of the frame */
    uint32_t *of_name;  /* alone, by number of the name */
    size_t name_room;
};

/* Labels of sites, each made once, as numbers in TEXTS. */
struct report_labels {
    struct report_texts *texts;
    struct symbol_names *names;
    const struct tool_sites *sites;
    enum report_by by;
    struct report_frames frames;
    uint32_t *of_name; /* number of the text plus 1, by number of the name */
    size_t name_room;
    struct report_labels_memo suppressed, matching, kept, beyond, program;
    char *stack; /* text under construction */
    size_t stack_room;
};

/* SKIP: of report_frames_init. False: out of memory; L needs report_labels_fini
   all the same. */
bool report_labels_init(struct report_labels *l, struct report_texts *texts,
                        struct symbol_names *names,
                        const struct tool_sites *sites, enum report_by by,
                        const struct report_skip *skip);
void report_labels_fini(struct report_labels *l);
/* The number of the label of SITE, which names the user's frame of its stack.
   REPORT_TEXTS_NONE: out of memory. */
uint32_t report_labels_site(struct report_labels *l, uint32_t site);
/* Like report_labels_site, with all of the stack: "innermost < ... <
   outermost". */
uint32_t report_labels_stack(struct report_labels *l, uint32_t site);
/* The pattern of S for function, file or module of the innermost frame of
   SITE's stack that it has one for, or NULL. S is the same one in all calls for
   L. */
struct report_suppression *
report_labels_suppressed(struct report_labels *l,
                         const struct report_suppressions *s, uint32_t site);
/* True if the block of SITE's stack is one that libraries keep: if S has a
   pattern, *BY, for a frame of it inside of all frames of the program's own
   files, or if the stack is complete and has no frame but of runtime libraries;
   then *BY is NULL. S is the same one in all calls for L. */
bool report_labels_kept(struct report_labels *l,
                        const struct report_suppressions *s, uint32_t site,
                        struct report_suppression **by);
/* True if MATCH matches the label, the function, the file or the module of a
   frame of SITE's stack. MATCH is the same one in all calls for L. */
bool report_labels_match(struct report_labels *l, const regex_t *match,
                         uint32_t site);

/* The label of NAME, from malloc. NULL: out of memory. */
char *report_labels_name(const struct symbol_name *name, enum report_by by);

/* Replaces newlines and other control characters of TEXT by "?"; returns
   TEXT. */
char *report_labels_one_line(char *text);

#endif
