/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to the control socket of a recorded process.
 *
 * Threads: any, one request at a time each.
 */
#ifndef TOOL_COMMON_CONTROL_CLIENT_H
#define TOOL_COMMON_CONTROL_CLIENT_H

#include "traceformat/control_protocol.h"

#include <sys/types.h>

/* Room for a message such as "process N belongs to another user". */
#define TOOL_CONTROL_PROBLEM_MAX 400u

/* Sends COMMAND with TEXT and SITES ("": none) to process PID and stores its
   answer in REPLY. false: no answer, or a refusal; PROBLEM tells why in one
   line. */
bool tool_control_request(pid_t pid, enum mtf_control_command command,
                          const char *text, const char *sites,
                          struct mtf_control_reply *reply,
                          char problem[TOOL_CONTROL_PROBLEM_MAX]);
/* Tells whether PID has a control socket. */
bool tool_control_exists(pid_t pid);

#endif
