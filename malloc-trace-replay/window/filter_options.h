/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of the command line that select a part of a trace (filter.h), and the
 * ids of threads that are given by name.
 *
 * Threads: none shared.
 */
#ifndef TOOL_WINDOW_FILTER_OPTIONS_H
#define TOOL_WINDOW_FILTER_OPTIONS_H

#include "common/opts.h"

/* Threads of --only-threads: ids, and names until filter_list_resolve. */
struct filter_list {
    uint32_t *id; /* sorted, after filter_list_resolve */
    size_t ids, id_room;
    struct filter_name {
        char *text;
        bool found;
    } * name;
    size_t names, name_room;
    bool given;
};

struct filter_options {
    /* set by filter_options_check: */
    bool active; /* any option but drop_sites is given */
    bool window; /* any of the next four is given */

    uint64_t from_ns, to_ns; /* since the start of the recording; not given: 0,
                                UINT64_MAX */
    const char *from_mark, *to_mark; /* NULL: not given */
    struct filter_list only;         /* threads; empty: all */
    bool strip, drop_sites;
    unsigned at_end; /* enum filter_at_end */
    bool has_from, has_to, has_at_end;
};

enum filter_at_end { FILTER_KEEP_AT_END, FILTER_FREE_AT_END };

/* Number of rows that filter_options_rows writes. */
#define FILTER_ROWS 9u

void filter_options_init(struct filter_options *o);
void filter_options_fini(struct filter_options *o);
/* Writes FILTER_ROWS rows to ROWS: a heading, and options whose values go to
   O. */
void filter_options_rows(struct filter_options *o, struct tool_opt *rows);
/* Checks that the options of a whole command line are consistent. Returns 0, or
   an exit status after a message. */
int filter_options_check(struct filter_options *o);

/* Parses TEXT: ids and names, separated by commas. False: it is no such list,
   or no memory. */
bool filter_list_parse(struct filter_list *l, const char *text);
void filter_list_free(struct filter_list *l);
/* Tells whether thread ID is in the list; without a list all threads are. */
bool filter_list_has(const struct filter_list *l, uint32_t id);
/* Reads the raw trace NAME to find the ids of the threads that the list has by
   name. False: a message is out. */
bool filter_list_resolve(struct filter_list *l, const char *raw_name);

#endif
