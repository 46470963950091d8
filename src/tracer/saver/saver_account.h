/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The saver's numbers: samples of the process beside barriers, the footer, and
 * the summary for the user.
 *
 * Threads: the one that saves; mtr_live_accounts any.
 */
#ifndef TCM_TRACER_SAVER_SAVER_ACCOUNT_H
#define TCM_TRACER_SAVER_SAVER_ACCOUNT_H

#include "tracer/saver/saver.h"

/* Adds those of the N bytes at P, which are whole events: of a buffer that its
   thread still has, which alone knows how many calls a full one holds. */
void mtr_count_events(struct mtr_event_counts *counts, const uint8_t *p,
                      size_t n);
/* Processor time that saving has taken. */
uint64_t mtr_saver_cpu_ns(const struct mtr_saver *s);
/* Makes the numbers of status requests those of now. */
void mtr_saver_publish(struct mtr_saver *s);
/* Both notice that a file was removed: false. */
bool mtr_saver_write_sample(struct mtr_saver *s, uint64_t now);
/* The present bytes of the blocks that are alive. Before the last footer. */
bool mtr_saver_write_present(struct mtr_saver *s);
bool mtr_saver_write_footer(struct mtr_saver *s, enum mtf_end_reason reason);
void mtr_saver_summarise(struct mtr_saver *s, enum mtf_end_reason reason);

/* Accounts of the current or last recording; how many, at most CAP. Any
   thread. */
unsigned mtr_live_accounts(struct mtr_recorder *rec,
                           struct mtf_account_value *out, unsigned cap);

#endif
