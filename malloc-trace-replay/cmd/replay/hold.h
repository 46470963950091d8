/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps the process after its report, to be looked at from outside.
 *
 * Threads: one.
 */
#ifndef TOOL_CMD_REPLAY_HOLD_H
#define TOOL_CMD_REPLAY_HOLD_H

#include "base/compiler.h"

#define REPLAY_HOLD_ENDLESS UINT64_MAX

/* Parses a time; with a minus, for ever. False: it is not a time. */
bool replay_hold_parse(const char *text, uint64_t *ns);
/* Sleeps for NS, or until a stop is requested. */
void replay_hold(uint64_t ns);

#endif
