/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which tokens are made by events that are in hand and not written yet: asked
 * when an event waits for an allocation that may be missing.
 *
 * Why: a consistent trace never asks, so nothing is maintained until the first
 * question. From then on each question decodes only the segments that came
 * since the last one, and tokens are removed as they are written: no byte is
 * decoded for it twice.
 *
 * Invariants: the segments of a thread that were looked at are its oldest ones.
 * A token that two events in hand make (a damaged trace) is removed with the
 * first. Memory: at most 64 bytes for each aligned group of 64 tokens of which
 * one is in hand.
 * Threads: none shared.
 */
#ifndef TOOL_CMD_POSTPROCESS_SORT_BIRTHS_H
#define TOOL_CMD_POSTPROCESS_SORT_BIRTHS_H
#include "common/hash.h"

struct demux;
struct demux_event;
struct demux_thread;

struct births {
    struct tool_map words;
    struct demux_thread *fresh; /* list by next_new: have new segments */
};

/* Whether TOKEN is made by an event in hand. Without memory true, and D is
   failed. */
bool births_has(struct demux *d, uint64_t token);
/* A segment came for T. */
void births_new_segment(struct demux *d, struct demux_thread *t);
/* The COUNT events at V, of a segment that was looked at, are written. */
void births_written(struct births *b, const struct demux_event *v,
                    uint32_t count);
void births_fini(struct births *b);

#endif
