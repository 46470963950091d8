/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tokens: 64-bit names of blocks, never used twice. Threads take them in blocks
 * from one counter, so that the hot path needs no atomic operation.
 *
 * Threads: any. The counter is in ordinary memory: the child of a fork goes on
 * where its parent was, so that its tokens are above all those that it finds in
 * the words of inherited blocks.
 */
#ifndef MTR_TOKEN_H
#define MTR_TOKEN_H

#include "base/atomic.h"

#define MTR_TOKENS_MIN 64u
#define MTR_TOKENS_MAX 4096u

/* The first of COUNT new tokens. Relaxed: only the numbers matter, nothing is
   published through them. */
static inline uint64_t mtr_tokens_take(uint64_t *counter, uint32_t count) {
    return tcm_add_relaxed(counter, (uint64_t)count);
}

#endif
