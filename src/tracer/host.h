/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the recorder needs of its host, the allocator: functions that api gives
 * to mtr_init.
 */
#ifndef TCM_TRACER_HOST_H
#define TCM_TRACER_HOST_H

#include "base/compiler.h"

struct mtf_account_value;

/* A block with pages of its own, longer than MTR_PRESENT_ABOVE. */
struct mtr_large_block {
    uintptr_t start;
    size_t bytes;
    uint64_t token; /* 0 or an earlier recording's: made while none was on */
};

struct mtr_host {
    /* Between the two, malloc and free of the calling thread are served by the
       private arena and are not recorded. They nest. A recorder thread enters
       first thing and never leaves. */
    void (*enter_private)(void);
    void (*leave_private)(void);
    /* A recording is on: shut the caches of all threads. */
    void (*recording_started)(void);
    /* Puts the allocator's counters into OUT; returns how many, at most CAP. */
    unsigned (*sample)(struct mtf_account_value *out, unsigned cap);
    /* Puts the large blocks that are alive into OUT, at most CAP of them;
       returns how many. */
    size_t (*large_blocks)(struct mtr_large_block *out, size_t cap);
    /* Whether P is an address in the heap, which can be read. */
    bool (*has_memory)(const void *p);
    /* The token of the block that is in use at P, if that is not much longer
       than BYTES; 0: it has none. */
    uint64_t (*token_of)(const void *p, size_t bytes);
};

#endif
