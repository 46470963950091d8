/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of the saver share. Only the saver thread touches it, apart
 * from the summary, which is read after the last round.
 */
#ifndef MTR_SAVER_STATE_H
#define MTR_SAVER_STATE_H

#include "traceformat/raw_writer.h"
#include "tracer/event_count.h"
#include "tracer/output.h"

struct mtr_saver {
    struct mtr_recorder *rec;
    struct mtr_output output;
    struct mtf_raw_writer writer;
    void *memory; /* of the compressor */
    uint32_t memory_pid;
    bool ready; /* the output is open and has its header */
    bool dirty; /* something was saved since the last barrier */
    struct mtr_buffer *written_head, *written_tail; /* not yet settled */
    uint64_t last_round, last_sample, last_full;
    uint64_t interval;
    uint32_t quiet_rounds;
    uint64_t rounds;
    int statm; /* descriptor of /proc/self/statm, -1 none */
    struct mtr_event_counts counts;
    char summary[512];
    size_t summary_length;
};

/* --- saver_setup.c ------------------------------------------------------- */
/* Spool, buffers, output. What fails here fails the start. */
bool mtr_saver_set_up(struct mtr_saver *s);
/* A FIFO whose reader comes late: meanwhile threads fill the buffers. */
bool mtr_saver_wait_for_reader(struct mtr_saver *s);

/* --- saver.c ------------------------------------------------------------- */
/* The thread; its argument is the recorder. */
void *mtr_saver_main(void *arg);
/* Buffers ahead of need. */
void mtr_saver_keep_ready(struct mtr_recorder *rec);

/* --- saver_account.c ----------------------------------------------------- */
bool mtr_saver_write_sample(struct mtr_saver *s, uint64_t now);
bool mtr_saver_write_footer(struct mtr_saver *s, enum mtf_end_reason reason);
void mtr_saver_summarise(struct mtr_saver *s, enum mtf_end_reason reason);

#endif
