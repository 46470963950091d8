/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the bytes of a trace come from and go to: readers pull from a source,
 * writers push to a sink.
 */
#ifndef TCM_TRACEFORMAT_TRACE_IO_H
#define TCM_TRACEFORMAT_TRACE_IO_H

#include "base/compiler.h"
#include "traceformat/trace_status.h"

/* Takes N bytes; false: it failed, and gets no more. */
typedef bool mtf_sink(void *ctx, const void *data, size_t n);

enum mtf_source_result {
    MTF_SOURCE_DATA,  /* *GOT bytes, at least one */
    MTF_SOURCE_BREAK, /* bytes were lost here; break_* say where; go on */
    MTF_SOURCE_END,
    MTF_SOURCE_ERROR
};

struct mtf_source {
    enum mtf_source_result (*read)(struct mtf_source *s, void *buf, size_t n,
                                   size_t *got);
    uint64_t break_offset;  /* as stored */
    uint64_t break_skipped; /* stored bytes without use */
    enum mtf_status status; /* BREAK: MTF_DAMAGED or MTF_CUT; ERROR: why */
    int error;              /* ERROR with MTF_SYSTEM: errno */
    bool framed; /* bytes come from LZ4 frames (known after the first read), so
                    that damage may have changed the magic */
};

#endif
