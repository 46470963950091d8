/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment variables of the heap.
 */
#ifndef TCM_API_SETTINGS_H
#define TCM_API_SETTINGS_H

/* Sets the heap as the environment says; once, in the library's constructor,
   before which the environment need not be there. */
void tcm_settings_read(void);

#endif
