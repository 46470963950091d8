/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contestants: allocators, each with the environment that sets it up.
 *
 * Invariants: names are unique; an environment has each variable once.
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_CONTESTANTS_H
#define TOOL_CMD_MALLOC_TRACE_COMPARE_COMPARE_CONTESTANTS_H

#include "common/child.h"

#include <limits.h>
#include <stdio.h>

struct compare_contestant {
    char *name;
    char *library; /* absolute; "": the C library */
    char **env;    /* NAME=VALUE */
    size_t envs;
    char *why; /* it takes no part, for this reason; NULL: it takes part */
    /* from compare_run_check_contestants: the allocator that the library is by
       its functions (NULL: none that is known), what it calls itself, as
       "jemalloc 5.3.0" ("": unknown), and what it says of its settings, for
       tool_setting_told */
    char *is;
    char version[64];
    char **told;
    size_t tolds;
    bool wraps;        /* its requests end in the C library's malloc */
    uint64_t failures; /* runs that gave no figures */
    char *failure;     /* reason of the first of them */
    /* value of LD_PRELOAD, and the link it goes through, made when needed */
    char preload[PATH_MAX], link[PATH_MAX];
};

struct compare_contestants {
    struct compare_contestant *list;
    size_t count, room;
};

/* --- The list ------------------------------------------------------------- */

/*
 * -a TEXT: NAME=LIBRARY[,VARIABLE=VALUE...], or NAME[,VARIABLE=VALUE...] of a
 * known allocator. LIBRARY is a path, or a file name that is searched for where
 * libraries are. A piece without a variable's name belongs to the value before
 * it, so that a value may have commas. A library that does not exist makes a
 * contestant with a `why`. false: TEXT is wrong, a message was printed.
 */
bool compare_contestants_add(struct compare_contestants *all, const char *text);
/* Adds the value of an option -a to CTX, the contestants. */
bool compare_contestants_take(void *ctx, const char *text);

/* Adds the C library, this project's library, and every known allocator that is
   installed. false: out of memory, a message was printed. */
bool compare_contestants_add_known(struct compare_contestants *all);

/*
 * --sweep TEXT, VARIABLE=VALUE,VALUE...: every contestant becomes one for each
 * value, which the variable is set to. A variable that is set already is a list
 * of settings, which gets one more. The text of the first value up to a colon
 * or an equals sign may be missing in the others. false: TEXT is wrong, a
 * message was printed.
 */
bool compare_contestants_sweep(struct compare_contestants *all,
                               const char *text);

/* For plans: adds NAME with LIBRARY and no environment. */
bool compare_contestants_add_plain(struct compare_contestants *all,
                                   const char *name, const char *library);

/* The index of NAME, or of the contestant that has this name in older versions;
   SIZE_MAX: none. */
size_t compare_contestants_find(const struct compare_contestants *all,
                                const char *name);
/* Number of contestants that take part. */
size_t compare_contestants_taking_part(const struct compare_contestants *all);
void compare_contestants_free(struct compare_contestants *all);

/* --- One contestant ------------------------------------------------------- */

/* Tells whether NAME is C's, also as older versions write it: they call this
   project's allocator malloc-trace. */
bool compare_contestant_is_named(const struct compare_contestant *c,
                                 const char *name);

/* Tells whether both have the same file name of a library and the same
   variables: on several machines a library may lie in different folders. */
bool compare_contestant_is_like(const struct compare_contestant *a,
                                const struct compare_contestant *b);

/* Tells whether this is a library of this project, whose thread caches can be
   switched. */
bool compare_contestant_is_own(const struct compare_contestant *c);

/* Name of C's allocator in the table of settings: by the contestant's name,
   the file's, or the library's functions. NULL: it is not in the table. */
const char *compare_contestant_known(const struct compare_contestant *c);

/* C's name as it may go to a terminal. */
const char *compare_contestant_shown(const struct compare_contestant *c);

/* Writes words for a shell that set C up, each with a blank behind. */
void compare_contestant_put_environment(const struct compare_contestant *c,
                                        FILE *out);

/* Takes C out of the comparison for a reason; the first reason stays. */
void compare_contestant_exclude(struct compare_contestant *c, const char *fmt,
                                ...) TCM_PRINTF(2, 3);
/* Counts a run of C that gave no figures because of WHY. */
void compare_contestant_failed(struct compare_contestant *c, const char *why);

/* For plans: sets VARIABLE=VALUE in C's environment. */
bool compare_contestant_set(struct compare_contestant *c, const char *setting);

/* To be called before a program runs under C. false: a message was printed. */
bool compare_contestant_prepare(struct compare_contestant *c);

/* Environment of a contestant, for a child. */
struct compare_contestant_environment {
    const struct compare_contestant *of;
    bool keep_preload; /* as of compare_contestant_run */
};
/* Sets the environment CTX points to; a tool_child_spec's `prepare`. */
bool compare_contestant_enter(void *ctx);

/*
 * Runs SPEC to its end in the environment of C: LD_PRELOAD and C's variables.
 * KEEP_PRELOAD, for programs of others: libraries that were preloaded before
 * stay behind C's, and the C library is put before an allocator that the
 * program is linked with. LIMIT_NS and the result are those of tool_child_run.
 */
bool compare_contestant_run(const struct compare_contestant *c,
                            bool keep_preload,
                            const struct tool_child_spec *spec,
                            uint64_t limit_ns, struct tool_child_end *end);

#endif
