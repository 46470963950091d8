/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the buffers: shared mappings of OUTPUT.spool, or private memory
 * where that cannot be had.
 *
 * Invariants: every byte that a buffer can reach is backed by blocks of the
 * file system (fallocate), so that a full disk is an error of ours and never a
 * SIGBUS in the program. The file is complete (head, trace header) and locked
 * before it gets its name. Mappings are not inherited by children.
 *
 * Threads: one at a time: the saver, or before there is one the thread that
 * starts the recording.
 */
#ifndef TCM_TRACER_SAVER_SPOOL_FILE_H
#define TCM_TRACER_SAVER_SPOOL_FILE_H

#include "base/compiler.h"
#include "tracer/stream/buf_pool.h"

struct mtr_recorder;

/* One mapping; the file is grown inside it piece by piece. */
#define MTR_SPOOL_WINDOW ((size_t)4 << 20)

struct mtr_spool {
    int fd_plus_1;       /* 0: closed */
    bool exists;         /* the file has its name and its lock */
    bool is_private;     /* buffers come from private memory from now on */
    bool notice_due;     /* and the trace does not say so yet */
    uint64_t file_bytes; /* allocated */
    uint64_t used_bytes; /* of those, given to buffers (and the head) */
    uint64_t saved;      /* bytes of the trace that the output has */
    uint8_t *head;       /* page 0 */
    uint8_t *window;
    uint64_t window_start;
    uint64_t dev, ino;
};

/*
 * Makes the spool of the recording under a name that is free or may be
 * replaced; rec->name_number and rec->name are set. false: there can be no
 * spool here (rec->name is not set); the caller decides.
 */
bool mtr_spool_create(struct mtr_recorder *rec);
/* A new one in place of one that was removed, under the same name; older
   mappings stay. false: the old one stays in use, without a name. */
bool mtr_spool_renew(struct mtr_recorder *rec);
/* A few more free buffers of SIZE. false: no memory. */
bool mtr_spool_stock(struct mtr_recorder *rec, enum mtr_size size);
/* Makes the free buffers that are to be ready ahead of need. */
void mtr_spool_keep_ready(struct mtr_recorder *rec);
/* Says in the file, if there is one, that the recording had to stop. */
void mtr_spool_tell_stop(struct mtr_recorder *rec);
/* Says in the file that the output has SAVED bytes of the trace; before buffers
   with events among these are emptied. */
void mtr_spool_tell_saved(struct mtr_recorder *rec, uint64_t saved);
/* The word of the file that says how many bytes the output may have at most.
   NULL: there is no file. */
uint64_t *mtr_spool_begun(struct mtr_recorder *rec);
/* Closes the descriptor, keeping mappings and lock. */
void mtr_spool_close(struct mtr_recorder *rec);
/* Removes the file's name, if it is still ours. */
void mtr_spool_remove(struct mtr_recorder *rec);
/* Gives the lock up, keeping the file. */
void mtr_spool_unlock(struct mtr_recorder *rec);

#endif
