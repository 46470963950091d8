/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of live blocks that the recorded program had not touched.
 *
 * A trace has present bytes of large blocks only; of all others a replay writes
 * everything, and a plot of live bytes counts everything. The recorder's
 * samples say how much memory the process had. Where live blocks have more,
 * the program had not touched the difference. That is a lower bound, since the
 * samples also count what is no block: stacks, the recorder, other mappings.
 *
 * A block that was just made may be about to be written. So a sample counts
 * with the bytes that were live at the sample before, too; or with the resident
 * memory of the next sample, and what the heap gave back until then, if that is
 * more. A difference is named only if the peak has it, or the mean over the
 * samples. Memory that was swapped out looks untouched.
 *
 * Threads: none shared.
 */
#ifndef TOOL_MODEL_UNTOUCHED_H
#define TOOL_MODEL_UNTOUCHED_H

#include "traceformat/proc_reader.h"

/* All zero before the first sample. */
struct untouched_sample {
    uint64_t ns;             /* since the start */
    uint64_t bytes;          /* of live blocks */
    uint64_t resident_bytes; /* of the process; 0: unknown */
    uint64_t heap_bytes;     /* that the allocator has; 0: unknown */
};
struct untouched {
    uint64_t samples;
    struct untouched_sample before, most; /* most: largest difference */
    uint64_t peak_bytes, peak_resident_bytes;
    double sum_bytes, over_bytes; /* of blocks; of blocks beyond resident */
};

/* Adds a sample, behind all earlier ones. */
void untouched_add(struct untouched *u, const struct untouched_sample *s);
/* Adds the sample of record OP of block B, in a trace that begins at START_NS;
   live blocks have BYTES. */
void untouched_record(struct untouched *u, const struct mtf_proc_block *b,
                      const struct mtf_op *op, uint64_t start_ns,
                      uint64_t bytes);

enum untouched_reader {
    UNTOUCHED_REPLAYED, /* the blocks are written in a replay */
    UNTOUCHED_SHOWN     /* live bytes are shown over time */
};
#define UNTOUCHED_TEXT 320u

/* Writes one line for the user into TEXT, and returns TEXT. NULL: the samples
   contradict nothing. */
const char *untouched_text(const struct untouched *u,
                           enum untouched_reader reader,
                           char text[UNTOUCHED_TEXT]);
/* Writes into TEXT that FREES of blocks from before the recording were seen:
   what the process had inherited, or had at the start, is in no replay. Returns
   TEXT; NULL: there were none. */
const char *untouched_inherited(uint64_t frees, char text[UNTOUCHED_TEXT]);

#endif
