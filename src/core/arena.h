/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The private arena: a second heap in other address ranges, for memory that the
 * layers above need while the program's heap must not change. Any thread frees
 * and resizes blocks; tcm_block_info knows them.
 *
 * Threads: one lock, rank PAGE_HEAP; metadata lock inside.
 */
#ifndef TCM_CORE_ARENA_H
#define TCM_CORE_ARENA_H

#include "base/compiler.h"

struct tcm_span;

/* NULL: out of memory. */
void *tcm_arena_alloc(size_t size, size_t align);
void tcm_arena_free(void *ptr);

/* Usable bytes of the block at PTR, which lies in the arena's piece SPAN. 0 if
   no block in use starts there. */
size_t tcm_arena_block_size(const struct tcm_span *span, const void *ptr);

void tcm_arena_lock(void);
void tcm_arena_unlock(void);

/* Calls VISIT, without a lock, for each piece. */
void tcm_arena_each(void (*visit)(void *ctx, uintptr_t start, size_t bytes),
                    void *ctx);

/* Walks all pieces; dies on the first broken invariant. */
void tcm_arena_verify(void);

#endif
