/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of postprocess that make a filter, from the command line.
 */
#ifndef TOOL_CMD_POSTPROCESS_WINDOW_OPTIONS_H
#define TOOL_CMD_POSTPROCESS_WINDOW_OPTIONS_H
#include "cmd/postprocess/window/filter.h"

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

#endif
