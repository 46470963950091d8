/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A part of a trace: from a time or mark to another, of some threads, without
 * what identifies the recorded program, with all blocks freed at the end.
 *
 * It follows the sorter: it takes the blocks of the processed trace that emit.h
 * writes, and writes another trace of the part that stays. So the sorter knows
 * nothing of it, and without a filter nothing is added to its cost.
 *
 * Invariants: the output replays by itself: what it frees it has made before.
 * Memory follows the live blocks (40 bytes each) and the threads.
 * Threads: none shared.
 */
#ifndef TOOL_WINDOW_FILTER_H
#define TOOL_WINDOW_FILTER_H

#include "common/collections.h"
#include "trace/ops.h"
#include "traceformat/proc_reader.h"
#include "traceformat/proc_writer.h"
#include "traceformat/site_codec.h"
#include "window/filter_options.h"

struct filter_thread {
    uint32_t id;
    uint32_t kernel_id;
    bool has_start; /* THREAD_START was read */
    bool start_written, ended, end_written, counted;
    uint16_t name_length;
    char *name; /* of one that ended before the window */
};

/* Threads, and how much of each is in the output. */
struct filter_threads {
    struct filter_thread *thread; /* by first appearance */
    struct tool_ids ids;
};

/* Nothing else is known. */
#define FILTER_ALL_PRESENT UINT64_MAX

/* A block that is alive in the recording. */
struct filter_block {
    uint64_t made; /* number of this block in order of making */
    uint64_t size;
    union {
        uint64_t birth;   /* FILTER_KEPT: of the output */
        uint64_t present; /* else: bytes, or FILTER_ALL_PRESENT */
    };
    uint32_t slot;
    uint32_t thread; /* that made it */
    uint8_t state;   /* enum filter_state */
    uint8_t kind;    /* enum mtf_op_kind of the call that made it */
    uint8_t call, align_log2;
    uint32_t site; /* of that call */
};
TCM_STATIC_ASSERT(sizeof(struct filter_block) == 40, "filter block");

enum filter_phase { FILTER_BEFORE, FILTER_WITHIN, FILTER_AFTER };

/* Texts of marks, for the message that one was not found. */
#define FILTER_MARKS 16u

struct filter {
    const struct filter_options *options;
    struct mtf_proc_writer *out;
    enum filter_phase phase;
    bool failed; /* no memory */
    uint64_t base_ns, time_ns;
    bool have_base;
    uint32_t thread;  /* of the operations to come */
    uint32_t site;    /* of the allocations to come */
    bool has_sites;   /* there are definitions */
    bool free_sites;  /* frees have call sites */
    uint64_t present; /* bytes noted of the next one, or FILTER_ALL_PRESENT */
    uint64_t made;
    struct filter_block *block; /* by slot of the input */
    size_t room, used;
    struct filter_threads threads;

    /* of the output */
    struct tool_ops_counts counts;
    uint64_t live_bytes, peak_live_bytes, live_objects;
    uint64_t start_ns, end_ns;
    uint64_t prologue_ops, epilogue_ops;
    uint64_t left_out; /* events within the window, of other threads */
    char *mark[FILTER_MARKS];
    unsigned marks;

    /* of the input: the header or block in work has LENGTH bytes in memory */
    bool have_header;
    size_t length;
    struct mtf_proc_decoder decoder;
    uint8_t
        memory[sizeof(struct mtf_proc_block_head) + MTF_PROC_PAYLOAD_MAX + 8];
};

/* OUT is begun by the caller before the first operation. NULL: no memory. F is
   large. */
struct filter *filter_new(const struct filter_options *options,
                          struct mtf_proc_writer *out);
void filter_free(struct filter *f);

/* The header that OUT gets instead of the LENGTH bytes at RAW; ROOM has
   MTF_RAW_HEADER_MAX bytes. Returns its length. */
size_t filter_header(const struct filter *f, const void *raw, size_t length,
                     void *room);
/* Takes the next N bytes of the processed trace. False: failed, no memory or
   OUT failed. */
bool filter_take(struct filter *f, const void *data, size_t n);
/* The input ended. False: as above. */
bool filter_end(struct filter *f);
/* After it: whether the window was found. False: a message is out. */
bool filter_found(const struct filter *f, const char *name);

#endif
