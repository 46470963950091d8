/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the saver saves: full buffers at any time, and in a round all that is
 * published, with the barrier behind it.
 *
 * Threads: the one that saves.
 */
#ifndef TCM_TRACER_SAVER_SAVER_ROUND_H
#define TCM_TRACER_SAVER_SAVER_ROUND_H

#include "tracer/saver/saver.h"

#define MTR_ROUND_NS 10000000u
#define MTR_POLL_NS  1000000u

/* A full round. */
bool mtr_saver_make_round(struct mtr_saver *s);
/* Buffers whose last byte is with the output become free. */
void mtr_saver_recycle(struct mtr_saver *s);
/* A poll: full buffers alone. */
bool mtr_saver_poll(struct mtr_saver *s);

#endif
