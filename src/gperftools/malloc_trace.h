/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control of the recording of this process's memory requests.
 *
 * Both libraries have these calls; in the one that does not record they return
 * false and do nothing. Any thread may call them at any time, but no signal
 * handler; start, stop and flush wait for each other and for the file. None
 * changes errno. A program that must run without the library too declares them
 * weak and tests their addresses.
 */
#ifndef GPERFTOOLS_MALLOC_TRACE_H
#define GPERFTOOLS_MALLOC_TRACE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Begins a recording to PATH, in which %p stands for the process id, %e for the
 * executable's name and %% for a percent sign; NULL: to the output that
 * TCMALLOC_TRACE_OUTPUT named when the program began. A file that this process
 * has recorded to before is kept, and the new one gets a number: PATH.1, PATH.2
 * and so on. Children of this process are recorded too only with NULL and %p.
 *
 * true: every call that begins after this one returned is recorded. Frees of
 * older blocks are counted, not recorded.
 * false: a recording is on already, PATH is NULL and the environment names no
 * output for this process, or it cannot begin (one line on stderr says why).
 */
bool malloc_trace_start(const char *path);

/*
 * Ends the recording; the trace is whole and closed when this returns, and no
 * call that begins later is in it. false: no recording was on, or its end could
 * not be written.
 */
bool malloc_trace_stop(void);

/*
 * Writes all events so far to the file, without syncing it to the disk. false:
 * no recording is on, or the file cannot be written.
 */
bool malloc_trace_flush(void);

/* true: a recording is on. */
bool malloc_trace_is_on(void);

/*
 * Puts the absolute name of the file that this process records to, or recorded
 * to last, into PATH (SIZE bytes). Flushes first, like malloc_trace_flush, if a
 * recording is on. For a flight recording it is the name by which the parts are
 * read.
 *
 * false: there is no file, as in the child of a fork that is not recorded; the
 * output is no file; the name does not fit PATH; or the file cannot be written.
 */
bool malloc_trace_file(char *path, size_t size);

/*
 * Puts a mark with the time into the calling thread's part of the trace. TEXT
 * is cut to 127 bytes. Nothing happens while recording is off.
 */
void malloc_trace_mark(const char *text);

#ifdef __cplusplus
}
#endif

#endif
