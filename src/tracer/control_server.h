/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket: lets other processes of the same user start, stop, flush
 * and ask (TCMALLOC_TRACE_CONTROL). The protocol is in
 * traceformat/control_protocol.h.
 *
 * Threads: one of its own, made like the saver: signals blocked, a descriptor
 * table that the program does not see, private memory. The packets of clients
 * are bounded, none of them is waited for, and the peer's user must be this
 * process's.
 */
#ifndef TCM_TRACER_CONTROL_SERVER_H
#define TCM_TRACER_CONTROL_SERVER_H

#include "tracer/recorder.h"

/* Makes the thread, if this process wants one and has none. What goes wrong is
   said on stderr, and the program goes on without. */
void mtr_control_server_need(void);

#endif
