/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Use of the processor and the system by the replay, from mark to mark.
 *
 * Threads: one; the threads that it makes are counted with it.
 */
#ifndef TOOL_CMD_REPLAY_WATCH_USAGE_H
#define TOOL_CMD_REPLAY_WATCH_USAGE_H

#include "cmd/replay/watch/observer.h"

/* Processor time in user mode, of all threads of the process. */
uint64_t replay_usage_user_ns(const struct replay_watch *w);

#endif
