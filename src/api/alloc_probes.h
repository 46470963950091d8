/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two probes by which OpenTelemetry's profiler sees the heap:
 *
 *   otel_memory:alloc(ptr, size, weight)   a sampled block was allocated
 *   otel_memory:free(ptr)                  a sampled block is freed
 *
 * Contract: design-docs/00003-memory-profiling of
 * github.com/open-telemetry/opentelemetry-ebpf-profiler. Each byte that is
 * allocated is a sample with the same chance, one in TCM_PROBE_INTERVAL. SIZE
 * is what the program asked for, WEIGHT the samples in it times the interval:
 * its expected value is SIZE, so weights add up to the bytes allocated.
 *
 * Slow paths ask if a listener is there. While one is, all caches are shut
 * (core/thread_cache.h), and every allocation comes here to be counted. A
 * sampled block has pages of its own, and its span says so: frees of such
 * blocks are slow in any case, and no other free looks for samples. A recording
 * has every call, so nothing is sampled while one is on.
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
