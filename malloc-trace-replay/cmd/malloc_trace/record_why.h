/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a command may have left no events.
 */
#ifndef CMD_MALLOC_TRACE_RECORD_WHY_H
#define CMD_MALLOC_TRACE_RECORD_WHY_H

/* A text for "COMMAND ...", from what its executable shows. */
const char *record_why_no_events(const char *command);

#endif
