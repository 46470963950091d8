/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processed traces for the tests of replay, made with the trace writer from a
 * model whose account is known: the truth that a replay is compared with.
 *
 * Threads: one.
 */
#ifndef TESTS_UNIT_TOOLS_REPLAY_TRACES_H
#define TESTS_UNIT_TOOLS_REPLAY_TRACES_H

#include "memory_sink.h"
#include "prng.h"
#include "traceformat/proc_writer.h"
#include "traceformat/raw_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_START_NS 123456789u

struct model_block {
    struct mtf_proc_object object;
    uint64_t size;
    unsigned align_log2;
};

struct model {
    struct mtf_proc_writer w;
    FILE *out;
    struct prng p;
    struct model_block *block;
    size_t live, capacity;
    uint64_t ops, live_bytes, peak_bytes, failed, switches;
    uint64_t allocs, frees, reallocs, trims;
    uint32_t thread, last_thread;
    bool seen[1024];
    uint64_t threads;
    bool growing, incomplete;
};

static inline void model_die(const char *what) {
    perror(what);
    exit(99);
}

static inline bool model_sink(void *ctx, const void *data, size_t length) {
    struct model *m = ctx;
    return fwrite(data, 1, length, m->out) == length;
}

static inline void model_begin(struct model *m, FILE *out, uint64_t seed) {
    uint8_t header[MTF_RAW_HEADER_MAX];
    struct mtf_raw_header fixed;
    memset(m, 0, sizeof(*m));
    memset(&fixed, 0, sizeof(fixed));
    fixed.pid = 4711;
    fixed.random = seed;
    fixed.page_size = 4096;
    fixed.clock = 1;
    m->out = out;
    prng_seed(&m->p, seed);
    size_t n = mtf_raw_build_header(header, &fixed, "model", "made by a test");
    if (!mtf_proc_writer_begin(&m->w, model_sink, memory_sink_grow, m, header,
                               (uint32_t)n))
        model_die("writing the trace");
}

static inline void model_thread(struct model *m, uint32_t thread) {
    m->thread = thread;
    mtf_proc_put_switch(&m->w, thread);
}

static inline void model_op(struct model *m) {
    m->ops++;
    if (m->last_thread != 0 && m->last_thread != m->thread)
        m->switches++;
    m->last_thread = m->thread;
    if (!m->seen[m->thread % 1024]) {
        m->seen[m->thread % 1024] = true;
        m->threads++;
    }
}

static inline void model_live(struct model *m, uint64_t bytes) {
    m->live_bytes += bytes;
    if (m->live_bytes > m->peak_bytes)
        m->peak_bytes = m->live_bytes;
}

static inline struct model_block *model_new_block(struct model *m,
                                                  uint64_t size) {
    if (m->live == m->capacity) {
        m->capacity = m->capacity * 2 + 1024;
        m->block = realloc(m->block, m->capacity * sizeof(*m->block));
        if (m->block == NULL)
            model_die("realloc");
    }
    struct model_block *b = &m->block[m->live++];
    b->size = size;
    b->align_log2 = 0;
    model_op(m);
    m->allocs++;
    model_live(m, size);
    return b;
}

/* A block of a plain call; it is the last of m->block. */
static inline void model_alloc(struct model *m, unsigned call, uint64_t size) {
    mtf_proc_put_alloc(&m->w, call, size, &model_new_block(m, size)->object);
}

static inline void model_aligned(struct model *m, unsigned call,
                                 unsigned align_log2, uint64_t size) {
    struct model_block *b = model_new_block(m, size);
    b->align_log2 = align_log2;
    mtf_proc_put_aligned(&m->w, call, align_log2, size, &b->object);
}

static inline void model_realloc_new(struct model *m, unsigned flags,
                                     uint64_t size) {
    mtf_proc_put_realloc_new(&m->w, MTF_CALL_REALLOC, flags, size,
                             &model_new_block(m, size)->object);
}

static inline struct model_block model_take(struct model *m, size_t i) {
    struct model_block b = m->block[i];
    m->block[i] = m->block[--m->live];
    m->live_bytes -= b.size;
    model_op(m);
    m->frees++;
    return b;
}

static inline void model_free(struct model *m, unsigned call, size_t i) {
    struct model_block b = model_take(m, i);
    mtf_proc_put_free(&m->w, call, &b.object);
}

static inline void model_free_size(struct model *m, unsigned call, size_t i,
                                   uint64_t size) {
    struct model_block b = model_take(m, i);
    mtf_proc_put_free_size(&m->w, call, &b.object, size);
}

static inline void model_realloc_end(struct model *m, size_t i) {
    struct model_block b = model_take(m, i);
    mtf_proc_put_realloc_end(&m->w, MTF_CALL_REALLOC, &b.object);
}

static inline void model_realloc(struct model *m, unsigned call, size_t i,
                                 uint64_t size) {
    struct model_block *b = &m->block[i];
    m->live_bytes -= b->size;
    b->size = size;
    model_op(m);
    m->reallocs++;
    model_live(m, size);
    mtf_proc_put_realloc(&m->w, call, true, size, &b->object);
}

static inline void model_trim(struct model *m, uint64_t pad) {
    m->trims++;
    mtf_proc_put_pair(&m->w, MTF_PROC_EXTENSION, MTF_EXTENSION_TRIM, pad);
}

/* Its closing block says that an operation took a nanosecond, and an allocation
   a fetch. */
static inline void model_end(struct model *m) {
    struct mtf_account_value account[] = {
        {MTF_PROC_ACCOUNT_LIVE_AT_END, m->live},
        {MTF_PROC_ACCOUNT_PEAK_LIVE_BYTES, m->peak_bytes},
        {MTF_PROC_ACCOUNT_THREADS, m->threads},
        {MTF_PROC_ACCOUNT_COMPLETE, !m->incomplete},
        {MTF_PROC_ACCOUNT_GROWING, m->growing},
        {MTF_PROC_ACCOUNT_START_NS, MODEL_START_NS},
        {MTF_PROC_ACCOUNT_END_NS, MODEL_START_NS + m->ops},
        {MTF_PROC_ACCOUNT_RECORDER + MTF_ACCOUNT_CENTRAL_FETCHES, m->allocs},
    };
    if (!mtf_proc_writer_end(&m->w, account, TCM_ARRAY_SIZE(account)))
        model_die("writing the trace");
    free(m->w.stack);
    free(m->block);
}

#endif
