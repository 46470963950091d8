/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start, stop, flush and marks, as the program and other processes ask for
 * them.
 *
 * Threads: any, after mtr_init. Start and stop exclude each other.
 */
#ifndef TCM_TRACER_TRACE_CONTROL_H
#define TCM_TRACER_TRACE_CONTROL_H

#include "base/compiler.h"

struct mtr_recorder;
struct mtr_thread;

/*
 * Each call waits for earlier calls of other threads.
 *
 * - mtr_start begins a recording to PATH, which is like TCMALLOC_TRACE_OUTPUT;
 *   NULL: to that of the environment. true: all calls that begin from now on
 *   are recorded. false: a recording is on, or cannot begin (a message waits),
 *   or the library's destructor has run.
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
bool mtr_start(const char *path);
bool mtr_stop(void);
bool mtr_flush(void);
bool mtr_file(char *path, size_t size);
bool mtr_is_on(void);

/* Writes a mark with its time, cut to MTF_EXTENDED_MAX bytes between two
   characters of UTF-8. T is from mtr_enter. */
void mtr_put_mark(struct mtr_thread *t, const char *text, size_t length);

/*
 * Creates the thread of the control socket (control_server.c), if this process
 * is to have one and has none. A failure is reported on stderr, and the program
 * goes on without the socket.
 */
void mtr_control_server_ensure(void);

/* Begins and ends a section that only one thread at a time may be in. For the
   recorder. */
void mtr_busy_begin(struct mtr_recorder *rec);
void mtr_busy_end(struct mtr_recorder *rec);

#endif
