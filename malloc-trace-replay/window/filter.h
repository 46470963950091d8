/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cuts a part out of a processed trace, by four options, which combine: the
 * window between two times or marks; the blocks of some threads; without all
 * that identifies the recorded program; with all blocks freed at the end.
 *
 * A filter takes the blocks of the processed trace that the sorter writes, and
 * writes another trace of the part. So the sorter does not depend on it, and
 * sorting without a filter costs nothing more.
 *
 * Invariants: the output replays by itself: every block that it frees is made
 * in it. Memory grows with the live blocks (40 bytes each) and the threads.
 * Threads: none shared.
 */
#ifndef TOOL_WINDOW_FILTER_H
#define TOOL_WINDOW_FILTER_H

#include "common/collections.h"
#include "trace/ops.h"
#include "traceformat/proc_decode.h"
#include "traceformat/proc_writer.h"
#include "traceformat/site_codec.h"
#include "window/filter_options.h"

struct filter_thread {
    uint32_t id;
    uint32_t kernel_id;
    bool has_start; /* THREAD_START was read */
    bool start_written, ended, end_written, counted;
    uint16_t name_length;
    char *name; /* of a thread that ended before the window */
};

/* Threads, and their records that are in the output. */
struct filter_threads {
    struct filter_thread *thread; /* by first appearance */
    struct tool_ids ids;
};

/* Present bytes of a block without a PRESENT record. */
#define FILTER_ALL_PRESENT UINT64_MAX

/* A live block of memory of the recording. */
struct filter_block {
    uint64_t made; /* number in the order in which blocks are made */
    uint64_t size;
    union {
        uint64_t birth;   /* FILTER_KEPT: in the output */
        uint64_t present; /* else: bytes, or FILTER_ALL_PRESENT */
    };
    uint32_t slot;   /* FILTER_KEPT: in the output */
    uint32_t thread; /* that made it */
    uint8_t state;   /* enum filter_state */
    uint8_t kind;    /* enum mtf_op_kind of the call that made it */
    uint8_t call, align_log2;
    uint32_t site; /* of that call */
};
TCM_STATIC_ASSERT(sizeof(struct filter_block) == 40, "filter block");

enum filter_phase { FILTER_BEFORE, FILTER_WITHIN, FILTER_AFTER };

/* Most texts of marks that are kept, for the message that one is missing. */
#define FILTER_MARKS 16u

struct filter {
    const struct filter_options *options;
    struct mtf_proc_writer *out;
    enum filter_phase phase;
    bool failed; /* no memory */
    uint64_t base_ns, time_ns;
    bool have_base;
    uint32_t thread;  /* of the operations that follow */
    uint32_t site;    /* of the allocations that follow */
    bool has_sites;   /* there are definitions of sites */
    bool free_sites;  /* frees have call sites */
    uint64_t present; /* bytes of the next block, or FILTER_ALL_PRESENT */
    uint64_t made;    /* blocks made so far */
    struct filter_block *block; /* by slot of the input */
    size_t room, used;
    struct filter_threads threads;

    /* of the output */
    struct tool_ops_counts counts;
    uint64_t live_bytes, peak_live_bytes, live_objects;
    uint64_t start_ns, end_ns;
    uint64_t prologue_ops, epilogue_ops;
    uint64_t left_out; /* events within the window of other threads' blocks */
    char *mark[FILTER_MARKS];
    unsigned marks;

    /* of the input */
    bool have_header;
    size_t length; /* bytes of the present header or block in `memory` */
    struct mtf_proc_decoder decoder;
    uint8_t
        memory[sizeof(struct mtf_proc_block_head) + MTF_PROC_PAYLOAD_MAX + 8];
};

/* OUT is begun by the caller before the first block of operations. NULL: no
   memory. */
struct filter *filter_new(const struct filter_options *options,
                          struct mtf_proc_writer *out);
void filter_free(struct filter *f);

/* Writes the raw trace's header that OUT gets instead of the LENGTH bytes at
   RAW to ROOM, which has MTF_RAW_HEADER_MAX bytes. Returns its length. */
size_t filter_header(const struct filter *f, const void *raw, size_t length,
                     void *room);
/* Takes the next N bytes of the processed trace. False: no memory, OUT failed,
   or the bytes are no trace of the sorter. */
bool filter_take(struct filter *f, const void *data, size_t n);
/* Ends the part, at the end of the input. False: no memory, or OUT failed. */
bool filter_end(struct filter *f);
/* After filter_end: tells whether the window was found in the trace NAME.
   False: a message is out. */
bool filter_found(const struct filter *f, const char *name);

#endif
