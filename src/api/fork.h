/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the library does around fork.
 */
#ifndef TCM_API_FORK_H
#define TCM_API_FORK_H

/* Registers it, once; the earlier the better. */
void tcm_fork_handlers(void);

#endif
