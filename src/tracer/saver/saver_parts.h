/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of the saver: its state, how it begins and ends a recording
 * (saver_phase.c), what it saves (saver_round.c), and its numbers
 * (saver_account.c).
 *
 * Threads: the one that saves.
 */
#ifndef TCM_TRACER_SAVER_SAVER_PARTS_H
#define TCM_TRACER_SAVER_SAVER_PARTS_H

#include "traceformat/raw_writer.h"
#include "tracer/own_thread.h"
#include "tracer/recorder.h"
#include "tracer/saver/saver_output.h"

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

/* --- Beginning ----------------------------------------------------------- */

/* Nothing saved yet; by the thread that will. */
void mtr_saver_begin(struct mtr_saver *s, struct mtr_recorder *rec);
/* Spool, buffers, output. What fails here fails the start. */
bool mtr_saver_set_up(struct mtr_saver *s);
/* The output alone, for a recording that has its spool and ends now; on a
   thread of the program. */
bool mtr_saver_set_up_here(struct mtr_saver *s);
/* A recording that was ended so goes on, in a thread of its own, or on one of
   the program. */
bool mtr_saver_take_over(struct mtr_saver *s);
bool mtr_saver_resume(struct mtr_saver *s);
/* A FIFO whose reader comes late: meanwhile threads fill the buffers. */
bool mtr_saver_wait_for_reader(struct mtr_saver *s);

/* --- End ----------------------------------------------------------------- */

bool mtr_saver_enter_end_mode(struct mtr_saver *s);
/* HERE: on a thread of the program, which makes no other rounds. */
bool mtr_saver_end_mode_round(struct mtr_saver *s, bool here);
/* The recording ends for REASON, with a whole trace. */
bool mtr_saver_stop(struct mtr_saver *s, enum mtf_end_reason reason);
/* True when the output has reached its limit. */
bool mtr_saver_at_limit(struct mtr_saver *s);
void mtr_saver_give_up(struct mtr_saver *s);
/* Closes what a thread of the program has opened; mtr_saver_take_over opens it
   again. */
void mtr_saver_rest(struct mtr_saver *s);
/* The last thing the thread does: nothing of the recording stays. */
void mtr_saver_leave(struct mtr_saver *s);

/* --- Rounds --------------------------------------------------------------- */

#define MTR_ROUND_NS 10000000u
#define MTR_POLL_NS  1000000u

/* A full round. */
bool mtr_saver_make_round(struct mtr_saver *s);
/* Buffers whose last byte is with the output become free. */
void mtr_saver_recycle(struct mtr_saver *s);
/* A poll: full buffers alone. */
bool mtr_saver_poll(struct mtr_saver *s);

/* --- Accounts ------------------------------------------------------------- */

/* Adds those of the N bytes at P, which are whole events: of a buffer that its
   thread still has, which alone knows how many calls a full one holds. */
void mtr_count_events(struct mtr_event_counts *counts, const uint8_t *p,
                      size_t n);
/* Processor time that saving has taken. */
uint64_t mtr_saver_cpu_ns(const struct mtr_saver *s);
/* Makes the numbers of status requests those of now. */
void mtr_saver_publish(struct mtr_saver *s);
/* Both notice that a file was removed: false. */
bool mtr_saver_write_sample(struct mtr_saver *s, uint64_t now);
/* The present bytes of the blocks that are alive. Before the last footer. */
bool mtr_saver_write_present(struct mtr_saver *s);
bool mtr_saver_write_footer(struct mtr_saver *s, enum mtf_end_reason reason);
void mtr_saver_summarise(struct mtr_saver *s, enum mtf_end_reason reason);

#endif
