/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of postprocess that make a filter, from the command line, and
 * which threads the names in them mean.
 *
 * Threads: none shared.
 */
#ifndef TOOL_WINDOW_FILTER_OPTIONS_H
#define TOOL_WINDOW_FILTER_OPTIONS_H

#include "common/opts.h"

/* Threads that --only-threads names: ids, and names until filter_list_resolve.
   */
struct filter_list {
    uint32_t *id; /* sorted once all are known */
    size_t ids, id_room;
    struct filter_name {
        char *text;
        bool found;
    } * name;
    size_t names, name_room;
    bool given;
};

struct filter_options {
    bool active; /* any option but drop_sites; window and active are set by
                    filter_options_check */
    bool window; /* any of the four that follow is given */
    uint64_t from_ns, to_ns; /* from the start of the recording; 0, UINT64_MAX:
                                not given */
    const char *from_mark, *to_mark; /* NULL: not given */
    struct filter_list only;         /* threads; empty: all */
    bool strip, drop_sites;
    unsigned at_end; /* enum filter_at_end */
    bool has_from, has_to, has_at_end;
};

enum filter_at_end { FILTER_KEEP_AT_END, FILTER_FREE_AT_END };

/* Rows of filter_options_rows. */
#define FILTER_ROWS 9u

void filter_options_init(struct filter_options *o);
void filter_options_fini(struct filter_options *o);
/* Writes the rows of the options, under a heading, to ROWS, for values in O. */
void filter_options_rows(struct filter_options *o, struct tool_opt *rows);
/* After the last: whether they go together. 0, or an exit status: a message is
   out. */
int filter_options_check(struct filter_options *o);

/* TEXT: ids and names, separated by commas. False: it is none, or no memory. */
bool filter_list_parse(struct filter_list *l, const char *text);
void filter_list_free(struct filter_list *l);
/* Tells whether ID is asked for; all are when no list is given. */
bool filter_list_has(const struct filter_list *l, uint32_t id);
/* Reads the raw trace NAME for the ids of the threads with the names of the
   list. False: a message is out. */
bool filter_list_resolve(struct filter_list *l, const char *raw_name);

#endif
