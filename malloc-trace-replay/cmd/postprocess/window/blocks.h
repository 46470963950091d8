/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks of memory of a filter: which are in the output, and the operations
 * on them.
 *
 * Threads: none shared.
 */
#ifndef TOOL_CMD_POSTPROCESS_WINDOW_BLOCKS_H
#define TOOL_CMD_POSTPROCESS_WINDOW_BLOCKS_H
#include "cmd/postprocess/window/filter.h"

/* NULL: no memory (failed is set). */
struct filter_thread *filter_thread_of(struct filter *f, uint32_t id);
bool filter_asked_for(const struct filter *f, uint32_t thread);
/* The following records of the output are of thread ID; IS_CALL: of the malloc
   family. */
void filter_enter(struct filter *f, uint32_t id, bool is_call);
void filter_end_thread(struct filter *f, struct filter_thread *t,
                       const void *name, size_t length);

/* The window begins at the time at hand: writes the prologue. */
void filter_begin_window(struct filter *f);
/* Writes the epilogue. */
void filter_free_all(struct filter *f);

void filter_alloc(struct filter *f, const struct mtf_op *op);
void filter_realloc(struct filter *f, const struct mtf_op *op);
void filter_free_op(struct filter *f, const struct mtf_op *op);

#endif
