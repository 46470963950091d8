/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGINT and SIGTERM as a request to end early and well. The second one ends
 * the program as if it were not caught. A signal that was ignored stays so.
 *
 * Threads: asked for by any, caught by the main thread.
 */
#ifndef TOOL_COMMON_STOP_H
#define TOOL_COMMON_STOP_H

#include "base/compiler.h"

#include <signal.h>
#include <sys/types.h>

void tool_stop_catch(void);
/* The first signal goes to CHILD too, which obeys; 0: no longer. */
void tool_stop_pass_to(pid_t child);
/* In a child to which the parent passes it, and the terminal perhaps as well:
   no signal ends it. Signals that were blocked for it (common/child.h) come
   now. */
void tool_stop_obey(void);
/* Adds the signals that are requests to stop. */
void tool_stop_add_signals(sigset_t *set);
bool tool_stop_requested(void);
/* True from half a second after the request was first seen here: what was begun
   before may be completed if it takes no longer. */
bool tool_stop_is_due(void);
/* The second signal removes the file NAME in FOLDER before; NULL: none. NAME
   stays until the next call. */
void tool_stop_remove(int folder, const char *name);

#endif
