/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder's own account, as malloc-trace record tells it.
 */
#ifndef CMD_MALLOC_TRACE_RECORD_ACCOUNT_H
#define CMD_MALLOC_TRACE_RECORD_ACCOUNT_H

#include <stdint.h>

/* SUM: by enum mtf_account, over all traces that have one. Nothing is printed
   if none has. */
void record_print_account(const uint64_t *sum);

#endif
