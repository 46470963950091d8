/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start, stop, flush, marks: what the program and other processes ask of the
 * recorder.
 *
 * Threads: any, after mtr_init. Start and stop come one at a time.
 */
#ifndef TCM_TRACER_TRACE_CONTROL_H
#define TCM_TRACER_TRACE_CONTROL_H

#include "base/compiler.h"

struct mtr_recorder;
struct mtr_thread;

/*
 * Each waits for those that came before it.
 *
 * start: PATH as TCMALLOC_TRACE_OUTPUT, NULL: that of the environment. True
 * when all calls that begin from now on are recorded; false: a recording is on,
 * cannot begin (a message waits), or the library's destructor ran.
 * stop: true when the trace is whole; calls that begin from now on are not in
 * it. false: none was on, or its end could not be written.
 * flush: true when all events so far are in the file.
 * file: the name of the trace's file in PATH, SIZE bytes, after a flush if a
 * recording is on. false: no file of this process, no room, or that failed.
 * is_on: as mtr_is_recording (recording.h), but not before set-up, when nothing
 * is known of a recording yet.
 */
bool mtr_start(const char *path);
bool mtr_stop(void);
bool mtr_flush(void);
bool mtr_file(char *path, size_t size);
bool mtr_is_on(void);

/* Writes a mark, cut to MTF_EXTENDED_MAX bytes between two characters of UTF-8,
   with its time. T is from mtr_enter. */
void mtr_put_mark(struct mtr_thread *t, const char *text, size_t length);

/*
 * The control socket (control_server.c) lets other processes of the same user
 * start, stop, flush and ask (TCMALLOC_TRACE_CONTROL). Makes its thread, if
 * this process wants one and has none. What goes wrong is said on stderr, and
 * the program goes on without.
 */
void mtr_control_server_need(void);

/* For the recorder: only one thread at a time is between the two; waits for the
   others. */
void mtr_busy_begin(struct mtr_recorder *rec);
void mtr_busy_end(struct mtr_recorder *rec);

#endif
