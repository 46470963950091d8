/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Temporary folders that do not outlive their program for long: one that a
 * killed program left behind is removed by the next program that makes one in
 * the same place.
 *
 * Invariants: a folder is locked from its making to its removal, or to the end
 * of the process that made it. What is not locked, and what a program records
 * to, is not in use.
 * Why flock: nobody else can open a folder of mode 0700, and a folder cannot be
 * opened for writing, as the lock of base/linux/os_file.h needs it.
 *
 * Threads: one.
 */
#ifndef TOOL_COMMON_TEMP_FOLDER_H
#define TOOL_COMMON_TEMP_FOLDER_H

#include "base/compiler.h"

#include <limits.h>

/* All 0 at first: no folder. */
struct tool_temp_folder {
    char path[PATH_MAX]; /* "": not made */
    int lock;            /* descriptor of the folder */
};

/* Returns the place of temporary files: TMPDIR if it is absolute, writable, and
   short enough for a name of 300 bytes in it; else /tmp. */
const char *tool_temp_place(void);

/* Makes an empty folder of this program's own in tool_temp_place. false: no
   folder, a message was printed. */
bool tool_temp_folder_make(struct tool_temp_folder *f);
/* Removes the folder and the files in it, if it was made. */
void tool_temp_folder_remove(struct tool_temp_folder *f);

#endif
