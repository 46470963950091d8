/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGINT and SIGTERM as a request to end early and in order. A second one ends
 * the program as if it were not caught. A signal that was ignored at the start
 * stays ignored.
 *
 * Threads: any may ask; the main thread calls the rest.
 */
#ifndef TOOL_COMMON_STOP_H
#define TOOL_COMMON_STOP_H

#include "base/compiler.h"

#include <signal.h>
#include <sys/types.h>

/* Catches the signals from now on. */
void tool_stop_catch(void);
/* Forwards the request to CHILD, as SIGTERM, also one that came before; 0: no
   longer. */
void tool_stop_pass_to(pid_t child);
/* Makes a child take any number of these signals as one request: the parent and
   perhaps the terminal send them. Unblocks those that common/child.h
   blocked. */
void tool_stop_obey(void);
/* Adds the signals that are requests to stop to SET. */
void tool_stop_add_signals(sigset_t *set);
bool tool_stop_requested(void);
/* True from half a second after the first call that saw the request: time to
   complete what was begun before. */
bool tool_stop_is_due(void);
/* Makes a second signal remove the file NAME in FOLDER before the program ends;
   NULL: no file. NAME must stay valid until the next call. */
void tool_stop_remove(int folder, const char *name);

#endif
