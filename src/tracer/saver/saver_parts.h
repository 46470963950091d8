/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The saver's own header: its state, and the functions of its parts.
 *
 * - saver_phase.c begins and ends a recording: descriptor table, spool and
 *   output; end mode, stop and failure.
 * - saver_round.c saves full buffers at any time, and in a round all that is
 *   published, with a barrier behind it.
 * - saver_output.c is the output: a file, FIFO, device or descriptor.
 * - saver_account.c has the saver's numbers: samples of the process beside
 *   barriers, the footer, and the summary for the user.
 *
 * Threads: the one that saves (enum mtr_save_owner).
 */
#ifndef TCM_TRACER_SAVER_SAVER_PARTS_H
#define TCM_TRACER_SAVER_SAVER_PARTS_H

#include "traceformat/raw_writer.h"
#include "tracer/own_thread.h"
#include "tracer/recorder.h"

/* --- Output --------------------------------------------------------------- */

/*
 * Invariants: a regular file is a new inode that gets its name when it has the
 * trace's header. What cannot be written whole is cut off again, so that the
 * file ends where the last whole write did. A file that someone else has cut
 * gets nothing more.
 */

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
/* Makes FD, or errno if it is negative, the result of opening the output. */
bool mtr_output_use(struct mtr_output *out, int fd);
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
/* True if the file was removed, or cut, so that what is written to it is lost;
   out->error says so. */
bool mtr_output_is_lost(struct mtr_output *out);
void mtr_output_close(struct mtr_output *out);
/* Opens a regular file that has its name and was closed, at its last position.
   false: out->error says why. */
bool mtr_output_reopen(struct mtr_output *out);

/* --- State ---------------------------------------------------------------- */

/* State of the saver. Only the thread that saves accesses it, except for the
   summary, which is read after the last round. */
struct mtr_saver {
    struct mtr_recorder *rec;
    struct mtr_output output;
    struct mtf_raw_writer writer;
    void *memory; /* memory of the compressor */
    size_t memory_bytes;
    bool ready;        /* the output is open and has its header */
    bool dirty;        /* something was saved since the last barrier */
    bool over;         /* the recording was stopped and is whole */
    bool alone;        /* no thread of the program is left */
    bool made_spool;   /* the saver created the spool */
    bool shares_table; /* the program sees our descriptors */
    struct mtr_buffer *written_head, *written_tail; /* not settled */
    uint64_t last_round, last_sample, last_full;
    uint64_t interval;   /* time between rounds */
    uint64_t poll_ns;    /* time between polls */
    uint64_t starved_ns; /* since when threads have got no buffer; 0: they do */
    uint32_t quiet_rounds;
    uint64_t rounds;
    struct tcm_statm statm;
    int status_fd;     /* /proc/thread-self/status; -1: none */
    uint64_t filters;  /* filters of system calls when it was opened */
    bool may_open;     /* no filter forbids opening files */
    uint64_t cpu_from; /* processor time of the saving thread at its start */
    struct mtr_event_counts counts; /* saved calls */
    size_t summary_length;
    /* mtr_saver_begin clears the members before TEXTS. */
    struct {
        uint8_t part_header[MTF_RAW_HEADER_MAX]; /* flight recording */
        char summary[MTR_SUMMARY_MAX];
    } texts;
};

/* --- Beginning ----------------------------------------------------------- */

/* Initializes S, by the thread that will save. */
void mtr_saver_begin(struct mtr_saver *s, struct mtr_recorder *rec);
/* Sets up spool, buffers and output. false: the start fails, s->output.error
   says why. */
bool mtr_saver_set_up(struct mtr_saver *s);
/* Sets up the output alone, for a lazy recording that ends now, on a thread of
   the program. */
bool mtr_saver_set_up_here(struct mtr_saver *s);
/* Continues a recording that was ended like that, on the saver thread. */
bool mtr_saver_take_over(struct mtr_saver *s);
/* mtr_saver_take_over on a thread of the program. */
bool mtr_saver_resume(struct mtr_saver *s);
/* Waits for the reader of a FIFO; meanwhile threads fill the buffers. false:
   none came. */
bool mtr_saver_wait_for_reader(struct mtr_saver *s);

/* --- End ----------------------------------------------------------------- */

/* Enters end mode: the last round with the program, footer and summary; the
   spool is removed. false: the output failed. */
bool mtr_saver_enter_end_mode(struct mtr_saver *s);
/* Makes a round in end mode. HERE: on a thread of the program, which makes no
   other rounds. */
bool mtr_saver_end_mode_round(struct mtr_saver *s, bool here);
/* Wakes threads that wait for a round, after link.done or the state has
   changed: they look at both again. */
void mtr_saver_answer(struct mtr_recorder *rec);
/* Ends the recording for REASON, with a whole trace. false: the output
   failed. */
bool mtr_saver_stop(struct mtr_saver *s, enum mtf_end_reason reason);
/* Ends the recording because the system has no memory for buffers for which
   threads wait. false: the output failed. */
bool mtr_saver_stop_starved(struct mtr_saver *s);
/* True if the output has reached its limit. */
bool mtr_saver_at_limit(struct mtr_saver *s);
/* Ends the recording because the output failed. */
void mtr_saver_give_up(struct mtr_saver *s);
/* Closes what a thread of the program has opened; mtr_saver_take_over opens it
   again. */
void mtr_saver_suspend(struct mtr_saver *s);
/* Releases everything that the recording has, as the saver's last step. */
void mtr_saver_close(struct mtr_saver *s);

/* --- Rounds --------------------------------------------------------------- */

#define MTR_ROUND_NS 10000000u
#define MTR_POLL_NS  1000000u

/* Makes a round. EXACT: the counts of calls are up to date behind it; else they
   may be a sample's interval behind. false: the output failed. */
bool mtr_saver_make_round(struct mtr_saver *s, bool exact);
/* Brings the counts of saved calls up to date. */
void mtr_saver_count(struct mtr_saver *s);
/* Frees the buffers whose last byte is in the output. */
void mtr_saver_recycle(struct mtr_saver *s);
/* Makes a poll: saves full buffers only. false: the output failed. */
bool mtr_saver_poll(struct mtr_saver *s);

/* --- Accounts ------------------------------------------------------------- */

/* Counts the calls in the N bytes at P, which are whole events of a buffer that
   its thread still holds; a full buffer carries the counts of its thread. */
void mtr_count_events(struct mtr_event_counts *counts, const uint8_t *p,
                      size_t n);
/* Processor time that saving has taken. */
uint64_t mtr_saver_cpu_ns(const struct mtr_saver *s);
/* Updates the numbers of status requests. */
void mtr_saver_publish(struct mtr_saver *s);
/* Writes a sample of the process. false: the output failed or was lost. */
bool mtr_saver_write_sample(struct mtr_saver *s, uint64_t now);
/* Writes the present bytes of live blocks, before the last footer. */
bool mtr_saver_write_present(struct mtr_saver *s);
/* Writes the footer. false: the output failed or was lost. */
bool mtr_saver_write_footer(struct mtr_saver *s, enum mtf_end_reason reason);
/* Composes the summary and makes it due. */
void mtr_saver_summarise(struct mtr_saver *s, enum mtf_end_reason reason);

#endif
