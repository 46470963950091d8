/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random processed traces and the output that their reader must yield, for
 * tests of the processed format.
 *
 * Threads: none shared.
 */
#ifndef TESTS_UNIT_TRACEFORMAT_PROC_SAMPLE_H
#define TESTS_UNIT_TRACEFORMAT_PROC_SAMPLE_H

#include "base/checksum.h"
#include "memory_sink.h"
#include "prng.h"
#include "tap.h"
#include "traceformat/proc_writer.h"
#include "traceformat/proc_reader.h"

struct proc_sample {
    uint8_t *bytes; /* the trace */
    size_t length, room;
    size_t fail_at;     /* the sink refuses to pass this length, if not 0 */
    struct mtf_op *ops; /* expected output of the reader */
    size_t count, op_room;
    uint64_t operations;
    uint8_t header[128]; /* the raw trace's header that it carries */
};

struct proc_live {
    struct mtf_proc_object object;
    uint64_t size;
};

static bool proc_sample_sink(void *ctx, const void *data, size_t n) {
    struct proc_sample *s = ctx;
    if (s->fail_at != 0 && s->length + n > s->fail_at)
        return false;
    if (s->length + n > s->room) {
        s->room = (s->length + n) * 2;
        s->bytes = realloc(s->bytes, s->room);
    }
    memcpy(s->bytes + s->length, data, n);
    s->length += n;
    return true;
}

static struct mtf_op *proc_sample_op(struct proc_sample *s, unsigned kind) {
    if (s->count == s->op_room) {
        s->op_room = s->op_room == 0 ? 1024 : s->op_room * 2;
        s->ops = realloc(s->ops, s->op_room * sizeof(*s->ops));
    }
    struct mtf_op *op = &s->ops[s->count++];
    memset(op, 0, sizeof(*op));
    op->kind = (uint8_t)kind;
    if (kind <= MTF_OP_LAST_OPERATION)
        s->operations++;
    return op;
}

static uint64_t proc_sample_size(struct prng *p) {
    switch (prng_below(p, 12)) {
    case 0:
        return prng_below(p, 1 << 20);
    case 1:
        return prng_next(p) >> prng_below(p, 64);
    case 2:
        return 0;
    default:
        return prng_below(p, 40) * 8;
    }
}

static unsigned proc_sample_call(struct prng *p, bool (*is)(unsigned)) {
    for (;;) {
        unsigned c = (unsigned)prng_below(p, MTF_CALL_LIMIT);
        if (is(c) && mtf_call_name(c)[0] != '?')
            return c;
    }
}

/* One record that makes, ends or changes a block. */
static void proc_sample_event(struct proc_sample *s, struct mtf_proc_writer *w,
                              struct prng *p, struct proc_live *live,
                              size_t *lives, bool grow, unsigned calls[2]) {
    uint64_t size = proc_sample_size(p);
    struct mtf_op *op;
    unsigned dice = (unsigned)prng_below(p, 1000);
    if (dice < 5)
        calls[0] = proc_sample_call(p, mtf_call_is_plain_alloc);
    if (dice >= 995)
        calls[1] = proc_sample_call(p, mtf_call_is_free);
    if (*lives == 0 || prng_below(p, 100) < (grow ? 55 : 45)) {
        struct proc_live *l = &live[(*lives)++];
        if (dice % 7 == 0) {
            mtf_proc_put_present(w, size / 3);
            proc_sample_op(s, MTF_OP_PRESENT)->size = size / 3;
        }
        if (dice < 30) {
            unsigned call = proc_sample_call(p, mtf_call_is_aligned_alloc);
            unsigned align = (unsigned)prng_below(p, 30);
            mtf_proc_put_aligned(w, call, align, size, &l->object);
            op = proc_sample_op(s, MTF_OP_ALIGNED);
            op->call = (uint8_t)call;
            op->align_log2 = (uint8_t)align;
        } else if (dice < 60) {
            mtf_proc_put_realloc_new(w, MTF_CALL_REALLOC, dice & 1, size,
                                     &l->object);
            op = proc_sample_op(s, MTF_OP_REALLOC_NEW);
            op->call = MTF_CALL_REALLOC;
            op->flags = dice & 1;
        } else {
            mtf_proc_put_alloc(w, calls[0], size, &l->object);
            op = proc_sample_op(s, MTF_OP_ALLOC);
            op->call = (uint8_t)calls[0];
        }
        op->slot = l->object.slot;
        op->size = size;
        l->size = size;
        return;
    }
    /* most blocks are freed in order of birth or backwards, others anywhere */
    size_t i = *lives - 1;
    if (prng_below(p, 3) == 0)
        i = prng_below(p, *lives);
    struct mtf_proc_object o = live[i].object;
    if (dice < 100) {
        unsigned call = dice & 1 ? MTF_CALL_REALLOC : MTF_CALL_REALLOCARRAY;
        mtf_proc_put_realloc(w, call, dice & 2, size, &o);
        op = proc_sample_op(s, MTF_OP_REALLOC);
        op->call = (uint8_t)call;
        op->flags = dice & 2 ? MTF_PROC_FLAG_MOVED : 0;
        op->size = size;
        op->slot = o.slot;
        return;
    }
    live[i] = live[--*lives];
    if (dice < 110) {
        mtf_proc_put_realloc_end(w, MTF_CALL_REALLOC, &o);
        op = proc_sample_op(s, MTF_OP_REALLOC_END);
        op->call = MTF_CALL_REALLOC;
    } else if (dice < 130) {
        mtf_proc_put_free_size(w, MTF_CALL_DELETE_SIZED, &o, size);
        op = proc_sample_op(s, MTF_OP_FREE_SIZE);
        op->call = MTF_CALL_DELETE_SIZED;
        op->size = size;
    } else {
        mtf_proc_put_free(w, calls[1], &o);
        op = proc_sample_op(s, MTF_OP_FREE);
        op->call = (uint8_t)calls[1];
    }
    op->slot = o.slot;
}

/* One record that is no operation. Its bytes are not kept: op->size is 0. */
static void proc_sample_other(struct proc_sample *s, struct mtf_proc_writer *w,
                              struct prng *p) {
    static const uint8_t bytes[600] = "some text";
    uint32_t thread = 1 + (uint32_t)prng_below(p, 5);
    uint64_t n = prng_below(p, 600);
    struct mtf_op *op;
    switch (prng_below(p, 9)) {
    case 0:
        if (thread == w->thread)
            return;
        mtf_proc_put_switch(w, thread);
        proc_sample_op(s, MTF_OP_SWITCH)->slot = thread;
        return;
    case 1:
        mtf_proc_put_time(w, w->time_ns + 1 + n * 1000);
        proc_sample_op(s, MTF_OP_TIME)->size = w->time_ns;
        return;
    case 2:
        mtf_proc_put_thread_start(w, thread, (uint32_t)n);
        op = proc_sample_op(s, MTF_OP_THREAD_START);
        op->slot = thread;
        op->size = n;
        return;
    case 3:
        mtf_proc_put_thread_end(w, thread, bytes, n);
        proc_sample_op(s, MTF_OP_THREAD_END)->slot = thread;
        return;
    case 4:
        mtf_proc_put_text(w, MTF_PROC_MARK, bytes, n);
        proc_sample_op(s, MTF_OP_MARK);
        return;
    case 5:
        mtf_proc_put_pair(w, MTF_PROC_EXTENSION, (unsigned)n & 3, n << 40);
        op = proc_sample_op(s, MTF_OP_EXTENSION);
        op->slot = (uint32_t)n & 3;
        op->size = n << 40;
        return;
    case 6:
        mtf_proc_put_sample(w, 77, bytes, n / 10 * 10);
        proc_sample_op(s, MTF_OP_SAMPLE);
        return;
    case 7:
        mtf_proc_put_loss(w, thread, n, 1, 2);
        proc_sample_op(s, MTF_OP_LOSS)->slot = thread;
        return;
    default:
        mtf_proc_put_failed(w, MTF_CALL_MALLOC, 255, MTF_PROC_FLAG_HAD_OLD,
                            UINT64_MAX - n);
        op = proc_sample_op(s, MTF_OP_FAILED);
        op->call = MTF_CALL_MALLOC;
        op->align_log2 = 255;
        op->flags = MTF_PROC_FLAG_HAD_OLD;
        op->size = UINT64_MAX - n;
    }
}

/* Makes a trace of about EVENTS records. true: the writer reports no failure.
 */
static bool proc_sample_make(struct proc_sample *s, uint64_t seed,
                             size_t events, size_t fail_at) {
    struct mtf_proc_writer *w = malloc(sizeof(*w));
    struct proc_live *live = malloc((events + 1) * sizeof(*live));
    struct prng p;
    size_t lives = 0;
    unsigned calls[2] = {MTF_CALL_MALLOC, MTF_CALL_FREE};
    prng_seed(&p, seed);
    memset(s, 0, sizeof(*s));
    s->fail_at = fail_at;
    for (unsigned i = 0; i < sizeof(s->header); i++)
        s->header[i] = (uint8_t)i;
    memset(s->header + 64, 0, 8); /* start_ns */
    mtf_proc_writer_begin(w, proc_sample_sink, memory_sink_grow, s, s->header,
                          sizeof(s->header));
    for (size_t i = 0; i < events; i++)
        if (prng_below(&p, 100) == 0)
            proc_sample_other(s, w, &p);
        else
            proc_sample_event(s, w, &p, live, &lives, i % 20000 < 10000, calls);
    struct mtf_account_value live_at_end = {MTF_PROC_ACCOUNT_LIVE_AT_END,
                                            lives};
    bool good = mtf_proc_writer_end(w, &live_at_end, 1);
    free(w->stack);
    free(w);
    free(live);
    return good;
}

static void proc_sample_free(struct proc_sample *s) {
    free(s->bytes);
    free(s->ops);
}

#endif
