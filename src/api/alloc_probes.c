/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/alloc_probes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/linux/usdt.h"
#include "base/random.h"

/* Functions of their own, so that each probe is in one place. */
static TCM_NOINLINE void fire_alloc(const void *ptr, size_t size,
                                    uint64_t weight) {
    TCM_USDT_3(otel_memory, alloc, tcm_alloc_listeners, (uintptr_t)ptr, size,
               weight);
}

static TCM_NOINLINE void fire_free(const void *ptr) {
    TCM_USDT_1(otel_memory, free, tcm_free_listeners, (uintptr_t)ptr);
}

/* Draws the bytes up to and with the next sample. */
static void draw(struct tcm_thread_cache *cache) {
    if (cache->sample_random == 0)
        cache->sample_random = (tcm_clock_ns() ^ (uintptr_t)cache << 16) | 1;
    cache->sample_left =
        tcm_random_distance(&cache->sample_random, TCM_PROBE_INTERVAL) + 1;
}

/*
 * Whole intervals of SIZE count as a sample each: this keeps the expected
 * value, and bounds the draws for large blocks. A thread without a cache, which
 * is about to end or out of memory, has nothing to count with.
 */
uint64_t tcm_probe_count(struct tcm_thread_state *self, size_t size) {
    TCM_ASSERT(self == &tcm_self);
    tcm_thread_resume_plain(self);
    struct tcm_thread_cache *cache = self->own;
    if (tcm_load_relaxed(&tcm_alloc_listeners) == 0 || cache == TCM_NO_CACHE ||
        tcm_trace_is_private(self) || tcm_trace_is_recording())
        return 0;
    uint64_t samples = size / TCM_PROBE_INTERVAL;
    uint64_t rest = size % TCM_PROBE_INTERVAL;
    if (cache->sample_random == 0)
        draw(cache);
    while (cache->sample_left <= rest) {
        samples++;
        rest -= cache->sample_left;
        draw(cache);
    }
    cache->sample_left -= rest;
    TCM_ASSERT(cache->sample_left != 0);
    return samples * TCM_PROBE_INTERVAL;
}

void tcm_probe_alloc(struct tcm_span *span, size_t size, uint64_t weight) {
    TCM_ASSERT(span->state == TCM_SPAN_LARGE && !span->sampled);
    TCM_ASSERT(weight != 0 && weight % TCM_PROBE_INTERVAL == 0 && size != 0);
    span->sampled = true;
    fire_alloc((const void *)span->start, size, weight);
}

void tcm_probe_free(struct tcm_span *span) {
    TCM_ASSERT(span->state == TCM_SPAN_LARGE && span->sampled);
    span->sampled = false;
    if (tcm_load_relaxed(&tcm_free_listeners) != 0)
        fire_free((const void *)span->start);
}

void tcm_probe_resized(struct tcm_thread_state *self, struct tcm_span *span,
                       size_t size) {
    if (span->sampled)
        tcm_probe_free(span);
    uint64_t weight = tcm_probe_weigh(self, size);
    if (weight != 0)
        tcm_probe_alloc(span, size, weight);
}
