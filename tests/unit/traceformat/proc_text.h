/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of the processed trace as lines of text, for tests.
 *
 * Threads: none shared.
 */
#ifndef TESTS_UNIT_TRACEFORMAT_PROC_TEXT_H
#define TESTS_UNIT_TRACEFORMAT_PROC_TEXT_H

#include "tap.h"
#include "traceformat/proc_reader.h"
#include "traceformat/trace_event.h"
#include "traceformat/varint.h"

struct text {
    char s[32768];
    size_t n;
};

static inline void text_add(struct text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static inline void text_add(struct text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->s + t->n, sizeof(t->s) - t->n, fmt, ap);
    va_end(ap);
    if (n < 0 || t->n + (size_t)n >= sizeof(t->s))
        tap_bail("text too long");
    t->n += (size_t)n;
}

/* Writes one operation as a line. */
static inline void text_op(struct text *t, const struct mtf_proc_block *b,
                           const struct mtf_op *op) {
    unsigned long long size = op->size;
    const char *call = mtf_call_name(op->call);
    size_t n;
    switch (op->kind) {
    case MTF_OP_ALLOC:
    case MTF_OP_REALLOC_NEW:
        text_add(t, "slot %u = %s(%llu)\n", op->slot, call, size);
        return;
    case MTF_OP_ALIGNED:
        text_add(t, "slot %u = %s(%llu, align %llu)\n", op->slot, call, size,
                 1ull << op->align_log2);
        return;
    case MTF_OP_REALLOC:
        text_add(t, "slot %u = %s(slot %u, %llu)%s\n", op->slot, call, op->slot,
                 size, op->flags & MTF_PROC_FLAG_MOVED ? " moved" : "");
        return;
    case MTF_OP_FREE:
        text_add(t, "%s(slot %u)\n", call, op->slot);
        return;
    case MTF_OP_FREE_SIZE:
        text_add(t, "%s(slot %u, %llu)\n", call, op->slot, size);
        return;
    case MTF_OP_REALLOC_END:
        text_add(t, "%s(slot %u, 0) freed it\n", call, op->slot);
        return;
    case MTF_OP_FAILED:
        text_add(t, "%s(%llu) failed\n", call, size);
        return;
    case MTF_OP_SWITCH:
        text_add(t, "thread %u\n", op->slot);
        return;
    case MTF_OP_THREAD_START:
        text_add(t, "thread %u starts, kernel id %llu\n", op->slot, size);
        return;
    case MTF_OP_TIME:
        text_add(t, "time %llu ns\n", size);
        return;
    case MTF_OP_MARK: {
        const uint8_t *text = mtf_proc_bytes(b, op, &n);
        text_add(t, "mark \"%.*s\"\n", (int)n, (const char *)text);
        return;
    }
    case MTF_OP_THREAD_END: {
        const uint8_t *text = mtf_proc_bytes(b, op, &n);
        text_add(t, "thread %u ends, name \"%.*s\"\n", op->slot, (int)n,
                 (const char *)text);
        return;
    }
    case MTF_OP_EXTENSION:
        text_add(t, "extension %u, %llu\n", op->slot, size);
        return;
    case MTF_OP_PRESENT:
        text_add(t, "present bytes %llu\n", size);
        return;
    case MTF_OP_SAMPLE: {
        const uint8_t *data = mtf_proc_bytes(b, op, &n);
        text_add(t, "sample at %llu ns, %zu fields\n",
                 (unsigned long long)mtf_load_le64(data), (n - 8) / 10);
        return;
    }
    case MTF_OP_LOSS: {
        const uint8_t *data = mtf_proc_bytes(b, op, &n);
        text_add(t, "thread %u lost %llu events, %llu to %llu ns\n", op->slot,
                 (unsigned long long)mtf_load_le64(data),
                 (unsigned long long)mtf_load_le64(data + 8),
                 (unsigned long long)mtf_load_le64(data + 16));
        return;
    }
    default:
        text_add(t, "? %u\n", op->kind);
    }
}

#endif
