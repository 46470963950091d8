/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap's figures as text for people, in the layout that programs which read
 * gperftools' text expect.
 */
#ifndef TCM_API_STATS_TEXT_H
#define TCM_API_STATS_TEXT_H

#include "base/compiler.h"

/* From here on a buffer gets the size classes too. */
#define TCM_STATS_TEXT_LONG 10000u
/* Enough for the text without them. */
#define TCM_STATS_TEXT_SHORT 4096u

/* Into BUF of CAP bytes, at least 1; terminated, cut where it does not fit. */
void tcm_stats_text(char *buf, size_t cap);

#endif
