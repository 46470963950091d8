/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way of an allocation with a call site into its stream.
 *
 * Threads: any.
 */
#ifndef TCM_TRACER_SITE_DEFS_H
#define TCM_TRACER_SITE_DEFS_H

#include "base/compiler.h"

struct mtr_thread;

/*
 * After mtr_enter, for a call from CALLER with KEY (mtr_site_key) that
 * allocates: its site, defined if need be, is that of the allocations that
 * follow. May wait, as mtr_enter. false: the recording ended meanwhile, T
 * cannot be used.
 */
bool mtr_site_enter(struct mtr_thread *t, uintptr_t caller, uint64_t key);

#endif
