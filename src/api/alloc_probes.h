/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes for the heap profiler of OpenTelemetry:
 *
 *   otel_memory:alloc(ptr, size, weight)   a sampled block was allocated
 *   otel_memory:free(ptr)                  a sampled block is freed
 *
 * Contract: design-docs/00003-memory-profiling of
 * github.com/open-telemetry/opentelemetry-ebpf-profiler. One allocated byte in
 * TCM_PROBE_INTERVAL is sampled, at random. SIZE is what the program asked for;
 * WEIGHT, the samples in the block times the interval, has the expected value
 * SIZE, so weights add up to the bytes allocated.
 *
 * Slow paths look for a listener. While there is one, all caches are shut
 * (core/thread_cache.h), so every allocation is counted here. A sampled block
 * has its own pages, marked in its span: their frees take the slow path anyway,
 * and other frees pay nothing. Nothing is sampled during a recording, which has
 * every call.
 *
 * Threads: SELF is the calling thread's state; no lock is held.
 */
#ifndef TCM_API_ALLOC_PROBES_H
#define TCM_API_ALLOC_PROBES_H

#include "api/thread_state.h"

#define TCM_PROBE_INTERVAL ((uint64_t)512 << 10)

/* Counts an allocation of SIZE bytes. Returns its weight; 0: it is no sample,
   or no one listens. */
uint64_t tcm_probe_count(struct tcm_thread_state *self, size_t size);
static inline uint64_t tcm_probe_weigh(struct tcm_thread_state *self,
                                       size_t size) {
    if (TCM_LIKELY(tcm_load_relaxed(&tcm_alloc_listeners) == 0 &&
                   tcm_thread_is_plain(self)))
        return 0;
    return tcm_probe_count(self, size);
}

/* The block of SPAN is a sample of WEIGHT, allocated for a request of SIZE
   bytes. */
void tcm_probe_alloc(struct tcm_span *span, size_t size, uint64_t weight);

/* True for a block that was a sample when it was allocated. */
static inline bool tcm_probe_is_sample(const struct tcm_block_info *info) {
    return info->kind == TCM_BLOCK_LARGE && info->span->sampled;
}

/* The block of SPAN, a sample, is no longer there. */
void tcm_probe_free(struct tcm_span *span);
/* The block of SPAN has SIZE bytes now, in the same place: to listeners, it is
   another block. */
void tcm_probe_resized(struct tcm_thread_state *self, struct tcm_span *span,
                       size_t size);

#endif
