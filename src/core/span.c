/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records come from one pool per size in cache lines, so that no two share a
 * line: they are changed under different locks.
 */
#include "core/span.h"
#include "base/check.h"
#include "core/meta_alloc.h"

#define LINE      ((size_t)TCM_CACHE_LINE)
#define MAX_WORDS (TCM_MAX_OBJECTS / 64)
#define RECORD(w) (offsetof(struct tcm_span, free_bits) + 8 * (size_t)(w))

TCM_STATIC_ASSERT(RECORD(1) <= LINE, "a free run's record is one line");
TCM_STATIC_ASSERT(RECORD(MAX_WORDS) <= TCM_SPAN_SIZES * LINE, "enough pools");

static struct tcm_pool *pool_of(struct tcm_span_pools *pools,
                                unsigned bit_words) {
    TCM_ASSERT(bit_words != 0 && bit_words <= MAX_WORDS);
    return &pools->pool[(RECORD(bit_words) - 1) / LINE];
}

struct tcm_span *tcm_span_new(struct tcm_span_pools *pools,
                              unsigned bit_words) {
    struct tcm_span *span = tcm_pool_get(pool_of(pools, bit_words));
    if (span == NULL)
        return NULL;
    __builtin_memset(span, 0, RECORD(bit_words));
    span->bit_words = (uint8_t)bit_words;
    return span;
}

void tcm_span_delete(struct tcm_span_pools *pools, struct tcm_span *span) {
    struct tcm_pool *pool = pool_of(pools, span->bit_words);
    span->state = TCM_SPAN_NONE;
    span->pages = 0;
    tcm_pool_put(pool, span);
}
