/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of postprocess that make a filter, from the command line, and
 * which threads the names in them mean.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_POSTPROCESS_WINDOW_OPTIONS_H
#define TOOL_CMD_POSTPROCESS_WINDOW_OPTIONS_H

#include "base/compiler.h"

/* What --only-threads names: ids, and names until filter_list_resolve. */
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
    bool active;             /* any of those below */
    bool window;             /* any of the four that follow is given */
    uint64_t from_ns, to_ns; /* from the start of the recording; 0, UINT64_MAX:
                                not given */
    const char *from_mark, *to_mark; /* NULL: not given */
    struct filter_list only;         /* threads; empty: all */
    bool strip, drop_sites, free_at_end;
};

enum filter_option {
    FILTER_OPTION_FIRST = 16, /* other options have smaller numbers */
    FILTER_OPTION_FROM = FILTER_OPTION_FIRST,
    FILTER_OPTION_TO,
    FILTER_OPTION_FROM_MARK,
    FILTER_OPTION_TO_MARK,
    FILTER_OPTION_ONLY_THREADS,
    FILTER_OPTION_STRIP,
    FILTER_OPTION_DROP_SITES,
    FILTER_OPTION_LIVE_AT_END
};

void filter_options_init(struct filter_options *o);
void filter_options_fini(struct filter_options *o);
/* Takes an option. 0, or an exit status: a message is out. */
int filter_options_take(struct filter_options *o, int id, const char *value);
/* After the last: whether they go together. */
int filter_options_check(const struct filter_options *o);

/* TEXT: ids and names, separated by commas. False: it is none, or no memory. */
bool filter_list_parse(struct filter_list *l, const char *text);
void filter_list_free(struct filter_list *l);
/* Whether ID is asked for; all are when no list is given. */
bool filter_list_has(const struct filter_list *l, uint32_t id);
/* Reads the raw trace NAME for the ids of the threads with the names of the
   list. False: a message is out. */
bool filter_list_resolve(struct filter_list *l, const char *raw_name);

#endif
