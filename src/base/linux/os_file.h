/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files: whole reads and writes, paths that another user cannot redirect, and a
 * lock that only a writer can hold. No stdio.
 *
 * A trusted user is the caller, user 0 or the owner of the root folder. A
 * directory entry is foreign if an untrusted user may have made it: an
 * untrusted user owns it, and its folder belongs to an untrusted user or is
 * writable by group or others. A foreign link is not followed, at any place in
 * a path, and no foreign file is opened. The kernel's protected_symlinks covers
 * less: only the last name of a path, and only in sticky folders.
 *
 * The lock is a write lock on the whole file. It belongs to the open file
 * description, not to the process, so it lasts as long as any descriptor of it.
 * Why not flock: it needs no write permission, so any reader of a file could
 * pass for its writer.
 *
 * Threads: any. Failures set errno; reads and writes that succeed leave it
 * unchanged.
 */
#ifndef TCM_BASE_LINUX_OS_FILE_H
#define TCM_BASE_LINUX_OS_FILE_H

#include "base/compiler.h"

/* --- Reads and writes ----------------------------------------------------- */

/* Interrupted and short calls are continued. */

/* Writes all LENGTH bytes; waits for a descriptor in non-blocking mode. */
bool tcm_io_write_all(int fd, const void *data, size_t length);

/* Writes at least one of LENGTH bytes (not 0) if the descriptor accepts any
   within TIMEOUT_NS. Returns how many, or -1 on failure. On a pipe it never
   waits longer, even if the descriptor is in blocking mode. */
long tcm_io_write_some(int fd, const void *data, size_t length,
                       uint64_t timeout_ns);

/* Reads until LENGTH bytes or the end of the file. Also on failure, GOT is set
   to the number of bytes read. */
bool tcm_io_read_full(int fd, void *data, size_t length, size_t *got);

/* Reads a small file, for instance of /proc, into BUF and terminates it.
   Returns the length, or -1 with errno unchanged. */
long tcm_io_read_file(const char *path, char *buf, size_t cap);

/* --- Locks, own files, paths ---------------------------------------------- */

/* Locks the file for writing. false: another open file has a lock, or the file
   system has no locks. */
bool tcm_file_lock(int fd);
bool tcm_file_unlock(int fd);
/* True if another open file has FD's file locked for writing. */
bool tcm_file_is_locked(int fd);
/* Creates NAME in FOLDER with mode 0600 whatever the umask is, and opens it
   with FLAGS. -1 on failure. */
int tcm_file_make_own(int folder, const char *name, int flags);

/* errno of a foreign name; the numbers of the kernel end at 4095. */
enum { TCM_EFOREIGN = 4096 };
#define TCM_EFOREIGN_TEXT "another user's link, file or FIFO"

/* The entry that a path leads to. */
struct tcm_place {
    int folder;       /* opened with O_PATH */
    const char *name; /* in the folder: the end of the path */
    uint32_t mode;    /* st_mode of the entry; 0: there is none */
    bool is_foreign;  /* the entry is foreign */
    bool is_magic;    /* a link of /proc, which only the kernel can follow */
};

/*
 * Follows PATH up to its last name and rewrites it without links, other than
 * magic ones. PATH and ROOM, which is working space, have PATH_MAX bytes each.
 * The caller closes the folder. false on failure, with TCM_EFOREIGN for a
 * foreign link.
 */
bool tcm_place_find(struct tcm_place *place, char *path, char *room);
/* Opens the entry unless it is foreign (TCM_EFOREIGN). -1 on failure. */
int tcm_place_open(const struct tcm_place *place, int flags);

#endif
