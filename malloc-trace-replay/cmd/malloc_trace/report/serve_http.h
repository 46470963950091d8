/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libmicrohttpd, loaded when a page is served. Linked, it and the libraries
 * that it needs would be set up in every run of the program, and ask for memory
 * before main: those that look at an allocator have to begin without.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_SERVE_HTTP_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_SERVE_HTTP_H

#include "base/compiler.h"

#ifdef TCM_HAVE_MICROHTTPD
#include <microhttpd.h>

/* X(name): MHD_name is called. */
#define SERVE_HTTP_FUNCTIONS(X)                                                \
    X(add_response_header)                                                     \
    X(create_response_from_buffer)                                             \
    X(destroy_response)                                                        \
    X(get_connection_info)                                                     \
    X(get_daemon_info)                                                         \
    X(get_timeout)                                                             \
    X(lookup_connection_value)                                                 \
    X(queue_response)                                                          \
    X(run)                                                                     \
    X(start_daemon)                                                            \
    X(stop_daemon)

/* After serve_http_load. */
struct serve_http {
#define X(name) __typeof__(&MHD_##name) name;
    SERVE_HTTP_FUNCTIONS(X)
#undef X
};
extern struct serve_http serve_http;

/* False: a message is out. */
bool serve_http_load(void);
#endif

#endif
