/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for the writers of src/traceformat: a trace that is written into it,
 * and the stack of the writer of processed traces.
 */
#ifndef TESTS_LIB_MEMORY_SINK_H
#define TESTS_LIB_MEMORY_SINK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* All zero is empty; the user frees DATA. */
struct memory_sink {
    uint8_t *data;
    size_t length, room;
};

/* Appends N bytes to the struct memory_sink CTX. false: out of memory. */
static inline bool memory_sink_take(void *ctx, const void *data, size_t n) {
    struct memory_sink *m = ctx;
    if (m->length + n > m->room) {
        size_t room = 2 * (m->room + n);
        uint8_t *p = realloc(m->data, room);
        if (p == NULL)
            return false;
        m->data = p;
        m->room = room;
    }
    memcpy(m->data + m->length, data, n);
    m->length += n;
    return true;
}

/* Doubles the writer's stack (mtf_proc_grow). */
static inline bool memory_sink_grow(void *ctx, uint32_t **stack,
                                    size_t *capacity) {
    size_t n = *capacity == 0 ? 16 : *capacity * 2;
    uint32_t *p = realloc(*stack, n * sizeof(*p));
    (void)ctx;
    if (p == NULL)
        return false;
    *stack = p;
    *capacity = n;
    return true;
}

#endif
