/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Known settings of known allocators: the values that are worth a try, the
 * range and the steps of a search, and the versions that have them.
 *
 * Threads: any; the table is constant.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_SETTINGS_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_SETTINGS_H

#include "cmd/malloc_trace/compare/compare_contestants.h"

enum compare_setting_kind {
    SETTING_NUMBER,
    SETTING_SIZE,   /* bytes */
    SETTING_TIME,   /* milliseconds */
    SETTING_SWITCH, /* on or off */
    SETTING_WORD    /* one of the values */
};

struct compare_setting {
    const char *allocator;
    const char *setting; /* VARIABLE= and what precedes a value */
    enum compare_setting_kind kind;
    const char *values; /* worth a try, separated by commas, without the
                           default; of switches and words all others */
    const char *unset;  /* the default; "": it changes in the course of a run */
    /* numbers, sizes and times between which a search moves by the factor STEP;
       values outside, such as -1 for never, are taken as they are */
    int64_t low, high;
    unsigned step;
    /* the first version that has it, and the first that has it no longer, as
       MAJOR * 100 + MINOR; 0: all have it */
    unsigned from, below;
    const char *meaning;
    const char *call; /* the setting in C, with $ for the value; NULL: none */
};

/* The table, with *COUNT rows; those of an allocator stand together. */
const struct compare_setting *compare_settings(size_t *count);

/* Version of the known allocator NAME in the file LIBRARY ("": the C library),
   as MAJOR * 100 + MINOR; 0: it is unknown. */
unsigned compare_settings_version(const char *name, const char *library);
/* Tells whether VERSION has the setting; one that is unknown has all. */
bool compare_setting_is_in(const struct compare_setting *s, unsigned version);

/* --sweep-known NAME: adds the known allocator NAME if it is missing, and a
   contestant for each value of the settings that its version has. false: a
   message was printed. */
bool compare_settings_add(struct compare_contestants *all, const char *name);

/* Meaning of a setting, VARIABLE=VALUE; NULL: it is not known. */
const char *compare_settings_meaning(const char *variable);

/* Prints the table. */
void compare_settings_print(FILE *out);

#endif
