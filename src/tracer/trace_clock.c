/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer/trace_clock.h"

/* A clock is coarse if at least EQUAL_COARSE of READINGS readings equal the one
   before. A fine one that is being set may stand still once. */
#define READINGS     32u
#define EQUAL_COARSE 4u

uint32_t mtr_clock_kind;
static uint64_t last_ns; /* greatest time read from a coarse clock */

static uint32_t find_kind(void) {
    unsigned equal = 0;
    uint64_t before = tcm_clock_ns();
    for (unsigned i = 1; i < READINGS; i++) {
        uint64_t now = tcm_clock_ns();
        equal += now == before;
        before = now;
    }
    return equal < EQUAL_COARSE ? MTR_CLOCK_FINE : MTR_CLOCK_COARSE;
}

/* Every reading changes the word, so all readings have one order, which agrees
   with everything else that orders them. */
static uint64_t read_coarse(void) {
    uint64_t now = tcm_clock_ns();
    uint64_t last = tcm_load_relaxed(&last_ns), next;
    do {
        next = tcm_clock_after(last, now);
    } while (!tcm_cas_acq_rel(&last_ns, &last, next));
    return next;
}

uint64_t mtr_clock_other_ns(void) {
    uint32_t kind = tcm_load_relaxed(&mtr_clock_kind);
    if (kind == MTR_CLOCK_UNKNOWN) {
        uint32_t found = find_kind();
        /* The first thread to find out decides for all. */
        kind = tcm_cas_acq_rel(&mtr_clock_kind, &kind, found) ? found : kind;
    }
    return kind == MTR_CLOCK_FINE ? tcm_clock_ns() : read_coarse();
}
