/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who records: the environment and the owner of a recording.
 *
 * Threads: the one that sets up or starts a recording, then the saver.
 */
#ifndef MTR_TRACE_PROCESS_H
#define MTR_TRACE_PROCESS_H

#include "tracer/recorder.h"

/* Whether the environment names an output at all. */
bool mtr_process_asks(void);
/* Reads the environment into mtr_config. false: this process is not recorded.
   SCRATCH: PATH_MAX bytes. */
bool mtr_process_configure(const struct mtr_host *host, char *scratch);
/* This process's identity; the one before becomes the parent's. */
void mtr_process_identify(void);
/* Names this process as owner in the environment, for images to come. */
void mtr_process_own(uint32_t name_number);

#endif
