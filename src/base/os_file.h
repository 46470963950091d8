/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files in folders that others may write to: names that lead where their user
 * means, and a lock that is worth something.
 *
 * A name is foreign if another user may have put it where it is: it is neither
 * ours nor the system's (user 0, or whose the root folder is), and its folder
 * is not theirs either or may be written to by others. A foreign link is not
 * followed, wherever in a path it stands, and what is no regular file is not
 * opened under a foreign name. That is what the kernel does in sticky folders
 * if it is set up so (protected_symlinks), and more: folders of other users,
 * and links in the middle of a path, which it follows.
 *
 * The lock is a write lock on the whole file, of the open file and not of the
 * process: it lasts as long as a descriptor or mapping of it. Why not flock:
 * that needs no right to write, so whoever may read a file could pass for who
 * writes it.
 *
 * Threads: any. errno tells of failures.
 */
#ifndef TCM_BASE_OS_FILE_H
#define TCM_BASE_OS_FILE_H

#include "base/compiler.h"

/* Locks the file for writing. false: someone else has a lock, or there are
   none. */
bool tcm_file_lock(int fd);
bool tcm_file_unlock(int fd);
/* Whether someone else has it locked for writing. */
bool tcm_file_is_locked(int fd);
/* A new file NAME in FOLDER that only its owner may use, whatever the umask;
   FLAGS besides those that make it. -1: errno tells. */
int tcm_file_make_own(int folder, const char *name, int flags);

/* Where a path leads. */
struct tcm_place {
    int folder;       /* its folder, opened with O_PATH */
    const char *name; /* and its name there: the end of the path */
    uint32_t mode;    /* st_mode of what has the name; 0: nothing */
    bool is_foreign;  /* and whose */
    bool is_magic;    /* a link of /proc, which only the kernel can follow */
};

/*
 * Follows PATH up to its last name and rewrites it so that it has no links that
 * are not magic. PATH and ROOM have PATH_MAX bytes each; ROOM is to work in.
 * The caller closes the folder. false: errno tells; EACCES for a foreign link.
 */
bool tcm_place_find(struct tcm_place *place, char *path, char *room);
/* Opens what is at the place, unless it is foreign (EACCES). -1: errno tells.
 */
int tcm_place_open(const struct tcm_place *place, int flags);

#endif
