/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a tool_input ahead on a thread of its own, decompression included, so
 * that the thread that uses the bytes has a processor to itself.
 *
 * Invariants: the bytes, breaks and errors are those of the input, in the same
 * order. At most 1 MiB is read ahead. A reader that sleeps for input wakes when
 * a stop is asked for (common/stop.h) and finds the end.
 * Threads: one user at a time; the input belongs to the thread meanwhile.
 */
#ifndef TOOL_COMMON_AHEAD_H
#define TOOL_COMMON_AHEAD_H

#include "common/input.h"

struct tool_ahead;

/* Starts if that is of use: for LZ4 frames if there is a second processor, for
   pipes and the like always. NULL: it is not, or cannot be; IN is read
   directly. Before anything is read of it. */
struct tool_ahead *tool_ahead_start(struct tool_input *in);
/* Ends the thread; IN is the caller's again, to be closed. NULL: nothing. */
void tool_ahead_stop(struct tool_ahead *a);

struct mtf_source *tool_ahead_source(struct tool_ahead *a);
/* Bytes that the source gave, as tool_input_bytes and _stored_bytes. */
uint64_t tool_ahead_bytes(const struct tool_ahead *a);
uint64_t tool_ahead_stored_bytes(const struct tool_ahead *a);

#endif
