/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads of a trace as a filter sees them: which are asked for, and what
 * of each is in the output.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_POSTPROCESS_WINDOW_THREADS_H
#define TOOL_CMD_POSTPROCESS_WINDOW_THREADS_H
#include "common/hash.h"

/* What --only-threads names: ids, and names until filter_names_resolve. */
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

/* TEXT: ids and names, separated by commas. False: it is none, or no memory. */
bool filter_list_parse(struct filter_list *l, const char *text);
void filter_list_free(struct filter_list *l);
/* Whether ID is asked for; all are when no list is given. */
bool filter_list_has(const struct filter_list *l, uint32_t id);
/* Reads the raw trace NAME for the ids of the threads with the names of the
   list. False: a message is out. */
bool filter_list_resolve(struct filter_list *l, const char *raw_name);

struct filter_thread {
    uint32_t id;
    uint32_t kernel_id;
    bool has_start; /* THREAD_START was read */
    bool start_written, ended, end_written, counted;
    uint16_t name_length;
    char *name; /* of one that ended before the window */
};

struct filter_threads {
    struct filter_thread *thread; /* by first appearance */
    struct tool_ids ids;
};

/* The thread of ID, made if need be. NULL: no memory. Moves the others. */
struct filter_thread *filter_threads_get(struct filter_threads *t, uint32_t id);
void filter_threads_free(struct filter_threads *t);

#endif
