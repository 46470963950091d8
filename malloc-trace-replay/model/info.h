/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts of one trace, raw or processed, that a single reading yields: its
 * recording, counts, threads, live blocks, and its contradictions.
 *
 * Invariants: without live blocks, memory grows with the number of threads
 * only. Threads: none shared.
 */
#ifndef TOOL_MODEL_INFO_H
#define TOOL_MODEL_INFO_H

#include "base/compiler.h"
#include "common/collections.h"
#include "common/input.h"
#include "model/info_course.h"
#include "trace/raw.h"
#include "traceformat/proc_reader.h"
#include "traceformat/raw_reader.h"

/* --- Live blocks ---------------------------------------------------------- */

/*
 * Live blocks while a trace is read: requested sizes, and the peaks of live
 * bytes and blocks.
 *
 * A processed trace is in order, and its peaks are those of that order. A raw
 * trace is read in the order of the file, where the events of one round of the
 * recorder are grouped by thread. Its peak is that of the file's order, and
 * `at_most` bounds the true peak: let S be the bytes that are live after a
 * round, F the bytes freed in it, and A the bytes allocated in the next round.
 * At any moment of the next round, all events published so far are in that
 * round or before it. Of the events before it, only those of the round before
 * may be published later, so up to F bytes are still live. Together that is at
 * most S + F + A.
 *
 * Invariants: memory grows with the live blocks, and with the frees of two
 * rounds whose allocation was not seen.
 * Threads: none shared.
 */

/* Classes of sizes, by the number of bits: 0, 1, 2 to 3, 4 to 7, ... */
#define INFO_SIZES 65u

/* Tokens that were freed or resized before their allocation was seen. */
struct info_early {
    uint64_t *token;
    size_t count, capacity;
};

struct info_live {
    uint64_t sizes[INFO_SIZES]; /* successful requests, by class of size */
    uint64_t bytes, blocks;     /* live at present */
    uint64_t peak_bytes, peak_bytes_ns;
    uint64_t peak_blocks, peak_blocks_ns;
    uint64_t at_most;     /* raw: bound of the true peak of bytes */
    uint64_t older_frees; /* raw: of blocks whose allocation was not seen */
    bool failed;          /* no memory: later events are not counted */
    /* S and F of the round before, and bytes freed and made in this one */
    uint64_t before_bytes, before_freed, freed, made;
    struct tool_map block; /* raw: sizes of live blocks by token */
    struct info_live_slot {
        bool lives;
        uint64_t size;
    } * slot; /* processed: blocks by slot */
    size_t slots, slot_room;
    struct info_early early[2]; /* of this round and the one before */
};

void info_live_free(struct info_live *l);
/* Frees the memory of the blocks; the totals stay. */
void info_live_forget(struct info_live *l);

/* Events of a raw trace, at the time NS. A free whose allocation was not seen
   yet is kept for two rounds. */
void info_live_made(struct info_live *l, uint64_t token, uint64_t size,
                    uint64_t ns);
void info_live_resized(struct info_live *l, uint64_t old, uint64_t token,
                       uint64_t size, uint64_t ns);
void info_live_freed(struct info_live *l, uint64_t token);
/* Ends a round of a raw trace, at a barrier or at the end. */
void info_live_round(struct info_live *l);

/* Returns the bound of the true peak, never below the peak that was seen. */
static inline uint64_t info_live_at_most(const struct info_live *l) {
    return l->at_most > l->peak_bytes ? l->at_most : l->peak_bytes;
}

/* The least and the largest size of class B. */
static inline uint64_t info_size_from(unsigned b) {
    return b == 0 ? 0 : (uint64_t)1 << (b - 1);
}
static inline uint64_t info_size_to(unsigned b) {
    return b == 0 ? 0 : info_size_from(b) - 1 + info_size_from(b);
}

/* Operations of a processed trace: SLOT gets a block of SIZE at the time NS, or
   loses it. False: SLOT is not below LIMIT, which bounds the memory. */
bool info_live_slot(struct info_live *l, uint32_t slot, uint64_t limit,
                    uint64_t size, uint64_t ns);
void info_live_slot_freed(struct info_live *l, uint32_t slot);
/* Tells whether SLOT holds a block. */
bool info_live_slot_lives(const struct info_live *l, uint32_t slot);

/* --- Facts of a trace ----------------------------------------------------- */

enum info_kind { INFO_UNREADABLE, INFO_RAW, INFO_PROCESSED };

#define INFO_EVENT_KINDS ((unsigned)MTF_EVENT_UNKNOWN + 1)
#define INFO_OP_KINDS    ((unsigned)MTF_OP_OTHER + 1)
/* Most problems, and most notices, that are kept as text; all are counted. */
#define INFO_TEXTS 20u

struct info_file {
    const char *name;
    enum info_kind kind;
    int status; /* exit status for this file */
    char *problems[INFO_TEXTS];
    uint64_t problem_count;
    /* the recording */
    bool have_header, have_footer;
    struct mtf_raw_info header;
    const char *frame_name; /* of its compression; NULL: plain */
    bool from_file, from_spool, growing, complete, clean_end;
    bool begins_late; /* a flight recording whose beginning was not kept */
    uint64_t raw_bytes, stored_bytes;
    /* raw */
    uint64_t spool_buffers;
    uint64_t events[INFO_EVENT_KINDS]; /* by enum mtf_event_kind */
    uint64_t calls[MTF_CALL_LIMIT];    /* those that succeeded */
    uint64_t requested_bytes;
    struct tool_raw_counts counts; /* of the events in the streams */
    uint64_t untraced, dropped;    /* of the recording */
    uint64_t doubled_bytes, missing_bytes, undecodable_bytes;
    uint64_t last_ns, last_barrier_ns;
    uint64_t peak_rss_bytes; /* of the samples */
    bool want_live;          /* set by the caller: fill `live` */
    struct info_live live;
    struct info_course *course; /* of the caller, to be filled too; or NULL */
    char *notices[INFO_TEXTS];
    uint64_t notice_count;
    bool have_account[MTF_ACCOUNT_LIMIT];
    uint64_t account[MTF_ACCOUNT_LIMIT]; /* of the last footer */
    struct raw_threads threads;
    /* processed */
    uint16_t proc_version;
    char converter[256]; /* the program that made it from another format, "" */
    uint64_t blocks;
    uint64_t impossible_slots;   /* of the current block */
    uint64_t ops[INFO_OP_KINDS]; /* by enum mtf_op_kind */
    /* blocks above 256 KiB or with a PRESENT record, their bytes, and the bytes
       of these that are present (all, without a record) */
    uint64_t large_blocks, large_bytes, large_present;
    bool closed; /* there is a closing block */
    uint64_t proc_account_count;
    uint32_t proc_fields[256];
    uint64_t proc_values[256];
};

/* Reads the raw trace IN, closes it, and fills F, whose problems are messages
   for the user. IN NULL: the file does not exist, but its spool or parts may.
   NAME: as given to tool_input_open. */
void info_read_raw(struct info_file *f, struct tool_input *in,
                   const char *name);
/* Reads the processed trace IN, closes it, and fills F. */
void info_read_processed(struct info_file *f, struct tool_input *in);

void info_free(struct info_file *f);

/* Tells whether postprocess --strip removed the program and the time of the
   recording. */
static inline bool info_is_stripped(const struct info_file *f) {
    return f->header.fixed.pid == 0 && f->header.fixed.wall_ns == 0;
}

/* Keeps a message for the user, and raises the file's status to STATUS. */
void info_problem(struct info_file *f, int status, const char *fmt, ...)
    TCM_PRINTF(3, 4);

/* Tells whether the operations of a processed trace have times. */
bool info_has_times(const struct info_file *f);

/* Returns the number of calls of the malloc family, failed ones included. */
uint64_t info_event_count(const struct info_file *f);
/* Returns a bound of the peak of live bytes of a raw trace. */
uint64_t info_at_most(const struct info_file *f);
/* Name of an enum mtf_end_reason, for users. */
const char *info_end_reason(uint64_t reason);

#endif
