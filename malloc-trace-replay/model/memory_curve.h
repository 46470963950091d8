/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The curve of the memory of a replay. replay writes it as JSON, an array for
 * each column, and `malloc-trace memory` reads it.
 */
#ifndef TOOL_MODEL_MEMORY_CURVE_H
#define TOOL_MODEL_MEMORY_CURVE_H

#include <stdint.h>

/* X(column). A point holds from the look at `operation` until `until_ns`, as
   far as anybody knows. */
#define MEMORY_CURVE(X)                                                        \
    X(operation)                                                               \
    X(recorded_ns)                                                             \
    X(until_ns)                                                                \
    X(rss_bytes)                                                               \
    X(requested_bytes)                                                         \
    X(rounding_bytes)                                                          \
    X(free_bytes)                                                              \
    X(empty_bytes)                                                             \
    X(never_bytes)                                                             \
    X(live_blocks)                                                             \
    X(huge_bytes)                                                              \
    X(given_back_bytes)                                                        \
    X(came_again_bytes)

struct memory_point {
#define X(column) uint64_t column;
    MEMORY_CURVE(X)
#undef X
};

#endif
