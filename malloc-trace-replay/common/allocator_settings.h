/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings of known allocators that the environment makes: the values that are
 * worth a try, the range and the steps of a search, and the versions that have
 * them. What a library says of its own settings goes before the table.
 *
 * Threads: any; the table is constant.
 */
#ifndef TOOL_COMMON_ALLOCATOR_SETTINGS_H
#define TOOL_COMMON_ALLOCATOR_SETTINGS_H

#include "base/compiler.h"

#include <stdio.h>

enum tool_setting_kind {
    SETTING_NUMBER,
    SETTING_SIZE,   /* bytes */
    SETTING_TIME,   /* milliseconds */
    SETTING_SWITCH, /* on or off */
    SETTING_WORD    /* one of the values */
};

struct tool_setting {
    const char *allocator;
    const char *setting; /* VARIABLE= and what precedes a value */
    enum tool_setting_kind kind;
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
const struct tool_setting *tool_settings(size_t *count);

/* MAJOR * 100 + MINOR of a version that ends a text, as "jemalloc 5.3.0"; 0:
   there is none. */
unsigned tool_setting_version(const char *text);
/* Tells whether VERSION has the setting; one that is unknown has all. */
bool tool_setting_is_in(const struct tool_setting *s, unsigned version);

/* Returns the value of a setting in TOLD, COUNT texts of what a library says of
   its settings: each SETTING and the value, or nothing behind it where the
   library has no such setting. NULL: nothing is said of S. */
const char *tool_setting_told(const struct tool_setting *s, char *const *told,
                              size_t count);

/* Meaning of a setting, VARIABLE=VALUE; NULL: it is not known. */
const char *tool_setting_meaning(const char *variable);

#endif
