/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The space of a search: allocators, each with the settings that its version
 * has, and points in it, an allocator with values of some of its settings.
 *
 * Invariants: values of settings that a point does not set are 0, so that equal
 * points have equal bytes; no point sets a default value.
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_TUNE_TUNE_SPACE_H
#define TOOL_CMD_MALLOC_TRACE_TUNE_TUNE_SPACE_H

#include "common/allocator_settings.h"

enum {
    TUNE_MOST_DIMENSIONS = 24, /* settings of an allocator */
    TUNE_MOST_VALUES = 12,     /* of a setting, worth a try */
    TUNE_MOST_NEIGHBOURS = 8,
    TUNE_TEXT = 160, /* room for VARIABLE=VALUE */
    TUNE_NAME = 1024
};

/* A setting, and its values worth a try in ascending order: numbers, or of
   words and switches places in the list of the table, behind which the table's
   default stands: a library may have another one. */
struct tune_dimension {
    const struct tool_setting *setting;
    const char *unset; /* the library's default; "": not known, or it changes */
    int64_t value[TUNE_MOST_VALUES];
    unsigned values;
};

struct tune_allocator {
    const char *name; /* the contestant's, which outlives the space */
    struct tune_dimension dimension[TUNE_MOST_DIMENSIONS];
    unsigned dimensions;
};

struct tune_space {
    struct tune_allocator *allocator;
    size_t allocators, room;
};

struct tune_point {
    uint32_t allocator;
    uint32_t set; /* bit I: dimension I has value[I] */
    int64_t value[TUNE_MOST_DIMENSIONS];
};

/* A library whose settings are wanted: its name in the table (NULL: none), what
   it calls itself, with its version, and what it says of its settings, which
   outlives the space. */
struct tune_library {
    const char *known;
    const char *version;
    char *const *told;
    size_t tolds;
};

/* Adds the allocator NAME with those rows of TABLE, COUNT of them, that LIBRARY
   has. false: out of memory, a message was printed. */
bool tune_space_add(struct tune_space *space, const char *name,
                    const struct tune_library *library,
                    const struct tool_setting *table, size_t count);
void tune_space_free(struct tune_space *space);

/* Prints the settings of A: default, values worth a try, and meaning. */
void tune_space_print(const struct tune_allocator *a, FILE *out);

/* Puts values that lie beside P's in dimension D, and are not the default, into
   OUT: the next ones in the list, and one step up and down. */
unsigned tune_space_neighbours(const struct tune_space *space,
                               const struct tune_point *p, unsigned d,
                               int64_t out[TUNE_MOST_NEIGHBOURS]);

void tune_point_set(struct tune_point *p, unsigned d, int64_t value);
void tune_point_unset(struct tune_point *p, unsigned d);
static inline bool tune_point_has(const struct tune_point *p, unsigned d) {
    return (p->set >> d & 1) != 0;
}

/* Writes the value of dimension D. */
const char *tune_point_value(const struct tune_space *space,
                             const struct tune_point *p, unsigned d,
                             char text[TUNE_TEXT]);
/* Writes VARIABLE=VALUE of dimension D. */
const char *tune_point_setting(const struct tune_space *space,
                               const struct tune_point *p, unsigned d,
                               char text[TUNE_TEXT]);
/* Writes the allocator and the settings, without the part of variables that
   all of them share: "jemalloc,narenas:1". */
const char *tune_point_name(const struct tune_space *space,
                            const struct tune_point *p, char name[TUNE_NAME]);

#endif
