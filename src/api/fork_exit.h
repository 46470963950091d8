/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's constructor and destructor, and fork.
 */
#ifndef TCM_API_FORK_EXIT_H
#define TCM_API_FORK_EXIT_H

/* Registers what is done around fork, once; the earlier the better. */
void tcm_fork_handlers(void);

/* Refers to every file with exported functions. */
extern const struct tcm_family tcm_family;

#endif
