/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a recording: how it begins, gets a saver and ends, by call or
 * with the first event.
 *
 * Threads: any, unless said otherwise.
 */
#ifndef TCM_TRACER_SESSION_H
#define TCM_TRACER_SESSION_H

#include "base/compiler.h"

struct mtr_recorder;

/* --- By call -------------------------------------------------------------- */

/*
 * After mtr_init. Each call waits for earlier calls of other threads.
 *
 * - mtr_start begins a recording to PATH, which is like TCMALLOC_TRACE_OUTPUT;
 *   NULL: to that of the environment. SITES: the mode of its call sites
 *   (mtr_process_choose_sites); NULL: as before. true: all calls that begin
 *   from now on are recorded. false: a recording is on, or cannot begin (a
 *   message waits), or the library's destructor has run.
 * - mtr_stop ends the recording. true: the trace is whole, and calls that begin
 *   from now on are not in it. false: none was on, or its end could not be
 *   written.
 * - mtr_flush: true when all events so far are in the file.
 * - mtr_file puts the name of the trace's file into PATH of SIZE bytes, after a
 *   flush if a recording is on. false: this process has no file, there is no
 *   room, or the flush failed.
 * - mtr_is_on is mtr_is_recording (recording.h), but false before set-up, when
 *   no recording is known yet.
 */
bool mtr_start(const char *path, const char *sites);
bool mtr_stop(void);
bool mtr_flush(void);
bool mtr_file(char *path, size_t size);
bool mtr_is_on(void);

/* --- For the recorder ----------------------------------------------------- */

/* Notes that the program ends: waits for a start or stop by call, and no later
   one begins a recording. */
void mtr_exit_begin(struct mtr_recorder *rec);
/* Begins a recording from MTR_ARMED, or waits for the thread that does. false:
   it failed. */
bool mtr_start_armed(struct mtr_recorder *rec);
/* Arms the recorder at the first call of a forked child, if children are
   recorded. */
bool mtr_child_begin(struct mtr_recorder *rec);
/* Creates the saver of a recording that is on if there is none, and waits until
   it is set up. false: the recording is over, even if another begins; or there
   is no saver, and this call may not create one, or another call is creating
   it. */
bool mtr_saver_ensure(struct mtr_recorder *rec);
/* mtr_saver_ensure, but waits for a saver that another call is creating,
   TIMEOUT_NS at most. */
bool mtr_saver_await(struct mtr_recorder *rec, uint64_t timeout_ns);
/* Requests a round and waits for it. false: the recording has ended, or there
   is no saver, as above. */
bool mtr_saver_round(struct mtr_recorder *rec);
/*
 * Creates the thread of the control socket (control_server.c), if this process
 * is to have one and has none. A failure is reported on stderr, and the program
 * goes on without the socket.
 */
void mtr_control_server_ensure(void);
/* Creates it in the child of a fork, from the fork handler. The child's thread
   holds no lock. */
void mtr_control_server_fork_child(void);

#endif
