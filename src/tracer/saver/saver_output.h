/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The output of a recording: a file, FIFO, device or descriptor.
 *
 * Invariants: a regular file is a new inode that gets its name when it has the
 * trace's header. What cannot be written whole is cut off again, so that the
 * file ends where the last whole write did.
 * Threads: the one that saves.
 */
#ifndef TCM_TRACER_SAVER_SAVER_OUTPUT_H
#define TCM_TRACER_SAVER_SAVER_OUTPUT_H

#include "tracer/recorder.h"

/* Bytes kept free below RLIMIT_FSIZE, for the footer. */
#define MTR_FOOTER_ROOM 4096u

/* How long the end of a recording waits for a reader that has not come, or that
   takes nothing where threads drop events. */
#define MTR_READER_WAIT_NS 5000000000u

struct mtr_output {
    struct mtr_recorder *rec;
    enum mtr_output_kind kind;
    int fd;            /* -1: closed */
    bool own_table;    /* the descriptor table is the saver's own */
    bool footer;       /* MTR_FOOTER_ROOM may be used */
    int error;         /* errno of the failure */
    bool holds;        /* writes wait for the release */
    size_t held_bytes; /* bytes that wait */
    uint64_t position;
    uint64_t dev, ino;
    char *temp;                     /* temporary name; NULL: it has its name */
    uint32_t part;                  /* flight recording: number of the part, */
    uint64_t part_bytes[MTF_PARTS]; /* and bytes of the parts that are kept */
    uint64_t largest;               /* bytes of the largest part so far */
    uint64_t defined; /* bytes of definitions that begin the part */
};

/*
 * Opens the output. A FIFO without a reader is left closed, without an error;
 * call again. false: out->error says why.
 */
bool mtr_output_open(struct mtr_output *out);
/* Opens the next part of a flight recording, without placing it, and removes
   kept parts to make room for it. false: out->error says why. */
bool mtr_output_next_part(struct mtr_output *out);
/* Notes that the part has its definitions, and nothing else yet. */
void mtr_output_sites_defined(struct mtr_output *out);
/* True if the part has its share of the bytes that are kept. */
bool mtr_output_part_is_full(const struct mtr_output *out);
/* Gives a regular file its name. */
bool mtr_output_place(struct mtr_output *out);
/* Writes to the output; the sink of the writer. false: out->error says why. */
bool mtr_output_write(void *out, const void *data, size_t n);
/* Between hold and release bytes go out in as few writes as the buffer allows.
   In a file all of them but the last end at a multiple of MTF_WRITE_UNIT:
   readers take a file that ends elsewhere for one that was cut later. */
void mtr_output_hold(struct mtr_output *out);
bool mtr_output_release(struct mtr_output *out);
/* Cuts the last N bytes off a regular file, with what a failed write left
   behind them; the next write goes there. */
bool mtr_output_truncate(struct mtr_output *out, uint64_t n);
/* True if the file was removed, so that what is written to it is lost;
   out->error says so. */
bool mtr_output_is_removed(struct mtr_output *out);
void mtr_output_close(struct mtr_output *out);
/* Opens a regular file that has its name and was closed, at its last position.
   false: out->error says why. */
bool mtr_output_reopen(struct mtr_output *out);

#endif
