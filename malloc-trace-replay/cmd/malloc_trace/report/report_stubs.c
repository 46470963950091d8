/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stand-in for report_serve.c in a build without libmicrohttpd.
 */
#include "cmd/malloc_trace/report/report_serve.h"

#include "common/main.h"

int report_serve_run(const struct report_serve *s) {
    (void)s;
    tool_error("this program was built without libmicrohttpd, which --serve "
               "needs (Debian: libmicrohttpd-dev)");
    return TOOL_FAILED;
}
