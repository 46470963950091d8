/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Statistics that the allocator under test prints of itself.
 *
 * Threads: one, after the end mark.
 */
#ifndef TOOL_CMD_REPLAY_WATCH_STATISTICS_H
#define TOOL_CMD_REPLAY_WATCH_STATISTICS_H

#include "cmd/replay/run/calls.h"

/* Writes it to FD; as JSON if IS_JSON and the allocator can. False: it has no
   such function. */
bool replay_statistics(const struct replay_calls *calls, int fd, bool is_json);

#endif
