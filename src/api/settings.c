/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment variables of the heap; doc/environment.md says what they mean
 * and how invalid values are treated.
 */
#include "api/library.h"
#include "base/check.h"
#include "base/env.h"
#include "core/cache_registry.h"
#include "core/heap.h"

#define MAX_MIB   (UINT64_MAX >> 21)
#define MAX_RATE  1000u
#define ONE_MILLI 1000u

/* A decimal number with or without a fraction, in thousandths, at most
   MAX_RATE. false: something else. */
static bool parse_milli(const char *text, uint32_t *milli) {
    uint32_t whole = 0, part = 0, unit = ONE_MILLI;
    bool digits = false;
    for (; *text >= '0' && *text <= '9'; text++, digits = true)
        whole =
            whole >= MAX_RATE ? MAX_RATE : whole * 10 + (uint32_t)(*text - '0');
    if (*text == '.') {
        for (text++; *text >= '0' && *text <= '9'; text++, digits = true) {
            unit /= 10;
            part += (uint32_t)(*text - '0') * unit;
        }
    }
    if (!digits || *text != '\0')
        return false;
    *milli =
        whole >= MAX_RATE ? MAX_RATE * ONE_MILLI : whole * ONE_MILLI + part;
    TCM_ASSERT(part < ONE_MILLI && *milli <= MAX_RATE * ONE_MILLI);
    return true;
}

void tcm_settings_read(void) {
    struct tcm_heap_settings s;
    tcm_heap_settings(&s);
    s.cache_budget_bytes =
        tcm_env_u64("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
                    s.cache_budget_bytes, TCM_MIN_CACHE_BUDGET, UINT64_MAX / 4);
    s.limit_bytes =
        tcm_env_u64("TCMALLOC_HEAP_LIMIT_MB", s.limit_bytes >> 20, 0, MAX_MIB)
        << 20;
    s.release_at_once = tcm_env_bool("TCMALLOC_AGGRESSIVE_DECOMMIT");
    const char *rate = tcm_env_get("TCMALLOC_RELEASE_RATE");
    if (rate != NULL)
        (void)parse_milli(rate, &s.release_rate_milli);
    tcm_heap_configure(&s);
}
