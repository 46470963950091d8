/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process stays after its report, so that one can look at it from outside.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_HOLD_H
#define TOOL_CMD_REPLAY_HOLD_H

#include "base/compiler.h"

#define REPLAY_HOLD_ENDLESS UINT64_MAX

/* A time, or one with a minus: endless. False: it is none. */
bool replay_hold_parse(const char *text, uint64_t *ns);
/* Sleeps for NS, or until a stop is requested. */
void replay_hold(uint64_t ns);

#endif
