/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recordings of a command and of the processes that it made, in a folder of
 * their own: one for each program that a process ran.
 *
 * Threads: none shared.
 */
#ifndef TOOL_OPEN_RECORDINGS_H
#define TOOL_OPEN_RECORDINGS_H

#include "base/compiler.h"

#include <limits.h>

struct open_recording {
    char *path;       /* the spool may be all that is left of it */
    char name[300];   /* EXECUTABLE.PID */
    uint64_t events;  /* 0: not counted */
    uint32_t pid;     /* 0: not known */
    uint64_t wall_ns; /* CLOCK_REALTIME at its start */
};

/* All 0 at first. */
struct open_recordings {
    struct open_recording *list; /* the one with most events first */
    size_t count, room;
};

/* Room for the name of a folder, escaped, and the names of recordings. */
#define OPEN_RECORDINGS_PATTERN (2 * PATH_MAX + 16)

/* Stores the name for `record -o` by which the recordings of all processes are
   found in FOLDER. */
void open_recordings_pattern(const char *folder,
                             char pattern[OPEN_RECORDINGS_PATTERN]);
/* Finds the recordings of COMMAND in FOLDER and, if there are several, counts
   their events. false: out of memory, a message was printed; the caller frees
   ALL in any case. */
bool open_recordings_find(struct open_recordings *all, const char *folder,
                          const char *command);
/* Takes away the recordings of programs in whose place their process ran
   another one later, by exec. */
void open_recordings_keep_last(struct open_recordings *all);
/* Puts the first recording that is not a shell's in front, if there is one: a
   shell may have more events than the program that it starts. */
void open_recordings_pass_shells(struct open_recordings *all);
/* Warns that the first recording is USED_FOR something, such as "compared", and
   that those FROM an index on are not. HINT: end of the message. */
void open_recordings_warn(const struct open_recordings *all, size_t from,
                          const char *used_for, const char *hint);
void open_recordings_free(struct open_recordings *all);

#endif
