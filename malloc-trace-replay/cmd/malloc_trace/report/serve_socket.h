/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The listening socket of the live page.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_REPORT_SERVE_SOCKET_H
#define TOOL_CMD_MALLOC_TRACE_REPORT_SERVE_SOCKET_H

#include "cmd/malloc_trace/report/serve_request.h"

/* Listens, and sets A's port. -1: a message is out. A UNIX socket is of mode
   0600 from the moment that it has a name, and takes the place of one that
   nobody listens to. */
int serve_listen(struct serve_address *a);
/* Takes a UNIX socket's name away. */
void serve_unlisten(const struct serve_address *a);

#endif
