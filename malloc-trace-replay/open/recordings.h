/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recordings that belong together: those of a command and of the processes that
 * it made, in a folder of their own; and those of the programs that one process
 * ran one after the other, by exec, under a name with numbers behind it.
 *
 * Threads: none shared.
 */
#ifndef TOOL_OPEN_RECORDINGS_H
#define TOOL_OPEN_RECORDINGS_H

#include "base/compiler.h"

#include <limits.h>

struct open_recording {
    char *path;     /* the spool may be all that is left of it */
    char name[300]; /* EXECUTABLE.PID */
    bool counted;   /* EVENTS and CLEAN_END are known */
    bool clean_end; /* the recording came to an end before its process, or its
                         program, did */
    uint64_t events;
    uint64_t stored;  /* bytes of its files; 0: not known */
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
   their events. Warns if a process still runs. false: out of memory, a message
   was printed; the caller frees ALL in any case. */
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

/*
 * Chooses the recording that a user means by NAME. Where a wrapper, such as a
 * shim, env or a shell, ran another program in its place, the recorder left
 * NAME, NAME.1, NAME.2 and so on. The one with most events is chosen, with a
 * warning that names it and the others; it has most stored bytes if they are
 * too large to be counted. A recording belongs to NAME if the traces say that
 * it is of the same process and later, and NAME has no end of its own; another
 * one is never chosen, but a warning names it if it may be of the same run.
 * NAME.0, if there is no such file, stands for NAME itself.
 *
 * Returns NAME, or the chosen name in ROOM. NAME may be anything that a trace
 * is read from, and is only opened if it is a file or not there.
 */
const char *open_recordings_choose(const char *name, char room[PATH_MAX]);

/* Takes away each NAME.spool of the COUNT names for which NAME is there as well
   and is read with it: as "report app.*" has them. Returns the new count. */
int open_recordings_join_spools(char **name, int count);

#endif
