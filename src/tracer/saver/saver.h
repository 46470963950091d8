/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The saver thread: takes what threads published, writes it, and says in
 * barriers up to which time all of it is written.
 *
 * A short process needs no such thread: if its recording is still lazy at its
 * end, the thread that ends it does the saving (mtr_saver_end_here).
 *
 * Threads: any thread calls the first part. One thread at a time saves
 * (enum mtr_saves).
 */
#ifndef TCM_TRACER_SAVER_SAVER_H
#define TCM_TRACER_SAVER_SAVER_H

#include "traceformat/raw_writer.h"
#include "tracer/saver/saver_output.h"
#include "tracer/own_thread.h"
#include "tracer/recorder.h"

/* Makes the thread. false: errno in *ERROR. */
bool mtr_saver_create(struct mtr_recorder *rec, int *error);
/* Wakes it: it looks at once. */
void mtr_saver_wake(struct mtr_recorder *rec);
/*
 * The end of the program, for a recording that has its spool alone: the calling
 * thread writes the file and enters end mode. A saver is made if events follow.
 * false: there is a saver, or this cannot be done without one.
 */
bool mtr_saver_end_here(struct mtr_recorder *rec);
/*
 * The work of a saver that may not be made by this call (mtr_freeing, vfork),
 * or that is being made by another, on the calling thread: buffers for a
 * recording that has its spool alone (false: there can be none), and a round in
 * end mode (false: another thread saves, look again).
 */
bool mtr_saver_stock_here(struct mtr_recorder *rec);
bool mtr_saver_round_here(struct mtr_recorder *rec);
/* Between HELD and the rest of enum mtr_saves: the thread that holds lets
   STARTED follow; the one whose thread was not made holds again. */
void mtr_saver_release(struct mtr_recorder *rec, uint32_t started);
void mtr_saver_hold_coming(struct mtr_recorder *rec);
/* Until the saver that ended, or ends, a recording has left it, TIMEOUT_NS at
   most (UINT64_MAX: for ever). */
void mtr_saver_await_gone(struct mtr_recorder *rec, uint64_t timeout_ns);
/* The text of TCMALLOC_TRACE_STATS after the end, if it is asked for, goes to
   stderr. */
void mtr_summary_flush(struct mtr_recorder *rec);

/* --- Parts of the saver -------------------------------------------------- */

/* Only the thread that saves touches it, apart from the summary, which is read
   after the last round. */
struct mtr_saver {
    struct mtr_recorder *rec;
    struct mtr_output output;
    struct mtf_raw_writer writer;
    void *memory; /* of the compressor */
    size_t memory_bytes;
    bool ready;        /* the output is open and has its header */
    bool dirty;        /* something was saved since the last barrier */
    bool over;         /* the recording ended as it should */
    bool alone;        /* no thread of the program is left */
    bool made_spool;   /* it did not exist before the saver */
    bool shares_table; /* the program sees our descriptors, and for long */
    struct mtr_buffer *written_head, *written_tail; /* not yet settled */
    uint64_t last_round, last_sample, last_full;
    uint64_t interval; /* of rounds */
    uint64_t poll_ns;  /* of looks for full buffers */
    uint32_t quiet_rounds;
    uint64_t rounds;
    struct tcm_statm statm;
    int status_fd;     /* /proc/thread-self/status; -1: none */
    uint64_t filters;  /* of system calls, on this thread when it opened that */
    bool may_open;     /* a filter cannot forbid it */
    uint64_t cpu_from; /* the saving thread's processor time at its start */
    struct mtr_event_counts counts; /* saved so far */
    size_t summary_length;
    /* mtr_saver_begin clears what stands before TEXTS. */
    struct {
        uint8_t part_header[MTF_RAW_HEADER_MAX]; /* of a flight recording */
        char summary[MTR_SUMMARY_MAX];
    } texts;
};

#endif
