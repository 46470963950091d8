/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files in folders that others may write to: a lock that is worth something.
 *
 * A write lock on the whole file, of the open file and not of the process: it
 * lasts as long as a descriptor or mapping of it. Why not flock: that needs no
 * right to write, so whoever may read a file could pass for who writes it.
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
/* A new file that only its owner may use, whatever the umask; FLAGS besides
   those that make it. -1: errno tells. */
int tcm_file_make_own(const char *path, int flags);

#endif
