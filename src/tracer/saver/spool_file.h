/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The spool, the memory of the buffers: shared mappings of OUTPUT.spool, or
 * private memory where that file cannot be created.
 *
 * Invariants: every byte that a buffer can reach is backed by blocks of the
 * file system (fallocate), so that a full disk is an error of the recorder and
 * never a SIGBUS in the program. The file is complete (head, trace header) and
 * locked before it gets its name. Children do not inherit the mappings.
 *
 * Threads: one at a time: the saver, or before there is one the thread that
 * starts the recording.
 */
#ifndef TCM_TRACER_SAVER_SPOOL_FILE_H
#define TCM_TRACER_SAVER_SPOOL_FILE_H

#include "base/compiler.h"
#include "tracer/stream/buf_pool.h"

struct mtr_recorder;

/* Bytes of a mapping; the file grows inside it piece by piece. */
#define MTR_SPOOL_WINDOW ((size_t)4 << 20)

struct mtr_spool {
    int fd_plus_1;       /* 0: closed */
    bool exists;         /* the file has its name and its lock */
    bool is_private;     /* new buffers come from private memory */
    bool notice_due;     /* the trace does not say so yet */
    uint64_t file_bytes; /* allocated bytes of the file */
    uint64_t used_bytes; /* bytes given to buffers and the head */
    uint64_t saved;      /* bytes of the trace in the output */
    uint8_t *head;       /* page 0 */
    uint8_t *window;
    uint64_t window_start;
    uint64_t dev, ino;
};

/*
 * Creates the spool of the recording under a name that is free or may be
 * replaced, and sets rec->name_number and rec->name. false: there can be no
 * spool here, and rec->name is not set; the caller decides what to do.
 */
bool mtr_spool_create(struct mtr_recorder *rec);
/* Creates a spool in place of one that was removed, under the same name; older
   mappings stay. false: the old one stays in use, without a name. */
bool mtr_spool_renew(struct mtr_recorder *rec);
/* Makes a few more free buffers of SIZE. false: no memory. */
bool mtr_spool_stock(struct mtr_recorder *rec, enum mtr_size size);
/* Makes the missing ones of the free buffers that are kept ready. */
void mtr_spool_keep_ready(struct mtr_recorder *rec);
/* Marks the file, if there is one: the recording had to stop. */
void mtr_spool_mark_stopped(struct mtr_recorder *rec);
/* Stores in the file that the output has SAVED bytes of the trace; call it
   before buffers with events among these are emptied. */
void mtr_spool_store_saved(struct mtr_recorder *rec, uint64_t saved);
/* The word of the file that says how many bytes the output may have at most.
   NULL: no file. */
uint64_t *mtr_spool_begun_word(struct mtr_recorder *rec);
/* Closes the descriptor, keeping mappings and lock. */
void mtr_spool_close(struct mtr_recorder *rec);
/* Removes the file's name, if it still names our file. */
void mtr_spool_remove(struct mtr_recorder *rec);
/* Gives up the lock and keeps the file. */
void mtr_spool_unlock(struct mtr_recorder *rec);

#endif
