/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is compared: allocators, each with the environment that sets it up.
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
    char *why;  /* it takes no part; NULL: it does */
    bool wraps; /* it hands its requests on to the C library's malloc */
    bool rests; /* it was left out of later rounds, as others were better */
    /* runs that gave no figures, and why the first did not */
    uint64_t failures;
    char *failure;
    /* what LD_PRELOAD gets, and the link behind it, made at need */
    char preload[PATH_MAX], link[PATH_MAX];
};

struct compare_contestants {
    struct compare_contestant *list;
    size_t count, room;
};

/*
 * -a TEXT: NAME=LIBRARY[,VARIABLE=VALUE...], or NAME[,VARIABLE=VALUE...] of a
 * known allocator. LIBRARY is a path or a file that is looked for where
 * libraries are. A piece without a variable's name belongs to the value before
 * it, so that a value may have commas. A library that is not there makes a
 * contestant with a `why`. false: TEXT makes no sense, a message is out.
 */
bool compare_contestants_add(struct compare_contestants *all, const char *text);

/* The C library, this project's library, and every known allocator that is
   there. false: out of memory, a message is out. */
bool compare_contestants_add_known(struct compare_contestants *all);

/* --sweep TEXT, VARIABLE=VALUE,VALUE...: every contestant becomes as many as
   there are values, each with the variable set to one of them. A variable that
   is set already is a list of settings, which gets one more. What the first
   value has up to a colon or an equals sign the others may leave out. false: as
   above. */
bool compare_contestants_sweep(struct compare_contestants *all,
                               const char *text);

/* One more, as number FROM but for SETTING (VARIABLE=VALUE) of LENGTH bytes,
   which its name tells. */
bool compare_contestants_add_variant(struct compare_contestants *all,
                                     size_t from, const char *setting,
                                     size_t length);

/* The index of NAME, or SIZE_MAX. */
size_t compare_contestants_find(const struct compare_contestants *all,
                                const char *name);

/* Tells whether both have the same file name of a library and the same
   variables: on several machines a library may lie in several folders. */
bool compare_contestants_are_alike(const struct compare_contestant *a,
                                   const struct compare_contestant *b);

/* Tells whether the thread caches of this library can be switched: it is this
   project's. */
bool compare_contestant_is_own(const struct compare_contestant *c);

/* C's name as it may go to a terminal. */
const char *compare_contestant_shown(const struct compare_contestant *c);

/* C takes no part because of... The first reason stays. */
void compare_contestant_out(struct compare_contestant *c, const char *fmt, ...)
    TCM_PRINTF(2, 3);
void compare_contestant_failed(struct compare_contestant *c, const char *why);

/* For plans: one more with this library, and VARIABLE=VALUE for it. false: as
   above. */
bool compare_contestants_add_plain(struct compare_contestants *all,
                                   const char *name, const char *library);
bool compare_contestant_set(struct compare_contestant *c, const char *setting);

/* Before anything is run under C. false: a message is out. */
bool compare_contestant_prepare(struct compare_contestant *c);

/*
 * Runs WHAT to its end in the environment of C: LD_PRELOAD and C's variables.
 * KEEP_PRELOAD, for programs of others: libraries that were preloaded before
 * stay behind C's, and the C library is put before an allocator that the
 * program is linked with. LIMIT_NS and the result are those of tool_child_run.
 */
bool compare_contestant_run(const struct compare_contestant *c,
                            bool keep_preload,
                            const struct tool_child_spec *what,
                            uint64_t limit_ns, struct tool_child_end *end);

void compare_contestants_free(struct compare_contestants *all);

/* --sweep-known NAME: adds the known allocator NAME if it is not there, and one
   contestant for each value of each of its settings. false: a message is
   out. */
bool compare_settings_add(struct compare_contestants *all, const char *name);

/* Meaning of the setting of a contestant's variable, or NULL. */
const char *compare_settings_meaning(const char *variable);

/* The table of all of them. */
void compare_settings_print(FILE *out);

#endif
