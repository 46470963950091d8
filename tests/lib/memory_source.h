/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trace in memory as a source for the readers of src/traceformat.
 */
#ifndef TESTS_LIB_MEMORY_SOURCE_H
#define TESTS_LIB_MEMORY_SOURCE_H

#include "traceformat/trace_io.h"

#include <string.h>

struct memory_source {
    struct mtf_source source;
    const uint8_t *data;
    size_t left;
    size_t piece; /* most bytes of one read */
};

static inline enum mtf_source_result
memory_source_read(struct mtf_source *s, void *buf, size_t n, size_t *got) {
    struct memory_source *m = (struct memory_source *)s;
    *got = n < m->piece ? n : m->piece;
    if (*got > m->left)
        *got = m->left;
    if (*got == 0)
        return MTF_SOURCE_END;
    memcpy(buf, m->data, *got);
    m->data += *got;
    m->left -= *got;
    return MTF_SOURCE_DATA;
}

/* PIECE: most bytes of one read; 0: no limit. */
static inline void memory_source_init(struct memory_source *m, const void *data,
                                      size_t length, size_t piece) {
    memset(m, 0, sizeof(*m));
    m->source.read = memory_source_read;
    m->data = data;
    m->left = length;
    m->piece = piece == 0 ? SIZE_MAX : piece;
}

#endif
