/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file, FIFO, device or descriptor that a recording is written to.
 *
 * Invariants: a regular file is a new inode that gets its name when the trace's
 * header stands in it. What cannot be written whole is cut off again, so that
 * the file ends where the last whole write did.
 * Threads: the one that saves.
 */
#ifndef TCM_TRACER_SAVER_SAVER_OUTPUT_H
#define TCM_TRACER_SAVER_SAVER_OUTPUT_H

#include "tracer/recorder.h"

/* Bytes kept free below RLIMIT_FSIZE, for the footer. */
#define MTR_FOOTER_ROOM 4096u

/* How long the end of a recording waits for a reader that never came, or, where
   threads drop what they cannot record, one that takes nothing. */
#define MTR_READER_WAIT_NS 5000000000u

struct mtr_output {
    struct mtr_recorder *rec;
    enum mtr_output_kind kind;
    int fd;            /* -1: closed */
    bool own_table;    /* the descriptor table is the saver's alone */
    bool footer;       /* the room for the footer may be used */
    int error;         /* errno of the failure */
    bool holds;        /* what is written waits for the release */
    size_t held_bytes; /* that wait */
    uint64_t position;
    uint64_t dev, ino;
    char *temp;                     /* not yet renamed to its place */
    uint32_t part;                  /* flight recording: the current one, */
    uint64_t part_bytes[MTF_PARTS]; /* and what those that are kept have */
    uint64_t largest;               /* part so far */
    uint64_t defined; /* bytes of the definitions of call sites that the
                         current one begins with */
};

/*
 * Opens the output. A FIFO without reader is left closed, without error; call
 * again. false: out->error tells.
 */
bool mtr_output_open(struct mtr_output *out);
/* A flight recording goes on with its next part, which is opened and not placed
   yet. What is kept of the others leaves room for it. false: as above. */
bool mtr_output_next_part(struct mtr_output *out);
/* The part has the definitions that it begins with, and no more yet. */
void mtr_output_sites_defined(struct mtr_output *out);
/* True when the part has its share of what is kept. */
bool mtr_output_part_is_full(const struct mtr_output *out);
/* Gives a regular file its name. */
bool mtr_output_place(struct mtr_output *out);
/* The writer's sink. */
bool mtr_output_write(void *out, const void *data, size_t n);
/* Between the two, bytes go out in as few writes as there is room for, and all
   but the last write end at a multiple of MTF_WRITE_UNIT in a file: readers
   know a file that ends at another place for one that was cut later. */
void mtr_output_hold(struct mtr_output *out);
bool mtr_output_release(struct mtr_output *out);
/* Cuts the last N bytes of a regular file off, and what a failed write left
   behind them; the next write goes there. */
bool mtr_output_take_back(struct mtr_output *out, uint64_t n);
/* True when the file was removed, so that what is written to it is lost;
   out->error tells. */
bool mtr_output_is_gone(struct mtr_output *out);
void mtr_output_close(struct mtr_output *out);
/* A regular file that has its name and was closed, where it was left. false:
   out->error tells. */
bool mtr_output_reopen(struct mtr_output *out);

#endif
